//! Lock waits from two of the recorder's events. Does not find them in the file.
//!
//! `jdk.JavaMonitorEnter` is a wait for a monitor: from finding it taken to having it. Its previous owner is who had it
//! last before, not everyone who had it meanwhile.
//!
//! `jdk.ThreadPark` is every park of a thread, most of which wait for work and not for a lock. Its `parkedClass` is the
//! class of the object that the thread said it was parked on. A lock's is its synchronizer, which is the same in JDK 11
//! to 25 and for async-profiler (`AbstractQueuedSynchronizer.acquire` parks on `this`): `ReentrantLock$NonfairSync` or
//! `$FairSync`, `ReentrantReadWriteLock$…` likewise, `StampedLock` itself. Who awaits a condition, and so takes from a
//! queue, says `AbstractQueuedSynchronizer$ConditionObject`; latches, semaphores, futures and fork-join pools say
//! themselves; a park on nothing has no class. None of those is a lock wait. A thread that is woken and finds the lock
//! taken by another parks anew: that is two waits, one after the other.

use std::sync::Arc;

use model::{Lock, LockHolder, LockKind, LockSource, LockWait, Pid, Tid};

use super::Error;
use super::bytes::Bytes;
use super::clock::Clock;
use super::constants::Constants;
use super::metadata::Types;
use super::value::Selection;

/// Where the fields of an event are that tells of a wait.
pub(super) struct Waits {
    kind: LockKind,
    fields: Selection<7>,
}

impl Waits {
    /// Of monitors.
    pub(super) fn monitors(types: &Types) -> Option<(u64, Self)> {
        Self::of(types, "jdk.JavaMonitorEnter", LockKind::Monitor, "monitorClass")
    }

    /// Of parked threads.
    pub(super) fn parks(types: &Types) -> Option<(u64, Self)> {
        Self::of(types, "jdk.ThreadPark", LockKind::Park, "parkedClass")
    }

    fn of(types: &Types, event: &str, kind: LockKind, class: &str) -> Option<(u64, Self)> {
        let names = ["startTime", "duration", "eventThread", "stackTrace", class, "previousOwner", "address"];
        let event = types.named(event)?;
        Some((event.id, Self { kind, fields: Selection::of(event, names) }))
    }

    /// The wait that an event tells of; nothing where it was not for a lock.
    pub(super) fn read(
        &self,
        mut event: Bytes<'_>,
        constants: &mut Constants,
        clock: &Clock,
        pid: Pid,
    ) -> Result<Option<LockWait>, Error> {
        let [start, duration, thread, stack, class, owner, address] =
            self.fields.read(&constants.types, &mut event)?;
        let class = constants.class(class);
        if self.kind == LockKind::Park && !is_lock(&class) {
            return Ok(None);
        }
        let start = clock.at(start.integer() as u64);
        let (tid, thread) =
            constants.thread(thread).map(|thread| (thread.tid, thread.name)).unwrap_or_default();
        Ok(Some(LockWait {
            start,
            end: start + clock.length(duration.integer()).at_least_zero(),
            pid,
            tid,
            thread,
            lock: Lock { kind: self.kind, class, address: address.integer() as u64 },
            holder: constants.thread(owner).and_then(|owner| holder(owner.tid, owner.name)),
            stack: constants.stack(stack),
            source: LockSource::Jfr,
        }))
    }
}

fn holder(tid: Tid, thread: Arc<str>) -> Option<LockHolder> {
    let tid = (tid != 0).then_some(tid);
    (tid.is_some() || !thread.is_empty()).then_some(LockHolder { tid, thread })
}

/// Whether who parks on an object of this class waits for a lock.
fn is_lock(class: &str) -> bool {
    let Some(class) = class.strip_prefix("java.util.concurrent.locks.") else { return false };
    match class.split_once('$') {
        Some(("ReentrantLock" | "ReentrantReadWriteLock", inner)) => inner.ends_with("Sync"),
        Some(_) => false,
        None => class == "StampedLock",
    }
}

#[cfg(test)]
mod tests {
    use super::is_lock;

    #[test]
    fn only_synchronizers_of_locks_are_locks() {
        for class in [
            "ReentrantLock$NonfairSync",
            "ReentrantLock$FairSync",
            "ReentrantReadWriteLock$NonfairSync",
            "ReentrantReadWriteLock$FairSync",
            "StampedLock",
        ] {
            assert!(is_lock(&format!("java.util.concurrent.locks.{class}")), "{class}");
        }
        for class in [
            "",
            "java.util.concurrent.locks.AbstractQueuedSynchronizer$ConditionObject",
            "java.util.concurrent.CountDownLatch$Sync",
            "java.util.concurrent.Semaphore$NonfairSync",
            "java.util.concurrent.SynchronousQueue$TransferStack",
            "java.util.concurrent.locks.StampedLock$WNode",
        ] {
            assert!(!is_lock(class), "{class}");
        }
    }
}
