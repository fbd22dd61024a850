//! The content of one line of a broker's own log: something that took time, or a change that explains why something
//! else did. Does not know the format of lines.

use std::sync::Arc;

use crate::{Nanos, TopicPartition};

named! {
    /// The subject of a line.
    pub enum LogKind {
        /// A partition's log continued in a new segment.
        SegmentRoll = "segment-roll",
        /// The state of a partition's producers was written to a file. A roll waits for it.
        ProducerSnapshot = "producer-snapshot",
        /// Tiered storage took entries of deleted segments out of a partition's state file.
        TierCleanup = "tier-cleanup",
        /// Tiered storage wrote a partition's state file in another format.
        TierMigration = "tier-migration",
        /// A leader removed replicas from the in-sync set.
        IsrShrink = "isr-shrink",
        /// A leader added replicas to the in-sync set.
        IsrExpand = "isr-expand",
        /// The in-sync set as the controller has it now.
        IsrChange = "isr-change",
        /// A partition's log was loaded at the start.
        LogLoad = "log-load",
        /// All logs were loaded.
        LogsLoad = "logs-load",
        /// A segment was read through after an unclean stop.
        SegmentRecovery = "segment-recovery",
        /// A log dir has to be recovered, because the broker had not been stopped cleanly.
        Recovery = "recovery",
        /// The state of a partition's producers was rebuilt.
        ProducerState = "producer-state",
        /// A coordinator read a partition of its topic.
        CoordinatorLoad = "coordinator-load",
        /// This broker became a partition's leader or follower.
        LeaderElection = "leader-election",
        /// The controller's request that changed leaders was done.
        LeaderAndIsr = "leader-and-isr",
        /// The controllers' quorum.
        Quorum = "quorum",
        /// The broker asked to be relieved of its partitions.
        ControlledShutdown = "controlled-shutdown",
        /// The broker stopped.
        Shutdown = "shutdown",
        /// Something was flushed to a disk.
        Fsync = "fsync",
        /// Any other operation whose duration the log gives.
        SlowOperation = "slow-operation",
        /// A heartbeat was not sent in time.
        Heartbeat = "heartbeat",
        /// A request of the broker's own that was not answered.
        RequestTimeout = "request-timeout",
        /// A GC pause.
        GcPause = "gc-pause",
        /// A JVM pause (safepoint).
        Safepoint = "safepoint",
        /// A request in Kafka's request log.
        Request = "request",
        /// A match of one of the user's patterns.
        Pattern = "pattern",
    }
}

/// The content of one line.
#[derive(Clone, Debug, PartialEq)]
pub struct LogEntry {
    /// When the line was written; none if it gives no time, or no date.
    pub at: Option<Nanos>,
    /// Its subject.
    pub kind: LogKind,
    /// The name of the user's pattern that found it.
    pub pattern: Option<Arc<str>>,
    /// Its level, such as `INFO`; none if it has none.
    pub level: Option<&'static str>,
    /// The partition it is about.
    pub topic_partition: Option<TopicPartition>,
    /// How long it took, up to when it was written.
    pub length: Option<Nanos>,
    /// A count: segments removed or loaded, producers, logs, replicas removed or added; for a pattern, its value.
    pub count: Option<u64>,
    /// An offset in the partition.
    pub offset: Option<i64>,
    /// A file's bytes before.
    pub before_bytes: Option<u64>,
    /// A file's bytes after.
    pub after_bytes: Option<u64>,
    /// The message, without the line's prefix and without its logger; bounded. Not escaped.
    pub text: Box<str>,
}

impl LogEntry {
    /// An entry of this kind, with nothing else known.
    pub fn new(kind: LogKind) -> Self {
        Self {
            at: None,
            kind,
            pattern: None,
            level: None,
            topic_partition: None,
            length: None,
            count: None,
            offset: None,
            before_bytes: None,
            after_bytes: None,
            text: Box::default(),
        }
    }

    /// Its name in outputs: the user's name for it, or its kind's.
    pub fn name(&self) -> &str {
        self.pattern.as_deref().unwrap_or(self.kind.as_str())
    }
}
