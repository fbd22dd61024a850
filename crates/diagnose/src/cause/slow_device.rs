//! `slow-device`: an append waited for a block request that the device took long to serve.
//!
//! Needs: an off-CPU stack in a wait for block I/O, and a request on the same device that covers most of it.

use std::sync::Arc;

use model::{BlockIo, Cause, Confidence, Direction, Evidence, EvidenceKind, FileOp, Nanos};

use super::{Finding, Waits, evidence_of};
use crate::window::{Span, Window};

pub(crate) const ADVICE: &[&str] = &[
    "the device is the limit: spread the log dirs over more devices (a striped volume, or several log.dirs), or use a faster one",
];

pub(super) fn find(window: &Window, waits: &Waits<'_>) -> Option<Finding> {
    let op = waits.op;
    let (start, end) = waits.span();
    let io = covering_io(window, op, start, end)?;
    let mut evidence = evidence_of(waits);
    evidence.push(io_evidence(io));
    Some(Finding {
        cause: Cause::SlowDevice,
        chain: vec![Cause::SlowDevice],
        root: Arc::from(format!("slow-device:{}:{}:{}", io.device, io.sector, io.start.0)),
        // The same device and the same time: no key ties the request to this very wait.
        confidence: Confidence::Strong,
        evidence,
        time: waits.time,
        partition: op.topic_partition.clone(),
    })
}

/// The block request of the operation's device that took most of a stretch.
pub(super) fn covering_io<'w>(
    window: &'w Window,
    op: &FileOp,
    start: Nanos,
    end: Nanos,
) -> Option<&'w BlockIo> {
    let ios = window.device(&op.device)?.ios.overlapping(start, end);
    let longest = ios.max_by_key(|io| io.overlap(start, end))?;
    (longest.overlap(start, end).0.saturating_mul(2) > (end - start).0).then_some(longest)
}

/// What a block request shows.
pub(super) fn io_evidence(io: &BlockIo) -> Evidence {
    Evidence {
        kind: EvidenceKind::BlockIo,
        start: io.start,
        end: io.end,
        tid: Some(io.tid),
        thread: Some(Arc::clone(&io.thread)),
        text: io_text(io),
    }
}

fn io_text(io: &BlockIo) -> String {
    let what = match io.direction {
        Direction::Read => format!("read of {} bytes", io.bytes),
        Direction::Write => format!("write of {} bytes", io.bytes),
        Direction::Other => "flush".to_owned(),
    };
    format!("{}: {what} at sector {} took {} ({})", io.device, io.sector, io.latency(), io.thread)
}
