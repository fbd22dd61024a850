//! `handlers-busy`: a request waited in the queue because every request handler was occupied.
//!
//! Needs: every handler that is known to have been occupied for most of the wait, with what it did with files, waited for,
//! or had no CPU for, or by being found on a CPU again and again by the sampling clock. Or the handler that took the
//! request in the end, which was held up by something that is known for most of the wait: then none was free, or it would
//! have taken it. What each was occupied with is looked into like a lock's holder, so that the cause of that is named; so are
//! waits for a partition's log that the JVM did not tell of: a handler that is occupied, does nothing with files and appends
//! right after another did has waited for it. And so is another's batch that it wrote anew before it appended it.
//!
//! Of requests that append nothing the handler is not known: for these, all handlers that are known must have been
//! occupied at once, by what only produce requests make them do.

use std::sync::Arc;

use model::{Cause, Confidence, Evidence, EvidenceKind, FileOp, FileOpKind, Nanos, Tid};

use super::{Finding, course, recompression};
use crate::chain;
use crate::free::Free;
use crate::hold::Hold;
use crate::judge;
use crate::lock::holders::is_append;
use crate::lock::{self, Blocked};
use crate::stages;
use crate::summary::JoinStats;
use crate::window::Window;

/// More handlers than this are not looked into one by one.
const MOST: usize = 64;
/// Nor more appends of each.
const MOST_APPENDS: usize = 64;
/// A single handler that is occupied says nothing of others that nothing is known of.
const FEWEST: usize = 2;

/// Why a request waited from `start` to `end` for a handler, and then for `taker`, where that is known; together at most
/// as long as that, and nothing where nobody was seen to be occupied.
pub(crate) fn find(window: &Window, taker: Option<Tid>, start: Nanos, end: Nanos) -> Vec<Finding> {
    let mut tids = window.handlers();
    let all = tids.len();
    tids.truncate(MOST);
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
fn of_all(handlers: Vec<Handler>, all: usize, start: Nanos, end: Nanos) -> Vec<Finding> {
    let count = handlers.len().max(1) as i64;
    let mut roots: Vec<Finding> = Vec::new();
    for finding in handlers.into_iter().flat_map(|handler| handler.findings) {
        match roots.iter_mut().find(|kept| kept.root == finding.root) {
            Some(kept) => kept.merge(finding),
            None => roots.push(finding),
        }
    }
    let mut left = end - start;
    let mut findings = Vec::new();
    let busy = format!("while all request handlers were busy ({all} seen)");
    for root in roots {
        let time = Nanos(root.time.0 / count).min(left);
        left -= time;
        // The partition is another request's.
        findings.push(Finding { partition: None, ..itself(start, end, None, &busy, time).behind(root) });
    }
    findings.retain(|finding| finding.time > Nanos::ZERO);
    if left > Nanos::ZERO {
        findings.push(itself(start, end, None, &busy, left));
    }
    findings
}

/// What held up the one that took it, where that is most of the time.
fn of_taker(window: &Window, tid: Tid, taker: Handler, start: Nanos, end: Nanos) -> Vec<Finding> {
    let known: Nanos = taker.findings.iter().map(|finding| finding.time).sum();
    if known.0.saturating_mul(2) <= (end - start).0 {
        return Vec::new();
    }
    let last = window.thread(tid).and_then(|past| past.file_ops.ended_after(start).next());
    let name = last.map_or_else(|| "the request handler".into(), |op| window.name(tid, &op.thread));
    let held_up = format!("for {name} (thread {tid}), which took it and was held up");
    let findings = taker.findings.into_iter();
    let told = |root: Finding| itself(start, end, Some(tid), &held_up, root.time).behind(root);
    findings.map(|root| Finding { partition: None, ..told(root) }).collect()
}

/// One handler in a stretch.
struct Handler {
    /// What is known to have held it up.
    findings: Vec<Finding>,
    /// Whether it was occupied for most of the stretch, for whatever reason.
    is_occupied: bool,
}

impl Handler {
    fn of(window: &Window, tid: Tid, start: Nanos, end: Nanos) -> Self {
        let mut free = Free::new(start, end);
        let mut findings = rewritten(window, tid, (start, end), &mut free);
        for (from, until) in free.pieces(start, end) {
            findings.extend(chain::of_thread(window, tid, from, until, &mut vec![tid]));
        }
        let known: Nanos = findings.iter().map(|finding| finding.time).sum();
        let mut left = end - start - known;
        for wait in inferred_waits(window, tid, start, end) {
            free.take(wait.start, wait.end);
            let time = (wait.end.min(end) - wait.start.max(start)).min(left).at_least_zero();
            left -= time;
            findings.extend(chain::of_wait(window, &wait, time));
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
    mut free: Free,
) -> bool {
    let Some(past) = window.thread(tid) else { return false };
    for op in past.file_ops.overlapping(start, end) {
        free.take(op.start, if is_append(op) { Hold::of(window, op, end).end() } else { op.end });
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

/// A handler's waits for partitions' logs before its appends, where the JVM told of none.
fn inferred_waits(window: &Window, tid: Tid, start: Nanos, end: Nanos) -> Vec<Blocked<'_>> {
    let waits = appends(window, tid, start, end).flat_map(|op| lock::before(window, op, start));
    waits.filter(|wait| wait.seen.is_none() && wait.start < end).collect()
}

/// Batches that a handler compressed or converted before it appended them, each for the time in which it can have done so
/// and had a CPU for a good part of it.
fn rewritten(window: &Window, tid: Tid, (start, end): (Nanos, Nanos), free: &mut Free) -> Vec<Finding> {
    let found = appends(window, tid, start, end).filter_map(|op| {
        let mut named = window.produced().by_base_offset(op.batch?.base_offset);
        let request = named.find(|request| recompression::other_batch(request, op).is_some())?;
        let joined = judge::joins(window, request, &mut JoinStats::default());
        let is_its_first = joined.first().is_some_and(|first| Arc::ptr_eq(&first.op, op));
        let course = stages::of(window, request, &joined).filter(|_| is_its_first)?;
        let is_its_work = course::worked_mostly(window, &course, &joined);
        is_its_work.then(|| course::rewritten(request, &course, &joined, free)).flatten()
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
        .take(MOST_APPENDS)
}

fn itself(start: Nanos, end: Nanos, tid: Option<Tid>, what: &str, time: Nanos) -> Finding {
    Finding {
        cause: Cause::HandlersBusy,
        chain: vec![Cause::HandlersBusy],
        root: Arc::from(Cause::HandlersBusy.as_str()),
        // That none was free follows from what they did.
        confidence: Confidence::Strong,
        evidence: vec![Evidence {
            kind: EvidenceKind::Request,
            start,
            end,
            tid,
            thread: None,
            waiter: None,
            text: format!("waited {} in the queue {what}", end - start),
        }],
        time,
        partition: None,
    }
}

/// The longest time within a stretch in which every handler that is known was occupied with a produce request.
pub(crate) fn all_occupied(window: &Window, start: Nanos, end: Nanos) -> Option<(Nanos, Nanos)> {
    let handlers = window.handlers();
    if handlers.len() < FEWEST {
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
        calls.map(|op| (op.start, Hold::of(window, op, end).end())).chain(waits).collect();
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
