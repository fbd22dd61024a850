// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "state.h"

/*
 * jbd2: commits of every journal, and which transaction the target's writes joined. By classic tracepoints,
 * which need no BTF of the jbd2 module. Does not know which file system is the broker's.
 */

struct commit {
	__u32 transaction;
	__u32 reserved;
	__u64 start_ns;
	struct commit_phases phases;
};

/* A journal commits one transaction at a time: its device is the key. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 256);
	__type(key, __u32);
	__type(value, struct commit);
} commits SEC(".maps");

SEC("tracepoint/jbd2/jbd2_start_commit")
int start_commit(void *ctx)
{
	struct commit commit = {};
	__u32 device = 0;

	READ_FIELD(device, ctx, start_commit.dev);
	READ_FIELD(commit.transaction, ctx, start_commit.transaction);
	commit.start_ns = bpf_ktime_get_ns();
	if (bpf_map_update_elem(&commits, &device, &commit, BPF_ANY))
		count_lost(LOST_MAP_FULL);
	return 0;
}

/* Fires late in the commit, before jbd2_end_commit (fs/jbd2/commit.c). */
SEC("tracepoint/jbd2/jbd2_run_stats")
int run_stats(void *ctx)
{
	struct commit_phases *phases;
	__u32 device = 0, transaction = 0;
	struct commit *commit;

	READ_FIELD(device, ctx, run_stats.dev);
	READ_FIELD(transaction, ctx, run_stats.tid);
	commit = bpf_map_lookup_elem(&commits, &device);
	if (!commit || commit->transaction != transaction)
		return 0;
	phases = &commit->phases;
	READ_FIELD(phases->wait, ctx, run_stats.wait);
	READ_FIELD(phases->running, ctx, run_stats.running);
	READ_FIELD(phases->locked, ctx, run_stats.locked);
	READ_FIELD(phases->flushing, ctx, run_stats.flushing);
	READ_FIELD(phases->logging, ctx, run_stats.logging);
	READ_FIELD(phases->handles, ctx, run_stats.handle_count);
	READ_FIELD(phases->blocks, ctx, run_stats.blocks);
	READ_FIELD(phases->blocks_logged, ctx, run_stats.blocks_logged);
	phases->seen = 1;
	return 0;
}

/* A commit whose start was not seen is not reported: it has no length. */
SEC("tracepoint/jbd2/jbd2_end_commit")
int end_commit(void *ctx)
{
	struct journal_commit_event event = { .kind = EVENT_JOURNAL_COMMIT };
	struct commit *commit;

	READ_FIELD(event.device, ctx, end_commit.dev);
	READ_FIELD(event.transaction, ctx, end_commit.transaction);
	commit = bpf_map_lookup_elem(&commits, &event.device);
	if (!commit || commit->transaction != event.transaction)
		return 0;
	event.start_ns = commit->start_ns;
	event.end_ns = bpf_ktime_get_ns();
	event.phases = commit->phases;
	emit(&event, sizeof(event));
	bpf_map_delete_elem(&commits, &event.device);
	return 0;
}

/* Fires when the handle has joined its transaction, after any waiting (fs/jbd2/transaction.c). */
SEC("tracepoint/jbd2/jbd2_handle_start")
int handle_start(void *ctx)
{
	__u64 id = current_ids();
	__u32 device = 0;
	struct op *op;

	if (!is_target(id))
		return 0;
	op = op_of(id);
	if (!op)
		return 0;
	READ_FIELD(device, ctx, handle_start.dev);
	/* a name's file system is not known here, and an overlay's handles are of the one below */
	if (device != op->file.device && !op->named && !op->stacked)
		return 0;
	READ_FIELD(op->transaction, ctx, handle_start.tid);
	op->has_handle = 1;
	return 0;
}
