//! Which tests run: those that start a broker and packet capture run where `BROKERSCOPE_LIVE_TESTS=1`
//! says that they must; elsewhere each says that it did not.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// One live test at a time: they share the machine's loopback interface and both its processors.
static ALONE: Mutex<()> = Mutex::new(());

/// Lets a live test in, alone, until the answer is dropped; none where live tests are not asked for.
pub fn live(test: &str) -> Option<MutexGuard<'static, ()>> {
    if std::env::var_os("BROKERSCOPE_LIVE_TESTS").is_some_and(|value| value == "1") {
        // A test that failed while it held the gate keeps nobody else out.
        return Some(ALONE.lock().unwrap_or_else(PoisonError::into_inner));
    }
    eprintln!("NOT RUN: {test}: needs root, tcpdump, a JDK and clients; set BROKERSCOPE_LIVE_TESTS=1");
    None
}
