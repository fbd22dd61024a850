//! Causes of slow requests, by saved verdicts. Reaches no verdicts itself.

use std::sync::Arc;

use model::{Cause, Nanos};

use crate::parts::Amounts;

/// Adds up verdicts.
#[derive(Default)]
pub struct VerdictStats {
    /// The time of each cause, and of all.
    pub(crate) causes: Amounts,
    pub(crate) time_ns: u64,
    /// Whether verdicts were saved, even if nothing was slow.
    pub saved: bool,
}

impl VerdictStats {
    /// Counts a verdict on a request with this latency.
    pub fn verdict(&mut self, cause: Cause, latency: Nanos) {
        let took = latency.as_length_ns();
        self.time_ns = self.time_ns.saturating_add(took);
        self.causes.part(&Arc::from(cause.as_str()), took);
    }
}
