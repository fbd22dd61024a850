/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * When a thread of the target leaves and regains the CPU within a call on a file, the kernel stack at which it left,
 * and who made it runnable. These hooks run for every switch and wake-up of the host: they compare the process id of
 * the tasks at hand, which are in the cache, and leave before any look-up.
 *
 * After such a call, until the thread's next one, only uninterruptible waits of a millisecond or more are
 * followed: Kafka appends to the segment's mapped indexes there, still holding the log, and a fault on such a
 * page waits for the same journal and the same device as a write does. Waits for locks and for work are
 * interruptible and are not followed, so idle threads cost nothing more; where such a thread could have run for a
 * millisecond or more and had no CPU, the scheduler's own account says so when it gets one. Threads that have not
 * been in a call on a file or a socket are not followed, but for faults on mapped files (mmap_fault.h).
 */

/* Shorter waits after a call are not worth an event, shorter ones within not their waker's stack. */
#define LONG_WAIT_NS 1000000

/*
 * How many threads are off the CPU and followed. As long as none is, most of the time, no thread that is woken or
 * gets a CPU need be looked up; nobody changes it but for such an absence.
 */
static __u32 absent;

/* Whether the thread's absence from the CPU is to be reported. */
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

	op->preempted = runnable;
	op->fault_waits = waits_for_page(op, task);
	op->woken_ns = 0;
	op->frames = 0;
	op->off_ns = bpf_ktime_get_ns();
	__sync_fetch_and_add(&absent, 1);
	/* who waits for nothing but the CPU may be anywhere */
	if (!settings.stacks || runnable)
		return;
	bytes = bpf_get_stack(ctx, op->stack, sizeof(op->stack), 0);
	if (bytes > 0)
		op->frames = bytes / sizeof(op->stack[0]);
	else
		count_lost(LOST_STACK);
}

/* Within a call every absence counts; after one, or for want of a CPU, long ones; and those for a mapped page. */
static __always_inline bool is_reported(struct op *op, bool in_fault, __u64 length_ns)
{
	if (op->phase == PHASE_INSIDE || in_fault)
		return true;
	return (op->phase == PHASE_AFTER || op->preempted) && length_ns >= LONG_WAIT_NS;
}

/*
 * For how long the thread that gets the CPU now had been on its run queue: since it was woken, preempted, or moved
 * there from another. The tracepoint comes before sched_info_arrive clears the account (__schedule and
 * prepare_task_switch, kernel/sched/core.c; kernel/sched/stats.h). 0 where the kernel keeps none.
 */
static __always_inline __u64 waited_for_cpu(struct task_struct *task)
{
	struct cfs_rq *queue;
	__u64 queued, now;
	struct rq *rq;

	if (!bpf_core_field_exists(task->sched_info.last_queued) || !bpf_core_field_exists(task->se.cfs_rq) ||
	    !bpf_core_field_exists(queue->rq) || !bpf_core_field_exists(rq->clock))
		return 0;
	queued = task->sched_info.last_queued;
	queue = task->se.cfs_rq;
	rq = queue->rq;
	now = rq->clock;
	return queued && now > queued ? now - queued : 0;
}

/* Whoever was not followed and was long without a CPU is taken for preempted: for that time it waited for nothing else. */
static __always_inline void look_at_account(struct op *op, __u64 waited)
{
	op->off_ns = bpf_ktime_get_ns() - waited;
	op->woken_ns = 0;
	op->frames = 0;
	op->preempted = 1;
	op->fault_waits = 0;
}

static __always_inline void send_absence(struct task_struct *task, struct op *op, __u64 now)
{
	union scratch *room = cpu_scratch();
	struct off_cpu_event *event;
	__u64 stack_bytes;

	if (!room)
		return;
	event = &room->off_cpu;
	event->kind = EVENT_OFF_CPU;
	event->tid = shown_thread(task);
	event->start_ns = op->off_ns;
	event->end_ns = now;
	event->woken_ns = op->woken_ns;
	event->waker_tid = op->waker_tid;
	__builtin_memcpy(event->waker_comm, op->waker_comm, sizeof(event->waker_comm));
	event->preempted = op->preempted;
	event->frames = op->frames;
	bpf_probe_read_kernel_str(event->comm, sizeof(event->comm), task->comm);
	/* bounded right before it is used: verifiers before 6.3 forget the bound of a value that was spilled */
	stack_bytes = (__u64)op->frames * sizeof(op->stack[0]);
	barrier_var(stack_bytes);
	if (stack_bytes > sizeof(op->stack))
		return;
	bpf_probe_read_kernel(event->stack, stack_bytes, op->stack);
	emit(event, __builtin_offsetof(struct off_cpu_event, stack) + stack_bytes);
}

static __always_inline void regain_cpu(struct task_struct *task)
{
	__u64 waited = waited_for_cpu(task);
	bool in_fault;
	struct op *op;
	__u64 now;

	if (!absent && waited < LONG_WAIT_NS)
		return;
	op = last_op_of(task->pid);
	if (!op)
		return;
	if (op->off_ns)
		__sync_fetch_and_add(&absent, -1);
	else if (waited >= LONG_WAIT_NS)
		look_at_account(op, waited);
	if (!op->off_ns)
		return;
	now = bpf_ktime_get_ns();
	in_fault = op->fault_waits && left_in_fault(op);
	if (is_reported(op, in_fault, now - op->off_ns))
		send_absence(task, op, now);
	op->off_ns = 0;
	if (!in_fault)
		return;
	send_fault(op, task, now);
	op->fault_ns = 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(sched_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	struct op *op;

	if (in_target(prev)) {
		bool runnable = preempt || !state_of(prev);

		op = last_op_of(prev->pid);
		if (op && is_followed(op, prev, runnable))
			leave_cpu(ctx, op, prev, runnable);
	} else if (is_kernel_thread(prev)) {
		kernel_thread_leaves(prev, preempt);
	}
	if (in_target(next)) {
		regain_cpu(next);
	} else if (is_kernel_thread(next)) {
		kernel_thread_returns(next);
	}
	return 0;
}

/* Wake-ups come in interrupts too, which may hit a handler that is using the other scratch room. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct waker_stack_event);
} waker_scratches SEC(".maps");

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
	event->tid = shown_thread(task);
	event->woken_ns = woken_ns;
	event->frames = bytes / sizeof(event->stack[0]);
	emit(event, __builtin_offsetof(struct waker_stack_event, stack) + bytes);
}

/*
 * Runs in the waker, once for each time that the task becomes runnable (try_to_wake_up, kernel/sched/core.c); what
 * the wake-up itself takes counts as waiting for the CPU.
 */
SEC("tp_btf/sched_waking")
int BPF_PROG(sched_waking, struct task_struct *task)
{
	struct op *op;
	__u64 now;

	if (!absent || !in_target(task))
		return 0;
	op = last_op_of(task->pid);
	if (!op || !op->off_ns)
		return 0;
	now = bpf_ktime_get_ns();
	op->woken_ns = now;
	op->waker_tid = shown_current();
	bpf_get_current_comm(op->waker_comm, sizeof(op->waker_comm));
	if (settings.stacks && now - op->off_ns >= LONG_WAIT_NS)
		send_waker_stack(ctx, task, now);
	return 0;
}
