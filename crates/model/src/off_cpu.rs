//! A stretch of time in which a thread was not on a CPU. Does not classify stacks: `diagnose` does.

use std::sync::Arc;

use crate::{Nanos, Pid, Tid};

/// One interval off the CPU, with the kernel stack at which the thread left it.
#[derive(Clone, Debug, PartialEq)]
pub struct OffCpu {
    /// When the thread was switched out.
    pub start: Nanos,
    /// When it ran again.
    pub end: Nanos,
    /// When it was made runnable, where that was seen: from there to `end` it waited for a CPU.
    pub woken: Option<Nanos>,
    /// The process.
    pub pid: Pid,
    /// The thread.
    pub tid: Tid,
    /// The thread's name as far as it is known.
    pub thread: Arc<str>,
    /// Whether it was preempted while runnable, not waiting for anything.
    pub preempted: bool,
    /// Kernel stack, outermost function first, joined by `;`; empty where none could be taken.
    pub stack: Arc<str>,
    /// Who made it runnable, where that was seen.
    pub waker: Option<Waker>,
}

/// The thread that made another one runnable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waker {
    /// The thread: 0 is an idle CPU that took an interrupt.
    pub tid: Tid,
    /// Its name; where an interrupt did it, the thread it happened to interrupt.
    pub thread: Arc<str>,
    /// Its kernel stack, outermost function first, joined by `;`; empty where none was taken.
    pub stack: Arc<str>,
}

impl OffCpu {
    /// How long it was off the CPU.
    pub fn length(&self) -> Nanos {
        self.end - self.start
    }
}
