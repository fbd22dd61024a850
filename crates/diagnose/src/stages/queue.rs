//! When a request handler took a request out of the queue, at the earliest. No source sees the moment itself.
//!
//! A handler serves one request at a time (`KafkaRequestHandler.run`), so it took this one after it had ended whatever it
//! is last known to have done for another: an operation on a file, a wait for a lock. That is the boundary of `queue` and
//! `handler`: `queue` is never longer than it was, and `handler` may hold the rest of the work on the request before
//! and a rest of the queue. Together they are exact, from the read to the append.

use model::{FileOp, Nanos, Tid};

use crate::hold::Hold;
use crate::lock::holders::is_append;
use crate::window::Window;

/// When a thread that began to work on files or locks for a request at `begun` can have taken it, which had been read at
/// `read`.
pub(super) fn taken(window: &Window, tid: Tid, read: Nanos, begun: Nanos) -> Nanos {
    let Some(past) = window.thread(tid) else { return read };
    let operation = past.file_ops.ended_by(begun).next().map(|op| occupied_until(window, op, begun));
    let wait = past.lock_waits.ended_by(begun).next().map(|wait| wait.end);
    let free = operation.max(wait).unwrap_or(read);
    free.max(read).min(begun.max(read))
}

fn occupied_until(window: &Window, op: &FileOp, begun: Nanos) -> Nanos {
    if is_append(op) { Hold::of(window, op, begun).end() } else { op.end }
}
