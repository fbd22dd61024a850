//! A cause with its evidence and the time it explains, before one is chosen.

use std::fmt::Display;
use std::sync::Arc;

use model::{Cause, Confidence, Evidence, EvidenceKind, FileOp, FileOpKind, Nanos, TopicPartition};

use crate::time::{Span, TimeSpan};
use crate::waits::OperationWaits;

/// Why something took long, and the evidence.
#[derive(Clone, Debug)]
pub(crate) struct CauseCandidate {
    /// The deepest cause that is proven.
    pub(crate) cause: Cause,
    /// The chain to it, nearest first; ends with `cause`.
    pub(crate) chain: Vec<Cause>,
    /// Shared by everything that the same root event slowed.
    pub(crate) root: Arc<str>,
    pub(crate) confidence: Confidence,
    /// Nearest first.
    pub(crate) evidence: Vec<Evidence>,
    /// How much time it explains.
    pub(crate) time: Nanos,
    /// The partition of the request that was delayed, if it was a particular one.
    pub(crate) partition: Option<TopicPartition>,
}

impl CauseCandidate {
    /// A cause with nothing deeper behind it; `key` distinguishes this event from others.
    pub(crate) fn new(cause: Cause, key: impl Display, confidence: Confidence, time: Nanos) -> Self {
        Self { root: format!("{cause}:{key}").into(), ..Self::alone(cause, confidence, time) }
    }

    /// A cause whose events all count as one root.
    pub(crate) fn alone(cause: Cause, confidence: Confidence, time: Nanos) -> Self {
        let (chain, root) = (vec![cause], cause.as_str().into());
        Self { cause, chain, root, confidence, evidence: Vec::new(), time, partition: None }
    }

    /// A cause of an operation's waits: the operation, the waits and what was behind them.
    pub(crate) fn of_waits(
        cause: Cause,
        key: impl Display,
        confidence: Confidence,
        waits: &OperationWaits<'_>,
    ) -> Self {
        Self::new(cause, key, confidence, waits.time).with(evidence_of(waits)).of_partition_of(waits.op)
    }

    /// Sets the partition.
    pub(crate) fn of_partition(self, partition: Option<TopicPartition>) -> Self {
        Self { partition, ..self }
    }

    /// Sets the partition to that of an operation's file.
    pub(crate) fn of_partition_of(self, op: &FileOp) -> Self {
        self.of_partition(op.topic_partition.clone())
    }

    /// Adds evidence, nearest first.
    pub(crate) fn with(mut self, evidence: impl IntoIterator<Item = Evidence>) -> Self {
        self.evidence.extend(evidence);
        self
    }

    /// Puts this in front of something deeper, which becomes the root.
    pub(crate) fn behind(self, deeper: Self) -> Self {
        Self {
            cause: deeper.cause,
            chain: [self.chain, deeper.chain].concat(),
            root: deeper.root,
            confidence: self.confidence.min(deeper.confidence),
            evidence: [self.evidence, deeper.evidence].concat(),
            time: self.time,
            partition: self.partition,
        }
    }

    /// Like `behind`, if there is anything deeper.
    pub(crate) fn behind_any(self, deeper: Option<Self>) -> Self {
        match deeper {
            Some(deeper) => self.behind(deeper),
            None => self,
        }
    }

    /// Adapts this to a wait right after a write. Such a wait is joined by the order of events.
    pub(crate) fn after_write(mut self, waits: &OperationWaits<'_>) -> Self {
        self.evidence.insert(0, op_evidence(waits.op));
        self.time = waits.time;
        self.confidence = self.confidence.min(waits.best_confidence());
        self.of_partition_of(waits.op)
    }

    /// Merges two parts of one request's time with one root: the evidence of the longer part stays, and the result is
    /// exact only if both are.
    pub(crate) fn merge(&mut self, other: Self) {
        let time = self.time + other.time;
        let mixed = self.confidence != other.confidence;
        if other.time > self.time {
            *self = other;
        }
        if mixed {
            self.confidence = self.confidence.min(Confidence::Strong);
        }
        self.time = time;
    }
}

/// Builds the evidence of an event.
pub(crate) fn evidence(kind: EvidenceKind, of: &impl Span, text: impl Into<String>) -> Evidence {
    let TimeSpan { start, end } = of.span();
    Evidence::new(kind, start, end, text)
}

/// The write, and what it or its thread waited for.
pub(crate) fn evidence_of(waits: &OperationWaits<'_>) -> Vec<Evidence> {
    vec![op_evidence(waits.op), waits.evidence()]
}

pub(crate) fn op_evidence(op: &FileOp) -> Evidence {
    let bytes = op.bytes.map_or_else(|| "failed".to_owned(), |bytes| format!("of {bytes} bytes"));
    let text = match op.op {
        FileOpKind::Write => {
            format!("write {bytes} at offset {} of {} took {}", op.offset, op.file, op.latency())
        }
        FileOpKind::MmapFault => {
            format!("a page of {} had to be read from the device, which took {}", op.file, op.latency())
        }
        kind => format!("{} of {} took {}", kind.as_str(), op.file, op.latency()),
    };
    evidence(EvidenceKind::FileOp, op, text).of_thread(op.tid, &op.thread)
}

/// Adds a candidate to a list; candidates with one root are merged.
pub(crate) fn merge_into(found: &mut Vec<CauseCandidate>, candidate: CauseCandidate) {
    match found.iter_mut().find(|known| known.root == candidate.root) {
        Some(known) => known.merge(candidate),
        None => found.push(candidate),
    }
}
