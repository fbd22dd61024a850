/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * File-system functions whose entry and return are hooked where the kernel allows fentry: exact lengths, which
 * off-CPU stacks give only in part. One pair of programs a function, `NAME_enter` and `NAME_leave`; loaded only
 * if the plan names them, for most are in modules that need not be there. Calls that can hold up others are
 * reported of all processes, calls that serve one caller only of the target.
 */

static __always_inline __u32 device_of_inode(struct inode *inode)
{
	return BPF_CORE_READ(inode, i_sb, s_dev);
}

static __always_inline __u32 device_of_file(struct file *file)
{
	return device_of_inode(BPF_CORE_READ(file, f_inode));
}

static __always_inline __u32 device_of_kiocb(struct kiocb *kiocb)
{
	return device_of_file(BPF_CORE_READ(kiocb, ki_filp));
}

static __always_inline __u32 device_of_journal(struct journal_s *journal)
{
	return BPF_CORE_READ(journal, j_fs_dev, bd_dev);
}

static __always_inline __u32 device_of_xfs(struct xfs_mount *mount)
{
	return BPF_CORE_READ(mount, m_super, s_dev);
}

static __always_inline __u32 device_of_btrfs(struct btrfs_trans_handle *handle)
{
	return BPF_CORE_READ(handle, fs_info, sb, s_dev);
}

static __always_inline bool of_anyone(void)
{
	return true;
}

static __always_inline bool of_target(void)
{
	return is_target(current_ids());
}

/* `argument` is the function's first, from which `device` finds the file system. */
#define SPAN(name, function, whose, argument, device)                                                        \
	SEC("fentry/" #name)                                                                                 \
	int BPF_PROG(name##_enter, argument)                                                                 \
	{                                                                                                    \
		return whose() ? span_enter(function, device) : 0;                                           \
	}                                                                                                    \
	SEC("fexit/" #name)                                                                                  \
	int BPF_PROG(name##_leave)                                                                           \
	{                                                                                                    \
		return whose() ? span_exit(function, SPAN_BY_FUNCTION) : 0;                                  \
	}

SPAN(ext4_file_write_iter, SPAN_EXT4_FILE_WRITE_ITER, of_target, struct kiocb *k, device_of_kiocb(k))
SPAN(ext4_sync_file, SPAN_EXT4_SYNC_FILE, of_target, struct file *f, device_of_file(f))
SPAN(ext4_dirty_inode, SPAN_EXT4_DIRTY_INODE, of_target, struct inode *i, device_of_inode(i))
SPAN(jbd2_log_wait_commit, SPAN_JBD2_LOG_WAIT_COMMIT, of_target, struct journal_s *j, device_of_journal(j))
SPAN(xfs_file_write_iter, SPAN_XFS_FILE_WRITE_ITER, of_target, struct kiocb *k, device_of_kiocb(k))
SPAN(xfs_file_fsync, SPAN_XFS_FILE_FSYNC, of_target, struct file *f, device_of_file(f))
SPAN(xfs_log_force, SPAN_XFS_LOG_FORCE, of_anyone, struct xfs_mount *m, device_of_xfs(m))
SPAN(xfs_log_force_seq, SPAN_XFS_LOG_FORCE_SEQ, of_anyone, struct xfs_mount *m, device_of_xfs(m))
SPAN(btrfs_file_write_iter, SPAN_BTRFS_FILE_WRITE_ITER, of_target, struct kiocb *k, device_of_kiocb(k))
SPAN(btrfs_sync_file, SPAN_BTRFS_SYNC_FILE, of_target, struct file *f, device_of_file(f))
SPAN(btrfs_commit_transaction, SPAN_BTRFS_COMMIT_TRANSACTION, of_anyone, struct btrfs_trans_handle *h,
     device_of_btrfs(h))
