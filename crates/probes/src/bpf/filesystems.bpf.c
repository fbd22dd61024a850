// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Calls inside file systems: ext4's fast commits, XFS's log, btrfs's commits, and hooked functions. */
#include "spans.h"
#include "state.h"

/*
 * ext4's fast commits: an fsync that writes a few blocks beside the journal instead of a whole transaction. They run in
 * the calling thread, of any process. If no fast commit is possible, the call falls back to a jbd2 commit and waits for
 * it before it returns (ext4_fc_commit, fs/ext4/fast_commit.c).
 */

SEC("tracepoint/ext4/ext4_fc_commit_start")
int fc_commit_start(void *ctx)
{
	__u32 device = 0;

	READ_FIELD(device, ctx, fc_commit_start.dev);
	return span_enter(ext4_fc_commit, device);
}

SEC("tracepoint/ext4/ext4_fc_commit_stop")
int fc_commit_stop(void *ctx)
{
	return span_exit(ext4_fc_commit, SPAN_BY_TRACEPOINTS);
}

/*
 * XFS's log: waits for space in it, and writes of its in-core buffers to the disk, by any thread. Classic tracepoints,
 * which need no BTF of the module. Waits for a log force or an inode lock show in off-CPU stacks.
 */

/* Fires each time the thread goes to sleep for space (xlog_grant_head_wait, fs/xfs/xfs_log.c). */
SEC("tracepoint/xfs/xfs_log_grant_sleep")
int grant_sleep(void *ctx)
{
	__u32 device = 0;

	READ_FIELD(device, ctx, grant_sleep.dev);
	return span_enter(xlog_grant_head_wait, device);
}

SEC("tracepoint/xfs/xfs_log_grant_wake")
int grant_wake(void *ctx)
{
	return span_exit(xlog_grant_head_wait, SPAN_BY_TRACEPOINTS);
}

/* A log's device and the sequence number of the buffer's first record, unique to the buffer. */
struct iclog_key {
	__u64 lsn;
	__u32 device;
	__u32 reserved;
};

/* A log has at most eight buffers; entries of a file system that was shut down are evicted over time. */
BPF_MAP(iclog_writes, LRU_HASH, struct iclog_key, struct kernel_span_event, 1024);

/* The last user of a buffer hands it to the disk: an fsync's thread or a worker of the log. */
SEC("tracepoint/xfs/xlog_iclog_syncing")
int iclog_syncing(void *ctx)
{
	struct kernel_span_event write;
	struct iclog_key key = {};

	READ_FIELD(key.device, ctx, iclog_syncing.dev);
	READ_FIELD(key.lsn, ctx, iclog_syncing.lsn);
	write = span_of_current(xlog_sync, SPAN_BY_TRACEPOINTS, key.device);
	write.start_ns = bpf_ktime_get_ns();
	if (bpf_map_update_elem(&iclog_writes, &key, &write, BPF_ANY))
		count_lost(LOST_MAP_FULL);
	return 0;
}

/* Runs in a worker, once the buffer is on the disk. */
SEC("tracepoint/xfs/xlog_iclog_sync_done")
int iclog_sync_done(void *ctx)
{
	struct kernel_span_event *write;
	struct iclog_key key = {};

	READ_FIELD(key.device, ctx, iclog_sync_done.dev);
	READ_FIELD(key.lsn, ctx, iclog_sync_done.lsn);
	write = bpf_map_lookup_elem(&iclog_writes, &key);
	if (!write)
		return 0;
	write->end_ns = bpf_ktime_get_ns();
	emit(write, sizeof(*write));
	bpf_map_delete_elem(&iclog_writes, &key);
	return 0;
}

/*
 * btrfs: commits of transactions, of all processes. The only tracepoint of a commit fires at its end, so only ends are
 * reported; user space derives the start from the thread's waits inside. fentry sees both ends.
 */

