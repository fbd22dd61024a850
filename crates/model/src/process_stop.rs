//! Times in which something outside a process had stopped it. Does not know who waited for it.

use std::sync::Arc;

use crate::{Nanos, Pid, Tid};

row! {
    process_stop_row =>
    /// One time in which all threads of the broker's process were stopped.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ProcessStop {
        /// When the first thread stopped; under a tracer, when more than half of the threads were halted.
        start: Nanos as "start_ns",
        /// When the last thread continued; under a tracer, the first.
        end: Nanos as "end_ns" => length: Nanos as "latency_ns" "From start to end.",
        /// The process.
        pid: Pid,
        /// The cause of the stop.
        kind: StopKind as "stopped_by",
        /// The thread that sent the signal, is the tracer, or thawed the cgroup; none where that was not seen.
        by_tid: Option<Tid>,
        /// Its name; empty where that was not seen.
        by: Arc<str>,
        /// Threads that were seen to stop. Sleeping threads that a freezer leaves asleep are not counted.
        threads: u32,
    }
}

named! {
    /// Causes that stop all threads of a process.
    pub enum StopKind {
        /// A signal (`SIGSTOP`, `SIGTSTP`), until `SIGCONT`.
        Signal = "signal",
        /// The freezer of its cgroup, of version 1 or 2 (`docker pause`).
        Freezer = "freezer",
        /// A tracer (`gdb -p`, `gcore`), which halts threads by ptrace(2).
        Tracer = "tracer",
    }
}

lengths! {
    /// How long it was stopped.
    ProcessStop::length;
}
