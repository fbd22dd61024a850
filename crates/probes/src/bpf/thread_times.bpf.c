// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Lists the threads of the iterator's process with their times, as /proc/PID/task/TID/schedstat has them. Runs only while
 * it is read; hooks nothing.
 */
#include "kernel.h"

/* Documentation/scheduler/sched-stats.rst */
struct thread_times {
	/* nanoseconds on a CPU, and waiting for one */
	__u64 ran_ns;
	__u64 waited_ns;
	/* how often it got a CPU */
	__u64 switches;
	__u32 tid;
	__u32 reserved;
};

/* Never read: it puts the type into the object's BTF. */
struct thread_times_records {
	struct thread_times thread_times;
};

const volatile struct thread_times_records records = {};

SEC("iter/task")
int list_threads(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct thread_times times = {};

	if (!task)
		return 0;
	times.ran_ns = task->se.sum_exec_runtime;
	times.waited_ns = task->sched_info.run_delay;
	times.switches = task->sched_info.pcount;
	times.tid = task->pid;
	bpf_seq_write(ctx->meta->seq, &times, sizeof(times));
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
