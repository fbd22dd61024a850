//! How many replicas partitions have, as Metadata responses say. Tells what is new; does not know who asks.

use std::collections::HashMap;
use std::sync::Arc;

use ahash::RandomState;

/// Partitions remembered: others are passed over.
const MAX_PARTITIONS: usize = 100_000;

/// Replicas of partitions.
#[derive(Debug, Default)]
pub(crate) struct Replicas {
    known: HashMap<(Arc<str>, i32), u32, RandomState>,
    changed: Vec<(Arc<str>, i32, u32)>,
}

impl Replicas {
    /// Takes what a response says; a partition that the broker knows no replicas of has none.
    pub(crate) fn learn(&mut self, topic: &Arc<str>, partition: i32, replicas: u32) {
        let key = (Arc::clone(topic), partition);
        let is_full = self.changed.len() >= MAX_PARTITIONS
            || self.known.len() >= MAX_PARTITIONS && !self.known.contains_key(&key);
        if replicas > 0 && !is_full && self.known.insert(key, replicas) != Some(replicas) {
            self.changed.push((Arc::clone(topic), partition, replicas));
        }
    }

    /// What is new or has changed since this was last asked.
    pub(crate) fn take(&mut self) -> Vec<(Arc<str>, i32, u32)> {
        std::mem::take(&mut self.changed)
    }
}
