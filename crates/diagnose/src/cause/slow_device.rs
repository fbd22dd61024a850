//! `slow-device`: an operation waited for a block request that the device took long to serve.
//!
//! Needs: an off-CPU stack in a wait for block I/O, and a request on the same device that covers most of it. Device and
//! inode are an exact key where the request holds a page of the very file and was done when the thread was woken;
//! device and time are not. A device that is slow for a while is one root.

use std::sync::Arc;

use model::{BlockIo, Cause, Confidence, Direction, Evidence, EvidenceKind, FileOp, Nanos, Tid};

use super::{Finding, Waits, log_cleaner, tier_state_io};
use crate::free::Free;
use crate::window::{Span, Window};

pub(crate) const ADVICE: &[&str] = &[
    "the device is the limit: spread the log dirs over more devices (a striped volume, or several log.dirs), or use a faster one",
];

/// A request's completion wakes who waits for it in one go, which an interrupt may hold up.
const WAKES_WITHIN: Nanos = Nanos::from_millis(1);

pub(super) fn find(window: &Window, waits: &Waits<'_>) -> Option<Finding> {
    let op = waits.op;
    let (start, end) = waits.span();
    let io = covering_io(window, op, start, end)?;
    let best = waits.best_confidence();
    let own = Finding::of_waits(
        Cause::SlowDevice,
        root(window, op, io),
        joined(op, io, waits.woken(), best),
        waits,
    );
    Some(with_load(window, op, io, own.with([io_evidence(io)]), (start, end)))
}

/// The device's part in a fault on a mapped file.
pub(super) fn behind_fault(window: &Window, fault: &FileOp) -> Option<Finding> {
    let io = covering_io(window, fault, fault.start, fault.end)?;
    let confidence = joined(fault, io, fault.end, Confidence::Exact);
    Some(of_device(window, fault, io, (confidence, fault.latency()), (fault.start, fault.end)))
}

/// The device's part in a wait for a thread that writes back: that thread's writes, by its id, of which there was one at the
/// device for most of the wait.
pub(super) fn behind_writer(window: &Window, waits: &Waits<'_>, thread: Tid) -> Option<Finding> {
    let (op, (start, end)) = (waits.op, waits.span());
    let past = window.device(&op.device)?;
    let writes = || {
        let ios = past.ios.overlapping(start, end);
        ios.filter(|io| io.direction == Direction::Write && io.tid == thread)
    };
    let mut without = Free::new(start, end);
    let at_device: Nanos = writes().map(|io| without.take(io.start, io.end)).sum();
    if at_device.0.saturating_mul(2) <= (end - start).0 {
        return None;
    }
    let io = writes().max_by_key(|io| (io.overlap(start, end), io.start, io.sector))?;
    Some(of_device(window, op, io, (Confidence::Strong, waits.time), (start, end)))
}

/// What a request says of so much of an operation's time, with what is behind it.
fn of_device(
    window: &Window,
    op: &FileOp,
    io: &BlockIo,
    (confidence, time): (Confidence, Nanos),
    span: (Nanos, Nanos),
) -> Finding {
    let own = Finding {
        cause: Cause::SlowDevice,
        chain: vec![Cause::SlowDevice],
        root: Arc::from(root(window, op, io)),
        confidence,
        evidence: vec![io_evidence(io)],
        time,
        partition: op.topic_partition.clone(),
    };
    with_load(window, op, io, own, span)
}

fn root(window: &Window, op: &FileOp, io: &BlockIo) -> String {
    match window.trouble.slow_device(&op.device, io.start, io.end) {
        Some(began) => format!("slow-device:{}:{}", io.device, began.0),
        None => format!("slow-device:{}:{}:{}", io.device, io.sector, io.start.0),
    }
}

/// What the join of a wait with a request is worth.
fn joined(op: &FileOp, io: &BlockIo, woken: Nanos, best: Confidence) -> Confidence {
    let of_file = io.inode == Some(op.inode);
    let at_once = Nanos((woken - io.end).0.abs()) <= WAKES_WITHIN;
    if of_file && at_once { best } else { best.min(Confidence::Strong) }
}

/// The same, with who kept the device busy where that is known.
fn with_load(window: &Window, op: &FileOp, io: &BlockIo, own: Finding, span: (Nanos, Nanos)) -> Finding {
    let began = window.trouble.slow_device(&op.device, io.start, io.end).unwrap_or(io.start);
    let busy = tier_state_io::behind(window, &op.device, began, span)
        .or_else(|| log_cleaner::behind(window, &op.device, began, span));
    match busy {
        Some(deeper) => own.behind(deeper),
        None => own,
    }
}

/// The block request of the operation's device that took most of a stretch; one of its own file before others.
pub(super) fn covering_io<'w>(
    window: &'w Window,
    op: &FileOp,
    start: Nanos,
    end: Nanos,
) -> Option<&'w BlockIo> {
    let covers = |io: &&BlockIo| io.overlap(start, end).0.saturating_mul(2) > (end - start).0;
    let ios = window.device(&op.device)?.ios.overlapping(start, end).filter(covers);
    ios.max_by_key(|io| (io.inode == Some(op.inode), io.overlap(start, end), io.start, io.sector))
}

/// What a block request shows.
pub(super) fn io_evidence(io: &BlockIo) -> Evidence {
    Evidence {
        kind: EvidenceKind::BlockIo,
        start: io.start,
        end: io.end,
        tid: Some(io.tid),
        thread: Some(Arc::clone(&io.thread)),
        waiter: None,
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
