//! The holders of a lock while a thread waited for it, and waits no source saw.
//!
//! A partition's log is guarded by one monitor (`UnifiedLog.lock`), so its appends are strictly serial: its holders
//! are the threads whose appends lie within the wait, including their work for them before and after. For any lock
//! the JVM may report the previous owner.
//!
//! A handler that starts its append right after another thread's append of the same partition ended, and that did
//! nothing in between, had been waiting for it. After its append it takes the monitor once more, to raise the high
//! watermark (`Partition.appendRecordsToLeader`, `UnifiedLog.maybeIncrementHighWatermark`). Such a wait is inferred
//! only if the appends ahead held the log for most of it, and is never `exact`.

use std::sync::Arc;

use model::{FileKind, FileOp, FileOpKind, Nanos, Tid, TopicPartition};

use crate::time::{TimeBudget, TimeSpan};
use crate::waits::{LockHold, runnable};
use crate::window::{CLOCK_SLACK, Window};

/// Maximum computation of a thread between two file operations. Counts time as far as the thread has a CPU.
const WORK: Nanos = Nanos::from_millis(3);

/// A thread that held the lock for a part of the wait.
#[derive(Clone, Debug)]
pub(crate) struct Holder {
    /// The thread, where its id is known.
    pub(crate) tid: Option<Tid>,
    /// Its name.
    pub(crate) thread: Arc<str>,
    /// The part of the wait, and how much of it belongs to this holder alone.
    pub(crate) span: TimeSpan,
    pub(crate) share: Nanos,
    /// The append that it held the log for, if it was one.
    pub(crate) append: Option<Arc<FileOp>>,
}

/// The threads that appended to the partition within a stretch, the latest first.
pub(crate) fn by_appends(
    window: &Window,
    partition: &TopicPartition,
    waiter: Tid,
    span: TimeSpan,
    free: &mut TimeBudget,
) -> Vec<Holder> {
    let mut holders = Vec::new();
    for append in window.partitions.of(partition).ended_by(span.end + CLOCK_SLACK).take(MAX_QUEUE) {
        let released = released(window, append, span.end);
        if released <= span.start {
            break;
        }
        let held = TimeSpan::new(begun(window, append), released);
        let share = if append.tid == waiter { None } else { free.take_any(held) };
        if let Some(share) = share {
            holders.push(Holder {
                tid: Some(append.tid),
                thread: window.name(append.tid, &append.thread),
                span: held.within(span),
                share,
                append: Some(Arc::clone(append)),
            });
        }
    }
    holders
}

/// When the append's thread began with it, as far as files show: a roll comes before the first append to the new
/// segment, under the same lock (`UnifiedLog.append`, `maybeRoll`).
pub(crate) fn begun(window: &Window, append: &FileOp) -> Nanos {
    before_append(window, append).last().map_or(append.start, |op| op.start)
}

/// When the log was released after an append, at most `until`: a flush is under the same lock (`UnifiedLog.append`,
/// `flush`).
pub(crate) fn released(window: &Window, append: &FileOp, until: Nanos) -> Nanos {
    let hold = LockHold::of(window, append, until);
    let flushed = after_append(window, append, &hold, until).last();
    flushed.map_or(hold.end(), |flush| flush.end.min(until).max(hold.end()))
}

/// File operations of an append's thread on the same partition right before it.
/// The latest comes first. Skips its writes to the broker's own event log in between, where it logs a roll.
pub(crate) fn before_append<'w>(
    window: &'w Window,
    append: &'w FileOp,
) -> impl Iterator<Item = &'w Arc<FileOp>> {
    let earlier = window.file_ops.of(&append.tid).ended_by(append.start);
    let mut next = append.start;
    let on_the_way = earlier.take_while(move |op| {
        let ours = op.topic_partition.is_none() || op.topic_partition == append.topic_partition;
        let on_the_way =
            !is_append(op) && ours && worked(window, op.tid, TimeSpan::new(op.end, next)) <= WORK;
        next = op.start;
        on_the_way
    });
    on_the_way.filter(|op| op.topic_partition.is_some())
}

/// Flushes of the same partition by an append's thread right after it.
/// They come before the response (`log.flush.interval.messages`).
pub(crate) fn after_append<'w>(
    window: &'w Window,
    append: &'w FileOp,
    hold: &LockHold<'_>,
    response: Nanos,
) -> impl Iterator<Item = &'w Arc<FileOp>> {
    let later = window.file_ops.of(&append.tid).ended_after(append.end);
    let mut last = hold.end();
    later.filter(move |op| op.start >= append.end).take_while(move |op| {
        let of_it = op.end <= response + CLOCK_SLACK
            && is_sync(op)
            && op.topic_partition == append.topic_partition
            && worked(window, op.tid, TimeSpan::new(last, op.start)) <= WORK;
        last = op.end;
        of_it
    })
}

