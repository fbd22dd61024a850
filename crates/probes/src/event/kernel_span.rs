//! A call of a kernel function that holds up whoever waits for it. Does not know who does.

use std::sync::Arc;

use model::SpanSource;

/// A call of a kernel function, of whichever process.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelSpan {
    /// Its entry.
    pub start_ns: u64,
    /// Its return.
    pub end_ns: u64,
    /// The function's name.
    pub function: Arc<str>,
    /// The file system's device, where it is known.
    pub device: Option<(u32, u32)>,
    /// The thread that called it.
    pub tid: u32,
    /// The thread's name; the kernel keeps 15 bytes.
    pub comm: Arc<str>,
    /// By what its ends are known.
    pub seen_by: SpanSource,
}

/// What ends with a tracepoint and begins at the latest where its thread first waits inside.
pub(crate) const BTRFS_COMMIT: &str = "btrfs_commit_transaction";

/// `enum span_function` of `bpf/events.h`, in its order from 1 on.
const FUNCTIONS: [&str; 14] = [
    "ext4_fc_commit",
    "xlog_grant_head_wait",
    "xlog_sync",
    BTRFS_COMMIT,
    "ext4_file_write_iter",
    "ext4_sync_file",
    "ext4_dirty_inode",
    "jbd2_log_wait_commit",
    "xfs_file_write_iter",
    "xfs_file_fsync",
    "xfs_log_force",
    "xfs_log_force_seq",
    "btrfs_file_write_iter",
    "btrfs_sync_file",
];

/// The function of that number.
pub(crate) fn function(number: u16) -> Option<&'static str> {
    FUNCTIONS.get(usize::from(number).checked_sub(1)?).copied()
}
