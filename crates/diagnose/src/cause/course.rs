//! What else held up a request besides its handler's own operations on files and waits for locks: threads without a CPU,
//! batches to be written anew, a coordinator, the connection. Each takes what the ones before have left of the time.

use model::{Nanos, Request, Tid};

use super::{
    Finding, cpu_throttled, down_conversion, memory_reclaim, recompression, run_queue, slow_client,
    txn_verification,
};
use crate::free::Free;
use crate::join::AppendJoin;
use crate::stages::{Course, waiting};
use crate::window::Window;

/// The share of a handler's time that is enough to blame it on its work: a fifth.
const A_GOOD_PART: i64 = 5;

/// Threads that it needed and that freed memory or had no CPU; or what they had it for, where that is known to be much.
pub(crate) fn threads(
    window: &Window,
    request: &Request,
    course: &Course<'_>,
    appends: &[AppendJoin],
    free: &mut Free,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    if worked_mostly(window, course, appends) {
        findings.extend(rewritten(request, course, appends, free));
    }
    let needed = needed(course, appends, wanted_from(window, request, course));
    for (tid, start, end) in needed {
        findings.extend(memory_reclaim::of_thread(window, tid, (start, end), free));
        findings.extend(run_queue::of_thread(window, tid, (start, end), free));
    }
    findings
}

/// A batch that the handler wrote anew before its append.
pub(super) fn rewritten(
    request: &Request,
    course: &Course<'_>,
    appends: &[AppendJoin],
    free: &mut Free,
) -> Option<Finding> {
    let append = appends.first()?;
    let span = (course.taken?, append.op.start.min(course.answered));
    recompression::before(request, append, span, |start, end| free.take(start, end))
}

/// Whether a handler had a CPU for a good part of the time before its append: a thread with much to compute is without
/// one now and then on any machine that is busy, and what it computes is why it takes long.
pub(super) fn worked_mostly(window: &Window, course: &Course<'_>, appends: &[AppendJoin]) -> bool {
    let (Some(taken), Some(append)) = (course.taken, appends.first()) else { return false };
    let mut free = Free::new(taken, append.op.start.min(course.answered));
    let all = free.left();
    run_queue::of_thread(window, append.op.tid, (taken, append.op.start), &mut free);
    free.left().0.saturating_mul(A_GOOD_PART) >= all.0
}

/// A transaction's coordinator that was asked before the append.
pub(crate) fn coordinator(
    window: &Window,
    request: &Request,
    course: &Course<'_>,
    appends: &[AppendJoin],
    free: &mut Free,
) -> Option<Finding> {
    let (start, end) = (course.served_from, appends.first()?.op.start);
    txn_verification::within(window, request, (start, end), |from, until| {
        free.take(from.max(start), until.min(end))
    })
}

/// What may explain what is left.
pub(crate) fn rest(
    window: &Window,
    request: &Request,
    course: &Course<'_>,
    appends: &[AppendJoin],
    free: &mut Free,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    let served = (wanted_from(window, request, course), course.answered);
    findings.extend(rewritten(request, course, appends, free));
    findings.extend(down_conversion::within(window, request, served, |start, end| free.take(start, end)));
    findings.extend(slow_client::departure(window, request, course, |start, end| free.take(start, end)));
    findings.extend(out_of_quota(window, served, free));
    findings.extend(memory_reclaim::of_others(window, served.0, served.1, free));
    findings.extend(run_queue::of_others(window, served.0, served.1, free));
    findings
}

/// From when on the broker was to answer: a fetch may have asked it to wait first.
fn wanted_from(window: &Window, request: &Request, course: &Course<'_>) -> Nanos {
    waiting::readable(window, request)
        .unwrap_or(course.served_from)
        .clamp(course.served_from, course.answered)
}

/// The threads that a request needed, each with the time in which it did.
fn needed(course: &Course<'_>, appends: &[AppendJoin], wanted_from: Nanos) -> Vec<(Tid, Nanos, Nanos)> {
    let (from, until) = (course.served_from, course.answered);
    let read = course.read.map_or(from, |read| read.end.clamp(from, until));
    let worked = course.local_end.unwrap_or(until).clamp(read, until);
    let mut threads = Vec::new();
    threads.extend(course.read.map(|call| (call.tid, from, read)));
    let mut handlers: Vec<Tid> = appends.iter().map(|append| append.op.tid).collect();
    handlers.dedup();
    threads.extend(handlers.into_iter().map(|tid| (tid, read, worked)));
    let answering = if appends.is_empty() { read.max(wanted_from) } else { worked };
    threads.extend(course.answer.map(|call| (call.tid, answering, until)));
    threads
}

/// What a CPU quota may explain of what is left: nobody saw which thread stood still.
fn out_of_quota(window: &Window, (start, end): (Nanos, Nanos), free: &mut Free) -> Option<Finding> {
    let known = cpu_throttled::around(window, start, end, Nanos::ZERO)?;
    let time = free.take(start, end);
    (time > Nanos::ZERO).then_some(Finding { time, ..known })
}
