//! One commit of a journal (jbd2). Does not know who waited for it.

use crate::{Device, Nanos};

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
        /// The phases, where `jbd2_run_stats` was seen. Its tracepoint counts in jiffies.
        phases: Option<CommitPhases>,
    }
}

impl JournalCommit {
    /// How long the commit took.
    pub fn latency(&self) -> Nanos {
        self.end - self.start
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
