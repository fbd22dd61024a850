//! Every rule with a stack as kernels produce it, outermost first.

use model::{Nanos, OffCpu, Row};

use super::rules::RULES;
use super::{Wait, classify, is_named, naming_frame, read};

/// Stacks, what they wait for, and the function that shows it.
const STACKS: &[(&str, Wait, &str)] = &[
    (
        "ext4_dirty_inode;__ext4_mark_inode_dirty;ext4_reserve_inode_write;jbd2_journal_get_write_access;do_get_write_access;out_of_line_wait_on_bit;__wait_on_bit;bit_wait_io;io_schedule;schedule;__schedule",
        Wait::Journal,
        "do_get_write_access",
    ),
    (
        "ext4_da_write_begin;__ext4_journal_start_sb;jbd2__journal_start;start_this_handle;add_transaction_credits;wait_transaction_locked.isra.0;schedule",
        Wait::Journal,
        "wait_transaction_locked",
    ),
    (
        "__x64_sys_fsync;do_fsync;vfs_fsync_range;ext4_sync_file;ext4_fsync_journal;jbd2_complete_transaction;jbd2_log_wait_commit;schedule;__schedule",
        Wait::Journal,
        "jbd2_log_wait_commit",
    ),
    // An impossible fast commit.
    (
        "ext4_sync_file;ext4_fsync_journal;ext4_fc_commit;jbd2_fc_end_commit_fallback;__jbd2_fc_end_commit;jbd2_complete_transaction;jbd2_log_wait_commit;schedule",
        Wait::Journal,
        "jbd2_log_wait_commit",
    ),
    (
        "ext4_sync_file;ext4_fsync_journal;ext4_fc_commit;ext4_fc_perform_commit;jbd2_fc_wait_bufs;__wait_on_buffer;bit_wait_io;io_schedule;schedule",
        Wait::FastCommit,
        "ext4_fc_perform_commit",
    ),
    (
        "do_fsync;ext4_sync_file;ext4_fc_commit;jbd2_fc_begin_commit;schedule;__schedule",
        Wait::FastCommit,
        "jbd2_fc_begin_commit",
    ),
    (
        "ext4_buffered_write_iter;file_update_time_flags;__mark_inode_dirty;ext4_dirty_inode;jbd2__journal_start;start_this_handle;schedule;__schedule",
        Wait::JournalBarrier,
        "start_this_handle",
    ),
    (
        "ext4_da_write_begin;jbd2__journal_start;start_this_handle;add_transaction_credits;__jbd2_log_wait_for_space;jbd2_log_do_checkpoint;__wait_on_buffer;bit_wait_io;io_schedule",
        Wait::Checkpoint,
        "jbd2_log_do_checkpoint",
    ),
    // Another thread's checkpoint.
    (
        "ext4_dirty_inode;__ext4_journal_start_sb;jbd2__journal_start;start_this_handle;add_transaction_credits;__jbd2_log_wait_for_space;mutex_lock_io;__mutex_lock.constprop.0;schedule_preempt_disabled;schedule",
        Wait::Checkpoint,
        "__jbd2_log_wait_for_space",
    ),
    (
        "generic_perform_write;balance_dirty_pages_ratelimited_flags;balance_dirty_pages;io_schedule_timeout;schedule_timeout;schedule",
        Wait::DirtyPages,
        "balance_dirty_pages",
    ),
    (
        "ext4_buffered_write_iter;generic_perform_write;balance_dirty_pages_ratelimited;io_schedule_timeout;schedule_timeout",
        Wait::DirtyPages,
        "balance_dirty_pages_ratelimited",
    ),
    (
        "ext4_da_write_begin;__filemap_get_folio;__filemap_add_folio;__mem_cgroup_charge;charge_memcg;try_charge_memcg;try_to_free_mem_cgroup_pages;do_try_to_free_pages;shrink_node;shrink_lruvec;shrink_inactive_list;shrink_folio_list;folio_wait_writeback;folio_wait_bit_common;io_schedule",
        Wait::Reclaim,
        "try_to_free_mem_cgroup_pages",
    ),
    (
        "grab_cache_page_write_begin;pagecache_get_page;__alloc_pages_nodemask;__alloc_pages_slowpath.constprop.0;try_to_free_pages;do_try_to_free_pages;shrink_node;congestion_wait;io_schedule_timeout",
        Wait::Reclaim,
        "try_to_free_pages",
    ),
    // Memory that a cgroup over memory.high frees, and the sleep if that was not enough.
    (
        "exit_to_user_mode_prepare;mem_cgroup_handle_over_high;reclaim_high.constprop.0;try_to_free_mem_cgroup_pages;shrink_node;schedule_timeout",
        Wait::Reclaim,
        "try_to_free_mem_cgroup_pages",
    ),
    (
        "exit_to_user_mode_prepare;mem_cgroup_handle_over_high;schedule_timeout_killable;schedule_timeout",
        Wait::MemoryHigh,
        "mem_cgroup_handle_over_high",
    ),
    (
        "ksys_write;ext4_da_write_begin;__filemap_add_folio;try_charge_memcg;__mem_cgroup_handle_over_high;schedule_timeout_killable;schedule_timeout;schedule",
        Wait::MemoryHigh,
        "__mem_cgroup_handle_over_high",
    ),
    (
        "exit_to_user_mode_loop;__blkcg_maybe_throttle_current;io_schedule;schedule;__schedule",
        Wait::IoThrottle,
        "__blkcg_maybe_throttle_current",
    ),
    (
        "ext4_sync_file;ext4_writepages;submit_bio_noacct;blk_mq_submit_bio;__rq_qos_throttle;blkcg_iolatency_throttle;rq_qos_wait;io_schedule",
        Wait::IoThrottle,
        "blkcg_iolatency_throttle",
    ),
    (
        "ext4_mpage_readpages;submit_bio_noacct;blk_mq_submit_bio;__rq_qos_throttle;ioc_rqos_throttle;io_schedule;schedule",
        Wait::IoThrottle,
        "ioc_rqos_throttle",
    ),
    // Write-back's own throttle, not a cgroup's.
    (
        "ext4_writepages;submit_bio_noacct;blk_mq_submit_bio;__rq_qos_throttle;wbt_wait;rq_qos_wait;io_schedule",
        Wait::DeviceQueue,
        "rq_qos_wait",
    ),
    (
        "vfs_fsync_range;nfs_file_fsync;nfs_commit_inode;__nfs_commit_inode;nfs_wait_bit_killable;schedule",
        Wait::Nfs,
        "nfs_wait_bit_killable",
    ),
    (
        "vfs_read;nfs_file_read;generic_file_read_iter;filemap_read;filemap_update_page;folio_wait_bit_common;io_schedule",
        Wait::Nfs,
        "nfs_file_read",
    ),
    (
        "do_sys_openat2;path_openat;nfs4_file_open;_nfs4_opendata_to_nfs4_state;rpc_wait_bit_killable;schedule",
        Wait::Nfs,
        "rpc_wait_bit_killable",
    ),
    (
        "do_fsync;nfs_file_fsync;file_write_and_wait_range;__filemap_fdatawait_range;folio_wait_writeback;io_schedule",
        Wait::Nfs,
        "nfs_file_fsync",
    ),
    // Shrinking the dentry cache frees memory, but for no thread that waits for it.
    (
        "vfs_rmdir;shrink_dcache_parent;shrink_dentry_list;__dentry_kill;_cond_resched;schedule",
        Wait::Other,
        "_cond_resched",
    ),
    (
        "ext4_da_write_begin;__filemap_get_folio;__folio_lock;folio_wait_bit_common;io_schedule;schedule",
        Wait::PageLock,
        "__folio_lock",
    ),
    (
        "generic_file_buffered_read;__lock_page;wait_on_page_bit_common;io_schedule",
        Wait::PageLock,
        "__lock_page",
    ),
    (
        "generic_perform_write;ext4_da_write_begin;folio_wait_stable;folio_wait_writeback;folio_wait_bit_common;io_schedule;schedule",
        Wait::StablePage,
        "folio_wait_stable",
    ),
    (
        "generic_perform_write;ext4_da_write_begin;folio_wait_writeback;folio_wait_bit_common;io_schedule;schedule",
        Wait::StablePage,
        "folio_wait_writeback",
    ),
    (
        "ext4_write_begin;grab_cache_page_write_begin;wait_for_stable_page;wait_on_page_writeback;wait_on_page_bit_common;io_schedule",
        Wait::StablePage,
        "wait_for_stable_page",
    ),
    (
        "do_fsync;ext4_sync_file;file_write_and_wait_range;__filemap_fdatawait_range;folio_wait_writeback;folio_wait_bit_common;io_schedule",
        Wait::Writeback,
        "folio_wait_writeback",
    ),
    (
        "ext4_sync_file;file_write_and_wait_range;__filemap_fdatawait_range;wait_on_page_writeback;wait_on_page_bit;io_schedule",
        Wait::Writeback,
        "wait_on_page_writeback",
    ),
    (
        "xfs_file_write_iter;xfs_file_buffered_write;xfs_vn_update_time;xfs_trans_alloc;xfs_trans_reserve;xfs_log_reserve;xlog_grant_head_check;xlog_grant_head_wait;schedule",
        Wait::XfsLogSpace,
        "xlog_grant_head_wait",
    ),
    (
        "do_fsync;xfs_file_fsync;xfs_fsync_flush_log;xfs_log_force_seq;xlog_force_lsn;xlog_wait_on_iclog;schedule",
        Wait::XfsLogForce,
        "xlog_wait_on_iclog",
    ),
    (
        "xfs_file_fsync;xfs_log_force_seq;xlog_cil_force_seq;xlog_cil_push_now.isra.0;__flush_work;__wait_for_common;schedule_timeout",
        Wait::XfsLogForce,
        "xlog_cil_force_seq",
    ),
    (
        "vfs_write;xfs_file_write_iter;xfs_file_buffered_write;xfs_ilock_iocb;xfs_ilock;down_write;rwsem_down_write_slowpath;schedule_preempt_disabled",
        Wait::XfsInodeLock,
        "xfs_ilock_iocb",
    ),
    (
        "vfs_read;xfs_file_read_iter;xfs_file_buffered_read;xfs_ilock;down_read;rwsem_down_read_slowpath",
        Wait::XfsInodeLock,
        "xfs_ilock",
    ),
    (
        "vfs_write;ext4_file_write_iter;ext4_buffered_write_iter;down_write;rwsem_down_write_slowpath;schedule",
        Wait::InodeLock,
        "ext4_buffered_write_iter",
    ),
    (
        "do_user_addr_fault;handle_mm_fault;do_fault;ext4_page_mkwrite;down_read;rwsem_down_read_slowpath;schedule",
        Wait::InodeLock,
        "ext4_page_mkwrite",
    ),
    // The address space's lock, taken by a fault within a write.
    (
        "ext4_file_write_iter;fault_in_readable;asm_exc_page_fault;do_user_addr_fault;lock_mm_and_find_vma;down_read_killable;rwsem_down_read_slowpath;schedule",
        Wait::Other,
        "lock_mm_and_find_vma",
    ),
    (
        "do_unlinkat;vfs_unlink;btrfs_unlink;btrfs_search_slot;btrfs_read_lock_root_node;btrfs_tree_read_lock_nested;down_read;rwsem_down_read_slowpath;schedule_preempt_disabled",
        Wait::Other,
        "btrfs_tree_read_lock_nested",
    ),
    (
        "btrfs_file_write_iter;btrfs_buffered_write;btrfs_delalloc_reserve_metadata;start_transaction;wait_current_trans;schedule",
        Wait::BtrfsTransaction,
        "wait_current_trans",
    ),
    (
        "btrfs_sync_file;btrfs_commit_transaction;btrfs_write_and_wait_transaction;filemap_fdatawait_range;folio_wait_writeback;io_schedule",
        Wait::BtrfsTransaction,
        "btrfs_commit_transaction",
    ),
    ("do_fsync;btrfs_sync_file;btrfs_sync_log;schedule;__schedule", Wait::BtrfsTransaction, "btrfs_sync_log"),
    (
        "ext4_sync_file;ext4_writepages;submit_bio_noacct;blk_mq_submit_bio;__blk_mq_alloc_requests;blk_mq_get_tag;io_schedule;schedule",
        Wait::DeviceQueue,
        "blk_mq_get_tag",
    ),
    (
        "blk_mq_submit_bio;__rq_qos_throttle;wbt_wait;rq_qos_wait;io_schedule;schedule",
        Wait::DeviceQueue,
        "rq_qos_wait",
    ),
    (
        "vfs_write;ext4_file_write_iter;iomap_dio_rw;__iomap_dio_rw;io_schedule_timeout;schedule_timeout;schedule;__schedule",
        Wait::Device,
        "__iomap_dio_rw",
    ),
    (
        "ext4_map_blocks;ext4_mb_new_blocks;ext4_wait_block_bitmap;__wait_on_buffer;bit_wait_io;io_schedule;schedule",
        Wait::Device,
        "__wait_on_buffer",
    ),
    (
        "ext4_file_read_iter;filemap_read;filemap_get_pages;filemap_update_page;folio_put_wait_locked;folio_wait_bit_common;io_schedule",
        Wait::Device,
        "folio_wait_bit_common",
    ),
    (
        "ext4_sync_file;blkdev_issue_flush;submit_bio_wait;wait_for_completion_io_timeout;io_schedule_timeout",
        Wait::Device,
        "submit_bio_wait",
    ),
    (
        "do_sendfile;splice_file_to_socket;sock_sendmsg;tcp_sendmsg;tcp_sendmsg_locked;sk_stream_wait_memory;wait_woken;schedule_timeout",
        Wait::Network,
        "sk_stream_wait_memory",
    ),
    // A write on Linux 5.10, writes on ext4 and XFS since 6.1, a store into a mapped index, an open that creates.
    (
        "ksys_write;vfs_write;__sb_start_write;__percpu_down_read;percpu_rwsem_wait;schedule;__schedule",
        Wait::Frozen,
        "__sb_start_write",
    ),
    (
        "do_syscall_64;ksys_write;vfs_write;__percpu_down_read;percpu_rwsem_wait;schedule;__schedule",
        Wait::Frozen,
        "vfs_write",
    ),
    (
        "asm_exc_page_fault;do_user_addr_fault;handle_mm_fault;do_fault;do_page_mkwrite;ext4_page_mkwrite;__percpu_down_read.part.0;percpu_rwsem_wait;schedule",
        Wait::Frozen,
        "ext4_page_mkwrite",
    ),
    (
        "xfs_file_write_iter;xfs_vn_update_time;xfs_trans_alloc;__percpu_down_read;percpu_rwsem_wait;schedule",
        Wait::Frozen,
        "xfs_trans_alloc",
    ),
    (
        "do_sys_openat2;do_filp_open;path_openat;mnt_want_write;__percpu_down_read;percpu_rwsem_wait;schedule",
        Wait::Frozen,
        "mnt_want_write",
    ),
    // The same kind of lock elsewhere: ext4's write-back, a cgroup's, a file's leases.
    (
        "ext4_file_write_iter;ext4_writepages;ext4_writepages_down_read;percpu_down_read;percpu_rwsem_wait;schedule",
        Wait::Other,
        "percpu_rwsem_wait",
    ),
    (
        "kernel_clone;copy_process;cgroup_can_fork;percpu_rwsem_wait;schedule",
        Wait::Other,
        "percpu_rwsem_wait",
    ),
    (
        "exit_to_user_mode_loop;arch_do_signal_or_restart;get_signal;do_signal_stop;schedule;__schedule",
        Wait::Stopped,
        "do_signal_stop",
    ),
    (
        "do_syscall_64;syscall_exit_to_user_mode;get_signal;__refrigerator;io_schedule;schedule",
        Wait::Stopped,
        "__refrigerator",
    ),
    ("get_signal;do_freezer_trap;schedule;__schedule", Wait::Stopped, "do_freezer_trap"),
    (
        "ext4_create;mutex_lock;__mutex_lock.isra.0;schedule_preempt_disabled;schedule",
        Wait::Other,
        "ext4_create",
    ),
    ("", Wait::Other, ""),
];