SEC("tp_btf/btrfs_transaction_commit")
int BPF_PROG(btrfs_transaction_commit, struct btrfs_fs_info *fs)
{
	struct kernel_span_event event;

	/* since Linux 6.12 the verifier assumes that arguments of a module's tracepoint may be NULL */
	if (!fs || settings.exact_commits)
		return 0;
	event = span_of_current(btrfs_commit_transaction, SPAN_END_ONLY, BPF_CORE_READ(fs, sb, s_dev));
	event.end_ns = bpf_ktime_get_ns();
	emit(&event, sizeof(event));
	return 0;
}

/*
 * Frozen file systems: from the entry of freeze_super, which first stops writers and then writes back what is dirty, to
 * the return of thaw_super (fs/super.c). These functions cover all callers (the ioctls, device mapper, a suspend); if
 * functions cannot be hooked, only the ioctls FIFREEZE and FITHAW are seen.
 */

/* include/uapi/linux/fs.h */
#define FIFREEZE 0xc0045877
#define FITHAW 0xc0045878

/* By device: a file system has one freeze at a time. A failed freeze's entry stays until the next. */
BPF_MAP(freezes, HASH, __u32, struct kernel_span_event, 256);

/* Number of threads inside a thaw: while it is 0, returns of ioctls need no look-up. */
static __u32 thaws;

/* SB_UNFROZEN is 0: freezing a file system that is frozen, or being frozen, fails or is only counted. */
static __always_inline int freeze_begins(struct super_block *super, __u8 source)
{
	__u32 device = BPF_CORE_READ(super, s_dev);
	struct kernel_span_event freeze;

	if (!device || BPF_CORE_READ(super, s_writers.frozen))
		return 0;
	freeze = span_of_current(freeze_super, source, device);
	freeze.start_ns = bpf_ktime_get_ns();
	if (bpf_map_update_elem(&freezes, &device, &freeze, BPF_ANY))
		count_lost(LOST_MAP_FULL);
	return 0;
}

/* The file system may be gone when its thaw returns, so it is recorded by thread. */
static __always_inline int thaw_begins(struct super_block *super)
{
	__u32 device = BPF_CORE_READ(super, s_dev);

	if (!bpf_map_lookup_elem(&freezes, &device))
		return 0;
	__sync_fetch_and_add(&thaws, 1);
	return span_enter(thaw_super, device);
}

static __always_inline int thaw_ends(void)
{
	struct kernel_span_event *freeze;
	struct span_start thaw;

	if (!thaws || !take_span(thaw_super, &thaw))
		return 0;
	__sync_fetch_and_add(&thaws, -1);
	freeze = bpf_map_lookup_elem(&freezes, &thaw.device);
	if (!freeze)
		return 0;
	freeze->end_ns = bpf_ktime_get_ns();
	emit(freeze, sizeof(*freeze));
	bpf_map_delete_elem(&freezes, &thaw.device);
	return 0;
}

SEC("fentry/freeze_super")
int BPF_PROG(freeze_super_enter, struct super_block *super)
{
	return freeze_begins(super, SPAN_BY_FUNCTION);
}

/* A failed freeze. */
SEC("fexit/freeze_super")
int BPF_PROG(freeze_super_leave, struct super_block *super)
{
	__u32 device = BPF_CORE_READ(super, s_dev);

	if (!BPF_CORE_READ(super, s_writers.frozen))
		bpf_map_delete_elem(&freezes, &device);
	return 0;
}

SEC("fentry/thaw_super")
int BPF_PROG(thaw_super_enter, struct super_block *super)
{
	return thaw_begins(super);
}

SEC("fexit/thaw_super")
int BPF_PROG(thaw_super_leave)
{
	return thaw_ends();
}

static __always_inline struct super_block *super_of_fd(__u32 fd)
{
	struct file *file = open_file(fd);

	return BPF_CORE_READ(file, f_inode, i_sb);
}

