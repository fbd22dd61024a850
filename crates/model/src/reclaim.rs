//! A thread that had to free memory before it could go on. Does not know what it needed the memory for.

use std::sync::Arc;

use crate::{Nanos, Pid, Tid};

row! {
    reclaim_row =>
    /// One direct reclaim, on the thread that asked for memory.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Reclaim {
        /// When it began (`mm_vmscan_direct_reclaim_begin`, `mm_vmscan_memcg_reclaim_begin`).
        start: Nanos as "start_ns",
        /// When it ended.
        end: Nanos as "end_ns",
        /// The process.
        pid: Pid,
        /// The thread.
        tid: Tid,
        /// The thread's name as far as it is known.
        thread: Arc<str>,
        /// Whether a memory cgroup's limit asked for it, not the host's shortage.
        memcg: bool,
        /// Pages it freed.
        pages: u64,
    }
}
