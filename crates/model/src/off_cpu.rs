//! A stretch of time in which a thread was not on a CPU. Does not classify stacks: `diagnose` does.

use std::sync::Arc;

use crate::{Nanos, Pid, Tid};

row! {
    off_cpu_row =>
    /// One interval off the CPU, with the kernel stack at which the thread left it.
    #[derive(Clone, Debug, PartialEq)]
    pub struct OffCpu {
        /// When the thread was switched out.
        start: Nanos as "start_ns",
        /// When it ran again.
        end: Nanos as "end_ns" => length: Nanos as "latency_ns" "From start to end.",
        /// When it was made runnable, where that was seen: from there to `end` it waited for a CPU.
        woken: Option<Nanos> as "woken_ns",
        /// The process.
        pid: Pid,
        /// The thread.
        tid: Tid,
        /// The thread's name as far as it is known.
        thread: Arc<str>,
        /// Whether it was preempted while runnable, not waiting for anything.
        preempted: bool,
        /// Kernel stack, outermost function first, joined by `;`; empty where none could be taken.
        stack: Arc<str>,
        /// Who made it runnable, where that was seen.
        waker: Option<Waker>,
    }
}

row! {
    waker_row =>
    /// The thread that made another one runnable.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Waker {
        /// The thread: 0 is an idle CPU that took an interrupt.
        tid: Tid as "woken_by_tid",
        /// Its name; where an interrupt did it, the thread it happened to interrupt.
        thread: Arc<str> as "woken_by_thread",
        /// Its kernel stack, outermost function first, joined by `;`; empty where none was taken.
        stack: Arc<str> as "woken_by_stack",
    }
}

impl OffCpu {
    /// How long it was off the CPU.
    pub fn length(&self) -> Nanos {
        self.end - self.start
    }
}
