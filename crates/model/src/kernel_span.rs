//! A stretch of time inside one kernel function. Does not know what it was good for.

use std::sync::Arc;

use crate::{Device, Nanos, Tid};

row! {
    kernel_span_row =>
    /// One call of a kernel function that can hold up others: a commit, a log force, a wait for log space.
    #[derive(Clone, Debug, PartialEq)]
    pub struct KernelSpan {
        /// Its entry.
        start: Nanos as "start_ns",
        /// Its return.
        end: Nanos as "end_ns" => latency: Nanos as "latency_ns" "From start to end.",
        /// The function (`btrfs_commit_transaction`, `ext4_fc_commit`, `xfs_log_force`).
        function: Arc<str>,
        /// The device of the file system, where it is known.
        device: Option<Device>,
        /// The thread it ran in.
        tid: Tid,
        /// The thread's name as far as it is known.
        thread: Arc<str>,
        /// How its ends were seen.
        seen_by: SpanSource as "source",
    }
}

impl KernelSpan {
    /// How long the call took.
    pub fn latency(&self) -> Nanos {
        self.end - self.start
    }
}

named! {
    /// By what a span's ends are known.
    pub enum SpanSource {
        /// The function's entry and return themselves (fentry and fexit).
        Function = "function",
        /// A pair of tracepoints inside it.
        Tracepoints = "tracepoints",
        /// A stretch off the CPU in it: the call may have begun earlier and ended later.
        OffCpu = "off-cpu",
    }
}
