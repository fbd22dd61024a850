/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Times in which a thread of the target was off the CPU involuntarily: in uninterruptible sleep, runnable without a
 * CPU, or stopped with its process. Interruptible sleeps, the majority, cost only some comparisons. The thread's user
 * memory is not read: when it returns, it is not the current thread yet.
 */
#ifndef BROKERSCOPE_ALWAYS_ON_WAITS_H
#define BROKERSCOPE_ALWAYS_ON_WAITS_H

#include "always_on_state.h"
#include "open_file.h"

/* A thread whose return was not seen keeps its slot no longer than this. */
#define MAX_SLOT_NS 60000000000

/* arch/x86/entry/syscalls/syscall_64.tbl, include/uapi/asm-generic/unistd.h */
#if defined(__TARGET_ARCH_arm64)
#define NR_PREAD64 67
#define NR_SENDFILE 71
#define NR_FSYNC 82
#define NR_FDATASYNC 83
#define NR_MSYNC 227
#else
#define NR_PREAD64 17
#define NR_SENDFILE 40
#define NR_FSYNC 74
#define NR_FDATASYNC 75
#define NR_MSYNC 26
#endif

/*
 * Where uninterruptible sleepers left the CPU, by the last bits of their ids. Recorded when they leave: the stack of a
 * thread that returns (bpf_get_task_stack) lacks the functions that wait for others (__sched, stack_trace_save_tsk in
 * kernel/stacktrace.c), and a thread whose return was not seen may be anywhere.
 */
#define PLACE_SLOTS 1024

struct sleep_place {
	__u32 tid;
	/* as in wait_record */
	__s32 call;
	__u64 argument;
	__u64 write_call;
	struct file_call file_call;
	/* the file that this thread last synced: msync's arguments do not name it */
	__u64 sync_inode;
	__u32 sync_device;
	__u32 sync_tid;
	/* how often it had got a CPU, and how long it had waited for one in all */
	__u64 arrivals;
	__u64 run_delay;
	/* bytes of the stack */
	__u64 bytes;
	__u64 stack[WAIT_FRAMES];
};

BPF_MAP(sleep_places, ARRAY, __u32, struct sleep_place, PLACE_SLOTS);

static __always_inline struct sleep_place *sleep_place_of(struct task_struct *task)
{
	__u32 slot = task->pid & (PLACE_SLOTS - 1);

	return bpf_map_lookup_elem(&sleep_places, &slot);
}

static __always_inline int begin_sync(struct inode *found)
{
	struct task_struct *task = current_task();
	struct sleep_place *place = is_target() ? sleep_place_of(task) : NULL;
	struct inode *inode = TYPED(struct inode, found);
	struct super_block *super;

	if (!place || !found)
		return 0;
	super = DIRECT(inode, i_sb);
	place->sync_inode = DIRECT(inode, i_ino);
	place->sync_device = DIRECT(super, s_dev);
	place->sync_tid = task->pid;
	return 0;
}

SEC("tp_btf/ext4_sync_file_enter")
int BPF_PROG(always_on_ext4_sync, struct file *file)
{
	return file ? begin_sync(BPF_CORE_READ(file, f_inode)) : 0;
}

SEC("tp_btf/xfs_file_fsync")
int BPF_PROG(always_on_xfs_sync, struct xfs_inode *inode)
{
	return inode ? begin_sync(&inode->i_vnode) : 0;
}

/* Finds the file that the current thread has read, sent or synced, and the number of that call. */
static __always_inline void name_file_call(struct sleep_place *place, struct task_struct *task,
					   struct pt_regs *registers)
{
	struct file_call *call = &place->file_call;
	__u32 descriptor = registers->FIRST_ARGUMENT;
	struct super_block *super;
	struct inode *inode;
	struct file *file;

	call->inode = 0;
	if (!bpf_core_field_exists(struct task_struct, ioac.syscr))
		return;
	switch ((__s32)registers->CALL_NUMBER) {
	case NR_SENDFILE:
		descriptor = registers->SECOND_ARGUMENT;
		call->number = task->ioac.syscr;
		break;
	case NR_READ:
	case NR_PREAD64:
		call->number = task->ioac.syscr;
		break;
	case NR_FSYNC:
	case NR_FDATASYNC:
		/* no thread syncs a file twice without a write in between */
		call->number = task->ioac.syscw;
		break;
	case NR_MSYNC:
		if (place->sync_tid != (__u32)task->pid)
			return;
		call->number = task->ioac.syscw;
		call->inode = place->sync_inode;
		call->device = place->sync_device;
		return;
	default:
		return;
	}
	file = open_file(descriptor);
	if (!file)
		return;
	inode = TYPED(struct inode, DIRECT(file, f_inode));
	super = DIRECT(inode, i_sb);
	call->inode = DIRECT(inode, i_ino);
	call->device = DIRECT(super, s_dev);
}

