//! Whether anybody follows a partition: then a request with acks=all waits for others.

use std::collections::HashMap;
use std::sync::Arc;

use ahash::RandomState;
use model::{PartitionState, TopicPartition};

use crate::coordinators::{OFFSETS_TOPIC, TRANSACTIONS_TOPIC};

/// Partitions whose replicas are known at most; of others they are not.
const MAX_PARTITIONS: usize = 100_000;

/// How many replicas partitions have, as far as the broker's own state says.
#[derive(Debug, Default)]
pub(crate) struct Replicas {
    of: HashMap<TopicPartition, u32, RandomState>,
    /// How many partitions coordinators' topics have.
    coordinators: HashMap<Arc<str>, i32, RandomState>,
}

impl Replicas {
    /// Takes what is new.
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

    /// How many a partition has, where that is known.
    pub(crate) fn of(&self, partition: &TopicPartition) -> Option<u32> {
        self.of.get(partition).copied()
    }

    /// How many partitions a coordinators' topic has, where that is known.
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
    /// No fetch is seen, and it has so many replicas or nobody knows how many.
    Unseen(Option<u32>),
}
