//! Kernel activity that affects the broker: block requests, journal commits, writers paused for dirty pages, memory
//! reclaim, calls of kernel functions. Does not know who waited for it.

use std::sync::Arc;

use crate::{Device, Nanos, Pid, Tid};

row! {
    block_io_row =>
    /// A block request.
    #[derive(Clone, Debug, PartialEq)]
    pub struct BlockIo {
        /// When its first part entered the device's queue (`block_bio_queue`), where that was seen: from there to
        /// `start` it waited for its thread's plug, the scheduler, a free tag or a limit that counts requests. A
        /// request that blk-throttle (`io.max`) holds back has not entered yet.
        queued: Option<Nanos> as "queued_ns",
        /// When it was handed to the driver (`block_rq_issue`).
        start: Nanos as "start_ns",
        /// When it was done (`block_rq_complete`).
        end: Nanos as "end_ns" => latency: Nanos as "latency_ns" "From start to end.",
        /// The device.
        device: Device,
        /// Read or write.
        direction: Direction,
        /// First sector (512 bytes).
        sector: u64,
        /// Bytes; none for a flush without data.
        bytes: u32,
        /// The thread that issued it: often a kernel worker.
        tid: Tid,
        /// Its name.
        thread: Arc<str>,
        /// The kernel's flags (`rwbs`): `W` write, `R` read, `F` flush or FUA, `S` sync, `M` metadata, …
        flags: Arc<str>,
        /// The inode whose page its first part holds; none for metadata, journals and data that is not from the page
        /// cache.
        inode: Option<u64>,
        /// That inode's file as named by file operations, if any named it.
        file: Option<Arc<str>>,
    }
}

impl BlockIo {
    /// How long it waited before the driver had it.
    pub fn queue_time(&self) -> Option<Nanos> {
        self.queued.map(|queued| self.start - queued)
    }
}

named! {
    /// The direction of the data.
    pub enum Direction {
        /// From the device.
        Read = "read",
        /// To the device.
        Write = "write",
        /// Neither: a flush or a discard.
        Other = "other",
    }
}

row! {
    journal_commit_row =>
    /// A jbd2 transaction's commit and how long each phase took.
    #[derive(Clone, Debug, PartialEq)]
    pub struct JournalCommit {
        /// When the commit began (`jbd2_start_commit`).
        start: Nanos as "start_ns",
        /// When it ended (`jbd2_end_commit`).
        end: Nanos as "end_ns" => latency: Nanos as "latency_ns" "From start to end.",
        /// The block device that holds the file system.
        device: Device,
        /// The transaction's number.
        transaction: u32,
        /// The phases, where `jbd2_run_stats` was seen. That tracepoint counts in jiffies.
        phases: Option<CommitPhases>,
    }
}

row! {
    commit_phases_row =>
    /// Phases of a commit (`struct transaction_run_stats_s`, include/linux/jbd2.h), at the kernel's
    /// resolution of one jiffy.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct CommitPhases {
        /// A handle waited this long for the transaction to start.
        wait: Nanos as "wait_ns",
        /// The transaction was running and took new handles.
        running: Nanos as "running_ns",
        /// It was locked: no new handles, waiting for open ones to finish.
        locked: Nanos as "locked_ns",
        /// Flushing data.
        flushing: Nanos as "flushing_ns",
        /// Writing the log.
        logging: Nanos as "logging_ns",
        /// Handles in the transaction.
        handles: u32,
        /// Blocks it wrote.
        blocks: u32,
        /// Blocks it logged.
        blocks_logged: u32,
    }
}

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
        /// Whether a memory cgroup's limit caused it, not a shortage of the host.
        memcg: bool,
        /// Pages it freed.
        pages: u64,
    }
}

row! {
    kernel_span_row =>
    /// One call of a kernel function that can hold up others: a commit, a log force, a wait for log space.
    #[derive(Clone, Debug, PartialEq)]
    pub struct KernelSpan {
        /// Its entry.
        start: Nanos as "start_ns",
        /// Its return.
        end: Nanos as "end_ns" => latency: Nanos as "latency_ns" "From start to end.",
        /// The function (`btrfs_commit_transaction`, `ext4_fc_commit`, `xfs_log_force`). `freeze_super` lasts from its entry
        /// until the file system was thawed again.
        function: Arc<str>,
        /// The device of the file system, where it is known.
        device: Option<Device>,
        /// The thread it ran in.
        tid: Tid,
        /// The thread's name as far as it is known.
        thread: Arc<str>,
        /// The source of its start and end.
        seen_by: SpanSource,
    }
}

named! {
    /// The source of a span's start and end.
    pub enum SpanSource {
        /// The function's entry and return themselves (fentry and fexit).
        Function = "function",
        /// A pair of tracepoints inside it.
        Tracepoints = "tracepoints",
        /// An interval off the CPU in it: the call may have begun earlier and ended later.
        OffCpu = "off-cpu",
    }
}

lengths! {
    /// How long the commit took.
    JournalCommit::latency;
    /// How long the writer was paused.
    DirtyThrottle::length;
    /// How long the call took.
    KernelSpan::latency;
    /// How long the device took: its service time.
    BlockIo::latency;
}