static __noinline int save_place(void *context, struct task_struct *task)
{
	struct pt_regs *registers = (void *)bpf_task_pt_regs(task);
	struct sleep_place *place = sleep_place_of(task);
	long bytes;

	if (!place)
		return 0;
	place->tid = task->pid;
	place->call = (__s32)registers->CALL_NUMBER;
	place->argument = registers->FIRST_ARGUMENT;
	place->write_call = write_call_of(task);
	if (bpf_core_field_exists(struct task_struct, sched_info.run_delay)) {
		place->arrivals = task->sched_info.pcount;
		place->run_delay = task->sched_info.run_delay;
	}
	name_file_call(place, task, registers);
	bytes = bpf_get_stack(context, place->stack, sizeof(place->stack), 0);
	place->bytes = bytes > 0 ? bytes : 0;
	return 0;
}

/* Number of waiting threads. While it is 0, as it usually is, threads that get a CPU need no look-up. */
static __u32 waiting;

static __always_inline void leave_cpu(void *context, struct task_struct *task, enum wait_place place)
{
	struct thread *thread = thread_slot(task->pid);
	__u64 now = bpf_ktime_get_ns();

	if (!thread)
		return;
	if (thread->off_ns && thread->off_tid != (__u32)task->pid && now - thread->off_ns < MAX_SLOT_NS) {
		count(COUNT_NO_SLOT);
		return;
	}
	/* a thread whose return was not seen is still counted */
	if (!thread->off_ns)
		__sync_fetch_and_add(&waiting, 1);
	thread->off_tid = task->pid;
	thread->off_place = place;
	thread->off_ns = now;
	if (place == WAIT_ASLEEP)
		save_place(context, task);
}

/* Clock of the thread's run queue, as the scheduler last updated it; 0 if the kernel has none. */
static __always_inline __u64 queue_clock(struct task_struct *task)
{
	struct cfs_rq *queue;
	struct rq *rq;

	if (!bpf_core_field_exists(struct task_struct, sched_info.last_queued) ||
	    !bpf_core_field_exists(struct task_struct, se.cfs_rq) ||
	    !bpf_core_field_exists(struct cfs_rq, rq) || !bpf_core_field_exists(struct rq, clock))
		return 0;
	queue = task->se.cfs_rq;
	rq = queue->rq;
	return rq->clock;
}

/*
 * How long the thread had been in its run queue, by the scheduler's accounting. The tracepoint fires before
 * sched_info_arrive clears it (kernel/sched/stats.h). 0 if the kernel keeps no account.
 */
static __always_inline __u64 queue_time(struct task_struct *task)
{
	__u64 clock = queue_clock(task), queued = clock ? task->sched_info.last_queued : 0;

	return queued && clock > queued ? clock - queued : 0;
}

/* A time in which a thread was off the CPU. */
struct interval {
	__u64 first_ns;
	__u64 last_ns;
	__u64 queue_ns;
	/* enum wait_place */
	__u32 place;
	/* its end was not seen */
	__u32 late;
};

/* Called rarely, so kept out of the path of every switch. */
static __noinline int record_sleep(struct task_struct *task, struct interval *off)
{
	struct sleep_place *place = sleep_place_of(task);
	struct wait_record *wait;
	__u64 number = 0;

	if (!off)
		return 0;
	wait = begin_wait(off->last_ns, &number);
	if (!wait)
		return 0;
	wait->tid = visible_tid_of(task);
	wait->first_ns = off->first_ns;
	wait->last_ns = off->last_ns;
	wait->queue_ns = off->queue_ns;
	wait->call = -1;
	wait->argument = 0;
	wait->write_call = 0;
	wait->file_call.inode = 0;
	wait->frames = 0;
	if (place && place->tid == (__u32)task->pid && place->bytes) {
		wait->call = place->call;
		wait->argument = place->argument;
		wait->write_call = place->write_call;
		wait->file_call = place->file_call;
		bpf_probe_read_kernel(wait->stack, sizeof(wait->stack), place->stack);
		wait->frames = place->bytes / sizeof(wait->stack[0]);
	} else {
		count(COUNT_NO_STACK);
	}
	bpf_probe_read_kernel_str(wait->comm, sizeof(wait->comm), task->comm);
	set_stamp(&wait->stamp, number + 1);
	return 0;
}

