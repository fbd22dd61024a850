//! What the probes report. Times are `CLOCK_MONOTONIC` nanoseconds, devices (major, minor), ids those that
//! this process's `/proc` shows. Nothing is interpreted: no topics, no causes.

mod block_io;
mod file_op;
mod kernel_span;
mod off_cpu;
mod reclaim;
mod socket;

use std::sync::Arc;

use model::CommitPhases;

pub use block_io::{BlockFile, BlockIo};
pub use file_op::{FileOp, FilePath, HEAD_BYTES, PathArgument, PathArguments, StartDir};
pub use kernel_span::KernelSpan;
pub(crate) use kernel_span::{BTRFS_COMMIT, function};
pub use off_cpu::{OffCpu, Waker};
pub use reclaim::Reclaim;
pub use socket::{SocketOp, TcpEvent};

/// One thing seen by a probe.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// An operation on a file ended.
    FileOp(FileOp),
    /// A thread came back to the CPU within such an operation, or after it from a long uninterruptible wait.
    OffCpu(OffCpu),
    /// A jbd2 commit ended.
    JournalCommit(JournalCommit),
    /// A block request was completed.
    BlockIo(BlockIo),
    /// A thread is about to be paused for dirty pages.
    DirtyThrottle(DirtyThrottle),
    /// A thread had to free memory.
    Reclaim(Reclaim),
    /// A kernel function returned.
    KernelSpan(KernelSpan),
    /// A call on a TCP connection returned.
    SocketOp(SocketOp),
    /// Something went wrong with a TCP connection.
    TcpEvent(TcpEvent),
}

/// A commit of any jbd2 journal on the host.
#[derive(Clone, Debug, PartialEq)]
pub struct JournalCommit {
    /// `jbd2_start_commit`.
    pub start_ns: u64,
    /// `jbd2_end_commit`.
    pub end_ns: u64,
    /// The file system's device.
    pub device: (u32, u32),
    /// The transaction's number.
    pub transaction: u32,
    /// Phases, where they were seen and the kernel's HZ is known.
    pub phases: Option<CommitPhases>,
}

/// A pause in `balance_dirty_pages` of a thread of the target.
#[derive(Clone, Debug, PartialEq)]
pub struct DirtyThrottle {
    /// When the pause began.
    pub start_ns: u64,
    /// How long the kernel meant it to be (a whole number of milliseconds).
    pub pause_ns: u64,
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// Its name.
    pub comm: Arc<str>,
    /// Dirty pages of the host (or its cgroup) at that time.
    pub dirty_pages: u64,
    /// The hard limit, in pages.
    pub limit_pages: u64,
    /// The set point around which the kernel holds writers, in pages.
    pub setpoint_pages: u64,
}
