//! When the data that a fetch brought had come to the broker: the batches that producers sent lately, found
//! again in fetch responses; or since when it is known to have been there, by a high watermark that was reported before
//! the fetch. Holds a bounded number of partitions and batches; does not decide what a wait means.

use std::collections::VecDeque;
use std::net::IpAddr;

use ahash::RandomState;
use model::{Nanos, Partition, Request, TopicId};
use wire::BatchHeader;
use wire::stream::{Partition as WirePartition, TopicRef};

use crate::table::Table;
use crate::topics::Topics;
use crate::watermarks::Watermarks;

/// Batches remembered of one partition.
const BATCHES: usize = 64;
/// The batch may be in the log although the broker reported an error: `REQUEST_TIMED_OUT` and
/// `NOT_ENOUGH_REPLICAS_AFTER_APPEND`.
const MAYBE_APPENDED: [i16; 2] = [7, 20];

/// The batches that were produced lately, by partition.
pub(crate) struct Arrivals {
    partitions: Table<u64, VecDeque<ArrivedBatch>>,
    watermarks: Watermarks,
    /// Keys are hashes, so that a look-up needs no copy of a name; a batch is checked for itself besides.
    hasher: RandomState,
    /// When the batches of one response had come, and their bytes; kept for its room.
    found: Vec<(Nanos, u64)>,
}

#[derive(Clone, Copy)]
struct ArrivedBatch {
    /// When the last byte of the request that brought it was seen.
    at: Nanos,
    crc: u32,
    bytes: u32,
    /// Once the broker's answer told it.
    base_offset: Option<i64>,
}

impl Arrivals {
    /// Room for so many partitions; the one used least recently gives way.
    pub(crate) fn new(partitions: usize) -> Self {
        Self {
            partitions: Table::new(partitions),
            watermarks: Watermarks::new(partitions),
            hasher: RandomState::new(),
            found: Vec::new(),
        }
    }

    /// A whole Produce request came. A broker listens on several ports, so its address stands for it.
    pub(crate) fn produced(&mut self, row: &Request, topics: &Topics) {
        for partition in &row.partitions {
            if partition.batches.is_empty() {
                continue;
            }
            let key = self.key_of(row, partition, topics);
            if self.partitions.touch(&key).is_none() {
                self.partitions.insert(key, VecDeque::new());
            }
            let Some(ring) = self.partitions.touch(&key) else { continue };
            for batch in &partition.batches {
                if ring.len() >= BATCHES {
                    ring.pop_front();
                }
                let (crc, bytes) = (batch.crc, batch.bytes);
                ring.push_back(ArrivedBatch { at: row.arrival_end, crc, bytes, base_offset: None });
            }
        }
    }

    /// It was answered: what was appended has its offset, and what was refused brought nothing, so that a
    /// retry is not taken for it.
    pub(crate) fn answered(&mut self, row: &Request, topics: &Topics) {
        self.watermarks.produced(row);
        for partition in &row.partitions {
            let (Some(batch), Some(code)) = (partition.batches.first(), partition.error_code) else {
                continue;
            };
            let key = self.key_of(row, partition, topics);
            let Some(ring) = self.partitions.touch(&key) else { continue };
            if code != 0 && !MAYBE_APPENDED.contains(&code) {
                ring.retain(|arrived| arrived.at != row.arrival_end || !sent(&partition.batches, arrived));
                continue;
            }
            let is_it = |arrived: &&mut ArrivedBatch| {
                arrived.at == row.arrival_end && (arrived.crc, arrived.bytes) == (batch.crc, batch.bytes)
            };
            // What is answered came lately. Only of several may another be like the first.
            let first = match partition.batches.len() {
                1 => ring.iter_mut().rfind(is_it),
                _ => ring.iter_mut().find(is_it),
            };
            if let Some(first) = first {
                first.base_offset = partition.base_offset;
            }
        }
    }

