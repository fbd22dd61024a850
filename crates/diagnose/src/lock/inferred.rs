//! Infers that an append waited for its partition's log where no source saw the wait: it reads the order of appends,
//! so its conclusion is never `exact`.
//!
//! A partition's log is guarded by one monitor (`UnifiedLog.lock`), so its appends are strictly serial. A
//! handler that starts its append right after another thread's append of the same partition ended, and that
//! did nothing else in between, had been waiting for that append.
//!
//! How long a woken thread may take is more than many appends do: those ahead must have had the log for most of the wait
//!, or a partition with many producers would seem to be waited for all the time.
//!
//! After its append a handler takes the same monitor once more, to raise the high watermark
//! (`Partition.appendRecordsToLeader`, `maybeIncrementLeaderHW`, `UnifiedLog.maybeIncrementHighWatermark`): where others
//! had the log from right after its append until right before its response, it waited for them.

use model::{FileOp, Nanos, Tid};

use super::holders;
use crate::window::Window;

/// A handler woken from the monitor needs this long at most to start its write; under load a tenth of the
/// wait is granted on top.
const HANDOFF: Nanos = Nanos::from_millis(3);
/// Waits shorter than this are not told from the handler's own work.
const SHORTEST_WAIT: Nanos = Nanos::from_millis(1);
/// After an append, waits shorter than this are not told from the response's own way.
const SHORTEST_WAIT_AFTER: Nanos = Nanos::from_millis(5);
/// At most this many appends are followed backwards from one wait.
pub(super) const LONGEST_QUEUE: usize = 10_000;

/// The wait before `append`, whose request could have reached the lock from `from` on: its earliest start, and its end.
pub(super) fn wait_before(window: &Window, append: &FileOp, from: Nanos) -> Option<(Nanos, Nanos)> {
    let partition = append.topic_partition.as_ref()?;
    let had = had_since(window, append, from);
    let from = from.max(thread_free_at(window, append.tid, had));
    if had - from < SHORTEST_WAIT {
        return None;
    }
    let appends = window.partition(partition)?;
    let mut next_start = had;
    let mut begun = had;
    // All of a queue are woken in turn, by those who had the log for microseconds, after somebody who had it for long:
    // of the waiter's own wait that much may pass in between.
    let mut slack = Nanos((had - from).0 / 10);
    for earlier in appends.ended_by(had).take(LONGEST_QUEUE) {
        let released = holders::released(window, earlier, had);
        // The thread's own earlier append bounds `from`; nothing before `from` held this request up.
        if released <= from || earlier.tid == append.tid {
            break;
        }
        slack -= beyond_hand_over(next_start - released, released - earlier.start);
        if slack < Nanos::ZERO {
            break;
        }
        // A roll is under the same lock.
        next_start = holders::begun(window, earlier);
        begun = next_start.max(from);
    }
    (had - begun >= SHORTEST_WAIT).then_some((begun, had))
}

/// The wait after `append`, whose thread was done with it at `from` and whose response began to leave at `until`.
pub(super) fn wait_after(
    window: &Window,
    append: &FileOp,
    from: Nanos,
    until: Nanos,
) -> Option<(Nanos, Nanos)> {
    let appends = window.partition(append.topic_partition.as_ref()?)?;
    let mut free = from;
    // As before an append, who had the log for microseconds passes it on in turn.
    let mut slack = Nanos((until - from).0 / 10);
    let later = appends.ended_after(append.end).filter(|later| later.start >= append.end);
    for later in later.take_while(|later| later.end <= until).take(LONGEST_QUEUE) {
        let released = holders::released(window, later, until);
        slack -= beyond_hand_over(holders::begun(window, later) - free, released - later.start);
        if later.tid == append.tid || slack < Nanos::ZERO {
            break;
        }
        free = free.max(released);
    }
    let waited = free - from;
    (waited >= SHORTEST_WAIT_AFTER && is_handed_over(until - free, waited)).then_some((from, free))
}

/// Since when the append's thread had the log, as far as files show: it may roll the segment first, and reads the first
/// batch of one that has just been rolled (`LogSegment.timeWaitedForRoll`).
fn had_since(window: &Window, append: &FileOp, from: Nanos) -> Nanos {
    let on_the_way = holders::before_append(window, append).take_while(|op| op.start >= from);
    on_the_way.last().map_or(append.start, |op| op.start)
}

/// When a thread ended what it did before: until then it was not waiting for this request.
fn thread_free_at(window: &Window, tid: Tid, until: Nanos) -> Nanos {
    let earlier = window.thread(tid).and_then(|past| past.file_ops.ended_by(until).next());
    earlier.map_or(Nanos::MIN, |earlier| earlier.end)
}

/// Whether so little time lies between a lock's release and what its next owner does first.
pub(super) fn is_handed_over(gap: Nanos, wait: Nanos) -> bool {
    beyond_hand_over(gap, wait) == Nanos::ZERO
}

/// How much more time than that lies in between.
fn beyond_hand_over(gap: Nanos, wait: Nanos) -> Nanos {
    (gap - HANDOFF - Nanos(wait.0 / 10)).at_least_zero()
}
