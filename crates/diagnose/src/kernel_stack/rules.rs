//! Which kernel functions stand for which wait. Names are from Linux 5.10 to 7.2; a name that ends in `*` stands for
//! every function with that prefix.
//!
//! Rules are in order of precedence: a wait for the journal ends in the same `io_schedule` as a plain read, and a
//! thread that frees memory may wait for anything on the way. If a function itself waits, the rule names that
//! function; if all waits in it belong to it (a commit, a reclaim), the rule comes earlier.

use std::sync::LazyLock;

use crate::kernel_stack::Wait;

/// A wait and the functions that identify it.
pub(crate) struct Rule {
    pub(crate) wait: Wait,
    /// One of them is on the stack; the most specific first.
    pub(crate) functions: Vec<&'static str>,
    /// One of these is on the stack too, unless the list is empty.
    pub(crate) within: Vec<&'static str>,
    /// The outermost of `functions` was called by one of these.
    /// No condition if the list is empty. Otherwise the caller names the wait.
    pub(crate) called_by: Vec<&'static str>,
}

fn rule(wait: Wait, functions: &'static str) -> Rule {
    Rule { wait, functions: names(functions), within: Vec::new(), called_by: Vec::new() }
}

fn names(words: &'static str) -> Vec<&'static str> {
    words.split_whitespace().collect()
}

/// Functions that write into a page, or allow a store into a mapped one.
/// They must wait while a device that needs the page unchanged writes it, and on btrfs always.
const DIRTYING: &str = "ext4_da_write_begin ext4_write_begin ext4_page_mkwrite iomap_write_begin iomap_page_mkwrite \
    block_write_begin block_page_mkwrite grab_cache_page_write_begin f2fs_write_begin \
    prepare_one_folio prepare_pages btrfs_page_mkwrite";

/// Functions that take an inode's own locks: its `i_rwsem`, its mapping's invalidate lock, ext4's `i_data_sem`. Other
/// locks are taken in the same way: the address space's (`mmap_lock`), those of btrfs's trees.
const INODE_LOCKERS: &str = "ext4_file_* ext4_buffered_write_iter ext4_dio_* ext4_map_blocks ext4_da_map_blocks* \
    ext4_da_get_block_prep ext4_page_mkwrite ext4_filemap_fault ext4_setattr ext4_truncate \
    ext4_fallocate btrfs_inode_lock btrfs_file_* btrfs_buffered_write btrfs_direct_write \
    btrfs_sync_file btrfs_page_mkwrite generic_file_* vfs_* filemap_* page_cache_ra_* inode_lock* \
    lock_rename* lock_two_directories do_unlinkat filename_unlinkat do_renameat2 do_truncate \
    notify_change open_last_lookups path_openat filename_create";

/// The writer's check whether the file system is frozen: `sb_start_write` and its siblings
/// (include/linux/fs/super.h), which mostly leave no frame.
const ASKS_FREEZER: &str = "percpu_rwsem_wait __percpu_down_read percpu_down_read";

/// Callers of that check. Locks of this kind are also taken for cgroups, a file's leases and ext4's write-back.
const FREEZABLE: &str = "vfs_write vfs_writev do_writev do_pwritev vfs_iter_write vfs_iocb_iter_write do_iter_write \
    do_sendfile __do_sendfile splice_file_range_actor iter_file_splice_write vfs_fallocate \
    vfs_copy_file_range do_sys_ftruncate ksys_ftruncate do_ftruncate vfs_truncate path_openat \
    open_last_lookups file_update_time ext4_page_mkwrite ext4_evict_inode filemap_page_mkwrite \
    block_page_mkwrite btrfs_page_mkwrite xfs_filemap_page_mkwrite xfs_write_fault* \
    __xfs_filemap_fault* xfs_trans_alloc* start_transaction do_page_mkwrite \
    io_write aio_write";

/// The parsed rules.
pub(crate) static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| {
    vec![
        // kernel/signal.c, kernel/freezer.c, kernel/exit.c: on the way back from any call.
        rule(
            Wait::Stopped,
            "do_signal_stop ptrace_stop do_freezer_trap __refrigerator do_jobctl_trap coredump_task_exit",
        ),
        Rule {
            within: names(ASKS_FREEZER),
            ..rule(
                Wait::Frozen,
                "sb_start_write __sb_start_write sb_start_pagefault sb_start_intwrite mnt_want_write*",
            )
        },
        Rule { called_by: names(FREEZABLE), ..rule(Wait::Frozen, ASKS_FREEZER) },
        // mm/page-writeback.c; the first is static with one caller and may be inlined.
        rule(
            Wait::DirtyPages,
            "balance_dirty_pages balance_dirty_pages_ratelimited_flags balance_dirty_pages_ratelimited",
        ),
        // mm/vmscan.c, mm/memcontrol.c. `shrink_dcache_*` is not a reclaim.
        rule(
            Wait::Reclaim,
            "try_to_free_mem_cgroup_pages try_to_free_pages throttle_direct_reclaim reclaim_throttle shrink_node* shrink_lruvec* shrink_slab* shrink_one \
             shrink_many shrink_inactive_list shrink_folio_list shrink_page_list",
        ),
        // The reclaim that it does first has its rule above.
        rule(Wait::MemoryHigh, "__mem_cgroup_handle_over_high mem_cgroup_handle_over_high"),
        // `io.latency` and `io.cost` make a thread sleep before its request, or on its way back from a call.
        rule(
            Wait::IoThrottle,
            "__blkcg_maybe_throttle_current blkcg_maybe_throttle_current blkcg_maybe_throttle_blkg \
             blkcg_iolatency_throttle __blkcg_iolatency_throttle ioc_rqos_throttle",
        ),
        // Before the rules for pages: its calls wait for pages, but no local device has them.
        rule(
            Wait::Nfs,
            "nfs_wait_bit_killable rpc_wait_bit_killable nfs_wait_on_request nfs_iocounter_wait \
             nfs4_delay* nfs_file_* nfs_* nfs3_* nfs4_* nfs42_*",
        ),
        rule(Wait::Checkpoint, "jbd2_log_do_checkpoint __jbd2_log_wait_for_space"),
        // Before fast commits: an impossible fast commit falls back to a full commit and waits here.
        rule(Wait::Journal, "jbd2_log_wait_commit"),
        rule(Wait::FastCommit, "jbd2_fc_begin_commit ext4_fc_perform_commit ext4_fc_* jbd2_fc_*"),
        rule(
            Wait::BtrfsTransaction,
            "wait_current_trans wait_for_commit wait_log_commit btrfs_wait_for_commit \
             btrfs_commit_transaction*",
        ),
        rule(Wait::StablePage, "folio_wait_stable wait_for_stable_page"),
        // `folio_wait_stable` ends in a tail call to it and may leave no frame.
        Rule {
            within: names(DIRTYING),
            ..rule(Wait::StablePage, "folio_wait_writeback wait_on_page_writeback")
        },
        rule(
            Wait::Writeback,
            "folio_wait_writeback* wait_on_page_writeback* btrfs_wait_ordered_range \
             btrfs_start_ordered_extent*",
        ),
        rule(Wait::PageLock, "__folio_lock folio_lock __lock_page"),
        rule(
            Wait::Journal,
            "wait_transaction_locked wait_transaction_switching do_get_write_access \
             jbd2_journal_get_write_access add_transaction_credits",
        ),
        rule(Wait::XfsLogSpace, "xlog_grant_head_wait xlog_grant_head_check xfs_log_regrant xfs_log_reserve"),
        rule(
            Wait::XfsLogForce,
            "xlog_wait_on_iclog xlog_state_get_iclog_space xlog_cil_push_background xlog_cil_force_seq \
             xlog_cil_commit xfs_log_force* __xfs_iunpin_wait xfs_iunpin_wait xlog_wait*",
        ),
        rule(Wait::XfsInodeLock, "xfs_ilock* xfs_lock_two_inodes xfs_lock_inodes"),
        Rule {
            called_by: names(INODE_LOCKERS),
            ..rule(
                Wait::InodeLock,
                "rwsem_down_write_slowpath rwsem_down_read_slowpath down_write* down_read* __down_write* \
             __down_read*",
            )
        },
        rule(Wait::DeviceQueue, "blk_mq_get_tag rq_qos_wait wbt_wait __bio_queue_enter blk_queue_enter"),
        rule(
            Wait::Network,
            "sk_stream_wait_memory sk_stream_wait_connect sk_wait_data inet_csk_accept __lock_sock \
             lock_sock_nested tcp_sendmsg* tcp_recvmsg* unix_stream_*",
        ),
        rule(
            Wait::Device,
            "__wait_on_buffer wait_on_page_bit* folio_wait_bit* folio_put_wait_locked \
             put_and_wait_on_page_locked submit_bio_wait blkdev_issue_flush xfs_buf_iowait blk_io_schedule \
             __iomap_dio_rw dio_await_one bit_wait_io io_schedule wait_for_completion_io*",
        ),
        // Waits for others to join; its waits on the way to the device have rules above.
        rule(Wait::BtrfsTransaction, "btrfs_sync_log"),
        // All its other waits have their own functions, with rules above.
        rule(Wait::JournalBarrier, "start_this_handle"),
    ]
});
