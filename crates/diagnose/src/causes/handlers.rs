//! `handlers-busy`, and what else kept the threads that a request needed.
//!
//! A request waits in the queue if every known handler was occupied for most of the wait, or if the handler that
//! finally took it was delayed: then none was free. What each handler did is examined like a lock holder. For
//! requests that append nothing the handler is unknown: all known handlers must have been occupied at once, by work
//! that only produce requests cause.

use std::sync::Arc;

use model::{Cause, Confidence, Evidence, EvidenceKind, FileOp, Nanos, Tid};

use crate::causes::candidate::{CauseCandidate, evidence, merge_into};
use crate::causes::spec::causes;
use crate::causes::{blocked, cpu, host, lock_chain, memory, protocol, throttles};
use crate::joins::JoinStats;
use crate::locks::LockContention;
use crate::locks::holders::{is_append, is_sync};
use crate::stages::Breakdown;
use crate::stages::produce::occupied_until;
use crate::time::{Span, TimeBudget, TimeSpan};
use crate::waits::LockHold;
use crate::window::pools::ThreadPool;
use crate::window::sockets::MIN_SAMPLES;
use crate::window::{Window, connection_of};
use crate::{joins, locks, stages};

causes! {
    HandlersBusy: Queue in Threads, changed in Broker {
        event: "the lack of a free request handler",
        needs: "every known request handler was occupied for most of the wait, or the one that took the request was held up",
        root_evidence: &[EvidenceKind::Request, EvidenceKind::Host],
        advice: &[
            "all request handlers were busy: first remove what kept them busy (the evidence names it); then set num.io.threads a few above the number of CPUs, but not above the number of partitions",
        ],
        source: "a public case (IBM zSystems, 2022): num.io.threads slightly above the number of CPUs, and never above the number of \
                 partition locks",
        rule: "request-handlers",
        counts_as_link: true,
        condition: ", and there are fewer handlers than CPUs",
        look_at: ", and the stage queue",
        effect: "; first remove what kept the handlers busy, which has its own advice",
        risk: "more threads compete for CPUs and for the partitions' locks",
    }
}

/// The share of a handler's time that is enough to attribute the time to its work: a fifth.
const A_GOOD_PART: i64 = 5;

/// Threads that a request needed and that freed memory or had no CPU.
/// It needed them from `due_from` on. Or the work they needed a CPU for, if that is known to be much.
pub(crate) fn starved_threads(
    breakdown: &Breakdown<'_>,
    due_from: Nanos,
    free: &mut TimeBudget,
) -> Vec<CauseCandidate> {
    let mut candidates = Vec::new();
    if worked_mostly(breakdown) {
        candidates.extend(protocol::recompression(breakdown, free));
    }
    for (tid, span) in needed_threads(breakdown, due_from) {
        candidates.extend(starvation_of_thread(breakdown.window, tid, span, free));
    }
    candidates
}

/// What kept a thread from its work in a stretch: it freed memory, was throttled or had no CPU.
pub(crate) fn starvation_of_thread(
    window: &Window,
    tid: Tid,
    span: TimeSpan,
    free: &mut TimeBudget,
) -> Vec<CauseCandidate> {
    let mut candidates: Vec<CauseCandidate> =
        memory::reclaim_of_thread(window, tid, span, free).into_iter().collect();
    candidates.extend(throttles::of_thread(window, tid, span, free));
    candidates.extend(host::stolen_from_thread(window, tid, span, free));
    candidates.extend(cpu::runnable_thread(window, tid, span, free));
    candidates
}

/// Whether a handler had a CPU for a good part of the time before its append.
/// On any busy machine a thread with much to compute lacks a CPU now and then, and the computation is the reason why
/// it takes long.
fn worked_mostly(breakdown: &Breakdown<'_>) -> bool {
    let (Some(taken), Some(append)) = (breakdown.dequeued_at, breakdown.appends.first()) else {
        return false;
    };
    let span = TimeSpan::new(taken, append.op.start);
    let mut free = TimeBudget::new(span.until(breakdown.answered));
    let all = free.left();
    cpu::runnable_thread(breakdown.window, append.op.tid, span, &mut free);
    free.left().0.saturating_mul(A_GOOD_PART) >= all.0
}

