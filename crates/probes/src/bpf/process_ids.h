/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * By which numbers records name processes and threads: those of the pid namespace that user space reads in its /proc.
 * Everything else, filters and the maps' keys, goes by the root pid namespace's, which are the kernel's own. Where
 * that is the namespace, as it mostly is, the verifier drops the rest. Needs `settings`.
 */
#ifndef BROKERSCOPE_PROCESS_IDS_H
#define BROKERSCOPE_PROCESS_IDS_H

#include "pid_number.h"

/*
 * The helper bpf_get_current_pid_tgid, said to be a function of nothing, as it is within a program: called once for all
 * that a program wants of it.
 */
static __u64 (*const current_ids)(void) __attribute__((const)) = (void *)14;

/* 0 for what the namespace does not see, as the kernel's own threads and the host's. */
static __always_inline __u32 shown(struct pid *pid)
{
	struct upid id = number_at(pid, settings.pid_level);

	return (__u64)id.ns == settings.pid_namespace ? id.nr : 0;
}

/* Of a task that a program got as an argument. */
static __always_inline __u32 shown_thread(struct task_struct *task)
{
	return settings.pid_level ? shown(BPF_CORE_READ(task, thread_pid)) : task->pid;
}

static __always_inline __u32 shown_process(struct task_struct *task)
{
	if (settings.pid_level)
		return shown(BPF_CORE_READ(task, group_leader, thread_pid));
	return task->tgid;
}

static __always_inline __u32 shown_current(void)
{
	struct task_struct *task;

	if (!settings.pid_level)
		return current_ids();
	task = (void *)bpf_get_current_task();
	return shown(BPF_CORE_READ(task, thread_pid));
}

static __always_inline __u32 shown_current_process(void)
{
	struct task_struct *task;

	if (!settings.pid_level)
		return current_ids() >> 32;
	task = (void *)bpf_get_current_task();
	return shown(BPF_CORE_READ(task, group_leader, thread_pid));
}

#endif
