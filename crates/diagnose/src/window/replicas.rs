//! Whether a partition has followers: then a request with acks=all waits for them.

use std::collections::HashMap;
use std::sync::Arc;

use ahash::RandomState;
use model::{PartitionState, TopicPartition};

use crate::coordinators::{OFFSETS_TOPIC, TRANSACTIONS_TOPIC};

/// Partitions whose replicas are stored at most.
const MAX_PARTITIONS: usize = 100_000;

/// Replica counts of partitions, from the broker's own state.
#[derive(Debug, Default)]
pub(crate) struct Replicas {
    of: HashMap<TopicPartition, u32, RandomState>,
    /// Partition counts of the coordinators' topics.
    coordinators: HashMap<Arc<str>, i32, RandomState>,
}

impl Replicas {
    /// Takes a partition's state.
    pub(crate) fn insert(&mut self, state: &PartitionState) {
        if [OFFSETS_TOPIC, TRANSACTIONS_TOPIC].contains(&&*state.topic) {
            let count = self.coordinators.entry(Arc::clone(&state.topic)).or_default();
            *count = (*count).max(state.partition.saturating_add(1));
        }
        let partition = TopicPartition { topic: Arc::clone(&state.topic), partition: state.partition };
        if self.of.len() < MAX_PARTITIONS || self.of.contains_key(&partition) {
            self.of.insert(partition, state.replicas);
        }
    }

    /// The replica count of a partition, if known.
    pub(crate) fn of(&self, partition: &TopicPartition) -> Option<u32> {
        self.of.get(partition).copied()
    }

    /// The partition count of a coordinators' topic, if known.
    pub(crate) fn partitions(&self, topic: &str) -> Option<i32> {
        self.coordinators.get(topic).copied()
    }
}

/// What is known of a partition's followers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FollowerState {
    /// Their fetches are seen.
    Seen,
    /// There are none: it has one replica.
    Alone,
    /// No fetch is seen; with the number of replicas, if known.
    Unseen(Option<u32>),
}
