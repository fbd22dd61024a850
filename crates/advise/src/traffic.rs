//! Traffic of producers, from requests: how full their batches are, how often they send, how long they wait. Knows of their
//! settings only what the wire shows.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;

use hdrhistogram::Histogram;
use model::Nanos;
use model::api_key::PRODUCE;
use model::row_summary::{PartitionColumns, RequestColumns};

/// Limit on producers, on the connections of one producer, and on partitions.
const MAX_PRODUCERS: usize = 10_000;
/// Usual values of `batch.size`: Kafka's default and its doubles.
/// The smallest one that holds a producer's largest batch is assumed to bound its batches.
const BATCH_SIZES: [u32; 7] = [16_384, 32_768, 65_536, 131_072, 262_144, 524_288, 1_048_576];
/// How long a producer holds a record before it drops it (`delivery.timeout.ms`). 120 s by default. An older timestamp
/// is not the time at which the record was passed to the producer.
const MAX_RECORD_AGE: Nanos = Nanos::from_millis(120_000);
/// The smallest share of batches with usable timestamps that represents the others.
const MIN_TIMED_SHARE: f64 = 0.9;
/// Latencies are distinguished up to an hour.
const MAX_LATENCY_NS: u64 = 3_600_000_000_000;

/// Totals of produce requests.
#[derive(Clone, Debug, Default)]
pub struct Traffic {
    producers: HashMap<Arc<str>, Producer>,
    /// Requests of producers beyond the limit.
    pub uncounted: u64,
    /// Created with the first request.
    latency_ns: Option<Histogram<u64>>,
    partitions: HashSet<(Arc<str>, i32)>,
}

/// Totals of one producer.
#[derive(Clone, Debug, Default)]
pub struct Producer {
    /// Requests with at least one record.
    pub requests: u64,
    /// Batches: what one partition got in one request, which is one batch with magic 2.
    pub batches: u64,
    /// Bytes of the batches.
    pub bytes: u64,
    /// Bytes of the largest batch.
    pub largest_bytes: u32,
    /// Records of batches whose headers could be read.
    pub records: u64,
    /// Batches with a known number of records.
    pub counted: u64,
    /// Batches among these without room for another record of their mean size. One number for each of `BATCH_SIZES`.
    full: [u64; BATCH_SIZES.len()],
    connections: HashSet<SocketAddr>,
    span: Option<(Nanos, Nanos)>,
    /// Batches with a usable timestamp of their newest record, and their bytes.
    timed: u64,
    timed_bytes: u64,
    /// These bytes, each multiplied by the time from that timestamp to the response.
    byte_seconds: f64,
}

/// Memory that a producer uses for unacknowledged records.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BufferUse {
    /// Mean bytes per connection: a lower bound, because they are counted on the wire.
    pub bytes: f64,
    /// Mean time that a byte is held.
    pub wait: Nanos,
    /// Bytes per second on each connection.
    pub bytes_per_second: f64,
}

#[expect(clippy::expect_used, reason = "its bounds are ours")]
fn latencies() -> Histogram<u64> {
    Histogram::new_with_bounds(1, MAX_LATENCY_NS, 3)
        .expect("an hour is more than 2 ns, and 3 digits are at most 5")
}

impl Traffic {
    /// Adds a request. Only produce requests with records count.
    pub fn add(&mut self, request: &RequestColumns) {
        if request.api_key != PRODUCE {
            return;
        }
        let sent = || request.partitions.iter().filter(|partition| partition.bytes > 0);
        if sent().next().is_none() {
            return;
        }
        if let Some(latency) = request.latency() {
            let ns = latency.as_length_ns().max(1);
            self.latency_ns.get_or_insert_with(latencies).saturating_record(ns);
        }
        for partition in sent() {
            let Some(topic) = &partition.topic else { continue };
            if self.partitions.len() < MAX_PRODUCERS {
                self.partitions.insert((Arc::clone(topic), partition.partition));
            }
        }
        let name = request.client_id.clone().unwrap_or_else(|| request.client.ip().to_string().into());
        if self.producers.len() >= MAX_PRODUCERS && !self.producers.contains_key(&name) {
            self.uncounted += 1;
            return;
        }
        self.producers.entry(name).or_default().add(request, sent());
    }

