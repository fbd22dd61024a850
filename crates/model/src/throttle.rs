//! A pause that the kernel imposed on a writer because too many pages were dirty. Does not know the write.

use crate::{Nanos, Tid};

row! {
    dirty_throttle_row =>
    /// One pause in `balance_dirty_pages`. The tracepoint fires before the pause begins.
    #[derive(Clone, Debug, PartialEq)]
    pub struct DirtyThrottle {
        /// When the pause began.
        start: Nanos as "start_ns",
        /// When it was due to end: `start` plus the pause the kernel chose.
        end: Nanos as "end_ns" => length: Nanos as "latency_ns" "From start to end.",
        /// The thread that was paused.
        tid: Tid,
        /// Dirty pages at that time.
        dirty_pages: u64,
        /// The set point above which writers are paused, in pages.
        limit_pages: u64,
    }
}

impl DirtyThrottle {
    /// How long the writer was paused.
    pub fn length(&self) -> Nanos {
        self.end - self.start
    }
}
