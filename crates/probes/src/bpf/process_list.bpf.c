// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Lists processes by the root pid namespace's numbers and by those that the reader's /proc shows, for readers in a nested pid
 * namespace. Run once when something is attached, and unloaded again; hooks nothing.
 */
#include "kernel.h"

#include "process_ids.h"

/* Set once before loading. */
struct process_list_settings {
	/* how many pid namespaces lie between the reader's and the one whose numbers its /proc shows, which is above */
	__u32 below;
};

/* A process, by both its numbers. */
struct process_ids {
	/* the namespace, by where the kernel keeps it */
	__u64 pid_namespace;
	/* how far it is below the root one; there both numbers are one */
	__u32 level;
	__u32 root;
	__u32 visible;
	__u32 reserved;
};

/* Never read: it makes the type part of the object's BTF. */
struct process_list_records {
	struct process_ids process_ids;
};

const volatile struct process_list_settings settings = {};
const volatile struct process_list_records records = {};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

#pragma clang attribute pop

/* The iterator visits the tasks of the namespace that its reader is in (kernel/bpf/task_iter.c). */
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
