//! A stretch of time inside one kernel function. Does not know what it was good for.

use std::sync::Arc;

use crate::{Device, Nanos, Tid};

/// One call of a kernel function that can hold up others: a commit, a log force, a wait for log space.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelSpan {
    /// Its entry.
    pub start: Nanos,
    /// Its return.
    pub end: Nanos,
    /// The function (`btrfs_commit_transaction`, `ext4_fc_commit`, `xfs_log_force`).
    pub function: Arc<str>,
    /// The device of the file system, where it is known.
    pub device: Option<Device>,
    /// The thread it ran in.
    pub tid: Tid,
    /// The thread's name as far as it is known.
    pub thread: Arc<str>,
    /// How its ends were seen.
    pub seen_by: SpanSource,
}

impl KernelSpan {
    /// How long the call took.
    pub fn latency(&self) -> Nanos {
        self.end - self.start
    }
}

/// By what a span's ends are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SpanSource {
    /// The function's entry and return themselves (fentry and fexit).
    Function,
    /// A pair of tracepoints inside it.
    Tracepoints,
    /// A stretch off the CPU in it: the call may have begun earlier and ended later.
    OffCpu,
}

impl SpanSource {
    /// Every source.
    pub const ALL: [Self; 3] = [Self::Function, Self::Tracepoints, Self::OffCpu];

    /// The name in tables and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Function => "function",
            Self::Tracepoints => "tracepoints",
            Self::OffCpu => "off-cpu",
        }
    }

    /// The source of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|source| source.as_str() == name)
    }
}
