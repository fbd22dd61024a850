//! When a fetch's data reached the broker.
//! Finds recently produced batches again in fetch responses, or uses a high watermark reported before the fetch to bound
//! how long the data was there. Holds a bounded number of partitions and batches; does not decide what a wait means.

use std::collections::VecDeque;
use std::net::IpAddr;

use ahash::RandomState;
use model::{Nanos, Partition, Request, TopicId};
use wire::BatchHeader;
use wire::stream::{Partition as WirePartition, TopicRef};

use crate::table::Table;
use crate::topics::Topics;
use crate::watermarks::Watermarks;

/// Batches remembered per partition.
const BATCHES: usize = 64;
/// Errors after which the batch may be in the log all the same: `REQUEST_TIMED_OUT` and
/// `NOT_ENOUGH_REPLICAS_AFTER_APPEND`.
const MAYBE_APPENDED: [i16; 2] = [7, 20];

/// Recently produced batches, by partition.
pub(crate) struct Arrivals {
    partitions: Table<u64, VecDeque<ArrivedBatch>>,
    watermarks: Watermarks,
    /// Keys are hashes, so that a lookup copies no name.
    /// Batches are also compared, by offset or by checksum and length.
    hasher: RandomState,
    /// Arrival times and sizes of one response's batches; a field to reuse its buffer.
    found: Vec<(Nanos, u64)>,
}

#[derive(Clone, Copy)]
struct ArrivedBatch {
    /// When the last byte of its Produce request was captured.
    at: Nanos,
    crc: u32,
    bytes: u32,
    /// Known once the broker has answered.
    base_offset: Option<i64>,
}

impl Arrivals {
    /// Holds this many partitions; the least recently used is evicted.
    pub(crate) fn new(partitions: usize) -> Self {
        Self {
            partitions: Table::new(partitions),
            watermarks: Watermarks::new(partitions),
            hasher: RandomState::new(),
            found: Vec::new(),
        }
    }

    /// Adds the batches of a whole Produce request.
    /// A broker listens on several ports, so its address identifies it.
    pub(crate) fn add_produced(&mut self, row: &Request, topics: &Topics) {
        for partition in &row.partitions {
            if partition.batches.is_empty() {
                continue;
            }
            let key = self.key_of(row, partition, topics);
            let Some(ring) = self.ring_of(key) else { continue };
            for batch in &partition.batches {
                if ring.len() >= BATCHES {
                    ring.pop_front();
                }
                let (crc, bytes) = (batch.crc, batch.bytes);
                ring.push_back(ArrivedBatch { at: row.arrival_end, crc, bytes, base_offset: None });
            }
        }
    }

    /// The batches of a partition. A new one takes over the buffer of the one that it evicts.
    fn ring_of(&mut self, key: u64) -> Option<&mut VecDeque<ArrivedBatch>> {
        if self.partitions.touch(&key).is_none() {
            let evicted = self.partitions.insert(key, VecDeque::new());
            let mut buffer = evicted.unwrap_or_default();
            buffer.clear();
            *self.partitions.touch(&key)? = buffer;
        }
        self.partitions.touch(&key)
    }

    /// Handles the answer to a Produce request.
    /// An appended batch gets its offset; a rejected one is forgotten, so that a retry is not mistaken for it.
    pub(crate) fn on_produce_response(&mut self, row: &Request, topics: &Topics) {
        self.watermarks.on_produce_response(row);
        for partition in &row.partitions {
            let (Some(batch), Some(code)) = (partition.batches.first(), partition.error_code) else {
                continue;
            };
            let key = self.key_of(row, partition, topics);
            let Some(ring) = self.partitions.touch(&key) else { continue };
            if code != 0 && !MAYBE_APPENDED.contains(&code) {
                ring.retain(|arrived| {
                    arrived.at != row.arrival_end || !contains(&partition.batches, arrived)
                });
                continue;
            }
            let is_match = |arrived: &&mut ArrivedBatch| {
                arrived.at == row.arrival_end && (arrived.crc, arrived.bytes) == (batch.crc, batch.bytes)
            };
            // A batch that is answered arrived recently. Only when there are several can another one equal the first.
            let first = match partition.batches.len() {
                1 => ring.iter_mut().rfind(is_match),
                _ => ring.iter_mut().find(is_match),
            };
            if let Some(first) = first {
                first.base_offset = partition.base_offset;
            }
        }
    }

    /// When enough of the fetched data had arrived for the broker to answer.
    /// If the arrival of some batch is unknown: since when enough of it is known to have been there, if that was before
    /// the fetch. `None` if neither is known or there was never enough. For an empty response: since when there was
    /// data to return.
    pub(crate) fn find_arrival(
        &mut self,
        row: &Request,
        fetched: &[WirePartition],
        topics: &Topics,
    ) -> Option<Nanos> {
        let enough = u64::try_from(row.min_bytes?).unwrap_or(0).max(1);
        if fetched.iter().all(|partition| partition.bytes == 0) {
            // A client over its quota gets an empty response even if there is data.
            let is_in_quota = row.throttle_ms.unwrap_or(0) == 0;
            return is_in_quota.then(|| self.watermarks.unread_since(row, fetched)).flatten();
        }
        let arrival = self.find_produced_arrival(row, fetched, enough, topics);
        arrival.or_else(|| self.watermarks.readable_since(row, fetched, enough))
    }

    /// Handles a fetch's answer, after its data has been looked up.
    pub(crate) fn on_fetch_response(&mut self, row: &Request, fetched: &[WirePartition]) {
        self.watermarks.on_fetch_response(row, fetched);
    }

    fn find_produced_arrival(
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
                self.found.push((find_batch_arrival(ring, batch)?, batch.length_bytes.into()));
            }
        }
        self.found.sort_unstable();
        let mut total = 0;
        let (at, _) = self.found.iter().find(|(_, bytes)| {
            total += bytes;
            total >= enough
        })?;
        // A batch that arrived after the answer began is another copy.
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

    /// Old versions name a topic, new ones give its id: where the name is known, the key uses the name for both.
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

fn contains(batches: &[model::Batch], arrived: &ArrivedBatch) -> bool {
    batches.iter().any(|batch| (batch.crc, batch.bytes) == (arrived.crc, arrived.bytes))
}

/// When a fetched batch arrived: the one batch with its offset or, until the producer is answered, with its checksum
/// and length. `None` if it may be either of two, as after a retry.
fn find_batch_arrival(ring: &VecDeque<ArrivedBatch>, fetched: &BatchHeader) -> Option<Nanos> {
    let mut arrival = None;
    let mut is_before = false;
    for arrived in ring {
        let is_match = match arrived.base_offset {
            Some(offset) => {
                is_before |= offset > fetched.base_offset;
                offset == fetched.base_offset
            }
            None => (arrived.crc, arrived.bytes) == (fetched.crc, fetched.length_bytes),
        };
        if is_match && arrival.replace(arrived.at).is_some() {
            return None;
        }
        // A later offset had been assigned before this batch arrived: it is another one with the same content.
        if is_match && is_before && arrived.base_offset.is_none() {
            return None;
        }
    }
    arrival
}

#[cfg(test)]
mod tests;
