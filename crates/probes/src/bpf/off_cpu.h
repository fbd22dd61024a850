/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * When a thread of the target leaves and regains the CPU within a call on a file, and the kernel stack at which it
 * left. These hooks run for every switch and wake-up of the host: they compare the process id of the tasks
 * at hand, which are in the cache, and leave before any look-up.
 *
 * After one, until the thread's next one, only uninterruptible waits of a millisecond or more are
 * followed: Kafka appends to the segment's mapped indexes there, still holding the log, and a fault on such a
 * page waits for the same journal and the same device as a write does. Waits for locks and for work are
 * interruptible, so idle threads cost nothing more. Threads that have not written are not followed.
 */

/* Shorter waits after a write are not worth an event. */
#define SHORTEST_AFTER_NS 1000000

/* include/linux/sched.h */
#define TASK_UNINTERRUPTIBLE 2

static __always_inline bool in_target(struct task_struct *task)
{
	return (__u32)task->tgid == settings.tgid;
}

/* Whether the task sleeps where no signal wakes it. The field was renamed in 5.14. */
static __always_inline bool sleeps_deeply(struct task_struct *task)
{
	struct task_struct___before_5_14 *old = (void *)task;

	if (bpf_core_field_exists(old->state))
		return BPF_CORE_READ(old, state) & TASK_UNINTERRUPTIBLE;
	return BPF_CORE_READ(task, __state) & TASK_UNINTERRUPTIBLE;
}

/* Whether the thread's absence from the CPU is to be reported. */
static __always_inline bool is_followed(struct op *op, struct task_struct *task, bool preempt)
{
	if (op->phase == PHASE_INSIDE)
		return true;
	return op->phase == PHASE_AFTER && !preempt && sleeps_deeply(task);
}

static __always_inline void leave_cpu(void *ctx, struct op *op, bool preempt)
{
	long bytes;

	op->preempted = preempt;
	op->woken_ns = 0;
	op->frames = 0;
	op->off_ns = bpf_ktime_get_ns();
	if (!settings.stacks)
		return;
	bytes = bpf_get_stack(ctx, op->stack, sizeof(op->stack), 0);
	if (bytes > 0)
		op->frames = bytes / sizeof(op->stack[0]);
	else
		count_lost(LOST_STACK);
}

static __always_inline void regain_cpu(struct task_struct *task, struct op *op)
{
	union scratch *room = scratch();
	struct off_cpu_event *event;
	__u64 stack_bytes;

	if (!op->off_ns || !room)
		return;
	event = &room->off_cpu;
	event->kind = EVENT_OFF_CPU;
	event->tid = task->pid;
	event->start_ns = op->off_ns;
	event->end_ns = bpf_ktime_get_ns();
	if (op->phase != PHASE_INSIDE && event->end_ns - event->start_ns < SHORTEST_AFTER_NS) {
		op->off_ns = 0;
		return;
	}
	event->woken_ns = op->woken_ns;
	event->preempted = op->preempted;
	event->frames = op->frames;
	bpf_probe_read_kernel_str(event->comm, sizeof(event->comm), task->comm);
	op->off_ns = 0;
	/* bounded right before it is used: verifiers before 6.3 forget the bound of a value that was spilled */
	stack_bytes = (__u64)op->frames * sizeof(op->stack[0]);
	barrier_var(stack_bytes);
	if (stack_bytes > sizeof(op->stack))
		return;
	bpf_probe_read_kernel(event->stack, stack_bytes, op->stack);
	emit(event, __builtin_offsetof(struct off_cpu_event, stack) + stack_bytes);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(sched_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	struct op *op;

	if (in_target(prev)) {
		op = last_op_of(prev->pid);
		if (op && is_followed(op, prev, preempt))
			leave_cpu(ctx, op, preempt);
	}
	if (in_target(next)) {
		op = last_op_of(next->pid);
		if (op)
			regain_cpu(next, op);
	}
	return 0;
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(sched_wakeup, struct task_struct *task)
{
	struct op *op;

	if (!in_target(task))
		return 0;
	op = last_op_of(task->pid);
	if (op && op->off_ns)
		op->woken_ns = bpf_ktime_get_ns();
	return 0;
}
