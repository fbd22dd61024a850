// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Threads that leave and regain the CPU: the target's, and those of file systems. */
#include "off_cpu.h"
#include "state.h"
#include "stops.bpf.c"

/*
 * Whether a thread that leaves the CPU waits for a page of a mapped file, and the OP_MMAP_FAULT after the wait: from
 * the fault's entry into the page cache (before 6.12: from the first page it added) until it is back on the CPU.
 * memory.bpf.c knows the file.
 */

/*
 * Waits for a page that is being read are killable and for I/O (__folio_lock_killable, mm/filemap.c), unlike those for
 * a file system's metadata and for a free request, which may come before it.
 */
static __always_inline bool waits_for_page(struct op *op, struct task_struct *task)
{
	long killable = TASK_WAKEKILL | TASK_UNINTERRUPTIBLE;

	if (!op->fault_ns || !BPF_CORE_READ_BITFIELD_PROBED(task, in_iowait))
		return false;
	return (state_of(task) & killable) == killable;
}

/*
 * Long waits of the file systems' own threads, which commit and clean for everyone. User space lists those threads,
 * because no field of a task shows what it works for. Called from the one hook on switches. Idle threads sleep so that
 * signals wake them or so that they count as no load; those that wait for a device or a lock do not. The stack is taken
 * when such a thread returns, and only after a long wait: it then lacks the functions that wait for others (__sched,
 * stack_trace_save_tsk in kernel/stacktrace.c), but not those of the file system.
 */

#define KERNEL_WAIT_NS 1000000

struct kernel_thread {
	/* when it left the CPU; 0 while it runs */
	__u64 off_ns;
};

/* Keyed by tid; user space fills it. */
BPF_MAP(kernel_threads, HASH, __u32, struct kernel_thread, 1024);

/* Number of these threads that wait: while it is 0, returning threads need no look-up. */
static __u32 waiting_threads;

static __always_inline bool is_kernel_thread(struct task_struct *task)
{
	return settings.kernel_threads && (task->flags & (PF_KTHREAD | PF_IDLE)) == PF_KTHREAD;
}

static __always_inline void kernel_thread_leaves(struct task_struct *task, bool preempt)
{
	__u32 state = state_of(task), tid = task->pid;
	struct kernel_thread *thread;

	if (preempt || (state & (TASK_UNINTERRUPTIBLE | TASK_WAKEKILL | TASK_NOLOAD)) != TASK_UNINTERRUPTIBLE)
		return;
	thread = bpf_map_lookup_elem(&kernel_threads, &tid);
	if (!thread)
		return;
	if (!thread->off_ns)
		__sync_fetch_and_add(&waiting_threads, 1);
	thread->off_ns = bpf_ktime_get_ns();
}

static __always_inline void report_wait(struct task_struct *task, __u64 since_ns, __u64 now_ns)
{
	union scratch *buffer = cpu_scratch();
	struct kernel_wait_event *event;
	long bytes;

	if (!buffer)
		return;
	event = &buffer->kernel_wait;
	event->kind = EVENT_KERNEL_WAIT;
	event->tid = task->pid;
	event->start_ns = since_ns;
	event->end_ns = now_ns;
	event->reserved = 0;
	bpf_probe_read_kernel_str(event->comm, sizeof(event->comm), task->comm);
	bytes = bpf_get_task_stack(task, event->stack, sizeof(event->stack), 0);
	/* only the stack shows what the wait was for */
	if (bytes <= 0 || bytes > (long)sizeof(event->stack)) {
		count_lost(LOST_STACK);
		return;
	}
	event->frames = bytes / sizeof(event->stack[0]);
	emit(event, __builtin_offsetof(struct kernel_wait_event, stack) + bytes);
}

static __always_inline void kernel_thread_returns(struct task_struct *task)
{
	struct kernel_thread *thread;
	__u32 tid = task->pid;
	__u64 since_ns, now_ns;

	if (!waiting_threads)
		return;
	thread = bpf_map_lookup_elem(&kernel_threads, &tid);
	if (!thread || !thread->off_ns)
		return;
	since_ns = thread->off_ns;
	thread->off_ns = 0;
	__sync_fetch_and_add(&waiting_threads, -1);
	now_ns = bpf_ktime_get_ns();
	if (now_ns - since_ns >= KERNEL_WAIT_NS)
		report_wait(task, since_ns, now_ns);
}

/*
 * The intervals in which a thread of the target is off the CPU within a call on a file, with the kernel stack at which
 * it left, and who made it runnable. These hooks run for every switch and wake-up of the host: they compare the process
 * ids of the tasks at hand, which are cached, and return before any look-up.
 *
 * After such a call, until the thread's next one, only uninterruptible waits of at least a millisecond are followed:
 * Kafka then appends to the segment's mapped indexes while it still holds the log, and a fault on such a page waits for
 * the same journal and the same device as a write does. Waits for locks and for work are interruptible and not
 * followed, so idle threads cost nothing more; if such a thread was runnable without a CPU for at least a millisecond,
 * the scheduler's accounting shows it when it gets one. Threads that have not been in a call on a file or a socket are
 * followed only for faults on mapped files.
 */

