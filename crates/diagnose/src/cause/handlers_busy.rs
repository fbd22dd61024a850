//! `handlers-busy`: a request waited in the queue because every request handler was occupied.
//!
//! Needs: the handler that took the request, which was still occupied with another when it was read; then none was free,
//! or it would have taken it. Of requests that append nothing the handler is not known: for these, all handlers that are
//! known must have been occupied at once, by what only produce requests make them do. What each was occupied with is
//! looked into like a lock's holder, so that the cause of that is named; so are waits for a partition's log that the JVM did
//! not tell of: a handler that is occupied, does nothing with files and appends right after another did has waited for it.

use std::sync::Arc;

use model::{Cause, Confidence, Evidence, EvidenceKind, FileOp, FileOpKind, Nanos, Tid};

use super::Finding;
use crate::chain;
use crate::hold::Hold;
use crate::lock::holders::is_append;
use crate::lock::{self, Blocked};
use crate::window::Window;

/// More handlers than this are not looked into one by one.
const MOST: usize = 64;
/// Nor more appends of each.
const MOST_APPENDS: usize = 64;
/// A single handler that is occupied says nothing of others that nothing is known of.
const FEWEST: usize = 2;

/// Why a request waited from `start` to `end` for a handler; together as long as that.
pub(crate) fn find(window: &Window, start: Nanos, end: Nanos) -> Vec<Finding> {
    let mut handlers = window.handlers();
    let all = handlers.len();
    handlers.truncate(MOST);
    let mut roots: Vec<Finding> = Vec::new();
    for &tid in &handlers {
        for finding in occupied_by(window, tid, start, end) {
            match roots.iter_mut().find(|kept| kept.root == finding.root) {
                Some(kept) => kept.merge(finding),
                None => roots.push(finding),
            }
        }
    }
    let length = end - start;
    let mut left = length;
    let mut findings = Vec::new();
    for root in roots {
        let time = Nanos(root.time.0 / handlers.len().max(1) as i64).min(left);
        left -= time;
        // The partition is another request's.
        let own = itself(start, end, all, time);
        findings.push(Finding { partition: None, ..own.behind(root) });
    }
    findings.retain(|finding| finding.time > Nanos::ZERO);
    if left > Nanos::ZERO {
        findings.push(itself(start, end, all, left));
    }
    findings
}

/// What occupied one handler, which is known to have been occupied all the time.
fn occupied_by(window: &Window, tid: Tid, start: Nanos, end: Nanos) -> Vec<Finding> {
    let mut findings = chain::of_thread(window, tid, start, end, &mut vec![tid]);
    let known: Nanos = findings.iter().map(|finding| finding.time).sum();
    let mut left = end - start - known;
    for wait in inferred_waits(window, tid, start, end) {
        let time = (wait.end.min(end) - wait.start.max(start)).min(left).at_least_zero();
        left -= time;
        findings.extend(chain::of_wait(window, &wait, time));
    }
    findings
}

/// A handler's waits for partitions' logs before its appends, where the JVM told of none.
fn inferred_waits(window: &Window, tid: Tid, start: Nanos, end: Nanos) -> Vec<Blocked<'_>> {
    let Some(past) = window.thread(tid) else { return Vec::new() };
    let mut begun = false;
    let appends = past.file_ops.ended_after(start).filter(|op| is_append(op) && op.start > start);
    // The first that begins later may have been waited for since before.
    let appends = appends.take_while(|op| !std::mem::replace(&mut begun, op.start >= end));
    let waits = appends.take(MOST_APPENDS).flat_map(|op| lock::before(window, op, start));
    waits.filter(|wait| wait.seen.is_none() && wait.start < end).collect()
}

fn itself(start: Nanos, end: Nanos, handlers: usize, time: Nanos) -> Finding {
    Finding {
        cause: Cause::HandlersBusy,
        chain: vec![Cause::HandlersBusy],
        root: Arc::from(Cause::HandlersBusy.as_str()),
        // That none was free follows from what one of them did.
        confidence: Confidence::Strong,
        evidence: vec![Evidence {
            kind: EvidenceKind::Request,
            start,
            end,
            tid: None,
            thread: None,
            text: format!(
                "waited {} in the queue while all request handlers were busy ({handlers} seen)",
                end - start
            ),
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
