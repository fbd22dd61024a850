//! `roll-fsync`: whoever appended waited until a file was on the device. A segment's roll does that under the log's
//! lock (the producers' snapshot until KAFKA-15046, the segment's own files), a flush after so many messages too.
//!
//! Needs: `fsync`, `fdatasync` or `msync` of a partition's file or of a checkpoint by the thread that appends, on the
//! way to its append or from it. What most of it waited for, a commit or the device, is the root where that is known.

use std::sync::Arc;

use model::{Cause, Confidence, FileKind, FileOp, FileOpKind};

use super::{Finding, evidence_of_op, waited};
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
pub(super) fn find(window: &Window, hold: &Hold<'_>, depth: usize) -> Finding {
    let op = hold.op;
    let own = Finding {
        cause: Cause::RollFsync,
        chain: vec![Cause::RollFsync],
        root: Arc::from(format!("roll-fsync:{}:{}", op.file, op.start.0)),
        // The thread's own system call, whatever it waited for.
        confidence: Confidence::Exact,
        evidence: Vec::new(),
        time: op.latency(),
        partition: op.topic_partition.clone(),
    };
    match waited(window, hold, depth) {
        // Its evidence begins with the call.
        Some(deeper) => own.behind(deeper),
        None => own.with(evidence_of_op(window, hold)),
    }
}
