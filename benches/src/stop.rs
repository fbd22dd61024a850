//! SIGINT and SIGTERM: the run ends with an error, so that everything that was set up is taken down.

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::ensure;
use signal_hook::consts::{SIGINT, SIGTERM};

static ASKED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// From here on signals only ask to stop.
pub(crate) fn catch() -> anyhow::Result<()> {
    let asked = ASKED.get_or_init(Arc::default);
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(asked))?;
    }
    Ok(())
}

/// An error once a signal came.
pub(crate) fn check() -> anyhow::Result<()> {
    let is_asked = ASKED.get().is_some_and(|asked| asked.load(Ordering::Relaxed));
    ensure!(!is_asked, "stopped by a signal");
    Ok(())
}
