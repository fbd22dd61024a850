//! `page-lock`: an operation waited for a page that another thread had locked (mm/filemap.c, `__folio_lock`): one that is
//! being read from the device for somebody else, or that write-back was about to hand to the device.
//!
//! Needs: an off-CPU stack in it. A block read of the same file that took most of the wait is shown: which page it was
//! no hook tells, so that it is never exact. Write-back is known by the stack of who let the page go. Where that thread had
//! a write at the device for most of the wait, it waited for the device itself, and that is the root.

use std::sync::Arc;

use model::{BlockIo, Cause, Confidence, Direction, Evidence, EvidenceKind, Nanos, Waker};

use super::slow_device::{self, covering_io, io_evidence};
use super::{Finding, Waits, stack};
use crate::window::Window;

/// What hands dirty pages to a device: mm/page-writeback.c.
const WRITE_BACK: &str = "do_writepages";

pub(super) fn find(window: &Window, waits: &Waits<'_>) -> Finding {
    match waits.released_by().filter(|waker| stack::frames(&waker.stack).any(|frame| frame == WRITE_BACK)) {
        Some(writer) => behind_write_back(window, waits, writer),
        None => behind_reader(window, waits),
    }
}

fn behind_reader(window: &Window, waits: &Waits<'_>) -> Finding {
    let (start, end) = waits.span();
    let reads = |io: &BlockIo| io.direction == Direction::Read && io.inode == Some(waits.op.inode);
    let io = covering_io(window, waits.op, start, end).filter(|io| reads(io));
    let since = io.map_or(waits.op.start, |io| io.start);
    of_page(waits, since).with(io.map(io_evidence))
}

fn behind_write_back(window: &Window, waits: &Waits<'_>, writer: &Waker) -> Finding {
    let own = of_page(waits, waits.op.start).with([had_by(waits, writer)]);
    match slow_device::behind_writer(window, waits, writer.tid) {
        Some(deeper) => own.behind(deeper),
        None => own,
    }
}

fn of_page(waits: &Waits<'_>, since: Nanos) -> Finding {
    let confidence = Confidence::Strong.min(waits.best_confidence());
    let root = format!("page-lock:{}:{}:{}", waits.op.device, waits.op.inode, since.0);
    Finding::of_waits(Cause::PageLock, root, confidence, waits)
}

fn had_by(waits: &Waits<'_>, writer: &Waker) -> Evidence {
    let (start, end) = waits.span();
    Evidence {
        kind: EvidenceKind::OffCpu,
        start,
        end,
        tid: Some(writer.tid),
        thread: Some(Arc::clone(&writer.thread)),
        waiter: None,
        text: format!("{} had the page locked, to write it back", writer.thread),
    }
}