    /// Producers by client id, the one with the most requests first. By address if they have no client id.
    pub fn producers(&self) -> Vec<(&Arc<str>, &Producer)> {
        let mut all: Vec<_> = self.producers.iter().collect();
        all.sort_by(|a, b| b.1.requests.cmp(&a.1.requests).then_with(|| a.0.cmp(b.0)));
        all
    }

    /// 99.9th percentile of produce requests' latency; `None` for fewer than 1,000 requests.
    pub fn p999(&self) -> Option<Nanos> {
        let latencies = self.latency_ns.as_ref().filter(|latencies| latencies.len() >= 1_000)?;
        i64::try_from(latencies.value_at_quantile(0.999)).ok().map(Nanos)
    }

    /// Number of partitions that were written to.
    pub fn partitions(&self) -> u64 {
        self.partitions.len() as u64
    }
}

impl Producer {
    fn add<'p>(&mut self, request: &RequestColumns, sent: impl Iterator<Item = &'p PartitionColumns>) {
        self.requests += 1;
        if self.connections.len() < MAX_PRODUCERS {
            self.connections.insert(request.client);
        }
        let (first, last) = self.span.unwrap_or((request.arrival, request.arrival));
        self.span = Some((first.min(request.arrival), last.max(request.arrival)));
        for partition in sent {
            self.batch(partition);
            self.wait(partition, request.last_seen());
        }
    }

    /// Adds a batch's wait.
    /// A producer frees its memory when the response arrives or, if none is due, when the request is sent.
    fn wait(&mut self, partition: &PartitionColumns, answered: Nanos) {
        let waited = partition.newest_record.map(|made| answered - made);
        let Some(waited) = waited.filter(|waited| (Nanos::ZERO..MAX_RECORD_AGE).contains(waited)) else {
            return;
        };
        self.timed += 1;
        self.timed_bytes += u64::from(partition.bytes);
        self.byte_seconds += f64::from(partition.bytes) * (waited.0 as f64 / 1e9);
    }

    fn batch(&mut self, partition: &PartitionColumns) {
        self.batches += 1;
        self.bytes += u64::from(partition.bytes);
        self.largest_bytes = self.largest_bytes.max(partition.bytes);
        let Some(records) = partition.records.filter(|records| *records > 0) else { return };
        self.counted += 1;
        self.records += u64::from(records);
        let with_one_more = u64::from(partition.bytes) + u64::from(partition.bytes / records);
        for (full, size) in self.full.iter_mut().zip(BATCH_SIZES) {
            *full += u64::from(with_one_more > u64::from(size));
        }
    }

    /// The `batch.size` that its batches imply: the smallest usual value that holds its largest batch.
    pub fn batch_size(&self) -> Option<u32> {
        BATCH_SIZES.into_iter().find(|size| *size >= self.largest_bytes)
    }

    /// Share of its batches without room for another record.
    pub fn full(&self) -> Option<f64> {
        let at = BATCH_SIZES.iter().position(|size| *size >= self.largest_bytes)?;
        let full = self.full.get(at)?;
        (self.counted > 0).then(|| *full as f64 / self.counted as f64)
    }

    /// Mean records per batch.
    pub fn records_per_batch(&self) -> Option<f64> {
        (self.counted > 0).then(|| self.records as f64 / self.counted as f64)
    }

    /// Mean bytes per batch.
    pub fn bytes_per_batch(&self) -> u64 {
        self.bytes.checked_div(self.batches).unwrap_or(0)
    }

    /// Whether any of its batches has a usable timestamp.
    pub fn is_timed(&self) -> bool {
        self.timed > 0
    }

    /// Its buffer use: the rate of its bytes times the wait of each (Little's law).
    /// A byte waits from its batch's newest timestamp to the response. `None` if too few batches have a usable
    /// timestamp, or if all requests arrived at one moment.
    pub fn buffer_use(&self) -> Option<BufferUse> {
        let (first, last) = self.span?;
        let seconds = (last - first).0 as f64 / 1e9 * self.connections.len().max(1) as f64;
        let known = self.timed > 0 && self.timed as f64 >= MIN_TIMED_SHARE * self.batches as f64;
        (known && seconds > 0.0).then(|| BufferUse {
            bytes: self.byte_seconds / seconds,
            wait: Nanos((self.byte_seconds / self.timed_bytes.max(1) as f64 * 1e9) as i64),
            bytes_per_second: self.timed_bytes as f64 / seconds,
        })
    }

    /// Requests per second on each of its connections, from its first to its last; `None` if all arrived at one moment.
    pub fn requests_per_second(&self) -> Option<f64> {
        let (first, last) = self.span?;
        let seconds = (last - first).0 as f64 / 1e9;
        (seconds > 0.0).then(|| self.requests as f64 / seconds / self.connections.len().max(1) as f64)
    }
}

