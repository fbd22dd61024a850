//! What was concluded about one slow request. Does not draw the conclusion.

use std::fmt;
use std::sync::Arc;

use crate::{Cause, KafkaTimes, Nanos, Request, Tid, TopicPartition};

/// Why one request was slow.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The request.
    pub request: Request,
    /// Where its time went; adds up to its latency.
    pub stages: Stages,
    /// The same in the order of time: every instant of the latency is in one of them.
    pub stage_spans: Vec<StageSpan>,
    /// The deepest cause that the evidence proves.
    pub cause: Cause,
    /// The way from the request to that cause, nearest first (`log-lock`, `journal-commit`).
    pub chain: Vec<Cause>,
    /// Shared by all verdicts of one root event (`journal-commit:loop0:2285`).
    pub root: Arc<str>,
    /// How firmly the evidence is joined.
    pub confidence: Confidence,
    /// What was seen, in the order in which it is told.
    pub evidence: Vec<Evidence>,
    /// The partition of the request that the time was lost on, where it was one.
    pub partition: Option<TopicPartition>,
    /// What to change.
    pub advice: Vec<&'static str>,
    /// What was lost near this request, if anything.
    pub losses: Vec<Arc<str>>,
    /// What Kafka's own request log says of it, where that was given and has it.
    pub kafka: Option<KafkaTimes>,
    /// What could not be decided, where that was asked for.
    pub doubts: Vec<Doubt>,
}

/// A part of a request's time that nothing decides, or a link that only the time supports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doubt {
    /// The stage that it is about.
    pub stage: Stage,
    /// How long that took.
    pub time: Nanos,
    /// What is open.
    pub what: String,
    /// What would have told.
    pub tells: String,
}

/// How firmly a verdict's evidence is joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Confidence {
    /// Only the time agrees.
    Weak,
    /// One link of the chain is inferred from order and partition, the others are exact; or others took more of the time.
    Strong,
    /// Every link has an exact key, and it took half of the time or more.
    Exact,
}

impl Confidence {
    /// The name in tables and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Weak => "weak",
            Self::Strong => "strong",
            Self::Exact => "exact",
        }
    }
}

impl fmt::Display for Confidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A stage of a request, in the order in which a request goes through them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stage {
    /// First byte of the request to its last.
    NetworkIn,
    /// Complete, but an earlier request of the connection was being served.
    HeadOfLine,
    /// Complete, until a network thread had read it.
    Receive,
    /// Read, until a request handler took it.
    Queue,
    /// CPU work of the handler.
    Handler,
    /// Waiting for the partition's log lock.
    Lock,
    /// Inside the file write.
    Append,
    /// Waiting for followers, or a fetch's long poll.
    Remote,
    /// Response queue to the first byte written.
    Respond,
    /// First byte of the response to its last.
    NetworkOut,
    /// What no source saw.
    Unobserved,
}

impl Stage {
    /// Every stage, in order.
    pub const ALL: [Self; 11] = [
        Self::NetworkIn,
        Self::HeadOfLine,
        Self::Receive,
        Self::Queue,
        Self::Handler,
        Self::Lock,
        Self::Append,
        Self::Remote,
        Self::Respond,
        Self::NetworkOut,
        Self::Unobserved,
    ];

    /// The name in tables and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NetworkIn => "network_in",
            Self::HeadOfLine => "head_of_line",
            Self::Receive => "receive",
            Self::Queue => "queue",
            Self::Handler => "handler",
            Self::Lock => "lock",
            Self::Append => "append",
            Self::Remote => "remote",
            Self::Respond => "respond",
            Self::NetworkOut => "network_out",
            Self::Unobserved => "unobserved",
        }
    }
}

/// The time spent in every stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stages([Nanos; Stage::ALL.len()]);

impl Stages {
    /// The time spent in one stage.
    pub fn of(&self, stage: Stage) -> Nanos {
        self.0.get(stage as usize).copied().unwrap_or_default()
    }

    /// Adds to one stage.
    pub fn add(&mut self, stage: Stage, length: Nanos) {
        if let Some(slot) = self.0.get_mut(stage as usize) {
            *slot += length;
        }
    }

    /// The whole: the request's latency.
    pub fn total(&self) -> Nanos {
        self.0.iter().copied().sum()
    }

    /// Every stage with its time, in order.
    pub fn iter(&self) -> impl Iterator<Item = (Stage, Nanos)> + '_ {
        Stage::ALL.into_iter().map(|stage| (stage, self.of(stage)))
    }

    /// The stage that took longest; the earlier of two that took the same.
    pub fn longest(&self) -> Stage {
        Stage::ALL.into_iter().rev().max_by_key(|&stage| self.of(stage)).unwrap_or(Stage::Unobserved)
    }
}

/// A stretch of a request's time that it spent in one stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageSpan {
    /// The stage.
    pub stage: Stage,
    /// Its start.
    pub start: Nanos,
    /// Its end.
    pub end: Nanos,
}

/// One thing seen that supports a verdict.
#[derive(Clone, Debug, PartialEq)]
pub struct Evidence {
    /// What kind of thing.
    pub kind: EvidenceKind,
    /// Its start.
    pub start: Nanos,
    /// Its end.
    pub end: Nanos,
    /// The thread it happened to; of a wait for a lock, the one that held it.
    pub tid: Option<Tid>,
    /// That thread's name.
    pub thread: Option<Arc<str>>,
    /// Of a wait for a lock: the thread that waited.
    pub waiter: Option<Waiter>,
    /// A sentence for people.
    pub text: String,
}

/// A thread that waited for another.
#[derive(Clone, Debug, PartialEq)]
pub struct Waiter {
    /// Its id.
    pub tid: Tid,
    /// Its name.
    pub thread: Arc<str>,
}

/// The kinds of evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EvidenceKind {
    /// A file operation.
    FileOp,
    /// A wait for a lock.
    LockWait,
    /// A stop of the JVM.
    Gc,
    /// A kernel event, such as a journal's commit.
    Kernel,
    /// A thread off the CPU.
    OffCpu,
    /// A block request.
    BlockIo,
    /// Another request.
    Request,
    /// A connection: what its ends or the way between them did.
    Network,
    /// A figure of the host, the broker's cgroup or its threads.
    Host,
}

impl EvidenceKind {
    /// The name in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::FileOp => "file-op",
            Self::LockWait => "lock-wait",
            Self::Gc => "gc",
            Self::Kernel => "kernel",
            Self::OffCpu => "off-cpu",
            Self::BlockIo => "block-io",
            Self::Request => "request",
            Self::Network => "network",
            Self::Host => "host",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Stage, Stages};
    use crate::Nanos;

    #[test]
    fn stages_add_up_and_the_longest_wins() {
        let mut stages = Stages::default();
        stages.add(Stage::Append, Nanos(5));
        stages.add(Stage::Lock, Nanos(5));
        stages.add(Stage::Unobserved, Nanos(1));
        assert_eq!(stages.total(), Nanos(11));
        assert_eq!(stages.longest(), Stage::Lock);
    }

    #[test]
    fn every_stage_has_its_own_slot_in_order() {
        for (i, stage) in Stage::ALL.into_iter().enumerate() {
            assert_eq!(stage as usize, i);
        }
    }
}
