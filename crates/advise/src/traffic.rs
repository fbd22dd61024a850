//! What producers send, from requests: how full their batches are, how often they ask, how long they wait. Does not know their
//! settings, but for what the wire shows of them.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;

use hdrhistogram::Histogram;
use model::Nanos;
use model::api_key::PRODUCE;
use model::row_summary::{PartitionColumns, RequestColumns};

/// Producers, connections of one and partitions told apart at most.
const MAX_PRODUCERS: usize = 10_000;
/// What `batch.size` usually is: Kafka's default and its doubles. A batch is taken to be bounded by the smallest that holds the
/// largest batch of its producer.
const BATCH_SIZES: [u32; 7] = [16_384, 32_768, 65_536, 131_072, 262_144, 524_288, 1_048_576];
/// A record is given up that waited for so long (`delivery.timeout.ms`, 120 s by default): what says that it is older says
/// something else than when it was handed to the producer.
const MAX_RECORD_AGE: Nanos = Nanos::from_millis(120_000);
/// Fewer batches that say when their records were made tell nothing of the others.
const MIN_TIMED_SHARE: f64 = 0.9;
/// Latencies are told apart up to an hour.
const MAX_LATENCY_NS: u64 = 3_600_000_000_000;

/// Produce requests, added up.
#[derive(Clone, Debug, Default)]
pub struct Traffic {
    producers: HashMap<Arc<str>, Producer>,
    /// Producers that were one too many.
    pub uncounted: u64,
    /// Made with the first request.
    latency_ns: Option<Histogram<u64>>,
    partitions: HashSet<(Arc<str>, i32)>,
}

/// What one producer sent.
#[derive(Clone, Debug, Default)]
pub struct Producer {
    /// Requests with any record.
    pub requests: u64,
    /// What one partition got in one request, which is a batch with magic 2.
    pub batches: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// The largest of these.
    pub largest_bytes: u32,
    /// Records, where the batches' heads could be read.
    pub records: u64,
    /// Batches of which the records are known.
    pub counted: u64,
    /// Of these those in which another record of its mean size had no room, by each of `BATCH_SIZES`.
    full: [u64; BATCH_SIZES.len()],
    connections: HashSet<SocketAddr>,
    span: Option<(Nanos, Nanos)>,
    /// Batches that say when their newest record was made, and their bytes.
    timed: u64,
    timed_bytes: u64,
    /// These bytes, each times how long it was there from then until it was answered.
    byte_seconds: f64,
}

/// What a producer holds of records that are not answered yet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BufferUse {
    /// Bytes on each of its connections, on average: at least these, as they are on the wire.
    pub bytes: f64,
    /// For how long each, on average.
    pub wait: Nanos,
    /// How many a second on each connection.
    pub bytes_per_second: f64,
}

#[expect(clippy::expect_used, reason = "its bounds are ours")]
fn latencies() -> Histogram<u64> {
    Histogram::new_with_bounds(1, MAX_LATENCY_NS, 3)
        .expect("an hour is more than 2 ns, and 3 digits are at most 5")
}

impl Traffic {
    /// Adds a request. Only those that bring records count.
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

    /// Producers by their client ids (by their addresses where they have none), the one with the most requests first.
    pub fn producers(&self) -> Vec<(&Arc<str>, &Producer)> {
        let mut all: Vec<_> = self.producers.iter().collect();
        all.sort_by(|a, b| b.1.requests.cmp(&a.1.requests).then_with(|| a.0.cmp(b.0)));
        all
    }

    /// How long all but one in a thousand of the produce requests took at most; none where there are fewer than that.
    pub fn p999(&self) -> Option<Nanos> {
        let latencies = self.latency_ns.as_ref().filter(|latencies| latencies.len() >= 1_000)?;
        i64::try_from(latencies.value_at_quantile(0.999)).ok().map(Nanos)
    }

    /// Partitions that were written to.
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

    /// A producer's memory is free again when the answer came, or what needs none was sent.
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

    /// The `batch.size` that its batches keep to: the smallest usual one that holds its largest batch.
    pub fn batch_size(&self) -> Option<u32> {
        BATCH_SIZES.into_iter().find(|size| *size >= self.largest_bytes)
    }

    /// Which part of its batches had no room for another record.
    pub fn full(&self) -> Option<f64> {
        let at = BATCH_SIZES.iter().position(|size| *size >= self.largest_bytes)?;
        let full = self.full.get(at)?;
        (self.counted > 0).then(|| *full as f64 / self.counted as f64)
    }

    /// Records in a batch, on average.
    pub fn records_per_batch(&self) -> Option<f64> {
        (self.counted > 0).then(|| self.records as f64 / self.counted as f64)
    }

    /// Bytes of a batch, on average.
    pub fn bytes_per_batch(&self) -> u64 {
        self.bytes.checked_div(self.batches).unwrap_or(0)
    }

    /// Whether any of its batches says when its records were made, in a way that can be so.
    pub fn is_timed(&self) -> bool {
        self.timed > 0
    }

    /// What it holds: the rate of its bytes times how long each waits, from when its batch's newest record was made until it was
    /// answered (Little's law). None where too few batches say when that was, and of a single moment.
    pub fn held(&self) -> Option<BufferUse> {
        let (first, last) = self.span?;
        let seconds = (last - first).0 as f64 / 1e9 * self.connections.len().max(1) as f64;
        let known = self.timed > 0 && self.timed as f64 >= MIN_TIMED_SHARE * self.batches as f64;
        (known && seconds > 0.0).then(|| BufferUse {
            bytes: self.byte_seconds / seconds,
            wait: Nanos((self.byte_seconds / self.timed_bytes.max(1) as f64 * 1e9) as i64),
            bytes_per_second: self.timed_bytes as f64 / seconds,
        })
    }

    /// Requests a second on each of its connections, from its first to its last; none of a single moment.
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
    fn a_batch_is_full_where_another_record_of_its_kind_has_no_room() {
        let mut traffic = Traffic::default();
        // 16 records of 1,000 bytes fill 16 KiB; 4 of them do not, nor does one of 9,000, which has no second beside it only
        // where two are too many.
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
    fn what_a_producer_holds_is_its_rate_times_its_records_wait() {
        let mut traffic = Traffic::default();
        for at in 0..101 {
            let mut request = produce("app", at * 10, 20, 10_000, 10);
            // Of 280 ms in the producer and 20 ms until the answer.
            request.partitions[0].newest_record = Some(request.arrival - Nanos::from_millis(280));
            traffic.add(&(&request).into());
        }
        let held = |traffic: &Traffic| traffic.producers()[0].1.held();
        let told = held(&traffic).unwrap();
        assert_eq!(told.wait.as_millis_rounded(), 300);
        assert_eq!((told.bytes_per_second.round(), told.bytes.round()), (1_010_000.0, 303_000.0));
        // A time to come, and one that no record waits for: then nothing is known.
        for (at, made) in [(1_020, 2_000), (1_030, -130_000)].into_iter().cycle().take(12) {
            let mut request = produce("app", at, 1, 10_000, 10);
            request.partitions[0].newest_record = Some(Nanos::from_millis(made));
            traffic.add(&(&request).into());
        }
        assert_eq!(held(&traffic), None);
    }

    #[test]
    fn the_slowest_in_a_thousand_needs_a_thousand() {
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
