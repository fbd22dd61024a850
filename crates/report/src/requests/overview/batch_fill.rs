//! How full a producer's batches are: what tells that batching is bad. Does not know the producer's settings.

use model::{Partition, Request};

use crate::distribution::Distribution;

/// What one producer sent. A batch here is what one partition got in one request: with magic 2 that is one
/// record batch (the broker refuses more); before, it is one message set.
#[derive(Clone, Debug)]
pub struct BatchFill {
    /// Produce requests with any record.
    pub requests: u64,
    /// Records in a batch, where the headers could be read.
    pub records: Distribution,
    /// Bytes of a batch.
    pub bytes: Distribution,
    /// Partitions in a request.
    pub partitions: Distribution,
}

impl Default for BatchFill {
    fn default() -> Self {
        Self {
            requests: 0,
            records: Distribution::of_sizes(),
            bytes: Distribution::of_sizes(),
            partitions: Distribution::of_sizes(),
        }
    }
}

impl BatchFill {
    pub(super) fn add(&mut self, request: &Request) {
        self.requests += 1;
        self.partitions.add(request.partitions.len() as u64);
        for batch in request.partitions.iter().filter(|batch| batch.bytes > 0) {
            self.bytes.add(u64::from(batch.bytes));
            if let Some(records) = batch.records {
                self.records.add(u64::from(records));
            }
        }
    }
}

/// The idempotent producer's id (KIP-98); none where no batch carries one.
pub(super) fn producer_id(partitions: &[Partition]) -> Option<i64> {
    let mut batches = partitions.iter().flat_map(|partition| &partition.batches);
    batches.next().map(|batch| batch.producer_id).filter(|&id| id >= 0)
}