/// The threads that a request needed, each with the time in which it needed them.
fn needed_threads(breakdown: &Breakdown<'_>, due_from: Nanos) -> Vec<(Tid, TimeSpan)> {
    let (from, until) = (breakdown.served_from, breakdown.answered);
    let read = breakdown.read.map_or(from, |read| read.end.clamp(from, until));
    let worked = breakdown.local_end.unwrap_or(until).clamp(read, until);
    let mut handlers: Vec<Tid> = breakdown.appends.iter().map(|append| append.op.tid).collect();
    handlers.dedup();
    let answering = if handlers.is_empty() { read.max(due_from) } else { worked };
    let reader = breakdown.read.map(|call| (call.tid, TimeSpan::new(from, read)));
    let handlers = handlers.into_iter().map(|tid| (tid, TimeSpan::new(read, worked)));
    // It may have waited in between for followers that are not seen: then it is unknown when its response was ready.
    let answering = if breakdown.unseen_followers.is_some() { until } else { answering };
    let answering = breakdown.log_times.map_or(answering, |times| times.ready);
    let writer = breakdown.answer.map(|call| (call.tid, TimeSpan::new(answering, breakdown.work_end())));
    reader.into_iter().chain(handlers).chain(writer).collect()
}

/// Like `needed_threads`, for threads that worked on this request alone: its handler since it took the request, and
/// the threads of all writes of its response.
pub(crate) fn needed_for_it(breakdown: &Breakdown<'_>) -> Vec<(Tid, TimeSpan)> {
    let begun = breakdown.appends.first().map(|append| append.op.start);
    let taken = breakdown.dequeued_at.or(begun).unwrap_or(breakdown.served_from);
    let is_handler = |tid: Tid| breakdown.appends.iter().any(|append| append.op.tid == tid);
    let needed = needed_threads(breakdown, breakdown.due_span().start).into_iter();
    let own = needed.map(|(tid, span)| {
        let from = if is_handler(tid) { span.start.max(taken) } else { span.start };
        (tid, TimeSpan::new(from, span.end))
    });
    let writes = breakdown.answer.into_iter().flat_map(|first| {
        breakdown.window.sockets.writes_within(connection_of(breakdown.request), first, breakdown.end)
    });
    own.chain(writes.map(|write| (write.tid, write.span()))).collect()
}

/// Handlers that are examined one by one.
const MAX_HANDLERS: usize = 64;
/// Appends of each handler that are examined.
const MAX_APPENDS: usize = 64;
/// One occupied handler does not show that unknown others were occupied.
const MIN_HANDLERS: usize = 2;

/// Why a request waited for a thread of a pool, and then for `taker`, if known.
/// The parts together are at most as long as the wait; empty if no thread was seen to be occupied.
pub(crate) fn pool_busy(
    window: &Window,
    pool: ThreadPool,
    taker: Option<Tid>,
    span: TimeSpan,
) -> Vec<CauseCandidate> {
    let mut tids = window.threads_of(pool);
    let all = tids.len();
    tids.truncate(MAX_HANDLERS);
    // One free thread is enough to stop.
    let is_busy =
        |of: &Handler| of.is_occupied || (pool == ThreadPool::Controller && of.is_never_idle(window, span));
    let handlers: Vec<Handler> =
        tids.iter().map(|&tid| Handler::of(window, tid, span)).take_while(is_busy).collect();
    if !handlers.is_empty() && handlers.len() == tids.len() {
        return share_out(pool, handlers, all, span);
    }
    taker.map(|tid| of_taker(window, pool, tid, span)).unwrap_or_default()
}

/// What every thread did, each for its share of the time.
fn share_out(pool: ThreadPool, handlers: Vec<Handler>, all: usize, span: TimeSpan) -> Vec<CauseCandidate> {
    let count = handlers.len().max(1) as i64;
    let mut roots: Vec<CauseCandidate> = Vec::new();
    for candidate in handlers.into_iter().flat_map(|handler| handler.candidates) {
        merge_into(&mut roots, candidate);
    }
    let mut left = span.length();
    let mut candidates = Vec::new();
    let themselves = |time| {
        let seen = queue_evidence(span, &format!("while {}", pool.describe_busy(all)));
        threads_themselves(pool, seen, time)
    };
    for root in roots {
        let time = Nanos(root.time.0 / count).min(left);
        left -= time;
        candidates.push(themselves(time).behind(root));
    }
    candidates.push(themselves(left));
    candidates.retain(|candidate| candidate.time > Nanos::ZERO);
    candidates
}

/// What delayed the thread that took it, if that is most of the time.
fn of_taker(window: &Window, pool: ThreadPool, tid: Tid, span: TimeSpan) -> Vec<CauseCandidate> {
    let Handler { mut candidates, .. } = Handler::of(window, tid, span);
    candidates.retain(|candidate| !blocked::is_blocked(candidate));
    attribute_to_taker(window, pool, tid, span, candidates)
}

/// Like `of_taker`, with waits that nothing explains.
/// While a request is in the queue no handler waits for work, so a wait in a futex is followed too.
pub(crate) fn taker_blocked(window: &Window, tid: Tid, span: TimeSpan) -> Vec<CauseCandidate> {
    let candidates = Handler::with_explain(window, tid, span, lock_chain::of_holder).candidates;
    attribute_to_taker(window, ThreadPool::Handlers, tid, span, candidates)
}

