//! `handlers-busy`, and what else kept the threads that a request needed.
//!
//! A request waits in the queue where every known handler was occupied for most of the wait, or where the handler that
//! took it in the end was held up: then none was free. What each did is looked into like a lock's holder. Of requests that
//! append nothing the handler is not known: all known handlers must have been occupied at once, by what only produce
//! requests make them do.

use std::sync::Arc;

use model::{Cause, Confidence, Evidence, EvidenceKind, FileOp, FileOpKind, Nanos, Request, Tid};

use crate::causes::candidate::{CauseCandidate, merge_into};
use crate::causes::spec::{Area, CauseSpec, Layer, Role, SPEC};
use crate::causes::{cpu, lock_chain, memory, network, protocol};
use crate::joins::{AppendJoin, JoinStats};
use crate::locks::LockContention;
use crate::locks::holders::is_append;
use crate::stages::{Breakdown, waiting};
use crate::time_budget::TimeBudget;
use crate::waits::LockHold;
use crate::window::Window;
use crate::{joins, locks, stages};

/// Causes of this file.
pub(crate) const CAUSES: &[CauseSpec] = &[CauseSpec {
    cause: Cause::HandlersBusy,
    event: "stretch{es} without a free request handler",
    area: Area::Threads,
    role: Role::Queue,
    needs: "every known request handler was occupied for most of the wait, or the one that took the request was held up",
    root_evidence: &[EvidenceKind::Request, EvidenceKind::Host],
    advice: &[
        "every request handler was at work: first remove what kept them (it is named); then num.io.threads a few above the number of CPUs, and no more than there are partitions",
    ],
    source: "a public case (IBM zSystems, 2022): num.io.threads slightly above the number of CPUs, and never above the number of \
             partition locks",
    rule: "request-handlers",
    layer: Some(Layer::Broker),
    on_the_way: true,
    condition: ", and there are fewer handlers than CPUs",
    look_at: ", and the stage queue",
    effect: "; only after what kept the handlers, which has its own advice, is removed",
    risk: "more threads compete for processors and for the partitions' locks",
    ..SPEC
}];

/// The share of a handler's time that is enough to blame it on its work: a fifth.
const A_GOOD_PART: i64 = 5;

/// Threads that it needed and that freed memory or had no CPU; or what they had it for, where that is known to be much.
pub(crate) fn starved_threads(
    window: &Window,
    request: &Request,
    course: &Breakdown<'_>,
    appends: &[AppendJoin],
    free: &mut TimeBudget,
) -> Vec<CauseCandidate> {
    let mut findings = Vec::new();
    if worked_mostly(window, course, appends) {
        findings.extend(rewritten_batch(request, course, appends, free));
    }
    let needed = needed_threads(course, appends, wanted_from(window, request, course));
    for (tid, start, end) in needed {
        findings.extend(memory::reclaim_of_thread(window, tid, (start, end), free));
        findings.extend(cpu::runnable_thread(window, tid, (start, end), free));
    }
    findings
}

/// A batch that the handler rewrote before its append.
pub(crate) fn rewritten_batch(
    request: &Request,
    course: &Breakdown<'_>,
    appends: &[AppendJoin],
    free: &mut TimeBudget,
) -> Option<CauseCandidate> {
    let append = appends.first()?;
    let span = (course.taken?, append.op.start.min(course.answered));
    protocol::recompression(request, append, span, |start, end| free.take(start, end))
}

/// Whether a handler had a CPU for a good part of the time before its append: a thread with much to compute is without
/// one now and then on any machine that is busy, and what it computes is why it takes long.
pub(crate) fn worked_mostly(window: &Window, course: &Breakdown<'_>, appends: &[AppendJoin]) -> bool {
    let (Some(taken), Some(append)) = (course.taken, appends.first()) else { return false };
    let mut free = TimeBudget::new(taken, append.op.start.min(course.answered));
    let all = free.left();
    cpu::runnable_thread(window, append.op.tid, (taken, append.op.start), &mut free);
    free.left().0.saturating_mul(A_GOOD_PART) >= all.0
}

