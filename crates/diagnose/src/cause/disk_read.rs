//! `disk-read-in-network-thread` and `cache-eviction`: a network thread read from the device what it sent.
//!
//! Needs: a `sendfile` (or read) whose thread waited for the device for most of the time, or for a page where the page
//! cache lacked bytes of it; where no waits were watched, its length and bytes that it lacked. Bytes that an earlier call
//! had read ahead are not lacking, but may still be on their way: who sends them waits for the device all the same. That the records had been in the page cache before
//! needs the broker's own write of those bytes, seen and still kept.

use std::sync::Arc;

use model::{Cause, Confidence, Evidence, EvidenceKind, FileOp, Nanos};

use super::stack::Wait;
use super::{Finding, op_evidence, waits};
use crate::hold::Hold;
use crate::window::Window;

/// Shorter reads of the device are what devices take.
const REMARKABLE: Nanos = Nanos::from_millis(1);

/// Why a network thread's read of a file was slow, if the device was: `of` its time in the end.
pub(crate) fn find(window: &Window, op: &FileOp) -> Option<Finding> {
    let lacked = op.disk_bytes.is_some_and(|bytes| bytes > 0);
    let waited = waits::of(window, &Hold::without_after(window, op));
    if op.latency() < REMARKABLE || (waited.is_empty() && !lacked) {
        return None;
    }
    let of_device = waited.iter().filter(|waits| is_of_device(waits.kind, lacked));
    let time: Nanos = of_device.clone().map(|waits| waits.time).sum();
    if !waited.is_empty() && time.0.saturating_mul(2) <= op.latency().0 {
        return None;
    }
    let mut evidence = vec![read_evidence(op)];
    evidence.extend(of_device.take(1).map(waits::Waits::evidence));
    let own = Finding {
        cause: Cause::DiskReadInNetworkThread,
        chain: vec![Cause::DiskReadInNetworkThread],
        root: Arc::from(format!("{}:{}", Cause::DiskReadInNetworkThread, op.file)),
        confidence: if waited.is_empty() { Confidence::Strong } else { Confidence::Exact },
        evidence,
        time: op.latency(),
        partition: op.topic_partition.clone(),
    };
    Some(match written(window, op) {
        Some(write) => own.behind(evicted(op, write)),
        None => own,
    })
}

/// A page's lock is held by who reads the page only where it lacked.
fn is_of_device(wait: Wait, lacked: bool) -> bool {
    match wait {
        Wait::Device | Wait::DeviceQueue => true,
        Wait::PageLock | Wait::XfsInodeLock => lacked,
        _ => false,
    }
}

/// The broker's own write of bytes that a read found missing.
fn written<'w>(window: &'w Window, op: &FileOp) -> Option<&'w FileOp> {
    let until = op.offset + op.bytes.unwrap_or_default();
    let appends = window.partition(op.topic_partition.as_ref()?)?.ended_by(op.start);
    appends
        .map(|write| &**write)
        .filter(|write| write.inode == op.inode && write.device.is(&op.device))
        .take_while(|write| write.offset + write.bytes.unwrap_or_default() > op.offset)
        .find(|write| write.offset < until)
}

fn evicted(op: &FileOp, write: &FileOp) -> Finding {
    Finding {
        cause: Cause::CacheEviction,
        chain: vec![Cause::CacheEviction],
        root: Arc::from(format!("{}:{}", Cause::CacheEviction, op.file)),
        confidence: Confidence::Strong,
        evidence: vec![Evidence {
            kind: EvidenceKind::FileOp,
            start: write.start,
            end: write.end,
            tid: Some(write.tid),
            thread: Some(Arc::clone(&write.thread)),
            waiter: None,
            text: format!(
                "these bytes of {} had been written {} before, and were no longer in the page cache",
                op.file,
                op.start - write.end
            ),
        }],
        time: op.latency(),
        partition: op.topic_partition.clone(),
    }
}

fn read_evidence(op: &FileOp) -> Evidence {
    let from = match op.disk_bytes {
        None | Some(0) => "still on their way from the device when it began".to_owned(),
        Some(bytes) => format!("{bytes} bytes of it from the device"),
    };
    let text = format!("{}, {from}", super::op_evidence(op).text);
    Evidence { text, ..op_evidence(op) }
}
