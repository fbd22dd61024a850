// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "state.h"

/*
 * jbd2: commits of every journal, and which transaction the target's writes joined. Uses classic tracepoints, which
 * need no BTF of the jbd2 module. Does not know which file system is the broker's.
 */

/* A journal commits one transaction at a time: its device is the key. */
BPF_MAP(commits, HASH, __u32, struct journal_commit_event, 256);

SEC("tracepoint/jbd2/jbd2_start_commit")
int start_commit(void *ctx)
{
	struct journal_commit_event commit = { .kind = EVENT_JOURNAL_COMMIT };
	__u32 device = 0;

	READ_FIELD(device, ctx, start_commit.dev);
	READ_FIELD(commit.transaction, ctx, start_commit.transaction);
	commit.device = device;
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
	struct journal_commit_event *commit;

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

/* A commit whose start was not seen is not reported: its duration is unknown. */
SEC("tracepoint/jbd2/jbd2_end_commit")
int end_commit(void *ctx)
{
	__u32 device = 0, transaction = 0;
	struct journal_commit_event *commit;

	READ_FIELD(device, ctx, end_commit.dev);
	READ_FIELD(transaction, ctx, end_commit.transaction);
	commit = bpf_map_lookup_elem(&commits, &device);
	if (!commit || commit->transaction != transaction)
		return 0;
	commit->end_ns = bpf_ktime_get_ns();
	emit(commit, sizeof(*commit));
	bpf_map_delete_elem(&commits, &device);
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
	/* an operation on a name has no known file system here, and an overlay's handles belong to the one below */
	if (device != op->file.device && !op->named && !op->stacked)
		return 0;
	READ_FIELD(op->transaction, ctx, handle_start.tid);
	op->has_handle = 1;
	return 0;
}
