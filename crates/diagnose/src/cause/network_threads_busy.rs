//! `network-threads-busy`: bytes waited for their connection's network thread, which was at work for other connections.
//!
//! Needs: the thread that read the request, or wrote its response, by TCP sequence numbers; and that this very thread was at
//! work for most of the time in which it was waited for: in calls on files or connections, or found on a CPU by the
//! sampling clock, each sample for one period of it. Calls in close succession are one spell of work: between them the
//! thread takes requests apart and hands responses on. What is close is a small part of the wait: in a wait of a
//! millisecond or two, calls that far apart show nothing.

use std::sync::Arc;

use model::{Cause, Confidence, Evidence, EvidenceKind, FileOpKind, Nanos, Tid};

use super::{Finding, disk_read};
use crate::free::Free;
use crate::window::{Span as _, Window};

/// A thread with nothing to do waits in the kernel for longer than it takes to go on with the next connection.
const NEXT_CONNECTION: Nanos = Nanos::from_millis(1);
/// Gaps of less than this share of a wait are not where the wait went: a tenth.
const CLOSE: i64 = 10;

/// One sample may have hit it by chance.
const SAMPLES: usize = 2;

/// What a network thread did in a stretch in which a connection waited for it, as far as it was at work. An idle one comes
/// at once, so one that was found on a CPU again and again, for a quarter of the time at least, was at work for all of it:
/// what the samples do not show is what others had of the CPUs.
pub(crate) fn find(window: &Window, tid: Tid, start: Nanos, end: Nanos) -> Vec<Finding> {
    let mut free = Free::new(start, end);
    let mut findings = reads(window, tid, start, end, &mut free);
    let at_work = at_work(window, tid, (start, end), NEXT_CONNECTION.min(Nanos((end - start).0 / CLOSE)));
    let busy: Nanos = at_work.iter().map(|(from, until)| *until - *from).sum();
    let is_sampled = window.sockets().on_cpu(tid, start, end).count() >= SAMPLES;
    let share = if is_sampled { 4 } else { 2 };
    if busy.0.saturating_mul(share) <= (end - start).0 {
        return findings.into_iter().map(|finding| behind(window, tid, start, end, finding)).collect();
    }
    let other: Nanos = if is_sampled {
        free.left()
    } else {
        at_work.iter().map(|(from, until)| free.take(*from, *until)).sum()
    };
    findings = findings.into_iter().map(|finding| behind(window, tid, start, end, finding)).collect();
    if other > Nanos::ZERO {
        findings.push(itself(window, tid, (start, end), other));
    }
    findings
}

/// What a network thread read from the device between a request's own read and its going to the handlers, and when it
/// was done: it hands on what it read when it has served every connection that was ready (`SocketServer.Processor.run`:
/// `poll`, then `processCompletedReceives`).
pub(crate) fn before_hand_over(
    window: &Window,
    tid: Tid,
    read: Nanos,
    until: Nanos,
) -> Option<(Nanos, Vec<Finding>)> {
    // Most read nothing: then there is no need to know when it was at work.
    window.thread(tid)?.file_ops.overlapping(read, until).next()?;
    let (start, end) = at_work(window, tid, (read, until), NEXT_CONNECTION).into_iter().next()?;
    if start - read > NEXT_CONNECTION {
        return None;
    }
    let sent = window.thread(tid)?.file_ops.overlapping(start, end);
    let done = sent.filter(|op| disk_read::find(window, op).is_some()).map(|op| op.end.min(end)).max()?;
    let findings = reads(window, tid, read, done, &mut Free::new(read, done));
    Some((done, findings.into_iter().map(|finding| behind(window, tid, read, done, finding)).collect()))
}

/// Reads of files from the device meanwhile: the reason that can be named.
fn reads(window: &Window, tid: Tid, start: Nanos, end: Nanos, free: &mut Free) -> Vec<Finding> {
    let Some(past) = window.thread(tid) else { return Vec::new() };
    let sent = past
        .file_ops
        .overlapping(start, end)
        .filter(|op| matches!(op.op, FileOpKind::Sendfile | FileOpKind::Splice | FileOpKind::Read));
    let found = sent.filter_map(|op| {
        let finding = disk_read::find(window, op)?;
        let time = free.take(op.start, op.end);
        (time > Nanos::ZERO && op.overlap(start, end) > Nanos::ZERO).then_some(Finding { time, ..finding })
    });
    let mut findings: Vec<Finding> = Vec::new();
    for finding in found {
        match findings.iter_mut().find(|kept| kept.root == finding.root) {
            Some(kept) => kept.merge(finding),
            None => findings.push(finding),
        }
    }
    findings
}

/// Spells of work within a stretch, in order; what lies no further apart than `close` is one.
fn at_work(window: &Window, tid: Tid, (start, end): (Nanos, Nanos), close: Nanos) -> Vec<(Nanos, Nanos)> {
    let calls = window.sockets().of_thread(tid, start, end).map(|call| (call.start, call.end));
    let files = window.thread(tid).into_iter().flat_map(|past| past.file_ops.overlapping(start, end));
    let on_cpu = window.sockets().on_cpu(tid, start, end);
    let is_sampled = window.sockets().on_cpu(tid, start, end).count() >= SAMPLES;
    let on_cpu = on_cpu.filter(|_| is_sampled);
    let mut calls: Vec<(Nanos, Nanos)> =
        calls.chain(files.map(|op| (op.start, op.end))).chain(on_cpu).collect();
    calls.sort_unstable();
    let mut spells: Vec<(Nanos, Nanos)> = Vec::new();
    for (from, until) in calls {
        let (from, until) = (from.max(start), until.min(end));
        match spells.last_mut().filter(|spell| from - spell.1 <= close) {
            Some(spell) => spell.1 = spell.1.max(until),
            None => spells.push((from, until)),
        }
    }
    spells
}

fn behind(window: &Window, tid: Tid, start: Nanos, end: Nanos, deeper: Finding) -> Finding {
    let own = itself(window, tid, (start, end), deeper.time);
    // The partition is another request's.
    Finding { partition: None, ..own.behind(deeper) }
}

fn itself(window: &Window, tid: Tid, (start, end): (Nanos, Nanos), time: Nanos) -> Finding {
    let thread = window.sockets().thread(tid).map(|name| window.name(tid, name));
    let calls = window.sockets().of_thread(tid, start, end).count();
    let samples = match window.sockets().on_cpu(tid, start, end).count() {
        0 => String::new(),
        samples => format!(" and was found on a CPU {samples} times"),
    };
    Finding {
        cause: Cause::NetworkThreadsBusy,
        chain: vec![Cause::NetworkThreadsBusy],
        root: Arc::from(format!("{}:{tid}", Cause::NetworkThreadsBusy)),
        // The thread by an exact key; that it could not have come earlier, by the order of what it did.
        confidence: Confidence::Strong,
        evidence: vec![Evidence {
            kind: EvidenceKind::Network,
            start,
            end,
            tid: Some(tid),
            text: format!(
                "waited {} for its network thread, which made {calls} calls{samples} meanwhile",
                end - start
            ),
            thread,
            waiter: None,
        }],
        time,
        partition: None,
    }
}