/// How much of a stretch a thread had a CPU or was not known to lack one.
fn worked(window: &Window, tid: Tid, span: TimeSpan) -> Nanos {
    let mut free = TimeBudget::new(span);
    free.take_all(window.off_cpu.of(&tid).overlapping(span).map(runnable));
    free.left()
}

/// Whether an operation wrote to a partition's log.
pub(crate) fn is_append(op: &FileOp) -> bool {
    op.kind == FileKind::Log && op.op == FileOpKind::Write
}

/// Whether an operation waits until the device has what was written.
pub(crate) fn is_sync(op: &FileOp) -> bool {
    matches!(op.op, FileOpKind::Fsync | FileOpKind::Fdatasync | FileOpKind::Msync)
}

/// A handler woken from the monitor starts its write within this time; under load a tenth of the wait is added.
const HANDOFF: Nanos = Nanos::from_millis(3);
/// Shorter waits cannot be distinguished from the handler's own work.
const MIN_WAIT: Nanos = Nanos::from_millis(1);
/// Minimum wait after an append. Shorter ones cannot be distinguished from the work on the response.
const MIN_WAIT_AFTER: Nanos = Nanos::from_millis(5);
/// Appends that are followed backwards from one wait at most.
pub(crate) const MAX_QUEUE: usize = 10_000;

/// The wait before `append`, from its earliest start to its end.
/// The append's request can have reached the lock from `from` on.
pub(crate) fn wait_before(window: &Window, append: &FileOp, from: Nanos) -> Option<TimeSpan> {
    let appends = window.partitions.of(append.topic_partition.as_ref()?);
    let had = had_since(window, append, from);
    let from = from.max(thread_free_at(window, append.tid, had));
    if had - from < MIN_WAIT {
        return None;
    }
    let mut next_start = had;
    let mut start = had;
    // A whole queue is woken in turn by threads that held the log for microseconds, after one that held it for long:
    // of the waiter's own wait this much may pass in between.
    let mut slack = Nanos((had - from).0 / 10);
    for earlier in appends.ended_by(had).take(MAX_QUEUE) {
        let released = released(window, earlier, had);
        // The thread's own earlier append bounds `from`; nothing before `from` delayed this request.
        if released <= from || earlier.tid == append.tid {
            break;
        }
        slack -= beyond_hand_over(next_start - released, released - earlier.start);
        if slack < Nanos::ZERO {
            break;
        }
        // A roll is under the same lock.
        next_start = begun(window, earlier);
        start = next_start.max(from);
    }
    (had - start >= MIN_WAIT).then_some(TimeSpan::new(start, had))
}

/// The wait after `append`: the thread finished it at the span's start, and the response began to leave at its end.
pub(crate) fn wait_after(window: &Window, append: &FileOp, span: TimeSpan) -> Option<TimeSpan> {
    let TimeSpan { start: from, end: until } = span;
    let appends = window.partitions.of(append.topic_partition.as_ref()?);
    let mut free = from;
    // As before an append, threads that held the log for microseconds pass it on in turn.
    let mut slack = Nanos((until - from).0 / 10);
    let later = appends.ended_after(append.end).filter(|later| later.start >= append.end);
    for later in later.take_while(|later| later.end <= until).take(MAX_QUEUE) {
        let released = released(window, later, until);
        slack -= beyond_hand_over(begun(window, later) - free, released - later.start);
        if later.tid == append.tid || slack < Nanos::ZERO {
            break;
        }
        free = free.max(released);
    }
    let waited = free - from;
    (waited >= MIN_WAIT_AFTER && is_handed_over(until - free, waited)).then(|| TimeSpan::new(from, free))
}

/// Since when the append's thread had the log, as far as files show: it may roll the segment first, and reads the
/// first batch of one that was just rolled (`LogSegment.timeWaitedForRoll`).
fn had_since(window: &Window, append: &FileOp, from: Nanos) -> Nanos {
    let on_the_way = before_append(window, append).take_while(|op| op.start >= from);
    on_the_way.last().map_or(append.start, |op| op.start)
}

/// When a thread ended its previous operation: until then it was not waiting for this request.
fn thread_free_at(window: &Window, tid: Tid, until: Nanos) -> Nanos {
    window.file_ops.of(&tid).ended_by(until).next().map_or(Nanos::MIN, |earlier| earlier.end)
}

/// Whether a gap is short enough for a lock's hand-over.
/// The gap is the time between the release and the next owner's first operation.
pub(crate) fn is_handed_over(gap: Nanos, wait: Nanos) -> bool {
    beyond_hand_over(gap, wait) == Nanos::ZERO
}

/// How much longer than a hand-over the time in between is.
fn beyond_hand_over(gap: Nanos, wait: Nanos) -> Nanos {
    (gap - HANDOFF - Nanos(wait.0 / 10)).at_least_zero()
}
