//! Replica counts of the broker's partitions.
//! They come from its own copy of the cluster metadata, which the crate `broker` reads.

use std::convert::Infallible;
use std::path::PathBuf;
use std::time::Duration;

use broker::metadata_log::MetadataLog;
use model::{Event, PartitionState, TopicPartition};

use crate::source::{Feed, Pace, Source, WatchSummary};

/// Limit of partitions to deliver at once.
/// It leaves space in the queue for other events.
const MAX_AT_ONCE: usize = 5_000;

/// Watches the broker's partitions.
pub(crate) struct PartitionSource {
    pub(crate) log: MetadataLog,
    /// The log dirs, until the current broker's are known.
    pub(crate) log_dirs: Vec<PathBuf>,
    /// Replica counts that were not delivered yet.
    pub(crate) waiting: Vec<(TopicPartition, u32)>,
    /// Time between two reads: the log grows twice a second, but hardly ever by partitions.
    pub(crate) interval: Duration,
}

impl Source for PartitionSource {
    type Error = Infallible;

    const NAME: &'static str = "partitions";
    const PACE: Pace = Pace::Every(Duration::from_secs(1));

    fn pace(&self) -> Pace {
        if self.waiting.is_empty() { Pace::Every(self.interval) } else { Self::PACE }
    }

    fn poll(&mut self, feed: &Feed, _: Duration) -> Result<(), Infallible> {
        if let Some(broker) = feed.current.get() {
            self.log_dirs = broker.log_dirs;
        }
        if self.waiting.is_empty() {
            self.waiting = self.log.changes(&self.log_dirs);
        }
        let at = feed.now();
        let first = self.waiting.drain(..self.waiting.len().min(MAX_AT_ONCE));
        let state = |(of, replicas): (TopicPartition, u32)| {
            Event::PartitionState(PartitionState { at, topic: of.topic, partition: of.partition, replicas })
        };
        feed.sender.send_all(first.map(state).collect());
        Ok(())
    }

    fn summarize(self, _: Result<(), Infallible>) -> WatchSummary {
        WatchSummary::default()
    }
}
