//! `page-lock`: an operation waited for a page that another thread had locked (mm/filemap.c, `__folio_lock`): mostly
//! one that is being read from the device for somebody else.
//!
//! Needs: an off-CPU stack in it. A block read of the same file that took most of the wait is shown: which page it was
//! no hook tells, so that it is never exact.

use model::{Cause, Confidence, Direction};

use super::slow_device::{covering_io, io_evidence};
use super::{Finding, Waits};
use crate::window::Window;

pub(super) fn find(window: &Window, waits: &Waits<'_>) -> Finding {
    let op = waits.op;
    let (start, end) = waits.span();
    let io = covering_io(window, op, start, end)
        .filter(|io| io.direction == Direction::Read && io.inode == Some(op.inode));
    let since = io.map_or(op.start, |io| io.start);
    let root = format!("page-lock:{}:{}:{}", op.device, op.inode, since.0);
    let confidence = Confidence::Strong.min(waits.best_confidence());
    Finding::of_waits(Cause::PageLock, root, confidence, waits).with(io.map(io_evidence))
}
