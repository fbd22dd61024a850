//! Infers who held a partition's log while an append waited. Sees no lock itself: it reads the order of
//! appends, so its conclusion is never `exact`.
//!
//! A partition's log is guarded by one monitor (`UnifiedLog.lock`), so its appends are strictly serial. A
//! handler that starts its append right after another thread's append of the same partition ended, and that
//! did nothing else in between, had been waiting for that append.

use std::sync::Arc;

use model::{FileOp, Nanos};

use crate::hold::Hold;
use crate::window::Window;

/// A handler woken from the monitor needs this long at most to start its write; under load a tenth of the
/// wait is granted on top.
const HANDOFF: Nanos = Nanos::from_millis(3);
/// Waits shorter than this are not told from the handler's own work.
const SHORTEST_WAIT: Nanos = Nanos::from_millis(1);
/// At most this many appends are followed backwards from one wait.
const LONGEST_QUEUE: usize = 10_000;

/// A wait for a partition's log.
#[derive(Debug)]
pub(crate) struct LockWait {
    /// When the handler can have begun to wait, at the earliest.
    pub(crate) start: Nanos,
    /// When its own append began.
    pub(crate) end: Nanos,
    /// The append that took the largest part of the wait.
    pub(crate) holder: Arc<FileOp>,
    /// How much of the wait the holder took.
    pub(crate) held: Nanos,
    /// Appends that were served before ours in the wait, the holder included.
    pub(crate) ahead: usize,
}

impl LockWait {
    pub(crate) fn length(&self) -> Nanos {
        self.end - self.start
    }
}

/// The wait before `append`, whose request could have reached the lock from `from` on.
pub(crate) fn wait_before(window: &Window, append: &FileOp, from: Nanos) -> Option<LockWait> {
    let partition = append.topic_partition.as_ref()?;
    let from = from.max(thread_free_at(window, append));
    if append.start - from < SHORTEST_WAIT {
        return None;
    }
    let appends = window.partition(partition)?;
    let mut next_start = append.start;
    let mut begun = append.start;
    let mut ahead = 0;
    let mut holder: Option<(Nanos, &Arc<FileOp>)> = None;
    for earlier in appends.ended_by(append.start).take(LONGEST_QUEUE) {
        let hold = Hold::of(window, earlier, append.start);
        // The thread's own earlier append bounds `from`; nothing before `from` held this request up.
        if hold.end() <= from || earlier.tid == append.tid || !follows(next_start, &hold) {
            break;
        }
        let share = hold.overlap(from, append.start);
        if holder.is_none_or(|(most, _)| share > most) {
            holder = Some((share, earlier));
        }
        begun = earlier.start.max(from);
        next_start = earlier.start;
        ahead += 1;
    }
    let (held, holder) = holder?;
    let wait = LockWait { start: begun, end: append.start, holder: Arc::clone(holder), held, ahead };
    (wait.length() >= SHORTEST_WAIT).then_some(wait)
}

/// When the append's thread ended what it did before: until then it was not waiting for this request.
fn thread_free_at(window: &Window, append: &FileOp) -> Nanos {
    window
        .thread(append.tid)
        .and_then(|past| past.file_ops.ended_by(append.start).next())
        .map_or(Nanos::MIN, |earlier| earlier.end)
}

/// Whether an append that starts at `next_start` follows another as a waiter follows the holder.
fn follows(next_start: Nanos, hold: &Hold<'_>) -> bool {
    let gap = next_start - hold.end();
    gap <= HANDOFF + Nanos(hold.length().0 / 10)
}
