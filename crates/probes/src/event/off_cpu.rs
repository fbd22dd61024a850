//! A thread off the CPU. Does not classify stacks.

use std::sync::Arc;

/// A stretch off the CPU within a [`super::FileOp`] of the same thread; or an uninterruptible wait of a
/// millisecond or more after one, before the thread's next call.
#[derive(Clone, Debug, PartialEq)]
pub struct OffCpu {
    /// When the thread was switched out.
    pub start_ns: u64,
    /// When it was switched in again.
    pub end_ns: u64,
    /// When it became runnable, where that was seen.
    pub woken_ns: Option<u64>,
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// The thread's name; the kernel keeps 15 bytes.
    pub comm: Arc<str>,
    /// It could have gone on: it waited for nothing but the CPU.
    pub preempted: bool,
    /// Kernel functions, outermost first, joined by `;`; empty where no stack was taken, as of preempted ones.
    pub stack: Arc<str>,
    /// Who made it runnable, where that was seen.
    pub waker: Option<Waker>,
}

/// Who made a thread runnable; where an interrupt did, whom it interrupted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waker {
    /// The thread; 0 is an idle CPU.
    pub tid: u32,
    /// Its name.
    pub comm: Arc<str>,
    /// Its kernel functions, outermost first, joined by `;`; empty unless the wait had lasted a millisecond.
    pub stack: Arc<str>,
}
