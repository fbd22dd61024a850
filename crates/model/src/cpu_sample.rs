//! Where a thread was on the CPU at one tick of a sampling clock. Does not add samples up.

use std::sync::Arc;

use crate::{Nanos, Pid, Tid};

row! {
    cpu_sample_row =>
    /// One sample.
    #[derive(Clone, Debug, PartialEq)]
    pub struct CpuSample {
        /// When it was taken.
        at: Nanos as "at_ns",
        /// The processor time it stands for: one period of the clock.
        period: Nanos as "period_ns",
        /// The process.
        pid: Pid,
        /// The thread.
        tid: Tid,
        /// The thread's name as far as it is known.
        thread: Arc<str>,
        /// Stack, outermost function first, joined by `;`, as in [`crate::StackTime::stack`].
        stack: Arc<str>,
    }
}
