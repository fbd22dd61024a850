//! Pauses of the JVM, waits for Java locks and calls of request handlers. Does not say which requests they delayed, or
//! what a lock's holder did meanwhile: `diagnose` looks that up by the holder's thread.

use std::sync::Arc;

use crate::{Nanos, Pid, Tid};

row! {
    jvm_pause_row =>
    /// One pause of all Java threads of a process.
    #[derive(Clone, Debug, PartialEq)]
    pub struct JvmPause {
        /// When it began: for a safepoint, when the JVM asked its threads to stop.
        start: Nanos as "start_ns",
        /// When threads ran again.
        end: Nanos as "end_ns" => length: Nanos as "latency_ns" "From start to end.",
        /// The process; 0 where the source does not say.
        pid: Pid,
        /// Why threads were stopped.
        kind: JvmPauseKind,
        /// What ran meanwhile: the name of the collection (`G1New`, `Pause Young (Normal)`) or of the VM operation
        /// (`ThreadDump`); empty where unknown.
        operation: Arc<str>,
        /// Why that ran (`G1 Evacuation Pause`); empty where unknown.
        cause: Arc<str>,
        /// The collection's number in this process.
        gc_id: Option<u32>,
        /// How long the JVM waited until every thread had stopped (time to safepoint), where known.
        time_to_safepoint: Option<Nanos> as "time_to_safepoint_ns",
    }
}

impl JvmPause {
    /// Whether both report the same pause: a JVM is in one of each kind at a time.
    pub fn is_same_pause(&self, other: &Self) -> bool {
        let same_process = self.pid == other.pid || self.pid == 0 || other.pid == 0;
        let overlap = self.start < other.end && other.start < self.end;
        self.kind == other.kind && same_process && overlap
    }

    /// Merges two reports of one pause: prefers the one that numbers its collection, which says more, else this one,
    /// and fills its gaps from the other.
    #[must_use]
    pub fn merge(self, other: Self) -> Self {
        let (mut pause, more) =
            if self.gc_id.is_none() && other.gc_id.is_some() { (other, self) } else { (self, other) };
        let or_other = |own: Arc<str>, more: Arc<str>| if own.is_empty() { more } else { own };
        pause.operation = or_other(pause.operation, more.operation);
        pause.cause = or_other(pause.cause, more.cause);
        pause.time_to_safepoint = pause.time_to_safepoint.or(more.time_to_safepoint);
        pause.pid = if pause.pid == 0 { more.pid } else { pause.pid };
        pause
    }
}

named! {
    /// Why threads were stopped.
    pub enum JvmPauseKind {
        /// The collector's work needs it.
        Gc = "gc",
        /// Something else: the pause is one event, also with a collection in it.
        Safepoint = "safepoint",
    }
}

row! {
    lock_wait_row =>
    /// One contended wait for a Java lock.
    #[derive(Clone, Debug, PartialEq)]
    pub struct LockWait {
        /// When the thread found the lock taken.
        start: Nanos as "start_ns",
        /// When it had the lock, or the time of the dump.
        end: Nanos as "end_ns" => length: Nanos as "latency_ns" "From start to end.",
        /// The process; 0 where the source does not say.
        pid: Pid,
        /// The thread that waited.
        tid: Tid,
        /// Its full name.
        thread: Arc<str>,
        /// The lock that it waited for.
        lock: Lock,
        /// The thread that held it, where the source says.
        holder: Option<LockHolder>,
        /// Java stack of the wait, outermost method first, joined by `;`; empty where none was taken.
        stack: Arc<str>,
        /// The source that reported it.
        source: LockSource as "seen_by",
    }
}

row! {
    lock_row =>
    /// A lock, as far as the JVM distinguishes locks.
    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    pub struct Lock {
        /// How threads wait for it.
        kind: LockKind,
        /// The class of the monitor's object, or of the synchronizer that the thread was parked on
        /// (`java.util.concurrent.locks.ReentrantLock$NonfairSync`).
        class: Arc<str>,
        /// Distinguishes two locks of a class; 0 where unknown. An address: the collector may move the object, so that
        /// one lock may have several.
        address: u64,
    }
}