/* Whether the thread's time off the CPU may be reported. */
static __always_inline bool is_followed(struct op *op, struct task_struct *task, bool runnable)
{
	if (op->phase == PHASE_INSIDE)
		return true;
	if (op->phase != PHASE_AFTER && !op->fault_ns)
		return false;
	return !runnable && state_of(task) & TASK_UNINTERRUPTIBLE;
}

static __always_inline void leave_cpu(void *ctx, struct op *op, struct task_struct *task, bool runnable)
{
	long bytes;

	if (op->off_ns)
		return_late(cpu_scratch(), op, task);
	op->parked = NOT_PARKED;
	op->preempted = runnable;
	op->fault_waits = waits_for_page(op, task);
	op->woken_ns = 0;
	op->frames = 0;
	op->off_ns = bpf_ktime_get_ns();
	op->off_clock = queue_clock(task);
	sees_switches = 1;
	__sync_fetch_and_add(&off_cpu_count, 1);
	/* a thread that waits only for a CPU may be anywhere */
	if (!settings.stacks || runnable)
		return;
	bytes = bpf_get_stack(ctx, op->stack, sizeof(op->stack), 0);
	if (bytes > 0)
		op->frames = bytes / sizeof(op->stack[0]);
	else
		count_lost(LOST_STACK);
}

/*
 * Threads that serve requests wait for Java locks in a futex, an interruptible wait outside of any call on a file. Only
 * long ones of these waits are reported, with the thread that ended them. Request handlers also wait for work in a
 * futex: waits ended by a network thread, or by an interrupt of an idle CPU, are left out. Network threads wait for
 * work in epoll, which user space recognises by the stack. The stack is taken when the thread returns, as for kernel
 * threads.
 */

/* Shorter waits delay no request for long; longer ones are of idle threads. */
#define FUTEX_WAIT_NS 10000000
#define FUTEX_WAIT_MAX_NS 10000000000

/* Kafka's request handlers and network threads; before Kafka 2.2 the names lack the first two words. */
static __always_inline bool serves_requests(struct task_struct *task)
{
	char name[8] = {};

	bpf_probe_read_kernel(name, sizeof(name), task->comm);
	return !__builtin_memcmp(name, "data-pla", sizeof(name)) ||
	       !__builtin_memcmp(name, "kafka-re", sizeof(name)) ||
	       !__builtin_memcmp(name, "kafka-ne", sizeof(name));
}

static __always_inline bool is_parked(struct task_struct *task, bool runnable)
{
	if (!settings.futex_waits || runnable)
		return false;
	if ((state_of(task) & (TASK_INTERRUPTIBLE | TASK_UNINTERRUPTIBLE)) != TASK_INTERRUPTIBLE)
		return false;
	return serves_requests(task);
}

static __always_inline void park(struct op *op, struct task_struct *task)
{
	if (op->off_ns)
		return_late(cpu_scratch(), op, task);
	op->preempted = 0;
	op->fault_waits = 0;
	op->woken_ns = 0;
	op->frames = 0;
	op->parked = PARKED;
	op->off_ns = bpf_ktime_get_ns();
	__sync_fetch_and_add(&off_cpu_count, 1);
}

/*
 * How long the thread that gets the CPU now had been on its run queue: since it was woken, preempted, or moved there
 * from another queue. The tracepoint fires before sched_info_arrive clears the account (__schedule and
 * prepare_task_switch, kernel/sched/core.c; kernel/sched/stats.h). 0 if the kernel keeps none.
 */
static __always_inline __u64 waited_for_cpu(struct task_struct *task)
{
	__u64 queued, now = queue_clock(task);

	if (!bpf_core_field_exists(task->sched_info.last_queued))
		return 0;
	queued = task->sched_info.last_queued;
	return queued && now > queued ? now - queued : 0;
}

/* A thread that was not followed and was long without a CPU counts as preempted: it waited for nothing else then. */
static __always_inline void use_scheduler_account(struct op *op, __u64 waited)
{
	op->off_ns = bpf_ktime_get_ns() - waited;
	op->woken_ns = 0;
	op->frames = 0;
	op->preempted = 1;
	op->fault_waits = 0;
}

/* A parked thread may have waited for the CPU afterwards: that part is in the scheduler's accounting. */
static __always_inline void unpark(struct task_struct *task, struct op *op, __u64 waited)
{
	__u64 now = bpf_ktime_get_ns(), until = waited >= LONG_WAIT_NS ? now - waited : now;
	long bytes;

	/* stays: see gets_work() */
	if (op->parked == PARKED_IDLE)
		return;
	op->parked = NOT_PARKED;
	if (until < op->off_ns + FUTEX_WAIT_NS || until > op->off_ns + FUTEX_WAIT_MAX_NS)
		return;
	bytes = bpf_get_task_stack(task, op->stack, sizeof(op->stack), 0);
	/* only the stack shows that it was a futex */
	if (bytes <= 0) {
		count_lost(LOST_STACK);
		return;
	}
	op->frames = bytes / sizeof(op->stack[0]);
	send_off_cpu(cpu_scratch(), task, op, until);
}

