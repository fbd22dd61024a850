//! Verdicts gathered by their root, so that one commit that slowed 37 requests is told once. Keeps a
//! bounded number of them; the totals of all are the engine's.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use model::{Cause, Nanos, Verdict};

/// How many verdicts are kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Requests told of one root.
    pub(crate) requests: usize,
    /// Roots told.
    pub(crate) roots: usize,
}

impl Limits {
    /// What a person reads.
    pub(crate) const SHORT: Self = Self { requests: 10, roots: 20 };
    /// What fits into memory without a doubt (a few hundred MB of verdicts at worst).
    pub(crate) const LONG: Self = Self { requests: 10_000, roots: 1_000 };
}

/// The verdicts of one root, the slowest request first.
#[derive(Debug, Default)]
pub(crate) struct Group {
    pub(crate) verdicts: Vec<Verdict>,
}

impl Group {
    /// The latency of its slowest request.
    pub(crate) fn slowest(&self) -> Nanos {
        self.verdicts.first().and_then(|verdict| verdict.request.latency()).unwrap_or_default()
    }

    fn add(&mut self, verdict: Verdict, most: usize) {
        let latency = verdict.request.latency();
        let at = self.verdicts.partition_point(|kept| kept.request.latency() >= latency);
        self.verdicts.insert(at, verdict);
        if self.verdicts.len() > most {
            let spare = self.spare();
            self.verdicts.remove(spare);
        }
    }

    /// The fastest request whose way to the root another one shares: every way keeps an example, its own
    /// slow write as well as the wait behind another's.
    fn spare(&self) -> usize {
        let mut ways: HashMap<&[Cause], usize> = HashMap::new();
        for verdict in &self.verdicts {
            *ways.entry(&verdict.chain).or_default() += 1;
        }
        let shared = |verdict: &Verdict| ways.get(verdict.chain.as_slice()).is_some_and(|&count| count > 1);
        self.verdicts.iter().rposition(shared).unwrap_or(self.verdicts.len().saturating_sub(1))
    }
}

/// Roots with what is told of each.
pub(crate) type Roots = Vec<(Arc<str>, Group)>;
/// What to change, by cause.
pub(crate) type Advice = BTreeMap<Cause, Vec<&'static str>>;

/// All groups, and what to say about their causes.
#[derive(Debug)]
pub(crate) struct Groups {
    limits: Limits,
    by_root: HashMap<Arc<str>, Group>,
    advice: Advice,
}

impl Groups {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, by_root: HashMap::new(), advice: BTreeMap::new() }
    }

    pub(crate) fn add(&mut self, verdict: Verdict) {
        self.advice.entry(verdict.cause).or_insert_with(|| verdict.advice.clone());
        self.by_root.entry(Arc::clone(&verdict.root)).or_default().add(verdict, self.limits.requests);
        // Pruned in bulk: twice the limit is held at most.
        if self.by_root.len() > self.limits.roots.saturating_mul(2) {
            self.prune();
        }
    }

    fn prune(&mut self) {
        let mut slowest = self.by_root.values().map(Group::slowest).collect::<Vec<_>>();
        slowest.sort_unstable_by(|a, b| b.cmp(a));
        let floor = slowest.get(self.limits.roots.saturating_sub(1)).copied().unwrap_or(Nanos::MIN);
        let mut room = self.limits.roots;
        self.by_root.retain(|_, group| {
            let keep = room > 0 && group.slowest() >= floor;
            room -= usize::from(keep);
            keep
        });
    }

    /// The groups, that of the slowest request first, and the advice by cause.
    pub(crate) fn take(&mut self) -> (Roots, Advice) {
        let mut groups = self.by_root.drain().collect::<Vec<_>>();
        groups.sort_unstable_by(|(a_root, a), (b_root, b)| {
            b.slowest().cmp(&a.slowest()).then_with(|| a_root.cmp(b_root))
        });
        groups.truncate(self.limits.roots);
        (groups, std::mem::take(&mut self.advice))
    }
}
