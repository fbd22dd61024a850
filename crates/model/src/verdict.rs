//! The conclusion about one slow request. Does not draw it.

use std::sync::Arc;

use crate::row::{AsText, Field, FieldType};
use crate::{Cause, Column, Nanos, Request, Tid, TopicPartition, ValueVisitor};

row! {
    verdict_row =>
    /// Why one request was slow.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Verdict {
        /// Time in each stage; adds up to the latency.
        stages: Stages,
        /// The stages in time order: every instant of the latency is in one of them.
        stage_spans: Vec<StageSpan>,
        /// The deepest cause that the evidence proves.
        cause: Cause,
        /// The chain from the request to that cause, nearest first (`log-lock`, `journal-commit`).
        chain: Vec<Cause>,
        /// The id that all verdicts of one root event share (`journal-commit:loop0:2285`).
        root: Arc<str>,
        /// How firmly the evidence is joined.
        confidence: Confidence,
        /// The evidence, in the order in which it is shown.
        evidence: Vec<Evidence>,
        /// The partition of the request on which the time was lost, where it was only one.
        partition: Option<TopicPartition> as "partition" in Option<AsText<TopicPartition>>,
        /// Changes to make.
        advice: Vec<&'static str>,
        /// Losses near this request, if any.
        losses: Vec<Arc<str>>,
        /// Its times in Kafka's own request log, where that was read and has the request.
        kafka: Option<KafkaTimes>,
        /// What could not be decided, where that was requested.
        doubts: Vec<Doubt> as "why_not",
        /// The request.
        request: Request,
    }
}

impl Verdict {
    /// The latency that it explains; zero for an unanswered request, whose latency is unknown.
    pub fn latency(&self) -> Nanos {
        self.request.latency().unwrap_or(Nanos::ZERO)
    }
}

row! {
    doubt_row =>
    /// A part of a request's time that could not be explained, or a link that only the time supports.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Doubt {
        /// Its stage.
        stage: Stage,
        /// How long the stage took.
        time: Nanos as "time_ns",
        /// The open question.
        what: String,
        /// What would have answered it.
        tells: String,
    }
}

named! {
    /// How firmly a verdict's evidence is joined.
    pub enum Confidence {
        /// Only the time agrees.
        Weak = "weak",
        /// One link of the chain is inferred from order and partition. The others are exact. Or other causes took more
        /// of the time.
        Strong = "strong",
        /// Every link has an exact key, and the cause took half of the time or more.
        Exact = "exact",
    }
}

named! {
    /// A stage of a request, in the order in which a request goes through them.
    pub enum Stage {
        /// First byte of the request to its last.
        NetworkIn = "network_in",
        /// Complete, but an earlier request of the connection was being served.
        HeadOfLine = "head_of_line",
        /// Complete, but not yet read by a network thread.
        Receive = "receive",
        /// Read, but not yet taken by a request handler.
        Queue = "queue",
        /// CPU work of the handler.
        Handler = "handler",
        /// Waiting for the partition's log lock.
        Lock = "lock",
        /// Inside the file write.
        Append = "append",
        /// Waiting for followers, or a fetch's long poll.
        Remote = "remote",
        /// From the response queue to the first byte written.
        Respond = "respond",
        /// First byte of the response to its last.
        NetworkOut = "network_out",
        /// Time that no source saw.
        Unobserved = "unobserved",
    }
}

/// The time spent in every stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stages([Nanos; Stage::ALL.len()]);

/// The columns of [`Stages`], in order.
pub const STAGE_COLUMNS: [&str; Stage::ALL.len()] = [
    "stage_network_in_ns",
    "stage_head_of_line_ns",
    "stage_receive_ns",
    "stage_queue_ns",
    "stage_handler_ns",
    "stage_lock_ns",
    "stage_append_ns",
    "stage_remote_ns",
    "stage_respond_ns",
    "stage_network_out_ns",
    "stage_unobserved_ns",
];

impl FieldType for Stages {
    type Kind = Self;

    fn empty() -> Self {
        Self::default()
    }
}

impl Field for Stages {
    type Value = Self;

    fn add_columns(column: Column, to: &mut Vec<Column>) {
        for name in STAGE_COLUMNS {
            Nanos::add_columns(Column { name, ..column.clone() }, to);
        }
    }

