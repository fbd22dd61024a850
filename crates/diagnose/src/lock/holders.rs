//! Who held a lock while a thread waited for it. Does not say what they did meanwhile.
//!
//! Of a partition's log: everyone whose append of the same partition, with what the thread did for it before and after,
//! lies within the wait, because appends of one log are serial. Of any lock: who had it last before the waiter, where
//! the JVM says so; nothing is known of those before.

use std::sync::Arc;

use model::{FileKind, FileOp, FileOpKind, Nanos, Tid, TopicPartition};

use super::inferred::LONGEST_QUEUE;
use crate::cause::waits::runnable_from;
use crate::free::Free;
use crate::hold::Hold;
use crate::window::{CLOCK_SLACK, Window};

/// What a thread computes between two operations on files takes less, as far as it has a CPU.
const WORK: Nanos = Nanos::from_millis(3);

/// A thread that held the lock in a part of the wait.
#[derive(Clone, Debug)]
pub(crate) struct Holder {
    /// The thread, where its id is known.
    pub(crate) tid: Option<Tid>,
    /// Its name.
    pub(crate) thread: Arc<str>,
    /// The part of the wait, and how much of it is its alone.
    pub(crate) start: Nanos,
    pub(crate) end: Nanos,
    pub(crate) share: Nanos,
    /// What it held the log for, where that was an append.
    pub(crate) append: Option<Arc<FileOp>>,
}

/// Those that appended to the partition within a stretch, the latest first.
pub(super) fn by_appends(
    window: &Window,
    partition: &TopicPartition,
    waiter: Tid,
    (start, end): (Nanos, Nanos),
    free: &mut Free,
) -> Vec<Holder> {
    let mut holders = Vec::new();
    let Some(appends) = window.partition(partition) else { return holders };
    for append in appends.ended_by(end + CLOCK_SLACK).take(LONGEST_QUEUE) {
        let released = released(window, append, end);
        if released <= start {
            break;
        }
        let begun = begun(window, append);
        let share = if append.tid == waiter { Nanos::ZERO } else { free.take(begun, released) };
        if share > Nanos::ZERO {
            holders.push(Holder {
                tid: Some(append.tid),
                thread: window.name(append.tid, &append.thread),
                start: begun.max(start),
                end: released.min(end),
                share,
                append: Some(Arc::clone(append)),
            });
        }
    }
    holders
}

/// When the append's thread began with it, as far as files show: a roll comes before the first append to the new
/// segment, under the same lock (`UnifiedLog.append`, `maybeRoll`).
pub(super) fn begun(window: &Window, append: &FileOp) -> Nanos {
    before_append(window, append).last().map_or(append.start, |op| op.start)
}

/// When the log was free again after an append, before `until`: a flush comes under the same lock (`UnifiedLog.append`,
/// `flush`).
pub(super) fn released(window: &Window, append: &FileOp, until: Nanos) -> Nanos {
    let hold = Hold::of(window, append, until);
    let flushed = after_append(window, append, &hold, until).last();
    flushed.map_or(hold.end(), |flush| flush.end.min(until).max(hold.end()))
}

/// What an append's thread did with files of the same partition on the way to it, the latest first. What it wrote into
/// the broker's own log of events in between is passed over: a roll is told there.
pub(crate) fn before_append<'w>(
    window: &'w Window,
    append: &'w FileOp,
) -> impl Iterator<Item = &'w Arc<FileOp>> {
    let past = window.thread(append.tid).into_iter();
    let earlier = past.flat_map(|past| past.file_ops.ended_by(append.start));
    let mut next = append.start;
    let on_the_way = earlier.take_while(move |op| {
        let ours = op.topic_partition.is_none() || op.topic_partition == append.topic_partition;
        let on_the_way = !is_append(op) && ours && worked(window, op.tid, op.end, next) <= WORK;
        next = op.start;
        on_the_way
    });
    on_the_way.filter(|op| op.topic_partition.is_some())
}

/// What waits for the device an append's thread called for the same partition right after it, before it answered: a
/// flush after so many messages (`log.flush.interval.messages`).
pub(crate) fn after_append<'w>(
    window: &'w Window,
    append: &'w FileOp,
    hold: &Hold<'_>,
    response: Nanos,
) -> impl Iterator<Item = &'w Arc<FileOp>> {
    let past = window.thread(append.tid).into_iter();
    let later = past.flat_map(move |past| past.file_ops.ended_after(append.end));
    let mut last = hold.end();
    later.filter(move |op| op.start >= append.end).take_while(move |op| {
        let of_it = op.end <= response + CLOCK_SLACK
            && matches!(op.op, FileOpKind::Fsync | FileOpKind::Fdatasync | FileOpKind::Msync)
            && op.topic_partition == append.topic_partition
            && worked(window, op.tid, last, op.start) <= WORK;
        last = op.end;
        of_it
    })
}

/// How much of a stretch a thread was not without a CPU.
fn worked(window: &Window, tid: Tid, start: Nanos, end: Nanos) -> Nanos {
    let mut free = Free::new(start, end);
    for away in window.thread(tid).into_iter().flat_map(|past| past.off_cpu.overlapping(start, end)) {
        free.take(runnable_from(away), away.end);
    }
    free.left()
}

/// Whether an operation wrote to a partition's log.
pub(crate) fn is_append(op: &FileOp) -> bool {
    op.kind == FileKind::Log && op.op == FileOpKind::Write
}
