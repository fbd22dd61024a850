//! `log-lock`: follows a wait from the waiting thread to the thread that held the lock, and to what delayed that one.
//! Every instant of a wait has one explanation, so that they never add up to more than the wait.

use std::sync::Arc;

use model::{Cause, Confidence, Evidence, EvidenceKind, FileOpKind, Nanos, Tid, Waiter};

use crate::causes::candidate::{CauseCandidate, evidence};
use crate::causes::spec::causes;
use crate::causes::{blocked, cpu, host, memory, operation, stops, throttles, waker};
use crate::locks::LockContention;
use crate::locks::holders::{Holder, is_append};
use crate::time::{Span, TimeBudget, TimeSpan};
use crate::waits::LockHold;
use crate::window::Window;

causes! {
    LogLock: Queue in Locks, changed in Locks {
        event: "wait{s} for a partition's log lock",
        needs: "a lock wait that the JVM reports, or one inferred from the order of appends; the holder by thread id and partition",
        root_evidence: &[EvidenceKind::FileOp, EvidenceKind::LockWait],
        advice: &["more partitions spread the appends over more locks; find out what slowed the holder's write"],
        source: "a public case (Allegro, 2024): one slow write makes every request of its partition slow. Another (IBM zSystems, 2022): \
                 one lock a partition over all topics; num.partitions 1 to 2 to 16",
        counts_as_link: true,
        look_at: ", and the stage lock",
        effect: "fewer requests wait behind each slow append: at most the {cost} that they waited, less what removing the \
                 lock holder's own cause gains (it has its own advice)",
        risk: "keys map to other partitions than before, so old and new records of a key are not in order; more files and \
               leaders",
    }
}

/// Length of a chain of holders that wait for other holders; no thread appears twice.
pub(crate) const MAX_CHAIN: usize = 16;
/// Minimum share of a wait for which a holder is examined: a thousandth.
/// In a wait for many holders, those that held the lock for less are not examined.
const MIN_HOLDER_SHARE: i64 = 1_000;

/// Why a thread waited for a lock: the holders' own causes, and the lock itself for the rest.
/// Together as long as the wait, or as `time` if that is less.
pub(crate) fn of_wait(window: &Window, blocked: &LockContention<'_>, time: Nanos) -> Vec<CauseCandidate> {
    limit_time(follow(window, blocked, &mut vec![blocked.tid]), time)
}

fn follow(window: &Window, blocked: &LockContention<'_>, way: &mut Vec<Tid>) -> Vec<CauseCandidate> {
    // An inferred wait lasts only as long as the lock is known to have been held.
    let mut left = if blocked.jvm_wait.is_some() { blocked.length() } else { blocked.held() };
    let mut candidates: Vec<CauseCandidate> = Vec::new();
    let floor = blocked.length().0 / MIN_HOLDER_SHARE;
    for holder in blocked.holders.iter().filter(|holder| holder.share.0 > floor) {
        let Some(tid) = holder.tid.filter(|tid| !way.contains(tid) && way.len() < MAX_CHAIN) else {
            continue;
        };
        way.push(tid);
        let mut share = holder.share;
        for deeper in of_holder(window, tid, holder.span, way) {
            let time = deeper.time.min(share);
            share -= time;
            left -= time;
            add_candidate(&mut candidates, behind_holder(window, blocked, holder, deeper, time));
        }
        way.pop();
    }
    if left > Nanos::ZERO {
        add_candidate(&mut candidates, lock_itself(window, blocked, left));
    }
    candidates
}

/// What delayed a thread in a stretch in which others waited for it; if it waited itself, its waker is followed.
pub(crate) fn of_holder(
    window: &Window,
    tid: Tid,
    span: TimeSpan,
    way: &mut Vec<Tid>,
) -> Vec<CauseCandidate> {
    let mut free = TimeBudget::new(span);
    let mut candidates = explain(window, tid, span, way, &mut free);
    candidates.extend(waker::of_thread(window, tid, way, &mut free));
    candidates
}

/// What delayed a thread in a stretch, without following its waker.
pub(crate) fn of_thread(
    window: &Window,
    tid: Tid,
    span: TimeSpan,
    way: &mut Vec<Tid>,
) -> Vec<CauseCandidate> {
    explain(window, tid, span, way, &mut TimeBudget::new(span))
}

