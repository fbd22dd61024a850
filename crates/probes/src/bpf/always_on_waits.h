/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Times that a thread of the target was off the CPU and not by its own wish: in an uninterruptible sleep, or runnable without
 * a CPU. Interruptible sleeps, which are most, cost a comparison. No user memory of the thread is read: it is not the current
 * one yet when it returns.
 */
#ifndef BROKERSCOPE_ALWAYS_ON_WAITS_H
#define BROKERSCOPE_ALWAYS_ON_WAITS_H

#include "always_on_state.h"

/* A thread whose return nobody saw keeps its slot no longer than this. */
#define MAX_SLOT_NS 60000000000

/* How many threads wait. While none does, as is mostly so, no thread that gets a CPU need be looked up. */
static __u32 waiting;

static __always_inline void leave_cpu(struct task_struct *task, bool runnable)
{
	struct thread *thread = thread_slot(task->pid);
	__u64 now = bpf_ktime_get_ns();

	if (!thread)
		return;
	if (thread->off_ns && thread->off_tid != (__u32)task->pid && now - thread->off_ns < MAX_SLOT_NS) {
		count(COUNT_NO_SLOT);
		return;
	}
	/* one whose return was not seen is counted still */
	if (!thread->off_ns)
		__sync_fetch_and_add(&waiting, 1);
	thread->off_tid = task->pid;
	thread->off_runnable = runnable;
	thread->off_ns = now;
}

/*
 * For how long the thread had been in its run queue, by the scheduler's account. The tracepoint comes before
 * sched_info_arrive clears it (kernel/sched/stats.h). 0 where the kernel keeps none.
 */
static __always_inline __u64 queue_time(struct task_struct *task)
{
	struct cfs_rq *queue;
	struct rq *rq;
	__u64 queued;

	if (!bpf_core_field_exists(struct task_struct, sched_info.last_queued) ||
	    !bpf_core_field_exists(struct task_struct, se.cfs_rq) ||
	    !bpf_core_field_exists(struct cfs_rq, rq) || !bpf_core_field_exists(struct rq, clock))
		return 0;
	queued = task->sched_info.last_queued;
	if (!queued)
		return 0;
	queue = task->se.cfs_rq;
	rq = queue->rq;
	return rq->clock > queued ? rq->clock - queued : 0;
}

/* Called rarely, so not in the path of every switch. */
static __noinline int record_wait(struct task_struct *task, __u64 since, __u64 queue_ns)
{
	__u64 number = 0, now = bpf_ktime_get_ns();
	struct wait_record *wait = begin_wait(now, &number);
	struct pt_regs *registers = (void *)bpf_task_pt_regs(task);
	long bytes;

	if (!wait)
		return 0;
	wait->tid = visible_tid_of(task);
	wait->first_ns = since;
	wait->last_ns = now;
	wait->queue_ns = queue_ns;
	wait->call = (__s32)registers->CALL_NUMBER;
	wait->argument = registers->FIRST_ARGUMENT;
	wait->write_call = write_call_of(task);
	bpf_probe_read_kernel_str(wait->comm, sizeof(wait->comm), task->comm);
	bytes = bpf_get_task_stack(task, wait->stack, sizeof(wait->stack), 0);
	wait->frames = bytes > 0 ? (__u64)bytes / sizeof(wait->stack[0]) : 0;
	if (bytes <= 0)
		count(COUNT_NO_STACK);
	set_stamp(&wait->stamp, number + 1);
	return 0;
}

/* Of one that was woken and not seen to leave the CPU, the run queue's account says since when. */
static __noinline int record_cpu_wait(struct task_struct *task, __u64 since, __u64 queue_ns)
{
	__u32 slot = 0;
	__u64 number = 0, now = bpf_ktime_get_ns();
	struct cpu_wait_record *wait = begin_record(now, &slot, &number);
	struct pt_regs *registers = (void *)bpf_task_pt_regs(task);

	if (!wait)
		return 0;
	wait->kind = RECORD_CPU_WAIT;
	wait->tid = visible_tid_of(task);
	wait->first_ns = since ? since : now - queue_ns;
	wait->last_ns = now;
	wait->queue_ns = queue_ns;
	wait->call = (__s32)registers->CALL_NUMBER;
	wait->write_call = write_call_of(task);
	bpf_probe_read_kernel_str(wait->comm, sizeof(wait->comm), task->comm);
	set_stamp(&wait->stamp, number + 1);
	return 0;
}

/* Ends the thread's wait, if it has one: since when, or 0. */
static __always_inline __u64 end_wait(struct task_struct *task, bool *runnable)
{
	struct thread *thread = thread_slot(task->pid);
	__u64 since;

	if (!thread || !thread->off_ns || thread->off_tid != (__u32)task->pid)
		return 0;
	since = thread->off_ns;
	*runnable = thread->off_runnable;
	thread->off_ns = 0;
	__sync_fetch_and_add(&waiting, -1);
	return since;
}

static __always_inline void regain_cpu(struct task_struct *task)
{
	__u64 queue_ns = queue_time(task), since;
	bool runnable = true;

	since = waiting ? end_wait(task, &runnable) : 0;
	if (since && bpf_ktime_get_ns() - since < settings.min_wait_ns)
		return;
	if (since && !runnable)
		record_wait(task, since, queue_ns);
	else if (since || queue_ns >= settings.min_wait_ns)
		record_cpu_wait(task, since, queue_ns);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(always_on_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	if ((__u32)prev->tgid == settings.tgid) {
		__u32 state = state_of(prev);

		if (preempt || !state)
			leave_cpu(prev, true);
		else if (state & TASK_UNINTERRUPTIBLE)
			leave_cpu(prev, false);
	}
	if ((__u32)next->tgid == settings.tgid)
		regain_cpu(next);
	return 0;
}

#endif
