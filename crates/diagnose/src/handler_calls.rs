//! Which call of a request handler served a request, of those that took long enough to be reported. A call is a request's if
//! the handler appended the request's batches in it. Does not divide a request's time.
//!
//! The JVM's clock and the kernel's are apart by some microseconds, by up to [`CLOCK_SLACK`] in a file. A handler takes its
//! next request right after a call has ended, and that request's call may be too short to be reported. So an append belongs
//! to a call only where the two share time by any clock, and no other request's append is in the call.

use std::sync::Arc;

use model::{FileOp, HandlerCall, LockSource, LockWait, Nanos, Tid};

use crate::joins::AppendJoin;
use crate::locks;
use crate::locks::holders::is_append;
use crate::time::Span;
use crate::window::{CLOCK_SLACK, Window};

/// The call that made all of a request's appends, which had been read at `read`.
pub(crate) fn of_appends<'w>(
    window: &'w Window,
    appends: &[AppendJoin],
    read: Nanos,
) -> Option<&'w HandlerCall> {
    let (first, last) = (&appends.first()?.op, &appends.last()?.op);
    let around =
        |call: &&HandlerCall| call.start <= first.start + CLOCK_SLACK && call.end + CLOCK_SLACK >= last.end;
    let call = window.handler_calls.of(&first.tid).overlapping(first.span()).find(around)?;
    let is_one_thread = appends.iter().all(|append| append.op.tid == first.tid);
    let is_after_read = call.start + CLOCK_SLACK >= read;
    let shares_time = last.end - call.start >= CLOCK_SLACK
        && (call.end - first.start >= CLOCK_SLACK || has_wait_before(window, call, first));
    let is_it = is_one_thread && is_after_read && shares_time && !serves_another(window, call, first);
    is_it.then_some(call)
}

/// Whether the JVM, by the clock of the call, saw its thread wait in it on the way to this append.
fn has_wait_before(window: &Window, call: &HandlerCall, append: &FileOp) -> bool {
    let is_in = |start: Nanos, end: Nanos| start >= call.start && end <= call.end;
    locks::java_waits_before(window, append, call.start).any(|of| is_in(of.wait.start, of.wait.end))
        || locks::waits_before(window, append, call.start)
            .iter()
            .filter_map(|blocked| blocked.seen)
            .any(|wait| is_jfrs(wait) && is_in(wait.start, wait.end))
}

fn is_jfrs(wait: &LockWait) -> bool {
    wait.source == LockSource::Jfr && !wait.stack.is_empty()
}

/// Whether the thread appended for another request in a call, before this append. What lies at the call's beginning may be of
/// the one before.
fn serves_another(window: &Window, call: &HandlerCall, first: &Arc<FileOp>) -> bool {
    let before = window.file_ops.of(&call.tid).ended_by(first.start);
    let mut inside = before.take_while(|op| op.end >= call.start + CLOCK_SLACK);
    inside.any(|op| is_append(op) && !Arc::ptr_eq(op, first))
}

/// Until when a thread was in a call for another request, before it was at work at `begun` on one that had been read at
/// `read`: the call had begun before that, or had ended before by any clock.
pub(crate) fn occupied_until(window: &Window, tid: Tid, read: Nanos, begun: Nanos) -> Option<Nanos> {
    let call = window.handler_calls.of(&tid).ended_by(begun + CLOCK_SLACK).next()?;
    let is_anothers = call.start + CLOCK_SLACK < read || call.end + CLOCK_SLACK <= begun;
    is_anothers.then_some(call.end.min(begun))
}
