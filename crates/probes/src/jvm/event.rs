//! What the JVM's probes report. Times are `CLOCK_MONOTONIC` nanoseconds, thread ids those of the root pid namespace.

use std::sync::Arc;

/// One thing seen by the JVM's probes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JvmEvent {
    /// A thread has the monitor that it waited for.
    MonitorWait(MonitorWait),
    /// Java threads run again.
    Pause(Pause),
}

/// A contended wait for a monitor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MonitorWait {
    /// When the thread found the monitor taken, after it had tried for a moment.
    pub start_ns: u64,
    /// When it had it.
    pub end_ns: u64,
    /// The thread.
    pub tid: u32,
    /// Its name in the kernel: 15 bytes of it.
    pub comm: Arc<str>,
    /// The class of the monitor's object (`java.lang.Object`); empty where it could not be read.
    pub class: Arc<str>,
    /// Address of the JVM's `ObjectMonitor`: of one object as long as threads wait for it. Flight Recorder calls the same
    /// number the monitor's address.
    pub monitor: u64,
    /// Who had it last, where that thread was seen to hand it over during the wait: by its own probe, or because it woke who
    /// waits for it when it had no owner. Others may have had it before; one that took it without waiting after that and gave
    /// it back before this thread came is not seen.
    pub holder: Option<Holder>,
}

/// A thread that had a monitor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The thread.
    pub tid: u32,
    /// Its name in the kernel.
    pub comm: Arc<str>,
}

/// All Java threads were stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pause {
    /// A safepoint: when the JVM asked its threads to stop. A collection: when it began its work.
    pub start_ns: u64,
    /// A safepoint: when threads could run again. A collection: when it had done.
    pub end_ns: u64,
    /// Which of the two. A collection lies within a safepoint, which is reported after it.
    pub kind: PauseKind,
    /// The VM operation that it was for (`G1CollectForAllocation`); empty where unknown.
    pub operation: Arc<str>,
    /// When that operation began: until then the JVM waited for its threads to stop, and tidied up. Only of safepoints.
    pub operation_ns: Option<u64>,
}

/// Why Java threads were stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PauseKind {
    /// A safepoint as a whole.
    Safepoint,
    /// A collection.
    Collection {
        /// Of the whole heap.
        full: bool,
    },
}