    fn visit(stages: Option<&Self>, _: &'static str, out: ValueVisitor<'_>) {
        for (at, name) in STAGE_COLUMNS.into_iter().enumerate() {
            Nanos::visit(stages.and_then(|stages| stages.0.get(at)), name, out);
        }
    }
}

impl Stages {
    /// The time spent in one stage.
    #[expect(clippy::indexing_slicing, reason = "each stage has its place")]
    pub fn of(&self, stage: Stage) -> Nanos {
        self.0[stage as usize]
    }

    /// Adds to one stage.
    #[expect(clippy::indexing_slicing, reason = "each stage has its place")]
    pub fn add(&mut self, stage: Stage, length: Nanos) {
        self.0[stage as usize] += length;
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

row! {
    stage_span_row =>
    /// A span of a request's time in one stage.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct StageSpan {
        /// The stage.
        stage: Stage,
        /// Its start.
        start: Nanos as "start_ns",
        /// Its end.
        end: Nanos as "end_ns",
    }
}

row! {
    evidence_row =>
    /// One observation that supports a verdict.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Evidence {
        /// The kind of observation.
        kind: EvidenceKind,
        /// Its start.
        start: Nanos as "start_ns",
        /// Its end.
        end: Nanos as "end_ns",
        /// The thread it happened to; for a wait for a lock, the thread that held it.
        tid: Option<Tid>,
        /// That thread's name.
        thread: Option<Arc<str>>,
        /// For a wait for a lock: the thread that waited.
        waiter: Option<Waiter>,
        /// A sentence for people.
        text: String,
    }
}

impl Evidence {
    /// Creates evidence of something that was seen between two moments.
    pub fn new(kind: EvidenceKind, start: Nanos, end: Nanos, text: impl Into<String>) -> Self {
        Self { kind, start, end, tid: None, thread: None, waiter: None, text: text.into() }
    }

    /// Adds the thread that it happened to.
    #[must_use]
    pub fn of_thread(self, tid: Tid, thread: &Arc<str>) -> Self {
        Self { tid: Some(tid), thread: Some(Arc::clone(thread)), ..self }
    }
}

row! {
    waiter_row =>
    /// A thread that waited for another.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Waiter {
        /// Its id.
        tid: Tid as "waiter_tid",
        /// Its name.
        thread: Arc<str> as "waiter",
    }
}

named! {
    /// The kinds of evidence.
    pub enum EvidenceKind {
        /// A file operation.
        FileOp = "file-op",
        /// A wait for a lock.
        LockWait = "lock-wait",
        /// A JVM pause.
        Gc = "gc",
        /// A kernel event, such as a journal's commit.
        Kernel = "kernel",
        /// A thread off the CPU.
        OffCpu = "off-cpu",
        /// A block request.
        BlockIo = "block-io",
        /// Another request.
        Request = "request",
        /// A connection: its ends or the path between them.
        Network = "network",
        /// A metric of the host, the broker's cgroup or its threads.
        Host = "host",
    }
}

row! {
    kafka_times_row =>
    /// The times of one line of Kafka's request log (`kafka.request.logger`, `RequestChannel.scala`). They add up to
    /// `total`, except for rounding to microseconds.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct KafkaTimes {
        /// From the read by a network thread until a request handler took it (`requestQueueTimeMs`).
        queue: Nanos as "kafka_queue_ns",
        /// Until the work on this broker was done (`localTimeMs`).
        local: Nanos as "kafka_local_ns",
        /// Until other brokers had done theirs (`remoteTimeMs`).
        remote: Nanos as "kafka_remote_ns",
        /// How long the client was asked to wait, which is not part of the total (`throttleTimeMs`).
        throttle: Nanos as "kafka_throttle_ns",
        /// Until a network thread took the response (`responseQueueTimeMs`).
        response_queue: Nanos as "kafka_response_queue_ns",
        /// Until all of it was handed to the socket (`sendTimeMs`).
        send: Nanos as "kafka_send_ns",
        /// Total time (`totalTimeMs`).
        total: Nanos as "kafka_total_ns",
    }
}

#[cfg(test)]
mod tests {
    use super::{STAGE_COLUMNS, Stage, Stages};
    use crate::Nanos;

    #[test]
    fn stages_sum_and_longest_is_found() {
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
            assert_eq!(STAGE_COLUMNS[i], format!("stage_{stage}_ns"));
        }
    }
}
