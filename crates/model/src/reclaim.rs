//! A thread that had to free memory before it could go on. Does not know what it needed the memory for.

use std::sync::Arc;

use crate::{Nanos, Pid, Tid};

/// One direct reclaim, on the thread that asked for memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Reclaim {
    /// When it began (`mm_vmscan_direct_reclaim_begin`, `mm_vmscan_memcg_reclaim_begin`).
    pub start: Nanos,
    /// When it ended.
    pub end: Nanos,
    /// The process.
    pub pid: Pid,
    /// The thread.
    pub tid: Tid,
    /// The thread's name as far as it is known.
    pub thread: Arc<str>,
    /// Whether a memory cgroup's limit asked for it, not the host's shortage.
    pub memcg: bool,
    /// Pages it freed.
    pub pages: u64,
}