fn attribute_to_taker(
    window: &Window,
    pool: ThreadPool,
    tid: Tid,
    span: TimeSpan,
    candidates: Vec<CauseCandidate>,
) -> Vec<CauseCandidate> {
    if !span.is_most(candidates.iter().map(|candidate| candidate.time).sum()) {
        return Vec::new();
    }
    let last = window.file_ops.of(&tid).ended_after(span.start).next();
    let name =
        last.map_or_else(|| format!("the {}", pool.thread()).into(), |op| window.name(tid, &op.thread));
    let what = format!("for {name} (thread {tid}), which took it and was held up");
    let seen = Evidence { tid: Some(tid), ..queue_evidence(span, &what) };
    let themselves = |time| threads_themselves(pool, seen.clone(), time);
    candidates.into_iter().map(|root| themselves(root.time).behind(root)).collect()
}

/// A thread off the CPU for longer, without waiting for one, may have been idle:
/// `controller.quorum.append.linger.ms`.
const MAX_IDLE: Nanos = Nanos::from_millis(25);

/// Finds what delayed a thread in a stretch, given the threads already followed.
type Explain = fn(&Window, Tid, TimeSpan, &mut Vec<Tid>) -> Vec<CauseCandidate>;

/// One handler in a stretch.
struct Handler {
    tid: Tid,
    /// What is known to have delayed it.
    candidates: Vec<CauseCandidate>,
    /// Whether it was occupied for most of the stretch, for any reason.
    is_occupied: bool,
}

impl Handler {
    fn of(window: &Window, tid: Tid, span: TimeSpan) -> Self {
        Self::with_explain(window, tid, span, lock_chain::of_thread)
    }

    /// Examines a thread with `explain`.
    fn with_explain(window: &Window, tid: Tid, span: TimeSpan, explain: Explain) -> Self {
        let mut free = TimeBudget::new(span);
        let mut candidates = rewrites(window, tid, span, &mut free);
        for piece in free.pieces(span) {
            candidates.extend(explain(window, tid, piece, &mut vec![tid]));
        }
        let known: Nanos = candidates.iter().map(|candidate| candidate.time).sum();
        let mut left = span.length() - known;
        for wait in inferred_waits(window, tid, span) {
            free.take(wait.span);
            let time = wait.span.within(span).length().min(left).at_least_zero();
            left -= time;
            candidates.extend(lock_chain::of_wait(window, &wait, time));
        }
        Self { tid, candidates, is_occupied: is_occupied(window, tid, span, known, free) }
    }

    /// Whether it was hardly ever idle in a stretch in which it had work.
    /// For most of the stretch it was never long off the CPU without waiting for one. For a thread that empties its
    /// queue in order: it does not wait for work while a request is in the queue, so fewer samples are enough than for
    /// other threads.
    fn is_never_idle(&self, window: &Window, span: TimeSpan) -> bool {
        let waits = window.off_cpu.of(&self.tid).overlapping(span).filter(|wait| wait.preempted);
        let mut seen: Vec<TimeSpan> = waits.map(Span::span).chain(window.on_cpu(self.tid, span)).collect();
        seen.sort_unstable_by_key(|seen| seen.start);
        let (mut idle, mut since) = (Nanos::ZERO, span.start);
        for seen in seen.iter().copied().chain([TimeSpan::new(span.end, span.end)]) {
            let gap = seen.start - since;
            idle += if gap > MAX_IDLE { gap } else { Nanos::ZERO };
            since = since.max(seen.end);
        }
        seen.len() >= MIN_SAMPLES && idle.0.saturating_mul(2) < span.length().0
    }
}

/// Whether a handler was occupied; its waits leave `free`, and `known` of the stretch has a cause.
fn is_occupied(window: &Window, tid: Tid, span: TimeSpan, known: Nanos, mut free: TimeBudget) -> bool {
    let ops = window.file_ops.of(&tid).overlapping(span);
    free.take_all(ops.map(|op| TimeSpan::new(op.start, occupied_until(window, op, span.end))));
    free.take_all(window.lock_waits.of(&tid).overlapping(span).map(Span::span));
    free.take_all(window.handler_calls.of(&tid).overlapping(span).map(Span::span));
    // Where it waits for work, its time off the CPU is not recorded here.
    free.take_all(window.off_cpu.of(&tid).overlapping(span).map(Span::span));
    let unknown = free.left().min(span.length() - known);
    unknown.0.saturating_mul(2) < span.length().0 || window.is_seen_at_work(tid, span, unknown)
}

