//! Traffic between clients and a broker: sums by topic and by partition. Holds a bounded number of partitions.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use model::Nanos;
use model::api_key::{FETCH, PRODUCE};
use model::row_summary::{PartitionColumns, RequestColumns};

use crate::parts::Amounts;

/// Partitions counted one by one: more than any broker leads. The others are in the sums, and are not counted as led.
const MAX_PARTITIONS: usize = 200_000;
/// The latency from which on a produce request is slow.
const SLOW: Nanos = Nanos::from_millis(100);

/// Adds up requests.
#[derive(Default)]
pub struct RequestStats {
    partitions: HashMap<Arc<str>, HashMap<i32, TopicIo>>,
    count: usize,
    sum: TopicIo,
    pub(crate) slow_produce: u64,
    pub(crate) requests: u64,
}

/// Traffic of a partition, a topic or all.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TopicIo {
    pub(crate) produced_bytes: u64,
    pub(crate) batches: u64,
    pub(crate) sent_bytes: u64,
    /// Whether it was produced to without an error: 0 or 1; for a topic, how many partitions were.
    pub(crate) led: u64,
}

impl RequestStats {
    /// Counts a request.
    pub fn request(&mut self, request: &RequestColumns) {
        self.requests += 1;
        if request.api_key == PRODUCE {
            self.slow_produce += u64::from(request.latency().is_some_and(|latency| latency >= SLOW));
        } else if request.api_key != FETCH {
            return;
        }
        for partition in &request.partitions {
            self.partition(request.api_key, partition);
        }
    }

    fn partition(&mut self, api_key: i16, partition: &PartitionColumns) {
        let carried = TopicIo::of(api_key, partition);
        self.sum.add(&carried);
        let Some(topic) = topic(partition) else { return };
        if let Some(known) = self.partitions.get_mut(&topic).and_then(|of| of.get_mut(&partition.partition)) {
            known.add(&carried);
            known.led |= carried.led;
        } else if self.count < MAX_PARTITIONS {
            self.count += 1;
            self.partitions.entry(topic).or_default().insert(partition.partition, carried);
        }
    }

    /// The sums over everything; `led` is a number of partitions.
    pub(crate) fn sum(&self) -> TopicIo {
        let led = self.partitions.values().flat_map(HashMap::values).map(|carried| carried.led).sum();
        TopicIo { led, ..self.sum }
    }

    /// A value of each topic and of its partitions.
    pub(crate) fn amounts(&self, of: impl Fn(&TopicIo) -> u64) -> Amounts {
        let mut amounts = Amounts::default();
        for (topic, partitions) in &self.partitions {
            let sorted = partitions.iter().collect::<BTreeMap<_, _>>();
            for (number, carried) in sorted {
                amounts.part(topic, of(carried));
                amounts.item(topic, || format!("{topic}-{number}").into(), of(carried));
            }
        }
        amounts
    }
}

/// The topic's name, or its id if the name is unknown.
fn topic(partition: &PartitionColumns) -> Option<Arc<str>> {
    let id = || partition.topic_id.map(|id| id.to_string().into());
    partition.topic.clone().or_else(id)
}

impl TopicIo {
    fn of(api_key: i16, partition: &PartitionColumns) -> Self {
        let bytes = u64::from(partition.bytes);
        if api_key == FETCH {
            return Self { sent_bytes: bytes, ..Self::default() };
        }
        let led = u64::from(partition.error_code.is_none_or(|code| code == 0));
        // A produce request carries one batch for a partition (Produce v3 and later).
        Self { produced_bytes: bytes, batches: 1, led, sent_bytes: 0 }
    }

    /// Adds everything but `led`.
    fn add(&mut self, other: &Self) {
        self.produced_bytes = self.produced_bytes.saturating_add(other.produced_bytes);
        self.batches += other.batches;
        self.sent_bytes = self.sent_bytes.saturating_add(other.sent_bytes);
    }
}
