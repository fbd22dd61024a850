// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "state.h"

/*
 * The target's children: processes that it or a child of it starts are followed until they end; threads that end are
 * forgotten. Children that exist at attach time are in the map from the start.
 */

/* include/uapi/linux/sched.h */
#define CLONE_THREAD 0x00010000

/* Fires in the parent, before the new task runs (kernel/fork.c, copy_process). */
SEC("tracepoint/task/task_newtask")
int task_start(void *ctx)
{
	__u64 flags = 0;
	__u32 pid = 0;
	__u8 here = 1;

	if (!is_target(current_ids()))
		return 0;
	READ_FIELD(flags, ctx, task_start.clone_flags);
	if (flags & CLONE_THREAD)
		return 0;
	READ_FIELD(pid, ctx, task_start.pid);
	if (bpf_map_update_elem(&children, &pid, &here, BPF_ANY))
		count_lost(LOST_MAP_FULL);
	else
		__sync_fetch_and_add(&more_children, 1);
	return 0;
}

SEC("tracepoint/sched/sched_process_exit")
int task_end(void *ctx)
{
	__u64 id = current_ids();
	__u32 tgid = id >> 32, tid = id;

	if (!is_target(id))
		return 0;
	drop_op(tid);
	if (tid == tgid && !bpf_map_delete_elem(&children, &tgid))
		__sync_fetch_and_add(&more_children, -1);
	return 0;
}
