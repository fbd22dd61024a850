//! What one line of a broker's own log tells: something that took time, or a change that explains why something else
//! did. Does not know how lines look.

use std::fmt;
use std::sync::Arc;

use crate::{Nanos, TopicPartition};

/// What a line is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LogKind {
    /// A partition's log went on in a new segment.
    SegmentRoll,
    /// The state of a partition's producers was written to a file, which a roll waits for.
    ProducerSnapshot,
    /// Tiered storage took entries of deleted segments out of a partition's state file.
    TierCleanup,
    /// Tiered storage wrote a partition's state file in another format.
    TierMigration,
    /// A leader took replicas out of the in-sync set.
    IsrShrink,
    /// A leader took replicas into it.
    IsrExpand,
    /// The in-sync set as the controller has it now.
    IsrChange,
    /// A partition's log was loaded at the start.
    LogLoad,
    /// All logs were loaded.
    LogsLoad,
    /// A segment was read through after an unclean stop.
    SegmentRecovery,
    /// A log dir has to be recovered, because the broker had not been stopped cleanly.
    Recovery,
    /// The state of a partition's producers was built anew.
    ProducerState,
    /// A coordinator read a partition of its topic.
    CoordinatorLoad,
    /// This broker became a partition's leader or follower.
    LeaderElection,
    /// The controller's request that changed leaders was done.
    LeaderAndIsr,
    /// The controllers' quorum.
    Quorum,
    /// The broker asked to be relieved of its partitions.
    ControlledShutdown,
    /// The broker stopped.
    Shutdown,
    /// Something was written through to a disk.
    Fsync,
    /// Anything else of which the log says how long it took.
    SlowOperation,
    /// A heartbeat was not sent in time.
    Heartbeat,
    /// A request of the broker's own that was not answered.
    RequestTimeout,
    /// A pause of the JVM's collector.
    GcPause,
    /// Any stop of the JVM.
    Safepoint,
    /// A request, as Kafka's request log has it.
    Request,
    /// What a pattern of the user's found.
    Pattern,
}

impl LogKind {
    /// Every kind, in the order in which they are told.
    pub const ALL: [Self; 26] = [
        Self::SegmentRoll,
        Self::ProducerSnapshot,
        Self::TierCleanup,
        Self::TierMigration,
        Self::IsrShrink,
        Self::IsrExpand,
        Self::IsrChange,
        Self::LogLoad,
        Self::LogsLoad,
        Self::SegmentRecovery,
        Self::Recovery,
        Self::ProducerState,
        Self::CoordinatorLoad,
        Self::LeaderElection,
        Self::LeaderAndIsr,
        Self::Quorum,
        Self::ControlledShutdown,
        Self::Shutdown,
        Self::Fsync,
        Self::SlowOperation,
        Self::Heartbeat,
        Self::RequestTimeout,
        Self::GcPause,
        Self::Safepoint,
        Self::Request,
        Self::Pattern,
    ];

    /// Its name in outputs and flags.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SegmentRoll => "segment-roll",
            Self::ProducerSnapshot => "producer-snapshot",
            Self::TierCleanup => "tier-cleanup",
            Self::TierMigration => "tier-migration",
            Self::IsrShrink => "isr-shrink",
            Self::IsrExpand => "isr-expand",
            Self::IsrChange => "isr-change",
            Self::LogLoad => "log-load",
            Self::LogsLoad => "logs-load",
            Self::SegmentRecovery => "segment-recovery",
            Self::Recovery => "recovery",
            Self::ProducerState => "producer-state",
            Self::CoordinatorLoad => "coordinator-load",
            Self::LeaderElection => "leader-election",
            Self::LeaderAndIsr => "leader-and-isr",
            Self::Quorum => "quorum",
            Self::ControlledShutdown => "controlled-shutdown",
            Self::Shutdown => "shutdown",
            Self::Fsync => "fsync",
            Self::SlowOperation => "slow-operation",
            Self::Heartbeat => "heartbeat",
            Self::RequestTimeout => "request-timeout",
            Self::GcPause => "gc-pause",
            Self::Safepoint => "safepoint",
            Self::Request => "request",
            Self::Pattern => "pattern",
        }
    }

    /// The one of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str() == name)
    }
}

impl fmt::Display for LogKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What one line tells.
#[derive(Clone, Debug, PartialEq)]
pub struct LogEntry {
    /// When the line was written; none where it does not say, or not on which day.
    pub at: Option<Nanos>,
    /// What it is about.
    pub kind: LogKind,
    /// The name of the user's pattern that found it.
    pub pattern: Option<Arc<str>>,
    /// Its level, as `INFO`; none where it has none.
    pub level: Option<&'static str>,
    /// The partition it is about.
    pub topic_partition: Option<TopicPartition>,
    /// How long it took, up to when it was written.
    pub length: Option<Nanos>,
    /// How many: segments removed or loaded, producers, logs, replicas less or more; of a pattern, its value.
    pub count: Option<u64>,
    /// An offset in the partition.
    pub offset: Option<i64>,
    /// A file's bytes before.
    pub before_bytes: Option<u64>,
    /// A file's bytes after.
    pub after_bytes: Option<u64>,
    /// The message, without what stands before it in the line and without its logger; bounded. Not escaped.
    pub text: Box<str>,
}

impl LogEntry {
    /// What it is called in outputs: the user's name for it, or its kind's.
    pub fn name(&self) -> &str {
        self.pattern.as_deref().unwrap_or(self.kind.as_str())
    }
}
