//! Which function of a stack to name a stretch of time by: the outermost of the file system, as the tools for a
//! function's latency would.

use crate::cause::stack::{self, Wait};

/// How functions of file systems and of their journals are named.
const FILE_SYSTEMS: &[&str] = &[
    "ext4_*", "__ext4_*", "jbd2_*", "__jbd2_*", "xfs_*", "xlog_*", "btrfs_*", "f2fs_*", "ext2_*", "fuse_*",
    "nfs_*",
];

/// ext4's way into generic code that calls ext4 again: what is called then says more.
const WAYS_IN: &[&str] = &[
    "ext4_file_write_iter",
    "ext4_buffered_write_iter",
    "ext4_file_read_iter",
    "ext4_file_splice_read",
    "ext4_filemap_fault",
];

/// The function to name it by; none where the stack is in no file system.
pub(super) fn of(stack: &str) -> Option<&str> {
    let is_one_of = |frame: &str, names: &[&str]| names.iter().any(|name| stack::is_named(frame, name));
    let mut of_file_system = stack::frames(stack).filter(|frame| is_one_of(frame, FILE_SYSTEMS));
    let way_in = of_file_system.next()?;
    if !is_one_of(way_in, WAYS_IN) {
        return Some(way_in);
    }
    // What the generic code waits for by itself is not the file system's.
    match stack::read(stack) {
        (Wait::DirtyPages, function) => Some(function),
        _ => Some(of_file_system.find(|frame| !is_one_of(frame, WAYS_IN)).unwrap_or(way_in)),
    }
}

#[cfg(test)]
mod tests {
    use super::of;

    #[test]
    fn the_outermost_function_that_tells_something_names_the_call() {
        for (stack, function) in [
            (
                "ksys_write;vfs_write;ext4_file_write_iter;ext4_buffered_write_iter;file_update_time;ext4_dirty_inode;__ext4_mark_inode_dirty;jbd2_journal_get_write_access;do_get_write_access",
                Some("ext4_dirty_inode"),
            ),
            (
                "vfs_write;xfs_file_write_iter;xfs_file_buffered_write;xfs_ilock;down_write;rwsem_down_write_slowpath",
                Some("xfs_file_write_iter"),
            ),
            ("do_fsync;vfs_fsync_range;ext4_sync_file;jbd2_log_wait_commit", Some("ext4_sync_file")),
            (
                "ext4_file_write_iter;ext4_buffered_write_iter;generic_perform_write;balance_dirty_pages_ratelimited_flags;balance_dirty_pages;schedule",
                Some("balance_dirty_pages"),
            ),
            (
                "do_sendfile;ext4_file_splice_read;filemap_splice_read;folio_wait_bit_common",
                Some("ext4_file_splice_read"),
            ),
            ("do_sendfile;tcp_sendmsg;sk_stream_wait_memory;schedule", None),
            ("", None),
        ] {
            assert_eq!(of(stack), function, "{stack}");
        }
    }
}