#[cfg(test)]
mod tests {
    use model::Nanos;

    use super::Traffic;
    use crate::tests::produce;

    #[test]
    fn batch_is_full_if_another_mean_record_does_not_fit() {
        let mut traffic = Traffic::default();
        // 16 records of 1,000 bytes fill 16 KiB; 4 of them do not. One of 9,000 bytes does, because a second one does not fit;
        // one of 7,000 does not.
        for (at, (bytes, records)) in
            [(16_000, 16), (4_000, 4), (9_000, 1), (7_000, 1)].into_iter().enumerate()
        {
            traffic.add(&(&produce("app", at as i64 * 10, 1, bytes, records)).into());
        }
        let (name, producer) = traffic.producers()[0];
        assert_eq!(
            (&**name, producer.requests, producer.batches, producer.batch_size()),
            ("app", 4, 4, Some(16_384))
        );
        assert_eq!(producer.full(), Some(0.5));
        assert_eq!(producer.records_per_batch(), Some(5.5));
        assert_eq!(producer.requests_per_second().map(f64::round), Some(133.0));
    }

    #[test]
    fn buffer_use_is_the_rate_times_the_wait_of_records() {
        let mut traffic = Traffic::default();
        for at in 0..101 {
            let mut request = produce("app", at * 10, 20, 10_000, 10);
            // 280 ms in the producer and 20 ms until the response.
            request.partitions[0].newest_record = Some(request.arrival - Nanos::from_millis(280));
            traffic.add(&(&request).into());
        }
        let buffer_use = |traffic: &Traffic| traffic.producers()[0].1.buffer_use();
        let buffer = buffer_use(&traffic).unwrap();
        assert_eq!(buffer.wait.as_millis_rounded(), 300);
        assert_eq!((buffer.bytes_per_second.round(), buffer.bytes.round()), (1_010_000.0, 303_000.0));
        // A time in the future, and a wait that is too long: then nothing is known.
        for (at, made) in [(1_020, 2_000), (1_030, -130_000)].into_iter().cycle().take(12) {
            let mut request = produce("app", at, 1, 10_000, 10);
            request.partitions[0].newest_record = Some(Nanos::from_millis(made));
            traffic.add(&(&request).into());
        }
        assert_eq!(buffer_use(&traffic), None);
    }

    #[test]
    fn p999_needs_a_thousand_requests() {
        let mut traffic = Traffic::default();
        for at in 0..999 {
            traffic.add(&(&produce("app", at, 1, 100, 1)).into());
        }
        assert_eq!(traffic.p999(), None);
        for at in 0..9 {
            traffic.add(&(&produce("app", at, 40_000, 100, 1)).into());
        }
        assert!(traffic.p999().unwrap() >= Nanos::from_millis(39_000));
        assert_eq!(traffic.partitions(), 1);
    }
}