named! {
    /// How threads wait for a lock.
    pub enum LockKind {
        /// A monitor (`synchronized`).
        Monitor = "monitor",
        /// A lock of `java.util.concurrent.locks`: the thread was parked.
        Park = "park",
    }
}

row! {
    lock_holder_row =>
    /// The thread that held a lock.
    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    pub struct LockHolder {
        /// The thread, where its id is known.
        tid: Option<Tid> as "holder_tid",
        /// Its full name.
        thread: Arc<str> as "holder",
    }
}

row! {
    handler_call_row =>
    /// A request handler's work on one request: a call of `KafkaApis.handle` or `ControllerApis.handle`
    /// (`KafkaRequestHandler.run`), of which Flight Recorder's `jdk.MethodTrace` reports the long ones.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct HandlerCall {
        /// When the handler began, right after it took the request from the queue.
        start: Nanos as "start_ns",
        /// When it was ready for the next request. Another thread may send the response later, or it may have left
        /// before.
        end: Nanos as "end_ns" => length: Nanos as "latency_ns" "From start to end.",
        /// The process; 0 where the source does not say.
        pid: Pid,
        /// The request handler.
        tid: Tid,
        /// Its full name.
        thread: Arc<str>,
        /// The method, with its class.
        method: Arc<str>,
    }
}

named! {
    /// The source of a wait, which defines the meaning of its times.
    pub enum LockSource {
        /// Flight Recorder's `jdk.JavaMonitorEnter` or `jdk.ThreadPark`: both ends of the wait. The holder of a monitor is
        /// the thread that had it last before the waiter, not every thread that had it during the wait.
        Jfr = "jfr",
        /// `HotSpot`'s probes `monitor__contended__*`: both ends by the kernel's clock, no stack. The holder is the
        /// thread that last handed the monitor over during the wait, where that was seen.
        Usdt = "usdt",
        /// A thread dump: the thread was waiting at that moment, so both ends are the dump's time.
        ThreadDump = "thread-dump",
    }
}

lengths! {
    /// How long the threads were stopped.
    JvmPause::length;
    /// How long it waited.
    LockWait::length;
    /// How long it worked on the request.
    HandlerCall::length;
}

#[cfg(test)]
mod tests {
    use super::{JvmPause, JvmPauseKind};
    use crate::Nanos;

    fn pause(start: i64, end: i64, gc_id: Option<u32>) -> JvmPause {
        JvmPause {
            start: Nanos(start),
            end: Nanos(end),
            pid: 7,
            kind: JvmPauseKind::Gc,
            operation: "".into(),
            cause: "".into(),
            gc_id,
            time_to_safepoint: None,
        }
    }

    #[test]
    fn same_pause_needs_equal_kind_and_process_and_overlap() {
        let one = pause(10, 20, None);
        assert!(
            one.is_same_pause(&pause(11, 21, Some(3)))
                && one.is_same_pause(&JvmPause { pid: 0, ..one.clone() })
        );
        assert!(!one.is_same_pause(&pause(20, 30, None)), "the next one");
        assert!(!one.is_same_pause(&JvmPause { kind: JvmPauseKind::Safepoint, ..one.clone() }));
        assert!(!one.is_same_pause(&JvmPause { pid: 8, ..one.clone() }));
    }

    #[test]
    fn merge_fills_the_more_detailed_pause_from_the_other() {
        let probes = JvmPause { operation: "G1CollectForAllocation".into(), ..pause(10, 20, None) };
        let recorder =
            JvmPause { operation: "G1New".into(), cause: "Allocation".into(), ..pause(11, 19, Some(3)) };
        assert_eq!(probes.clone().merge(recorder.clone()), recorder);
        assert_eq!(recorder.clone().merge(probes), recorder);
        let reach = JvmPause { time_to_safepoint: Some(Nanos(4)), ..pause(9, 21, None) };
        assert_eq!(recorder.clone().merge(reach), JvmPause { time_to_safepoint: Some(Nanos(4)), ..recorder });
    }
}