/// A transaction's coordinator that was asked before the append.
pub(crate) fn coordinator(
    window: &Window,
    request: &Request,
    course: &Breakdown<'_>,
    appends: &[AppendJoin],
    free: &mut TimeBudget,
) -> Option<CauseCandidate> {
    let (start, end) = (course.served_from, appends.first()?.op.start);
    protocol::txn_verification(window, request, (start, end), |from, until| {
        free.take(from.max(start), until.min(end))
    })
}

/// What may explain what is left.
pub(crate) fn rest(
    window: &Window,
    request: &Request,
    course: &Breakdown<'_>,
    appends: &[AppendJoin],
    free: &mut TimeBudget,
) -> Vec<CauseCandidate> {
    let mut findings = Vec::new();
    let served = (wanted_from(window, request, course), course.answered);
    findings.extend(rewritten_batch(request, course, appends, free));
    findings.extend(protocol::down_conversion(window, request, served, |start, end| free.take(start, end)));
    findings.extend(network::slow_departure(window, request, course, |start, end| free.take(start, end)));
    findings.extend(out_of_quota(window, served, free));
    findings.extend(memory::reclaim_of_others(window, served.0, served.1, free));
    findings.extend(cpu::starved_others(window, served.0, served.1, free));
    findings
}

/// From when on the broker was to answer: a fetch may have asked it to wait first.
fn wanted_from(window: &Window, request: &Request, course: &Breakdown<'_>) -> Nanos {
    waiting::readable(window, request)
        .unwrap_or(course.served_from)
        .clamp(course.served_from, course.answered)
}

