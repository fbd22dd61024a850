//! `index-page-fault`: a thread touched a page of a mapped index that was not in memory (KAFKA-4614, KAFKA-6432).
//!
//! Needs: a major fault on a mapped `.index`, `.timeindex` or `.txnindex` of the thread. Where the device was slow to
//! read the page, that is the root: by device and inode, and by the time where the request does not say the inode; where the
//! thread first had to free memory for it, that is.

use std::sync::Arc;

use model::{Cause, Confidence, FileKind, FileOp, FileOpKind};

use super::waits::Part;
use super::{Finding, Waits, memory_reclaim, op_evidence, slow_device};
use crate::free::Free;
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
    faults.max_by_key(|fault| (fault.overlap(start, end), fault.start))
}

/// What is known of one.
pub(super) fn find(window: &Window, op: &FileOp) -> Finding {
    let own = Finding {
        cause: Cause::IndexPageFault,
        chain: vec![Cause::IndexPageFault],
        root: Arc::from(format!("index-page-fault:{}:{}", op.file, op.start.0)),
        confidence: Confidence::Exact,
        evidence: vec![op_evidence(op)],
        time: op.latency(),
        partition: op.topic_partition.clone(),
    };
    match freeing_memory(window, op).or_else(|| slow_device::behind_fault(window, op)) {
        Some(deeper) => own.behind(deeper),
        None => own,
    }
}

/// What the thread did for most of the fault to have memory for the page.
fn freeing_memory(window: &Window, op: &FileOp) -> Option<Finding> {
    let mut free = Free::new(op.start, op.end);
    let freeing = memory_reclaim::of_thread(window, op.tid, (op.start, op.end), &mut free)?;
    (freeing.time.0.saturating_mul(2) > op.latency().0).then_some(freeing)
}