    /// When so much of what was fetched had come that the broker need not wait any longer. If that is not known of
    /// every batch, since when enough of it is known to have been there before the fetch. None if neither is known, or
    /// if it never was so much. If it brought nothing, since when there was something to bring.
    pub(crate) fn of_fetched(
        &mut self,
        row: &Request,
        fetched: &[WirePartition],
        topics: &Topics,
    ) -> Option<Nanos> {
        let enough = u64::try_from(row.min_bytes?).unwrap_or(0).max(1);
        if fetched.iter().all(|partition| partition.bytes == 0) {
            // Beyond its quota a client gets an empty response of what was there.
            let is_in_quota = row.throttle_ms.unwrap_or(0) == 0;
            return is_in_quota.then(|| self.watermarks.unread_since(row, fetched)).flatten();
        }
        let came = self.came_with_producers(row, fetched, enough, topics);
        came.or_else(|| self.watermarks.readable_since(row, fetched, enough))
    }

    /// A fetch was answered; what it brought has been looked up before.
    pub(crate) fn fetched(&mut self, row: &Request, fetched: &[WirePartition]) {
        self.watermarks.fetched(row, fetched);
    }

    fn came_with_producers(
        &mut self,
        row: &Request,
        fetched: &[WirePartition],
        enough: u64,
        topics: &Topics,
    ) -> Option<Nanos> {
        self.found.clear();
        for partition in fetched.iter().filter(|partition| partition.bytes > 0) {
            let whole: u64 = partition.batches.iter().map(|batch| u64::from(batch.length_bytes)).sum();
            if partition.error.is_some() || whole != u64::from(partition.bytes) {
                return None;
            }
            let key = self.key_of_fetched(row.broker.ip(), partition, topics);
            let ring = self.partitions.peek(&key)?;
            for batch in &partition.batches {
                self.found.push((came(ring, batch)?, batch.length_bytes.into()));
            }
        }
        self.found.sort_unstable();
        let mut there = 0;
        let (at, _) = self.found.iter().find(|(_, bytes)| {
            there += bytes;
            there >= enough
        })?;
        // What came after the answer began is another copy.
        Some(*at).filter(|at| row.response.is_some_and(|response| *at <= response))
    }

    fn key_of(&self, row: &Request, partition: &Partition, topics: &Topics) -> u64 {
        let broker = row.broker.ip();
        match (&partition.topic, partition.topic_id) {
            (None, Some(id)) => self.key_by_id(broker, id, partition.partition, topics),
            (name, _) => self.key(broker, name.as_deref().unwrap_or_default(), partition.partition),
        }
    }

    fn key_of_fetched(&self, broker: IpAddr, fetched: &WirePartition, topics: &Topics) -> u64 {
        match &fetched.topic {
            TopicRef::Name(name) => self.key(broker, name, fetched.partition),
            TopicRef::Id(id) => self.key_by_id(broker, TopicId(*id), fetched.partition, topics),
        }
    }

    /// Old versions name a topic, new ones give its id: the name stands for both where it is known.
    fn key_by_id(&self, broker: IpAddr, id: TopicId, partition: i32, topics: &Topics) -> u64 {
        match topics.name_of(id) {
            Some(name) => self.key(broker, name, partition),
            None => self.hasher.hash_one((broker, id, partition)),
        }
    }

    fn key(&self, broker: IpAddr, topic: &str, partition: i32) -> u64 {
        self.hasher.hash_one((broker, topic, partition))
    }
}

fn sent(batches: &[model::Batch], arrived: &ArrivedBatch) -> bool {
    batches.iter().any(|batch| (batch.crc, batch.bytes) == (arrived.crc, arrived.bytes))
}

/// When a fetched batch had come: the one batch with its offset, or, as long as the producer has no answer,
/// with its checksum and length. Nothing where it may be either of two, as after a retry.
fn came(ring: &VecDeque<ArrivedBatch>, fetched: &BatchHeader) -> Option<Nanos> {
    let mut came = None;
    let mut is_before = false;
    for arrived in ring {
        let is_it = match arrived.base_offset {
            Some(offset) => {
                is_before |= offset > fetched.base_offset;
                offset == fetched.base_offset
            }
            None => (arrived.crc, arrived.bytes) == (fetched.crc, fetched.length_bytes),
        };
        if is_it && came.replace(arrived.at).is_some() {
            return None;
        }
        // A later offset than its own had been given out before: this is another with the same content.
        if is_it && is_before && arrived.base_offset.is_none() {
            return None;
        }
    }
    came
}

#[cfg(test)]
mod tests;
