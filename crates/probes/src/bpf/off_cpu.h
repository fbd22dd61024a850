/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Reports a thread's off-CPU time when it is back on the CPU. Knows no hook: sched.bpf.c does. */
#ifndef BROKERSCOPE_OFF_CPU_H
#define BROKERSCOPE_OFF_CPU_H

#include "state.h"

/* After a call, shorter waits are not reported; within a call, they are reported without their waker's stack. */
#define LONG_WAIT_NS 1000000

/*
 * The off-CPU count: how many followed threads are off the CPU. While it is 0, most of the time, no thread that is
 * woken or gets a CPU is looked up; it changes only for such threads.
 */
static __u32 off_cpu_count;

/* Within a call every interval is reported; after a call, or without a CPU, long ones; and those for a mapped page. */
static __always_inline bool is_reported(struct op *op, bool in_fault, __u64 length_ns)
{
	if (op->phase == PHASE_INSIDE || in_fault)
		return true;
	return (op->phase == PHASE_AFTER || op->preempted) && length_ns >= LONG_WAIT_NS;
}

/* Deepest position of filemap_fault above __schedule. */
#define FAULT_FRAMES 16

/*
 * The stack proves it: after a fault whose page was in memory, a thread may have continued. If stacks or names are
 * unavailable, pages that were added must do.
 */
static __always_inline bool left_in_fault(struct op *op)
{
	if (!settings.filemap_fault_end)
		return op->fault_bytes;
	for (__u32 i = 0; i < FAULT_FRAMES; i++)
		if (op->stack[i] - settings.filemap_fault <
		    settings.filemap_fault_end - settings.filemap_fault)
			return i < op->frames;
	return false;
}

/* The thread is back on the CPU after a fault on a mapped file. */
static __always_inline void send_fault(union scratch *buffer, struct op *op, struct task_struct *task,
				       __u64 now)
{
	struct file_op_event *event;
	__u64 page = 1ULL << settings.page_shift;

	if (!buffer)
		return;
	event = &buffer->file_write.op;
	__builtin_memset(event, 0, sizeof(*event));
	event->kind = EVENT_FILE_OP;
	event->tid = visible_tid_of(task);
	event->pid = visible_pid_of(task);
	event->start_ns = op->fault_ns;
	event->end_ns = now;
	event->result = page;
	event->offset = op->fault_offset;
	event->file.inode = op->fault_inode;
	event->file.device = op->fault_device;
	event->fd = -1;
	event->op = OP_MMAP_FAULT;
	/* a page that another thread was reading comes from the device as well */
	event->disk_bytes = page;
	event->readahead_bytes = op->fault_bytes > page ? op->fault_bytes - page : 0;
	event->reads_pages = 1;
	bpf_probe_read_kernel_str(event->comm, sizeof(event->comm), task->comm);
	emit(event, sizeof(*event));
}

static __always_inline void send_off_cpu(union scratch *buffer, struct task_struct *task, struct op *op,
					 __u64 now)
{
	struct off_cpu_event *event;
	__u64 stack_bytes;

	if (!buffer)
		return;
	event = &buffer->off_cpu;
	event->kind = EVENT_OFF_CPU;
	event->tid = visible_tid_of(task);
	event->start_ns = op->off_ns;
	event->end_ns = now;
	event->woken_ns = op->woken_ns;
	event->waker_tid = op->waker_tid;
	__builtin_memcpy(event->waker_comm, op->waker_comm, sizeof(event->waker_comm));
	event->preempted = op->preempted;
	event->frames = op->frames;
	bpf_probe_read_kernel_str(event->comm, sizeof(event->comm), task->comm);
	/* bounded right before it is used: verifiers before 6.3 forget the bound of a spilled value */
	stack_bytes = (__u64)op->frames * sizeof(op->stack[0]);
	barrier_var(stack_bytes);
	if (stack_bytes > sizeof(op->stack))
		return;
	bpf_probe_read_kernel(event->stack, stack_bytes, op->stack);
	emit(event, __builtin_offsetof(struct off_cpu_event, stack) + stack_bytes);
}

static __always_inline void report_return(union scratch *buffer, struct op *op, struct task_struct *task,
					  __u64 now)
{
	bool in_fault = op->fault_waits && left_in_fault(op);

	if (is_reported(op, in_fault, now - op->off_ns)) {
		op->reported++;
		send_off_cpu(buffer, task, op, now);
	}
	op->off_ns = 0;
	if (!in_fault)
		return;
	send_fault(buffer, op, task, now);
	op->fault_ns = 0;
}

/* Clock of the task's run queue, on which the scheduler's accounting is based; 0 if the kernel has none. */
static __always_inline __u64 queue_clock(struct task_struct *task)
{
	struct cfs_rq *queue;
	struct rq *rq;

	if (!bpf_core_field_exists(task->se.cfs_rq) || !bpf_core_field_exists(queue->rq) ||
	    !bpf_core_field_exists(rq->clock))
		return 0;
	queue = task->se.cfs_rq;
	rq = queue->rq;
	return rq->clock;
}

/*
 * A running thread whose return was not seen. No tracepoint fires while a thread runs that the host hides from tracing,
 * as a Firecracker guest hid its agent, not even when it hands the CPU to another thread. The scheduler's accounting
 * shows when that was (sched_info_arrive, kernel/sched/stats.h). That clock was read microseconds before the thread left,
 * so a thread that leaves again at once would seem to return after that.
 */
static __noinline int return_late(union scratch *buffer, struct op *op, struct task_struct *task)
{
	__u64 arrived = 0, returned, now = bpf_ktime_get_ns();

	__sync_fetch_and_add(&off_cpu_count, -1);
	if (bpf_core_field_exists(task->sched_info.last_arrival))
		arrived = BPF_CORE_READ(task, sched_info.last_arrival);
	/* only its stack would show what a parked thread waited for, and that is gone */
	if (!op->parked && op->off_clock && arrived > op->off_clock) {
		returned = op->off_ns + (arrived - op->off_clock);
		report_return(buffer, op, task, returned < now ? returned : now);
	}
	op->parked = NOT_PARKED;
	op->off_ns = 0;
	return 0;
}

/* Like return_late(), for the current thread. */
static __always_inline void current_returned_late(struct op *op)
{
	return_late(scratch(), op, TYPED(struct task_struct, bpf_get_current_task()));
}

/* The call returns: an interval that was not seen would leave its time unexplained and uncounted. */
static __always_inline void settle_switches(struct op *op)
{
	__u16 switches = switches_of_current() - op->switches;

	if (op->off_ns)
		current_returned_late(op);
	if (op->counts_switches && (__s16)(switches - op->reported) > 0)
		count_lost(LOST_SWITCH);
}

/* Initial state of every call; the caller sets its start last. leave_cpu() sets what an off-CPU interval needs. */
static __always_inline void reset_op(struct op *op, __u8 kind)
{
	if (op->off_ns)
		current_returned_late(op);
	op->kind = kind;
	op->named = 0;
	op->reads = 0;
	op->direct = 0;
	op->stacked = 0;
	op->fault_ns = 0;
	op->disk_bytes = 0;
	op->readahead_bytes = 0;
	op->transaction = 0;
	op->has_handle = 0;
}

#endif
