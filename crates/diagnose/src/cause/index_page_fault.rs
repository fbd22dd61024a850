//! `index-page-fault`: a thread touched a page of a mapped index that was not in memory (KAFKA-4614, KAFKA-6432).
//!
//! Needs: a major fault on a mapped `.index`, `.timeindex` or `.txnindex` of the thread. The device's part in it is
//! evidence, not the cause: a page that has to be read is read.

use std::sync::Arc;

use model::{Cause, Confidence, FileKind, FileOp, FileOpKind};

use super::{Finding, Part, Waits, op_evidence, slow_device};
use crate::window::{Span as _, Window};

pub(crate) const ADVICE: &[&str] = &[
    "an index was not in memory: leave more of it to the page cache (a smaller heap, fewer partitions on this broker), and upgrade (lookups touch fewer pages since Kafka 2.1, KAFKA-6432)",
];

/// Whether an operation is one.
pub(super) fn is_one(op: &FileOp) -> bool {
    op.op == FileOpKind::MmapFault
        && matches!(op.kind, FileKind::Index | FileKind::TimeIndex | FileKind::TxnIndex)
}

/// The fault that a wait after a write was in.
pub(super) fn behind<'w>(window: &'w Window, waits: &Waits<'_>) -> Option<&'w Arc<FileOp>> {
    if waits.part != Part::After {
        return None;
    }
    let (start, end) = waits.span();
    let faults = window.thread(waits.op.tid)?.file_ops.overlapping(start, end).filter(|op| is_one(op));
    faults.max_by_key(|fault| fault.overlap(start, end))
}

/// What is known of one.
pub(super) fn find(window: &Window, op: &FileOp) -> Finding {
    let mut evidence = vec![op_evidence(op)];
    evidence.extend(slow_device::covering_io(window, op, op.start, op.end).map(slow_device::io_evidence));
    Finding {
        cause: Cause::IndexPageFault,
        chain: vec![Cause::IndexPageFault],
        root: Arc::from(format!("index-page-fault:{}:{}", op.file, op.start.0)),
        confidence: Confidence::Exact,
        evidence,
        time: op.latency(),
        partition: op.topic_partition.clone(),
    }
}
