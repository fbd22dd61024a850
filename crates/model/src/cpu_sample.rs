//! Where a thread was on the CPU at one tick of a sampling clock. Does not add samples up.

use std::sync::Arc;

use crate::{Nanos, Pid, Tid};

/// One sample.
#[derive(Clone, Debug, PartialEq)]
pub struct CpuSample {
    /// When it was taken.
    pub at: Nanos,
    /// The processor time it stands for: one period of the clock.
    pub period: Nanos,
    /// The process.
    pub pid: Pid,
    /// The thread.
    pub tid: Tid,
    /// The thread's name as far as it is known.
    pub thread: Arc<str>,
    /// Stack, outermost function first, joined by `;`, as in [`crate::StackTime::stack`].
    pub stack: Arc<str>,
}