/// A handler's waits for partitions' logs that the JVM did not report. Only waits before its appends.
fn inferred_waits(window: &Window, tid: Tid, span: TimeSpan) -> Vec<LockContention<'_>> {
    // A coordinator's partition is handled by one thread at a time, so its threads wait for no log.
    let is_handler = |op: &&Arc<FileOp>| ThreadPool::of_name(&op.thread) == Some(ThreadPool::Handlers);
    let appends = appends(window, tid, span).filter(is_handler);
    let waits = appends.flat_map(|op| locks::waits_before(window, op, span.start));
    waits.filter(|wait| wait.jvm_wait.is_none() && wait.span.start < span.end).collect()
}

/// Batches that a handler compressed or converted before it appended them.
/// Each counts for the time in which the handler can have done so, if it had a CPU for a good part of that time.
fn rewrites(window: &Window, tid: Tid, span: TimeSpan, free: &mut TimeBudget) -> Vec<CauseCandidate> {
    let found = appends(window, tid, span).filter_map(|op| {
        let mut named = window.produced.by_base_offset(op.batch?.base_offset);
        let request = named.find(|request| protocol::other_batch(request, op).is_some())?;
        let joined = joins::joins(window, request, &mut JoinStats::default());
        let is_its_first = joined.first().is_some_and(|first| Arc::ptr_eq(&first.op, op));
        let breakdown = stages::stages_of(window, request, &joined).filter(|_| is_its_first)?;
        worked_mostly(&breakdown).then(|| protocol::recompression(&breakdown, free)).flatten()
    });
    found.collect()
}

/// A handler's appends that began within a stretch, and the first one after it.
/// The handler may have been working on the latter since before.
fn appends(window: &Window, tid: Tid, span: TimeSpan) -> impl Iterator<Item = &Arc<FileOp>> {
    let appends = window.file_ops.of(&tid).ended_after(span.start);
    let mut begun = false;
    appends
        .filter(move |op| is_append(op) && op.start > span.start)
        .take_while(move |op| !std::mem::replace(&mut begun, op.start >= span.end))
        .take(MAX_APPENDS)
}

pub(crate) fn queue_evidence(span: TimeSpan, what: &str) -> Evidence {
    evidence(EvidenceKind::Request, &span, format!("waited {} in the queue {what}", span.length()))
}

/// No thread of the pool was free; inferred from what they did.
pub(crate) fn threads_themselves(pool: ThreadPool, seen: Evidence, time: Nanos) -> CauseCandidate {
    CauseCandidate::alone(pool.cause(), Confidence::Strong, time).with([seen])
}

impl ThreadPool {
    /// The cause that stands for the lack of a free thread.
    fn cause(self) -> Cause {
        match self {
            Self::Handlers => Cause::HandlersBusy,
            Self::GroupCoordinator => Cause::CoordinatorBusy,
            Self::Raft | Self::Controller => Cause::ControllerBusy,
        }
    }

    /// Describes a busy pool of which `threads` were seen.
    fn describe_busy(self, threads: usize) -> String {
        match self {
            Self::Handlers | Self::GroupCoordinator => {
                format!("all {}s were busy ({threads} seen)", self.thread())
            }
            Self::Raft | Self::Controller => format!("the {} was busy", self.thread()),
        }
    }

    /// The name of one of its threads.
    pub(crate) fn thread(self) -> &'static str {
        match self {
            Self::Handlers => "request handler",
            Self::GroupCoordinator => "coordinator thread",
            Self::Raft => "controller's raft thread",
            Self::Controller => "controller's event thread",
        }
    }
}

/// The longest part of a stretch in which every known handler was occupied.
/// Each of them was occupied with a produce request.
pub(crate) fn all_occupied(window: &Window, span: TimeSpan) -> Option<TimeSpan> {
    let handlers = window.threads_of(ThreadPool::Handlers);
    let mut common = TimeBudget::new(span);
    for tid in &handlers {
        let mut idle = TimeBudget::new(span);
        idle.take_all(occupied_spans(window, *tid, span));
        common.take_all(idle.pieces(span));
    }
    let longest = common.pieces(span).max_by_key(|piece| piece.length());
    longest.filter(|_| handlers.len() >= MIN_HANDLERS)
}

/// When a handler was occupied by work that only produce requests cause.
fn occupied_spans(window: &Window, tid: Tid, span: TimeSpan) -> impl Iterator<Item = TimeSpan> {
    let calls = window.file_ops.of(&tid).overlapping(span).filter(|op| is_append(op) || is_sync(op));
    let calls = calls.map(move |op| LockHold::of(window, op, span.end).span());
    calls.chain(window.lock_waits.of(&tid).overlapping(span).map(Span::span))
}
