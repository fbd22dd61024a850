//! Replica counts of partitions, from Metadata responses. Reports changes; does not know who uses them.

use std::collections::HashMap;
use std::sync::Arc;

use ahash::RandomState;

/// Partitions remembered; others are ignored.
const MAX_PARTITIONS: usize = 100_000;

/// Replica counts of partitions.
#[derive(Debug, Default)]
pub(crate) struct Replicas {
    known: HashMap<(Arc<str>, i32), u32, RandomState>,
    changed: Vec<(Arc<str>, i32, u32)>,
}

impl Replicas {
    /// Records a replica count from a response. Ignores zero: the broker does not know the replicas.
    pub(crate) fn learn(&mut self, topic: &Arc<str>, partition: i32, replicas: u32) {
        let key = (Arc::clone(topic), partition);
        let is_full = self.changed.len() >= MAX_PARTITIONS
            || self.known.len() >= MAX_PARTITIONS && !self.known.contains_key(&key);
        if replicas > 0 && !is_full && self.known.insert(key, replicas) != Some(replicas) {
            self.changed.push((Arc::clone(topic), partition, replicas));
        }
    }

    /// Counts that are new or have changed since the last call.
    pub(crate) fn take(&mut self) -> Vec<(Arc<str>, i32, u32)> {
        std::mem::take(&mut self.changed)
    }
}
