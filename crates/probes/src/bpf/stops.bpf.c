// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Times in which all threads of the target stand still: stopped by a signal, frozen with their cgroup, or halted by a
 * tracer. The hooks on switches and wake-ups (sched.bpf.c) call this: a thread leaves the CPU in a state that shows it,
 * and what releases the thread wakes it while it is still in that state (try_to_wake_up, kernel/sched/core.c).
 *
 * Signals and freezers stop every thread of a process, one after the other, and release them likewise: the process
 * stands still from the first thread that leaves to the last that is woken, because each thread's work waits until
 * then. A tracer may halt single threads, as strace does at each call: then more than half must be halted, and the stop
 * lasts until the first is woken.
 *
 * Freezers of Linux 6.1 and later leave most sleeping threads where they are, and prevent their wake-ups: the thaw
 * wakes only those that something else would have woken. Covers the target alone, not its children.
 */
#pragma once
#include "state.h"

/* include/linux/sched.h: before Linux 6.1 the frozen state, in place of TASK_FROZEN; another flag since */
#define PF_FROZEN 0x10000

/* include/uapi/asm-generic/signal.h: SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU */
#define FIRST_STOP_SIGNAL 19
#define LAST_STOP_SIGNAL 22

/* Shorter stops delay no request noticeably. */
#define MIN_STOP_NS 1000000

extern int LINUX_KERNEL_VERSION __kconfig;
#define VERSION(major, minor) (((major) << 16) + ((minor) << 8))

/*
 * A thread that thaws a cgroup needs a CPU too, and so do those that it has woken: on a busy machine the last thread
 * continues much later than the first. A stop is over when no thread has been released for this long.
 */
#define SETTLED_NS 100000000

/*
 * Threads that left the CPU in such a state and were not woken yet; too low if threads were woken that were not seen to
 * freeze.
 */
static __u32 stopped_threads;

/* The current stop, if start_ns is set; with end_ns once some threads were released. */
static struct process_stop_event stop;

/* Who last sent a stop signal. */
static struct {
	__u32 tid;
	char comm[TASK_COMM_LEN];
} stop_sender;

/* Returns an enum stop_reason. */
static __always_inline __u8 stop_reason_of(struct task_struct *task)
{
	__u32 state = state_of(task);

	if (state & __TASK_TRACED)
		return STOPPED_BY_TRACER;
	if (state & __TASK_STOPPED)
		return STOPPED_BY_SIGNAL;
	if (state & TASK_FROZEN)
		return STOPPED_BY_FREEZER;
	if (LINUX_KERNEL_VERSION < VERSION(6, 1) && task->flags & PF_FROZEN)
		return STOPPED_BY_FREEZER;
	if (is_in_freezer_trap(task, state))
		return STOPPED_BY_FREEZER;
	return NOT_STOPPED;
}

/* While it traces, a tracer is its tracees' parent (ptrace_link, kernel/ptrace.c). */
static __always_inline void name_tracer(struct task_struct *task)
{
	struct task_struct *tracer = BPF_CORE_READ(task, parent);

	stop.by_tid = pid_settings.pid_level ? visible(BPF_CORE_READ(tracer, thread_pid))
					     : BPF_CORE_READ(tracer, pid);
	BPF_CORE_READ_STR_INTO(&stop.by_comm, tracer, comm);
}

static __always_inline void name_sender(void)
{
	stop.by_tid = stop_sender.tid;
	__builtin_memcpy(stop.by_comm, stop_sender.comm, sizeof(stop.by_comm));
	stop_sender.tid = 0;
	stop_sender.comm[0] = 0;
}

/* The thread that releases the process is the current one. */
static __always_inline void name_current(void)
{
	stop.by_tid = visible_tid();
	bpf_get_current_comm(stop.by_comm, sizeof(stop.by_comm));
}

/* Another CPU may do the same at the same time: user space drops duplicates. */
static __always_inline void end_stop(void)
{
	struct process_stop_event ended = stop;

	stop.start_ns = 0;
	stop.end_ns = 0;
	if (ended.end_ns - ended.start_ns >= MIN_STOP_NS)
		emit(&ended, sizeof(ended));
}

/* A thread of the target gets the CPU after some were released. */
static __always_inline void settle_stop(void)
{
	if (bpf_ktime_get_ns() - stop.end_ns >= SETTLED_NS)
		end_stop();
}

static __always_inline void begin_stop(struct task_struct *task, __u8 reason)
{
	stop.kind = EVENT_PROCESS_STOP;
	stop.reason = reason;
	stop.threads = stopped_threads;
	if (reason == STOPPED_BY_TRACER)
		name_tracer(task);
	else
		name_sender();
	stop.start_ns = bpf_ktime_get_ns();
}

/* A thread of the target leaves the CPU, but not because another one gets its turn. */
static __always_inline void thread_leaves(struct task_struct *task)
{
	__u8 reason = stop_reason_of(task);

	if (reason == NOT_STOPPED)
		return;
	/* the next stop began before the end of that one was seen */
	if (stop.end_ns)
		end_stop();
	__sync_fetch_and_add(&stopped_threads, 1);
	if (!stop.start_ns) {
		if (reason != STOPPED_BY_TRACER ||
		    stopped_threads * 2 > (__u32)BPF_CORE_READ(task, signal, nr_threads))
			begin_stop(task, reason);
	} else if (stopped_threads > stop.threads) {
		stop.threads = stopped_threads;
	}
}

/* A thread of the target is woken while some stand still, or before that stop is over. */
static __always_inline void thread_is_woken(struct task_struct *task)
{
	if (stop_reason_of(task) == NOT_STOPPED)
		return;
	if (stopped_threads)
		__sync_fetch_and_add(&stopped_threads, -1);
	if (!stop.start_ns)
		return;
	stop.end_ns = bpf_ktime_get_ns();
	if (stop.reason == STOPPED_BY_FREEZER)
		name_current();
	else if (stop.reason == STOPPED_BY_TRACER)
		end_stop();
}

SEC("tracepoint/signal/signal_generate")
int signal_generated(void *ctx)
{
	__u32 signal = 0, pid = 0;

	READ_FIELD(signal, ctx, signal_generated.sig);
	READ_FIELD(pid, ctx, signal_generated.pid);
	if (pid != settings.tgid || signal < FIRST_STOP_SIGNAL || signal > LAST_STOP_SIGNAL)
		return 0;
	stop_sender.tid = visible_tid();
	bpf_get_current_comm(stop_sender.comm, sizeof(stop_sender.comm));
	return 0;
}
