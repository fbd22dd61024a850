//! SIGINT and SIGTERM: end the run with an error, so that everything that was set up is removed.

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::ensure;
use signal_hook::consts::{SIGINT, SIGTERM};

static STOP: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Makes signals only request a stop from here on.
pub(crate) fn catch() -> anyhow::Result<()> {
    let flag = STOP.get_or_init(Arc::default);
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(flag))?;
    }
    Ok(())
}

/// Fails after a signal.
pub(crate) fn check() -> anyhow::Result<()> {
    let is_stopping = STOP.get().is_some_and(|flag| flag.load(Ordering::Relaxed));
    ensure!(!is_stopping, "stopped by a signal");
    Ok(())
}