static __noinline int record_cpu_wait(struct task_struct *task, struct interval *off)
{
	struct pt_regs *registers = (void *)bpf_task_pt_regs(task);
	struct cpu_wait_record *wait;
	__u32 slot = 0;
	__u64 number = 0;
	bool in_call;

	if (!off)
		return 0;
	wait = begin_record(off->last_ns, &slot, &number);
	if (!wait)
		return 0;
	/* after a write the kernel has already counted that call: the number would be the next one's */
	in_call = off->place == WAIT_PREEMPTED && !off->late;
	wait->kind = RECORD_CPU_WAIT;
	wait->place = off->place;
	wait->tid = visible_tid_of(task);
	wait->first_ns = off->first_ns;
	wait->last_ns = off->last_ns;
	wait->queue_ns = off->queue_ns;
	wait->call = in_call ? (__s32)registers->CALL_NUMBER : -1;
	wait->write_call = in_call ? write_call_of(task) : 0;
	bpf_probe_read_kernel_str(wait->comm, sizeof(wait->comm), task->comm);
	set_stamp(&wait->stamp, number + 1);
	return 0;
}

static __always_inline void record_interval(struct task_struct *task, struct interval *off)
{
	if (off->last_ns < off->first_ns + settings.min_wait_ns)
		return;
	if (off->place == WAIT_ASLEEP)
		record_sleep(task, off);
	else
		record_cpu_wait(task, off);
}

/* Ends the thread's wait; returns false if it has none. */
static __always_inline bool end_wait(struct task_struct *task, struct interval *off)
{
	struct thread *thread = thread_slot(task->pid);

	if (!thread || !thread->off_ns || thread->off_tid != (__u32)task->pid)
		return false;
	off->first_ns = thread->off_ns;
	off->place = thread->off_place;
	thread->off_ns = 0;
	__sync_fetch_and_add(&waiting, -1);
	return true;
}

/* How long a sleeper that has a CPU again had been in the run queue, if it got a CPU once since it fell asleep. */
static __always_inline __u64 queue_time_after_sleep(struct task_struct *task)
{
	struct sleep_place *place = sleep_place_of(task);

	if (!place || place->tid != (__u32)task->pid ||
	    !bpf_core_field_exists(struct task_struct, sched_info.run_delay) ||
	    task->sched_info.pcount != place->arrivals + 1)
		return 0;
	return task->sched_info.run_delay - place->run_delay;
}

/*
 * A thread leaves the CPU whose return was not seen: return_late() in off_cpu.h explains how that happens. Its current
 * call does not show where it waited; the scheduler's accounting shows until when.
 */
static __noinline int return_late(struct task_struct *task)
{
	struct interval off = { .late = true };
	__u64 clock = queue_clock(task), arrived;

	if (!end_wait(task, &off) || !clock ||
	    !bpf_core_field_exists(struct task_struct, sched_info.last_arrival))
		return 0;
	arrived = task->sched_info.last_arrival;
	off.last_ns = bpf_ktime_get_ns() - (clock > arrived ? clock - arrived : 0);
	if (off.place == WAIT_ASLEEP)
		off.queue_ns = queue_time_after_sleep(task);
	record_interval(task, &off);
	return 0;
}

static __always_inline void regain_cpu(struct task_struct *task)
{
	struct interval off = { .queue_ns = queue_time(task), .place = WAIT_PREEMPTED };
	bool waited = waiting && end_wait(task, &off);

	if (!waited && off.queue_ns < settings.min_wait_ns)
		return;
	off.last_ns = bpf_ktime_get_ns();
	/* if it was woken and its leaving the CPU was not seen, the run queue's accounting shows since when */
	if (!waited)
		off.first_ns = off.last_ns - off.queue_ns;
	record_interval(task, &off);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(always_on_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	if ((__u32)prev->tgid == settings.tgid) {
		__u32 state = state_of(prev);

		if (waiting)
			return_late(prev);
		if (preempt)
			leave_cpu(ctx, prev, WAIT_PREEMPTED);
		else if (!state)
			leave_cpu(ctx, prev, WAIT_AT_EXIT);
		else if (state & TASK_UNINTERRUPTIBLE)
			leave_cpu(ctx, prev, WAIT_ASLEEP);
		else if (state & __TASK_STOPPED)
			leave_cpu(ctx, prev, WAIT_STOPPED);
		else if (state & TASK_FROZEN || is_in_freezer_trap(prev, state))
			leave_cpu(ctx, prev, WAIT_FROZEN);
	}
	if ((__u32)next->tgid == settings.tgid)
		regain_cpu(next);
	return 0;
}

#endif