fn explain(
    window: &Window,
    tid: Tid,
    span: TimeSpan,
    way: &mut Vec<Tid>,
    free: &mut TimeBudget,
) -> Vec<CauseCandidate> {
    if !window.knows(tid) {
        return Vec::new();
    }
    let mut pid = 0;
    let mut candidates = stops::explain_first(window, pid, span, free);
    candidates.extend(host::stolen_from_thread(window, tid, span, free));
    let ops = window.file_ops.of(&tid);
    // A fault may lie within another operation, whose evidence includes it.
    let (faults, calls): (Vec<_>, Vec<_>) =
        ops.overlapping(span).partition(|op| op.op == FileOpKind::MmapFault);
    // An append that has ended may still hold the log.
    let before = ops.ended_by(span.start).next().filter(|op| is_append(op));
    for op in before.into_iter().chain(calls).chain(faults) {
        pid = op.pid;
        let hold = if is_append(op) {
            LockHold::of(window, op, span.end)
        } else {
            LockHold::without_after(window, op)
        };
        let candidate = free.take_any(hold.span()).and_then(|time| {
            operation::of_op_or_wait(window, &hold).map(|candidate| CauseCandidate { time, ..candidate })
        });
        candidates.extend(candidate);
    }
    for wait in window.lock_waits.of(&tid).overlapping(span) {
        let Some(mut blocked) = LockContention::of(window, wait, span.start) else { continue };
        pid = wait.pid;
        let time = free.take(blocked.span);
        blocked.span = blocked.span.until(span.end);
        candidates.extend(limit_time(follow(window, &blocked, way), time));
    }
    candidates.extend(stops::explain(window, pid, span, free));
    candidates.extend(memory::reclaim_of_thread(window, tid, span, free));
    candidates.extend(throttles::of_thread(window, tid, span, free));
    candidates.extend(cpu::runnable_thread(window, tid, span, free));
    candidates.extend(blocked::of_thread(window, tid, span, free));
    candidates
}

/// Limits candidates to `time` together, the longest first.
pub(crate) fn limit_time(mut candidates: Vec<CauseCandidate>, mut time: Nanos) -> Vec<CauseCandidate> {
    candidates.sort_by_key(|candidate| std::cmp::Reverse(candidate.time));
    for candidate in &mut candidates {
        candidate.time = candidate.time.min(time);
        time -= candidate.time;
    }
    candidates.retain(|candidate| candidate.time > Nanos::ZERO);
    candidates
}

/// Adds what a request lost to a root to what it already lost to the same root.
fn add_candidate(candidates: &mut Vec<CauseCandidate>, candidate: CauseCandidate) {
    match candidates.iter_mut().find(|known| known.root == candidate.root && known.chain == candidate.chain) {
        Some(known) => known.merge(candidate),
        None => candidates.push(candidate),
    }
}

/// Makes the holder's own cause the waiter's.
fn behind_holder(
    window: &Window,
    blocked: &LockContention<'_>,
    holder: &Holder,
    deeper: CauseCandidate,
    time: Nanos,
) -> CauseCandidate {
    let seen = vec![wait_evidence(window, blocked, Some(holder))];
    CauseCandidate {
        chain: [vec![Cause::LogLock], deeper.chain].concat(),
        confidence: deeper.confidence.min(confidence_of_holders(blocked)),
        evidence: [seen, deeper.evidence].concat(),
        time,
        // One lock guards one partition: the waiter's is the holder's.
        partition: blocked.partition.clone().or(deeper.partition),
        ..deeper
    }
}

/// A wait of which only the holders are known.
fn lock_itself(window: &Window, blocked: &LockContention<'_>, time: Nanos) -> CauseCandidate {
    let holder = blocked.holders.first();
    let append = holder.and_then(|holder| holder.append.as_ref());
    let behind = append
        .map(|append| operation::evidence_of_op(window, &LockHold::of(window, append, blocked.span.end)));
    let since = append.map_or(blocked.span.start, |append| append.start);
    let key = format!("{}:{}", blocked.place(), since.0);
    CauseCandidate::new(Cause::LogLock, key, confidence_of_holders(blocked), time)
        .with([wait_evidence(window, blocked, holder)])
        .with(behind.unwrap_or_default())
        .of_partition(blocked.partition.clone())
}

/// Exact if the JVM reported the wait and the holders of most of it are known.
fn confidence_of_holders(blocked: &LockContention<'_>) -> Confidence {
    if blocked.jvm_wait.is_some() && blocked.is_mostly_held() {
        Confidence::Exact
    } else {
        Confidence::Strong
    }
}

fn wait_evidence(window: &Window, blocked: &LockContention<'_>, holder: Option<&Holder>) -> Evidence {
    let queue = match blocked.ahead() {
        0 | 1 => String::new(),
        2 => " (and 1 more append ahead)".to_owned(),
        n => format!(" (and {} more appends ahead)", n - 1),
    };
    let lock = blocked.describe();
    let held = match holder.map(|holder| (&holder.thread, holder.tid)) {
        Some((thread, Some(tid))) => format!(", held by {} (thread {tid})", window.name(tid, thread)),
        Some((thread, None)) => format!(", held by {thread}"),
        None => String::new(),
    };
    Evidence {
        tid: holder.and_then(|holder| holder.tid),
        thread: holder.map(|holder| Arc::clone(&holder.thread)),
        waiter: Some(Waiter { tid: blocked.tid, thread: window.name(blocked.tid, &blocked.thread) }),
        ..evidence(
            EvidenceKind::LockWait,
            &blocked.span,
            format!("waited {} for {lock}{held}{queue}", blocked.length()),
        )
    }
}
