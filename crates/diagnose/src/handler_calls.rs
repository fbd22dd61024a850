//! Which reported call of a request handler served a request: the call in which the handler appended the request's
//! batches. Only calls that took long enough are reported. Does not divide a request's time.
//!
//! The JVM's clock and the kernel's differ by some microseconds, in a file by up to [`CLOCK_SLACK`]. A handler takes
//! its next request right after a call has ended, and that request's call may be too short to be reported. So an
//! append belongs to a call only if the two share time by both clocks, and the call contains no append of another
//! request.

use std::sync::Arc;

use model::{FileOp, HandlerCall, LockSource, LockWait, Nanos, Tid};

use crate::joins::AppendJoin;
use crate::locks;
use crate::locks::holders::is_append;
use crate::time::Span;
use crate::window::{CLOCK_SLACK, Window};

/// The call that made all of a request's appends; the request had been read at `read`.
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

/// Whether the JVM saw the thread wait on the way to this append.
/// The wait must lie within the call, by the call's clock.
fn has_wait_before(window: &Window, call: &HandlerCall, append: &FileOp) -> bool {
    let is_in = |start: Nanos, end: Nanos| start >= call.start && end <= call.end;
    locks::java_waits_before(window, append, call.start).any(|of| is_in(of.wait.start, of.wait.end))
        || locks::waits_before(window, append, call.start)
            .iter()
            .filter_map(|blocked| blocked.jvm_wait)
            .any(|wait| is_jfrs(wait) && is_in(wait.start, wait.end))
}

fn is_jfrs(wait: &LockWait) -> bool {
    wait.source == LockSource::Jfr && !wait.stack.is_empty()
}

/// Whether the thread appended for another request in a call before this append.
/// An append at the call's beginning may belong to the previous call.
fn serves_another(window: &Window, call: &HandlerCall, first: &Arc<FileOp>) -> bool {
    let before = window.file_ops.of(&call.tid).ended_by(first.start);
    let mut inside = before.take_while(|op| op.end >= call.start + CLOCK_SLACK);
    inside.any(|op| is_append(op) && !Arc::ptr_eq(op, first))
}

/// Until when a thread was in a call for another request.
/// It then began at `begun` with a request that had been read at `read`. The call had begun before the read, or had
/// ended before `begun`, by both clocks.
pub(crate) fn occupied_until(window: &Window, tid: Tid, read: Nanos, begun: Nanos) -> Option<Nanos> {
    let call = window.handler_calls.of(&tid).ended_by(begun + CLOCK_SLACK).next()?;
    let is_anothers = call.start + CLOCK_SLACK < read || call.end + CLOCK_SLACK <= begun;
    is_anothers.then_some(call.end.min(begun))
}
