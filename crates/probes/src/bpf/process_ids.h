/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Translates ids for records, which name processes and threads as in the pid namespace whose /proc user space reads.
 * Everything else, filters and map keys, uses the root pid namespace's ids, which are the kernel's own. If both are the
 * same namespace, as usual, the verifier drops the translation.
 */
#ifndef BROKERSCOPE_PROCESS_IDS_H
#define BROKERSCOPE_PROCESS_IDS_H

#include "kernel.h"

/* Set once before loading. */
struct pid_settings {
	/* the namespace, by its kernel address */
	__u64 pid_namespace;
	/* levels below the root namespace */
	__u32 pid_level;
	__u32 reserved;
};

const volatile struct pid_settings pid_settings = {};

/* The id in the namespace at that level below the root; none if the pid is above it. The ids are an array. */
static __always_inline struct upid number_at(struct pid *pid, __u32 level)
{
	struct upid id = {};
	__u64 at;

	if (!pid || BPF_CORE_READ(pid, level) < level)
		return id;
	at = (__u64)pid + bpf_core_field_offset(struct pid, numbers) +
	     level * bpf_core_type_size(struct upid);
	bpf_probe_read_kernel(&id.nr, sizeof(id.nr), (void *)at + bpf_core_field_offset(struct upid, nr));
	bpf_probe_read_kernel(&id.ns, sizeof(id.ns), (void *)at + bpf_core_field_offset(struct upid, ns));
	return id;
}

/* The helper bpf_get_current_pid_tgid, declared const, as it is within a program: called once for all uses. */
static __u64 (*const current_ids)(void) __attribute__((const)) = (void *)14;

/* 0 for what the namespace does not see, such as the kernel's own threads and the host's processes. */
static __always_inline __u32 visible(struct pid *pid)
{
	struct upid id = number_at(pid, pid_settings.pid_level);

	return (__u64)id.ns == pid_settings.pid_namespace ? id.nr : 0;
}

/* For any task, as an argument or from TYPED. */
static __always_inline __u32 visible_tid_of(struct task_struct *task)
{
	return pid_settings.pid_level ? visible(BPF_CORE_READ(task, thread_pid)) : DIRECT(task, pid);
}

static __always_inline __u32 visible_pid_of(struct task_struct *task)
{
	if (pid_settings.pid_level)
		return visible(BPF_CORE_READ(task, group_leader, thread_pid));
	return DIRECT(task, tgid);
}

static __always_inline __u32 visible_tid(void)
{
	struct task_struct *task;

	if (!pid_settings.pid_level)
		return current_ids();
	task = (void *)bpf_get_current_task();
	return visible(BPF_CORE_READ(task, thread_pid));
}

static __always_inline __u32 visible_current_pid(void)
{
	struct task_struct *task;

	if (!pid_settings.pid_level)
		return current_ids() >> 32;
	task = (void *)bpf_get_current_task();
	return visible(BPF_CORE_READ(task, group_leader, thread_pid));
}

#endif
