//! How often a partition's set of in-sync replicas changed. Does not say why.

use model::{LogEntry, LogKind, Nanos};

use super::digest::extend;

/// The changes of one partition.
#[derive(Clone, Debug, Default)]
pub struct IsrChanges {
    /// Replicas were taken out.
    pub shrinks: u64,
    /// Replicas were taken in, which Kafka up to 2.7 says.
    pub expansions: u64,
    /// The controller's answers, which Kafka from 2.7 on says: after each shrinking or expansion.
    pub changes: u64,
    /// When the first and the last were.
    pub span: Option<(Nanos, Nanos)>,
}

impl IsrChanges {
    pub(super) fn add(&mut self, entry: &LogEntry) {
        extend(&mut self.span, entry.at);
        match entry.kind {
            LogKind::IsrShrink => self.shrinks += 1,
            LogKind::IsrExpand => self.expansions += 1,
            _ => self.changes += 1,
        }
    }
}
