//! The response on its way out: `network_out`, and the part of it in which the broker read files for it. Does not look
//! at what came before.
//!
//! A fetch's response is written in pieces: first its head, then each partition's records by `sendfile`
//! (`MultiRecordsSend`). Pages that are not in the cache are read within that call, on the network thread, after the
//! first byte has left: that time is `respond`, not the network's.

use model::{FileOp, FileOpKind, Nanos, Request, SocketOpKind, Stage};

use super::{Course, Parts};
use crate::cause::disk_read;
use crate::sockets::Call;
use crate::window::{CLOCK_SLACK, Window};

/// Reads of files that went into a response: the file's side of the calls of its thread.
pub(super) fn files_sent<'w>(window: &'w Window, request: &Request, answer: Option<Call>) -> Vec<&'w FileOp> {
    let (Some(answer), Some(end)) = (answer, request.end) else { return Vec::new() };
    let Some(past) = window.thread(answer.tid) else { return Vec::new() };
    let calls: Vec<Call> = window
        .sockets()
        .writes_within((request.client, request.broker), answer, end)
        .filter(|call| call.kind == SocketOpKind::Sendfile)
        .copied()
        .collect();
    let (Some(first), Some(last)) = (calls.first(), calls.last()) else { return Vec::new() };
    let of_a_call =
        |op: &&FileOp| calls.iter().any(|call| op.start <= call.end && op.end >= call.start - CLOCK_SLACK);
    let ops = past.file_ops.overlapping(first.start - CLOCK_SLACK, last.end + CLOCK_SLACK).map(|op| &**op);
    ops.filter(|op| is_sent(op)).filter(of_a_call).filter(|op| from_disk(window, op)).collect()
}

fn is_sent(op: &FileOp) -> bool {
    matches!(op.op, FileOpKind::Sendfile | FileOpKind::Splice | FileOpKind::Read)
}

/// Whether some of what was read was not in the page cache, or still on its way there.
fn from_disk(window: &Window, op: &FileOp) -> bool {
    op.disk_bytes.is_some_and(|bytes| bytes > 0) || disk_read::find(window, op).is_some()
}

impl Course<'_> {
    /// From the first byte on.
    pub(super) fn leave(&mut self, parts: &mut Parts) {
        for op in &self.sent {
            parts.take(Stage::Respond, op.start.max(self.answered), op.end.min(self.end));
        }
        parts.take(Stage::NetworkOut, self.answered, self.end);
    }

    /// Until the first byte, from the end of the work on.
    pub(super) fn respond(&self, parts: &mut Parts, from: Nanos) {
        if self.answer.is_some() {
            parts.take(Stage::Respond, from, self.answered);
        }
    }
}
