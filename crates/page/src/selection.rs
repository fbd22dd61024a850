//! Selects the slow requests that are shown in detail: the slowest of all, and the slowest of each of the costliest roots, so
//! that these have an example. Does not know the detail.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use model::{Nanos, Verdict};

use super::detail::Draft;

/// Limits on requests in detail: the slowest of all, those of each root, the roots shown, and the roots tracked. More roots are
/// tracked than shown, because the costliest are known only at the end.
const SLOWEST: usize = 120;
const OF_A_ROOT: usize = 2;
const ROOTS: usize = 60;
const KNOWN_ROOTS: usize = 400;

/// Latency, and a number that breaks ties.
type Rank = (Nanos, u64);

/// The selected requests.
#[derive(Default)]
pub(super) struct DetailSelection {
    details: BTreeMap<Rank, Draft>,
    /// The slowest of all among them.
    slowest: BTreeSet<Rank>,
    by_root: HashMap<Arc<str>, Vec<Rank>>,
    offers: u64,
}

impl DetailSelection {
    /// Offers a request; its detail is built only if the request is kept for now.
    pub(super) fn offer(&mut self, verdict: &Verdict, detail: impl FnOnce() -> Draft) {
        self.offers += 1;
        let rank = (verdict.latency(), self.offers);
        let (of_all, of_root) = (self.is_slowest(rank), self.is_of_root(verdict, rank));
        if !of_all && !of_root {
            return;
        }
        self.details.insert(rank, detail());
        let mut left = Vec::new();
        if of_all {
            self.slowest.insert(rank);
            if self.slowest.len() > SLOWEST {
                left.extend(self.slowest.pop_first());
            }
        }
        if of_root {
            let ranks = self.by_root.entry(Arc::clone(&verdict.root)).or_default();
            ranks.push(rank);
            ranks.sort_unstable_by(|a, b| b.cmp(a));
            left.extend(ranks.drain(OF_A_ROOT.min(ranks.len())..));
        }
        for rank in left {
            self.drop_unlisted(rank);
        }
    }

    fn is_slowest(&self, rank: Rank) -> bool {
        self.slowest.len() < SLOWEST || self.slowest.first().is_some_and(|fastest| *fastest < rank)
    }

    fn is_of_root(&self, verdict: &Verdict, rank: Rank) -> bool {
        match self.by_root.get(&verdict.root) {
            Some(ranks) => ranks.len() < OF_A_ROOT || ranks.iter().any(|known| *known < rank),
            None => self.by_root.len() < KNOWN_ROOTS,
        }
    }

    /// Drops a request that is in no list any more.
    fn drop_unlisted(&mut self, rank: Rank) {
        let is_listed =
            self.slowest.contains(&rank) || self.by_root.values().any(|ranks| ranks.contains(&rank));
        if !is_listed {
            self.details.remove(&rank);
        }
    }

    /// The requests, the slowest first. Includes those of the first of these roots.
    pub(super) fn finish<'a>(self, roots: impl Iterator<Item = &'a str>) -> Vec<Draft> {
        let Self { details, slowest, by_root, .. } = self;
        let of_roots = roots.take(ROOTS).filter_map(|root| by_root.get(root)).flatten().copied();
        let ranks: BTreeSet<Rank> = slowest.into_iter().chain(of_roots).collect();
        details.into_iter().rev().filter(|(rank, _)| ranks.contains(rank)).map(|(_, draft)| draft).collect()
    }
}
