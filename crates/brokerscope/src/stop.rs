//! When to stop: the user's Ctrl-C, a SIGTERM, or the time that was asked for. A second Ctrl-C ends the
//! process at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use model::Nanos;
use signal_hook::consts::{SIGINT, SIGTERM};

/// The shell's exit status for a process that SIGINT ended.
const INTERRUPTED: i32 = 130;

/// Asked for again and again by whoever works in a loop.
#[derive(Clone, Debug)]
pub(crate) struct Stop {
    flag: Arc<AtomicBool>,
    deadline: Option<Instant>,
}

impl Stop {
    /// Catches the signals from now on, and counts the time from now.
    pub(crate) fn after(duration: Option<Nanos>) -> anyhow::Result<Self> {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // The order matters: the shutdown sees the flag that an earlier signal has set.
            signal_hook::flag::register_conditional_shutdown(signal, INTERRUPTED, Arc::clone(&flag))
                .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&flag)))
                .context("cannot catch signals")?;
        }
        Ok(Self { flag, deadline: None }.within(duration))
    }

    /// The same, with the time counted from now: what has to be done first may take long.
    pub(crate) fn within(self, duration: Option<Nanos>) -> Self {
        let deadline = duration.and_then(|length| {
            Instant::now().checked_add(Duration::from_nanos(u64::try_from(length.0).unwrap_or(0)))
        });
        Self { deadline, ..self }
    }

    /// Whether to stop now.
    pub(crate) fn asked(&self) -> bool {
        self.flag.load(Ordering::Relaxed) || self.deadline.is_some_and(|at| Instant::now() >= at)
    }
}
