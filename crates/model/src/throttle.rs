//! A pause that the kernel imposed on a writer because too many pages were dirty. Does not know the write.

use crate::{Nanos, Tid};

/// One pause in `balance_dirty_pages`. The tracepoint fires before the pause begins.
#[derive(Clone, Debug, PartialEq)]
pub struct DirtyThrottle {
    /// When the pause began.
    pub start: Nanos,
    /// When it was due to end: `start` plus the pause the kernel chose.
    pub end: Nanos,
    /// The thread that was paused.
    pub tid: Tid,
    /// Dirty pages at that time.
    pub dirty_pages: u64,
    /// The set point above which writers are paused, in pages.
    pub limit_pages: u64,
}
