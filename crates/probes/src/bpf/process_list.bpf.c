// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Lists processes by the root pid namespace's ids and by those that the reader's /proc shows, for readers in a nested
 * pid namespace. Runs once when something is attached, and is then unloaded; hooks nothing.
 */
#include "kernel.h"

#include "process_ids.h"

/* Set once before loading. */
struct process_list_settings {
	/* levels from the reader's pid namespace up to the one whose ids its /proc shows */
	__u32 below;
};

/* A process by both its ids. */
struct process_ids {
	/* the namespace, by its kernel address */
	__u64 pid_namespace;
	/* levels below the root namespace; 0: both ids are the same */
	__u32 level;
	__u32 root;
	__u32 visible;
	__u32 reserved;
};

/* Never read: it puts the type into the object's BTF. */
struct process_list_records {
	struct process_ids process_ids;
};

const volatile struct process_list_settings settings = {};
const volatile struct process_list_records records = {};

/* The iterator visits the tasks of its reader's namespace (kernel/bpf/task_iter.c). */
SEC("iter/task")
int list_processes(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task, *reader = (void *)bpf_get_current_task();
	struct pid *own = BPF_CORE_READ(reader, thread_pid);
	__u32 depth = BPF_CORE_READ(own, level), level;
	struct process_ids ids = {};
	struct upid id;

	if (!task || task->pid != task->tgid || depth < settings.below)
		return 0;
	level = depth - settings.below;
	id = number_at(task->thread_pid, level);
	if (!id.nr || id.ns != number_at(own, level).ns)
		return 0;
	ids.pid_namespace = (__u64)id.ns;
	ids.level = level;
	ids.root = task->pid;
	ids.visible = id.nr;
	bpf_seq_write(ctx->meta->seq, &ids, sizeof(ids));
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
