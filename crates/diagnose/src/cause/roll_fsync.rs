//! `roll-fsync`: whoever appended waited until a file was on the device. A segment's roll does that under the log's
//! lock (the producers' snapshot until KAFKA-15046, the segment's own files), a flush after so many messages too.
//!
//! Needs: `fsync`, `fdatasync` or `msync` of a partition's file or of a checkpoint by the thread that appends, on the
//! way to its append or from it. The file system's and the device's part in it is evidence, not the cause: an fsync
//! asks for them.

use std::sync::Arc;

use model::{Cause, Confidence, FileKind, FileOp, FileOpKind};

use super::stack::Wait;
use super::{Finding, dominant_waits, evidence_of_op, journal_commit, slow_device};
use crate::hold::Hold;
use crate::window::Window;

pub(crate) const ADVICE: &[&str] = &[
    "a segment's roll waited for the disk with the log locked: upgrade (since Kafka 3.7 the producers' snapshot is written without it, KAFKA-15046), or roll less often (log.segment.bytes, log.roll.ms)",
    "leave flushing to the kernel: do not set log.flush.interval.messages or log.flush.interval.ms",
];

/// Whether an operation is one.
pub(super) fn is_one(op: &FileOp) -> bool {
    let waits_for_device = matches!(op.op, FileOpKind::Fsync | FileOpKind::Fdatasync | FileOpKind::Msync);
    waits_for_device && (op.topic_partition.is_some() || op.kind == FileKind::Checkpoint)
}

/// What is known of one.
pub(super) fn find(window: &Window, hold: &Hold<'_>) -> Finding {
    let op = hold.op;
    Finding {
        cause: Cause::RollFsync,
        chain: vec![Cause::RollFsync],
        root: Arc::from(format!("roll-fsync:{}:{}", op.file, op.start.0)),
        // The thread's own system call, whatever it waited for.
        confidence: Confidence::Exact,
        evidence: evidence(window, hold),
        time: op.latency(),
        partition: op.topic_partition.clone(),
    }
}

/// The call, and what it waited for.
fn evidence(window: &Window, hold: &Hold<'_>) -> Vec<model::Evidence> {
    let deeper = dominant_waits(hold).and_then(|waits| match waits.kind {
        Wait::Journal => Some(journal_commit::find(window, &waits)),
        Wait::Device => slow_device::find(window, &waits),
        _ => None,
    });
    deeper.map_or_else(|| evidence_of_op(hold), |finding| finding.evidence)
}
