//! Infers that an append waited for its partition's log where no source saw the wait: it reads the order of appends,
//! so its conclusion is never `exact`.
//!
//! A partition's log is guarded by one monitor (`UnifiedLog.lock`), so its appends are strictly serial. A
//! handler that starts its append right after another thread's append of the same partition ended, and that
//! did nothing else in between, had been waiting for that append.

use model::{FileOp, Nanos};

use super::holders;
use crate::window::Window;

/// A handler woken from the monitor needs this long at most to start its write; under load a tenth of the
/// wait is granted on top.
const HANDOFF: Nanos = Nanos::from_millis(3);
/// Waits shorter than this are not told from the handler's own work.
const SHORTEST_WAIT: Nanos = Nanos::from_millis(1);
/// At most this many appends are followed backwards from one wait.
pub(super) const LONGEST_QUEUE: usize = 10_000;

/// The wait before `append`, whose request could have reached the lock from `from` on: its earliest start, and its end.
pub(super) fn wait_before(window: &Window, append: &FileOp, from: Nanos) -> Option<(Nanos, Nanos)> {
    let partition = append.topic_partition.as_ref()?;
    let from = from.max(thread_free_at(window, append));
    if append.start - from < SHORTEST_WAIT {
        return None;
    }
    let appends = window.partition(partition)?;
    let mut next_start = append.start;
    let mut begun = append.start;
    // All of a queue are woken in turn, by those who had the log for microseconds, after somebody who had it for long:
    // of the waiter's own wait that much may pass in between.
    let mut slack = Nanos((append.start - from).0 / 10);
    for earlier in appends.ended_by(append.start).take(LONGEST_QUEUE) {
        let released = holders::released(window, earlier, append.start);
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
    (append.start - begun >= SHORTEST_WAIT).then_some((begun, append.start))
}

/// When the append's thread ended what it did before: until then it was not waiting for this request.
fn thread_free_at(window: &Window, append: &FileOp) -> Nanos {
    window
        .thread(append.tid)
        .and_then(|past| past.file_ops.ended_by(append.start).next())
        .map_or(Nanos::MIN, |earlier| earlier.end)
}

/// Whether so little time lies between a lock's release and what its next owner does first.
pub(super) fn is_handed_over(gap: Nanos, wait: Nanos) -> bool {
    beyond_hand_over(gap, wait) == Nanos::ZERO
}

/// How much more time than that lies in between.
fn beyond_hand_over(gap: Nanos, wait: Nanos) -> Nanos {
    (gap - HANDOFF - Nanos(wait.0 / 10)).at_least_zero()
}