#[test]
fn stacks_give_the_expected_wait_and_function() {
    for &(stack, wait, frame) in STACKS {
        assert_eq!(read(stack), (wait, frame), "{stack}");
        assert_eq!(naming_frame(stack), frame, "{stack}");
    }
}

#[test]
fn every_rule_decides_at_least_one_stack() {
    for (at, rule) in RULES.iter().enumerate() {
        let decides = |stack: &str| {
            let frames = super::frames(stack).collect::<Vec<_>>();
            let first = RULES.iter().position(|rule| rule.frame(&frames).is_some());
            first == Some(at)
        };
        assert!(STACKS.iter().any(|(stack, ..)| decides(stack)), "{:?}, rule {at}", rule.wait);
    }
}

#[test]
fn names_match_as_prefixes_only_with_a_star() {
    assert!(is_named("shrink_node_memcgs", "shrink_node*"));
    assert!(!is_named("folio_lock_killable", "folio_lock"));
}

#[test]
fn preemption_is_a_run_queue_wait_for_any_stack() {
    let preempted = OffCpu {
        start: Nanos(0),
        end: Nanos(1),
        pid: 1,
        tid: 1,
        thread: "t".into(),
        preempted: true,
        stack: "do_get_write_access;schedule".into(),
        ..Row::empty()
    };
    assert_eq!(classify(&preempted), Wait::RunQueue);
    assert_eq!(classify(&OffCpu { preempted: false, ..preempted }), Wait::Journal);
}
