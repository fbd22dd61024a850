//! What was lost, by kind. Does not judge what that leaves in doubt.

use std::collections::BTreeMap;

use model::{Loss, LossKind, Nanos};

/// Counts of losses.
#[derive(Clone, Debug, Default)]
pub(crate) struct Losses {
    by_kind: BTreeMap<LossKind, u64>,
    last: Option<Nanos>,
}

impl Losses {
    pub(crate) fn add(&mut self, loss: &Loss) {
        let count = self.by_kind.entry(loss.kind).or_default();
        *count = count.saturating_add(loss.count);
        self.last = self.last.max(Some(loss.end));
    }

    /// The kinds of which anything was lost.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (LossKind, u64)> + '_ {
        self.by_kind.iter().map(|(kind, count)| (*kind, *count)).filter(|(_, count)| *count > 0)
    }

    /// When anything was lost last.
    pub(crate) fn last(&self) -> Option<Nanos> {
        self.last
    }
}
