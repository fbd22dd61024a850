//! What slow requests waited for, by root event and by cause: one commit that slowed 37 requests is one root with 37
//! victims. Bounded.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use model::{Cause, Nanos, Verdict};

/// Maximum number of roots. The one whose last victim is oldest is dropped for a new one.
const MAX: usize = 2_000;

/// A root event that slowed requests.
#[derive(Clone, Debug)]
pub(crate) struct Root {
    pub(crate) id: Arc<str>,
    pub(crate) cause: Cause,
    /// Its description, from its slowest victim.
    pub(crate) text: String,
    pub(crate) toll: VictimTotals,
}

/// The victims of a root or a cause.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VictimTotals {
    /// Number of victims.
    pub(crate) victims: u64,
    /// Sum of their latencies.
    pub(crate) time: Nanos,
    /// Latency of the slowest victim.
    pub(crate) slowest: Nanos,
    /// When the last victim was answered.
    pub(crate) last: Nanos,
}

impl Default for VictimTotals {
    fn default() -> Self {
        Self { victims: 0, time: Nanos::ZERO, slowest: Nanos::MIN, last: Nanos::MIN }
    }
}

/// One cause with all its roots.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OfCause {
    /// Number of roots, including dropped ones.
    /// A root that returns after it was dropped counts again.
    pub(crate) roots: u64,
    pub(crate) toll: VictimTotals,
}

/// All roots.
#[derive(Clone, Debug, Default)]
pub(crate) struct Roots {
    by_id: HashMap<Arc<str>, Root>,
    by_cause: BTreeMap<Cause, OfCause>,
}

impl VictimTotals {
    fn add(&mut self, latency: Nanos, at: Nanos) {
        self.victims += 1;
        self.time += latency;
        self.slowest = self.slowest.max(latency);
        self.last = self.last.max(at);
    }
}

impl Roots {
    pub(crate) fn add(&mut self, verdict: &Verdict) {
        let latency = verdict.latency();
        let at = verdict.request.last_seen();
        let of_cause = self.by_cause.entry(verdict.cause).or_default();
        of_cause.toll.add(latency, at);
        if !self.by_id.contains_key(&verdict.root) {
            of_cause.roots += 1;
            self.make_room();
        }
        let root = self.by_id.entry(Arc::clone(&verdict.root)).or_insert_with(|| Root {
            id: Arc::clone(&verdict.root),
            cause: verdict.cause,
            text: String::new(),
            toll: VictimTotals::default(),
        });
        if latency > root.toll.slowest {
            root.text = diagnose::root_text(verdict);
        }
        root.toll.add(latency, at);
    }

    fn make_room(&mut self) {
        if self.by_id.len() < MAX {
            return;
        }
        let oldest = self.by_id.values().min_by(|a, b| (a.toll.last, &a.id).cmp(&(b.toll.last, &b.id)));
        if let Some(id) = oldest.map(|root| Arc::clone(&root.id)) {
            self.by_id.remove(&id);
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Root> {
        self.by_id.values()
    }

    pub(crate) fn causes(&self) -> impl Iterator<Item = (Cause, &OfCause)> {
        self.by_cause.iter().map(|(cause, of)| (*cause, of))
    }

    /// Sum of the latencies of all slow requests.
    pub(crate) fn time(&self) -> Nanos {
        self.by_cause.values().map(|of| of.toll.time).sum()
    }
}

#[cfg(test)]
mod tests {
    use model::{Cause, Nanos};

    use super::{MAX, Roots};
    use crate::state::sample;

    #[test]
    fn totals_by_cause_include_evicted_roots() {
        let mut roots = Roots::default();
        for number in 0..5_000 {
            let mut verdict = sample::verdict(Nanos::from_millis(100 + number % 7));
            verdict.request.end = Some(Nanos::from_millis(number));
            verdict.request.arrival = Nanos::from_millis(number - 100);
            verdict.root = format!("journal-commit:loop0:{}", number / 2).into();
            roots.add(&verdict);
        }
        assert_eq!(roots.iter().count(), MAX);
        assert!(
            roots.iter().all(|root| root.toll.victims == 2 && root.toll.last >= Nanos::from_millis(1_000))
        );
        let causes = roots.causes().map(|(cause, of)| (cause, of.roots, of.toll.victims)).collect::<Vec<_>>();
        assert_eq!(causes, [(Cause::JournalCommit, 2_500, 5_000)]);
        assert_eq!(roots.time(), Nanos::from_millis(500_000));
    }
}
