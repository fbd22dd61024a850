//! Decides which tests run: those that start a broker and a packet capture run if `BROKERSCOPE_LIVE_TESTS=1` requires
//! them; otherwise each reports that it did not run.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// One live test at a time: they share the machine's loopback interface and both its CPUs.
static ALONE: Mutex<()> = Mutex::new(());

/// Admits one live test at a time, until the guard is dropped; `None` if live tests are not requested.
pub fn live(test: &str) -> Option<MutexGuard<'static, ()>> {
    if std::env::var_os("BROKERSCOPE_LIVE_TESTS").is_some_and(|value| value == "1") {
        // A test that failed while it held the gate does not block the others.
        return Some(ALONE.lock().unwrap_or_else(PoisonError::into_inner));
    }
    eprintln!("NOT RUN: {test}: needs root, tcpdump, a JDK and clients; set BROKERSCOPE_LIVE_TESTS=1");
    None
}