SEC("tracepoint/syscalls/sys_enter_ioctl")
int ioctl_enter(struct syscall_enter *ctx)
{
	__u32 command = ctx->args[1];

	if (command == FIFREEZE)
		return freeze_begins(super_of_fd(ctx->args[0]), SPAN_BY_TRACEPOINTS);
	return command == FITHAW ? thaw_begins(super_of_fd(ctx->args[0])) : 0;
}

SEC("tracepoint/syscalls/sys_exit_ioctl")
int ioctl_exit(void *ctx)
{
	return thaw_ends();
}

/*
 * File-system functions hooked at entry and return where the kernel allows fentry: exact durations, which off-CPU
 * stacks give only in part. One pair of programs per function, `NAME_enter` and `NAME_leave`, loaded only if the plan
 * names them, because most are in modules that may be missing. Calls that can delay others are reported for all
 * processes, calls that serve only their caller for the target alone.
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

/*
 * fsyncs on ext4 by other processes, which commit its journal immediately (ext4_fsync_journal, fs/ext4/fsync.c):
 * threads that have a handle or want a buffer of that transaction wait with the caller. The target's own fsyncs are
 * calls on files.
 */

/* A commit that no thread had to wait for, or that ended immediately, delays no thread. */
#define MIN_FSYNC_NS 1000000

static __always_inline bool of_another_process(void)
{
	return bpf_get_current_pid_tgid() >> 32 != settings.tgid;
}

SEC("tracepoint/ext4/ext4_sync_file_enter")
int sync_file_enter(void *ctx)
{
	__u32 device = 0;

	if (!of_another_process())
		return 0;
	READ_FIELD(device, ctx, sync_file_enter.dev);
	return span_enter(ext4_sync_file, device);
}

SEC("tracepoint/ext4/ext4_sync_file_exit")
int sync_file_exit(void *ctx)
{
	struct kernel_span_event event;
	struct span_start start;

	if (!of_another_process() || !take_span(ext4_sync_file, &start))
		return 0;
	event = span_of_current(ext4_sync_file, SPAN_BY_TRACEPOINTS, start.device);
	event.start_ns = start.ns;
	event.end_ns = bpf_ktime_get_ns();
	if (event.end_ns - event.start_ns >= MIN_FSYNC_NS)
		emit(&event, sizeof(event));
	return 0;
}

/* `argument` is the function's first; `device` finds the file system from it. */
#define SPAN(name, whose, argument, device)                                                                  \
	SEC("fentry/" #name)                                                                                 \
	int BPF_PROG(name##_enter, argument)                                                                 \
	{                                                                                                    \
		return whose() ? span_enter(name, device) : 0;                                               \
	}                                                                                                    \
	SEC("fexit/" #name)                                                                                  \
	int BPF_PROG(name##_leave)                                                                           \
	{                                                                                                    \
		return whose() ? span_exit(name, SPAN_BY_FUNCTION) : 0;                                      \
	}

SPAN(ext4_file_write_iter, of_target, struct kiocb *k, device_of_kiocb(k))
SPAN(ext4_sync_file, of_target, struct file *f, device_of_file(f))
SPAN(ext4_dirty_inode, of_target, struct inode *i, device_of_inode(i))
SPAN(jbd2_log_wait_commit, of_target, struct journal_s *j, device_of_journal(j))
SPAN(xfs_file_write_iter, of_target, struct kiocb *k, device_of_kiocb(k))
SPAN(xfs_file_fsync, of_target, struct file *f, device_of_file(f))
SPAN(xfs_log_force, of_anyone, struct xfs_mount *m, device_of_xfs(m))
SPAN(xfs_log_force_seq, of_anyone, struct xfs_mount *m, device_of_xfs(m))
SPAN(btrfs_file_write_iter, of_target, struct kiocb *k, device_of_kiocb(k))
SPAN(btrfs_sync_file, of_target, struct file *f, device_of_file(f))
SPAN(btrfs_commit_transaction, of_anyone, struct btrfs_trans_handle *h, device_of_btrfs(h))
