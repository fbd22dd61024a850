/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * XFS's log: waits for space in it, and writes of its in-core buffers to the disk, by whichever thread. Classic
 * tracepoints, which need no BTF of the module. Who waits for a log force or an inode lock is in off-CPU stacks.
 */

/* Fires each time the thread goes to sleep for space (xlog_grant_head_wait, fs/xfs/xfs_log.c). */
SEC("tracepoint/xfs/xfs_log_grant_sleep")
int grant_sleep(void *ctx)
{
	__u32 device = 0;

	READ_FIELD(device, ctx, settings.at.grant_sleep.dev);
	return span_enter(SPAN_XLOG_GRANT_HEAD_WAIT, device);
}

SEC("tracepoint/xfs/xfs_log_grant_wake")
int grant_wake(void *ctx)
{
	return span_exit(SPAN_XLOG_GRANT_HEAD_WAIT, SPAN_BY_TRACEPOINTS);
}

/* A log's device and the sequence number of the buffer's first record, which no other buffer has. */
struct iclog_key {
	__u64 lsn;
	__u32 device;
	__u32 reserved;
};

struct iclog_write {
	__u64 start_ns;
	__u32 tid;
	__u32 reserved;
	char comm[TASK_COMM_LEN];
};

/* A log has eight buffers at most; entries of a file system that was shut down meanwhile go by and by. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, struct iclog_key);
	__type(value, struct iclog_write);
} iclog_writes SEC(".maps");

/* The last to use a buffer hands it to the disk: an fsync's thread or a worker of the log's. */
SEC("tracepoint/xfs/xlog_iclog_syncing")
int iclog_syncing(void *ctx)
{
	struct iclog_write write = {};
	struct iclog_key key = {};

	READ_FIELD(key.device, ctx, settings.at.iclog_syncing.dev);
	READ_FIELD(key.lsn, ctx, settings.at.iclog_syncing.lsn);
	write.tid = shown_current();
	bpf_get_current_comm(write.comm, sizeof(write.comm));
	write.start_ns = bpf_ktime_get_ns();
	if (bpf_map_update_elem(&iclog_writes, &key, &write, BPF_ANY))
		count_lost(LOST_MAP_FULL);
	return 0;
}

/* In a worker, once the disk has it. */
SEC("tracepoint/xfs/xlog_iclog_sync_done")
int iclog_sync_done(void *ctx)
{
	struct kernel_span_event event = { .kind = EVENT_KERNEL_SPAN };
	struct iclog_write *write;
	struct iclog_key key = {};

	READ_FIELD(key.device, ctx, settings.at.iclog_sync_done.dev);
	READ_FIELD(key.lsn, ctx, settings.at.iclog_sync_done.lsn);
	write = bpf_map_lookup_elem(&iclog_writes, &key);
	if (!write)
		return 0;
	event.tid = write->tid;
	event.start_ns = write->start_ns;
	event.end_ns = bpf_ktime_get_ns();
	event.device = key.device;
	event.function = SPAN_XLOG_SYNC;
	event.source = SPAN_BY_TRACEPOINTS;
	__builtin_memcpy(event.comm, write->comm, sizeof(event.comm));
	bpf_map_delete_elem(&iclog_writes, &key);
	emit(&event, sizeof(event));
	return 0;
}
