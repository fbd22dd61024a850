//! `stable-page`: a write waited for a page that must not change while the device writes it (mm/page-writeback.c,
//! `folio_wait_stable`).
//!
//! Needs: an off-CPU stack in it, or in `folio_wait_writeback` under what begins a write. A block write of the same
//! file that took most of the wait is shown: which page it was no hook tells, so that it is never exact.

use model::{Cause, Confidence, Direction};

use super::slow_device::{covering_io, io_evidence};
use super::{Finding, Waits};
use crate::window::Window;

pub(super) fn find(window: &Window, waits: &Waits<'_>) -> Finding {
    let op = waits.op;
    let (start, end) = waits.span();
    let io = covering_io(window, op, start, end)
        .filter(|io| io.direction == Direction::Write && io.inode == Some(op.inode));
    let since = io.map_or(op.start, |io| io.start);
    let root = format!("stable-page:{}:{}:{}", op.device, op.inode, since.0);
    let confidence = Confidence::Strong.min(waits.best_confidence());
    Finding::of_waits(Cause::StablePage, root, confidence, waits).with(io.map(io_evidence))
}