/// The threads that a request needed, each with the time in which it did.
fn needed_threads(
    course: &Breakdown<'_>,
    appends: &[AppendJoin],
    wanted_from: Nanos,
) -> Vec<(Tid, Nanos, Nanos)> {
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
fn out_of_quota(
    window: &Window,
    (start, end): (Nanos, Nanos),
    free: &mut TimeBudget,
) -> Option<CauseCandidate> {
    let known = cpu::around(window, start, end, Nanos::ZERO)?;
    let time = free.take(start, end);
    (time > Nanos::ZERO).then_some(CauseCandidate { time, ..known })
}

/// More handlers than this are not looked into one by one.
const MAX_HANDLERS: usize = 64;
/// Nor more appends of each.
const MAX_APPENDS: usize = 64;
/// A single handler that is occupied says nothing of others that nothing is known of.
const MIN_HANDLERS: usize = 2;

/// Why a request waited from `start` to `end` for a handler, and then for `taker`, where that is known; together at most
/// as long as that, and nothing where nobody was seen to be occupied.
pub(crate) fn handlers_busy(
    window: &Window,
    taker: Option<Tid>,
    start: Nanos,
    end: Nanos,
) -> Vec<CauseCandidate> {
    let mut tids = window.handlers();
    let all = tids.len();
    tids.truncate(MAX_HANDLERS);
    // The first that was free is one too many.
    let occupied =
        tids.iter().map(|&tid| Handler::of(window, tid, start, end)).take_while(|of| of.is_occupied);
    let handlers: Vec<Handler> = occupied.collect();
    if !handlers.is_empty() && handlers.len() == tids.len() {
        return of_all(handlers, all, start, end);
    }
    let taker = taker.map(|tid| (tid, Handler::of(window, tid, start, end)));
    taker.map(|(tid, taker)| of_taker(window, tid, taker, start, end)).unwrap_or_default()
}

/// What every one of them did, each for its share of the time.
fn of_all(handlers: Vec<Handler>, all: usize, start: Nanos, end: Nanos) -> Vec<CauseCandidate> {
    let count = handlers.len().max(1) as i64;
    let mut roots: Vec<CauseCandidate> = Vec::new();
    for finding in handlers.into_iter().flat_map(|handler| handler.findings) {
        merge_into(&mut roots, finding);
    }
    let mut left = end - start;
    let mut findings = Vec::new();
    let busy = format!("while all request handlers were busy ({all} seen)");
    for root in roots {
        let time = Nanos(root.time.0 / count).min(left);
        left -= time;
        // The partition is another request's.
        findings.push(CauseCandidate {
            partition: None,
            ..handlers_themselves(start, end, None, &busy, time).behind(root)
        });
    }
    findings.retain(|finding| finding.time > Nanos::ZERO);
    if left > Nanos::ZERO {
        findings.push(handlers_themselves(start, end, None, &busy, left));
    }
    findings
}

/// What held up the one that took it, where that is most of the time.
fn of_taker(window: &Window, tid: Tid, taker: Handler, start: Nanos, end: Nanos) -> Vec<CauseCandidate> {
    let known: Nanos = taker.findings.iter().map(|finding| finding.time).sum();
    if known.0.saturating_mul(2) <= (end - start).0 {
        return Vec::new();
    }
    let last = window.thread(tid).and_then(|past| past.file_ops.ended_after(start).next());
    let name = last.map_or_else(|| "the request handler".into(), |op| window.name(tid, &op.thread));
    let held_up = format!("for {name} (thread {tid}), which took it and was held up");
    let findings = taker.findings.into_iter();
    let told =
        |root: CauseCandidate| handlers_themselves(start, end, Some(tid), &held_up, root.time).behind(root);
    findings.map(|root| CauseCandidate { partition: None, ..told(root) }).collect()
}

/// One handler in a stretch.
struct Handler {
    /// What is known to have held it up.
    findings: Vec<CauseCandidate>,
    /// Whether it was occupied for most of the stretch, for any reason.
    is_occupied: bool,
}

impl Handler {
    fn of(window: &Window, tid: Tid, start: Nanos, end: Nanos) -> Self {
        let mut free = TimeBudget::new(start, end);
        let mut findings = rewritten(window, tid, (start, end), &mut free);
        for (from, until) in free.pieces(start, end) {
            findings.extend(lock_chain::of_thread(window, tid, from, until, &mut vec![tid]));
        }
        let known: Nanos = findings.iter().map(|finding| finding.time).sum();
        let mut left = end - start - known;
        for wait in inferred_waits(window, tid, start, end) {
            free.take(wait.start, wait.end);
            let time = (wait.end.min(end) - wait.start.max(start)).min(left).at_least_zero();
            left -= time;
            findings.extend(lock_chain::of_wait(window, &wait, time));
        }
        Self { findings, is_occupied: is_occupied(window, tid, (start, end), known, free) }
    }
}

/// Whether a handler was, of whose time `free` is left by its waits, and so much has a cause.
fn is_occupied(
    window: &Window,
    tid: Tid,
    (start, end): (Nanos, Nanos),
    known: Nanos,
    mut free: TimeBudget,
) -> bool {
    let Some(past) = window.thread(tid) else { return false };
    for op in past.file_ops.overlapping(start, end) {
        free.take(op.start, if is_append(op) { LockHold::of(window, op, end).end() } else { op.end });
    }
    for wait in past.lock_waits.overlapping(start, end) {
        free.take(wait.start, wait.end);
    }
    // It leaves the CPU unseen where it waits for work.
    for away in past.off_cpu.overlapping(start, end) {
        free.take(away.start, away.end);
    }
    let unknown = free.left().min(end - start - known);
    unknown.0.saturating_mul(2) < (end - start).0 || past.samples.show_work(start, end, unknown)
}

/// A handler's waits for partitions' logs before its appends, where the JVM reported none.
fn inferred_waits(window: &Window, tid: Tid, start: Nanos, end: Nanos) -> Vec<LockContention<'_>> {
    let waits = appends(window, tid, start, end).flat_map(|op| locks::waits_before(window, op, start));
    waits.filter(|wait| wait.seen.is_none() && wait.start < end).collect()
}