static __always_inline void regain_cpu(struct task_struct *task)
{
	__u64 waited = waited_for_cpu(task);
	struct op *op;

	if (!off_cpu_count && waited < LONG_WAIT_NS)
		return;
	op = last_op_of(task->pid);
	if (!op)
		return;
	if (op->off_ns)
		__sync_fetch_and_add(&off_cpu_count, -1);
	if (op->off_ns && op->parked) {
		unpark(task, op, waited);
		op->off_ns = 0;
	}
	if (!op->off_ns && waited >= LONG_WAIT_NS)
		use_scheduler_account(op, waited);
	if (op->off_ns)
		report_return(cpu_scratch(), op, task, bpf_ktime_get_ns());
}

SEC("tp_btf/sched_switch")
int BPF_PROG(sched_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	struct op *op;

	if (in_target(prev)) {
		bool runnable = preempt || !state_of(prev);

		if (settings.process_stops && !runnable && (__u32)prev->tgid == settings.tgid)
			thread_leaves(prev);
		op = last_op_of(prev->pid);
		if (op && is_followed(op, prev, runnable))
			leave_cpu(ctx, op, prev, runnable);
		else if (op && is_parked(prev, runnable))
			park(op, prev);
	} else if (is_kernel_thread(prev)) {
		kernel_thread_leaves(prev, preempt);
	}
	if (in_target(next)) {
		if (stop.end_ns)
			settle_stop();
		regain_cpu(next);
	} else if (is_kernel_thread(next)) {
		kernel_thread_returns(next);
	}
	return 0;
}

/* Wake-ups also come in interrupts, which may hit a handler that uses the other scratch buffer. */
BPF_MAP(waker_scratches, PERCPU_ARRAY, __u32, struct waker_stack_event, 1);

static __always_inline void send_waker_stack(void *ctx, struct task_struct *task, __u64 woken_ns)
{
	__u32 zero = 0;
	struct waker_stack_event *event = bpf_map_lookup_elem(&waker_scratches, &zero);
	long bytes;

	if (!event)
		return;
	bytes = bpf_get_stack(ctx, event->stack, sizeof(event->stack), 0);
	if (bytes <= 0 || bytes > (long)sizeof(event->stack)) {
		count_lost(LOST_STACK);
		return;
	}
	event->kind = EVENT_WAKER_STACK;
	event->tid = visible_tid_of(task);
	event->woken_ns = woken_ns;
	event->frames = bytes / sizeof(event->stack[0]);
	emit(event, __builtin_offsetof(struct waker_stack_event, stack) + bytes);
}

/* Whether a thread has moved bytes on a TCP connection. */
static __always_inline bool is_network_thread(struct op *op)
{
	return op && op->socket.ends.remote_port;
}

/* A handler that takes work unlocks the queue within this time, which may wake the next one to take work. */
#define TAKES_WORK_NS 1000000

/* Whether a parked handler gets work from the current thread. An interrupt of an idle CPU has no current thread. */
static __always_inline bool gets_work(struct op *op, __u64 now)
{
	__u32 tid = current_ids();
	struct op *waker;

	if (op->parked == NOT_PARKED || is_network_thread(op))
		return false;
	if (!tid)
		return true;
	waker = last_op_of(tid);
	if (!waker)
		return false;
	return is_network_thread(waker) ||
	       (waker->parked == PARKED_IDLE && now - waker->woken_ns < TAKES_WORK_NS);
}

/*
 * Runs in the waker, once each time the task becomes runnable (try_to_wake_up, kernel/sched/core.c); the time of the
 * wake-up itself counts as waiting for the CPU.
 */
SEC("tp_btf/sched_waking")
int BPF_PROG(sched_waking, struct task_struct *task)
{
	struct op *op;
	__u64 now;

	if (settings.process_stops && (stopped_threads || stop.start_ns) &&
	    (__u32)task->tgid == settings.tgid)
		thread_is_woken(task);
	if (!off_cpu_count || !in_target(task))
		return 0;
	op = last_op_of(task->pid);
	if (!op || !op->off_ns)
		return 0;
	now = bpf_ktime_get_ns();
	op->woken_ns = now;
	if (gets_work(op, now)) {
		op->parked = PARKED_IDLE;
		return 0;
	}
	op->waker_tid = visible_tid();
	bpf_get_current_comm(op->waker_comm, sizeof(op->waker_comm));
	if (settings.stacks && now - op->off_ns >= (op->parked ? FUTEX_WAIT_NS : LONG_WAIT_NS))
		send_waker_stack(ctx, task, now);
	return 0;
}
