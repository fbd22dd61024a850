//! The slowest requests of a stretch of time: as many as there is room for. A slower one takes the place of the least slow one.

use model::{Nanos, Verdict};

/// Verdicts, of which the least slow gives way.
#[derive(Debug)]
pub(super) struct Slowest {
    most: usize,
    kept: Vec<Verdict>,
}

impl Slowest {
    /// Room for so many.
    pub(super) fn of_at_most(most: usize) -> Self {
        Self { most, kept: Vec::new() }
    }

    /// Keeps it or the one that it is slower than. Returns whether all that came are still kept.
    pub(super) fn offer(&mut self, verdict: &Verdict) -> bool {
        if self.kept.len() < self.most {
            self.kept.push(verdict.clone());
            return true;
        }
        // Few are kept, and most that are offered are not slower than any.
        let least = self.kept.iter_mut().min_by_key(|kept| latency(kept));
        if let Some(least) = least.filter(|least| latency(least) < latency(verdict)) {
            *least = verdict.clone();
        }
        false
    }

    /// Takes all, in the order of their arrival.
    pub(super) fn take(&mut self) -> Vec<Verdict> {
        let mut taken = std::mem::take(&mut self.kept);
        taken.sort_by_key(|verdict| verdict.request.arrival);
        taken
    }
}

fn latency(verdict: &Verdict) -> Nanos {
    verdict.request.latency().unwrap_or_default()
}