/// Batches that a handler compressed or converted before it appended them, each for the time in which it can have done so
/// and had a CPU for a good part of it.
fn rewritten(
    window: &Window,
    tid: Tid,
    (start, end): (Nanos, Nanos),
    free: &mut TimeBudget,
) -> Vec<CauseCandidate> {
    let found = appends(window, tid, start, end).filter_map(|op| {
        let mut named = window.produced.by_base_offset(op.batch?.base_offset);
        let request = named.find(|request| protocol::other_batch(request, op).is_some())?;
        let joined = joins::joins(window, request, &mut JoinStats::default());
        let is_its_first = joined.first().is_some_and(|first| Arc::ptr_eq(&first.op, op));
        let course = stages::stages_of(window, request, &joined).filter(|_| is_its_first)?;
        let is_its_work = worked_mostly(window, &course, &joined);
        is_its_work.then(|| rewritten_batch(request, &course, &joined, free)).flatten()
    });
    found.collect()
}

/// A handler's appends that began within a stretch, and the first after it, which it may have been at since before.
fn appends(window: &Window, tid: Tid, start: Nanos, end: Nanos) -> impl Iterator<Item = &Arc<FileOp>> {
    let past = window.thread(tid).into_iter();
    let appends = past.flat_map(move |past| past.file_ops.ended_after(start));
    let mut begun = false;
    appends
        .filter(move |op| is_append(op) && op.start > start)
        .take_while(move |op| !std::mem::replace(&mut begun, op.start >= end))
        .take(MAX_APPENDS)
}

fn handlers_themselves(
    start: Nanos,
    end: Nanos,
    tid: Option<Tid>,
    what: &str,
    time: Nanos,
) -> CauseCandidate {
    // That none was free follows from what they did.
    CauseCandidate::new(
        Cause::HandlersBusy,
        Cause::HandlersBusy.as_str(),
        Confidence::Strong,
        vec![Evidence {
            kind: EvidenceKind::Request,
            start,
            end,
            tid,
            thread: None,
            waiter: None,
            text: format!("waited {} in the queue {what}", end - start),
        }],
        time,
    )
}

/// The longest time within a stretch in which every handler that is known was occupied with a produce request.
pub(crate) fn all_occupied(window: &Window, start: Nanos, end: Nanos) -> Option<(Nanos, Nanos)> {
    let handlers = window.handlers();
    if handlers.len() < MIN_HANDLERS {
        return None;
    }
    let mut common = vec![(start, end)];
    for tid in handlers {
        common = shared(&common, &occupied(window, tid, start, end));
        if common.is_empty() {
            return None;
        }
    }
    common.into_iter().max_by_key(|(from, until)| *until - *from)
}

/// When a handler was occupied as only a produce request occupies it, in order.
fn occupied(window: &Window, tid: Tid, start: Nanos, end: Nanos) -> Vec<(Nanos, Nanos)> {
    let Some(past) = window.thread(tid) else { return Vec::new() };
    let is_produce = |op: &FileOp| {
        is_append(op) || matches!(op.op, FileOpKind::Fsync | FileOpKind::Fdatasync | FileOpKind::Msync)
    };
    let calls = past.file_ops.overlapping(start, end).filter(|op| is_produce(op));
    let waits = past.lock_waits.overlapping(start, end).map(|wait| (wait.start, wait.end));
    let mut spans: Vec<(Nanos, Nanos)> =
        calls.map(|op| (op.start, LockHold::of(window, op, end).end())).chain(waits).collect();
    spans.sort_unstable();
    spans
}

/// What two lists of stretches share; the second may overlap itself.
fn shared(one: &[(Nanos, Nanos)], other: &[(Nanos, Nanos)]) -> Vec<(Nanos, Nanos)> {
    let mut common: Vec<(Nanos, Nanos)> = Vec::new();
    for &(start, end) in one {
        for &(from, until) in other {
            let (from, until) = (from.max(start), until.min(end));
            match common.last_mut().filter(|last| from <= last.1 && from >= last.0) {
                Some(last) => last.1 = last.1.max(until),
                None if from < until => common.push((from, until)),
                None => {}
            }
        }
    }
    common
}
