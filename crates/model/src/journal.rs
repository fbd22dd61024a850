//! One commit of a journal (jbd2). Does not know who waited for it.

use crate::{Device, Nanos};

/// A jbd2 transaction's commit and how long each phase took.
#[derive(Clone, Debug, PartialEq)]
pub struct JournalCommit {
    /// When the commit began (`jbd2_start_commit`).
    pub start: Nanos,
    /// When it ended (`jbd2_end_commit`).
    pub end: Nanos,
    /// The block device that holds the file system.
    pub device: Device,
    /// The transaction's number.
    pub transaction: u32,
    /// The phases, where `jbd2_run_stats` was seen. Its tracepoint counts in jiffies.
    pub phases: Option<CommitPhases>,
}

impl JournalCommit {
    /// How long the commit took.
    pub fn latency(&self) -> Nanos {
        self.end - self.start
    }
}

/// Phases of a commit (`struct transaction_run_stats_s`, include/linux/jbd2.h), at the kernel's
/// resolution of one jiffy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommitPhases {
    /// A handle waited this long for the transaction to start.
    pub wait: Nanos,
    /// The transaction was running and took new handles.
    pub running: Nanos,
    /// It was locked: no new handles, waiting for open ones to finish.
    pub locked: Nanos,
    /// Flushing data.
    pub flushing: Nanos,
    /// Writing the log.
    pub logging: Nanos,
    /// Handles in the transaction.
    pub handles: u32,
    /// Blocks it wrote.
    pub blocks: u32,
    /// Blocks it logged.
    pub blocks_logged: u32,
}
