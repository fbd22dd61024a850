//! What slow requests were slow for, by verdicts that were saved. Reaches none.

use std::sync::Arc;

use model::{Cause, Nanos};

use crate::parts::Amounts;

/// Adds up verdicts.
#[derive(Default)]
pub struct VerdictStats {
    causes: Amounts,
    time_ns: u64,
    /// Whether there are any verdicts, if only on nothing.
    pub(crate) saved: bool,
}

impl VerdictStats {
    /// Says that verdicts were saved, also where nothing was slow.
    pub fn mark_saved(&mut self) {
        self.saved = true;
    }

    /// Counts a verdict on a request that took so long.
    pub fn verdict(&mut self, cause: Cause, latency: Nanos) {
        let took = u64::try_from(latency.0).unwrap_or(0);
        self.time_ns = self.time_ns.saturating_add(took);
        self.causes.part(&Arc::from(cause.as_str()), took);
    }

    /// The time of all of them.
    pub(crate) fn time_ns(&self) -> u64 {
        self.time_ns
    }

    /// The time of each cause.
    pub(crate) fn amounts(&self) -> Amounts {
        self.causes.clone()
    }
}
