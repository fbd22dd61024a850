//! A thread that had to free memory. Does not know for what.

use std::sync::Arc;

/// One direct reclaim on a thread of the target.
#[derive(Clone, Debug, PartialEq)]
pub struct Reclaim {
    /// When it began.
    pub start_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// The thread's name; the kernel keeps 15 bytes.
    pub comm: Arc<str>,
    /// Whether a memory cgroup's limit asked for it, not the host's shortage.
    pub memcg: bool,
    /// Pages it freed.
    pub pages: u64,
}
