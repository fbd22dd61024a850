//! What this process itself takes between two looks: processors and memory. Does not count what its BPF programs take in other
//! processes' time.

use std::time::{Duration, Instant};

use top::Overhead;

use crate::own_process::{Stat, Status};

/// The kernel counts in steps of 10 ms: over less than this they are much of what is counted.
const OVER: Duration = Duration::from_secs(2);

/// Reads it now and then.
#[derive(Debug, Default)]
pub(crate) struct OwnCost {
    before: Option<(Instant, f64)>,
}

impl OwnCost {
    /// What it took since it was told last; none before some time has passed, and where the kernel does not say.
    pub(crate) fn told(&mut self) -> Option<Overhead> {
        if self.before.is_some_and(|(at, _)| at.elapsed() < OVER) {
            return None;
        }
        let now = (Instant::now(), Stat::read().cpu_seconds()?);
        let (at, before) = self.before.replace(now)?;
        let resident_bytes = Status::read().resident_bytes()?;
        Some(Overhead { processors: (now.1 - before) / at.elapsed().as_secs_f64(), resident_bytes })
    }
}
