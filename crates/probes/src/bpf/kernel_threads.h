/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Long waits of the file systems' own threads, which commit and clean for everyone: of those that user space lists,
 * because no field of a task says what it works for. Called from the one hook on switches (off_cpu.h). Idle threads
 * sleep so that signals wake them or so that they count as no load; those that wait for a device or a lock do not.
 * The stack is taken when such a thread returns, and only after a long wait: it then lacks the functions that wait
 * for others (__sched, stack_trace_save_tsk in kernel/stacktrace.c), but not those of the file system.
 */

#define KERNEL_WAIT_NS 1000000

struct kernel_thread {
	/* when it left the CPU; 0 while it runs */
	__u64 off_ns;
};

/* Keyed by tid; user space fills it. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, struct kernel_thread);
} kernel_threads SEC(".maps");

/* How many of them wait: as long as none does, no thread that comes back need be looked up. */
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
	thread->off_ns = bpf_ktime_get_ns();
	__sync_fetch_and_add(&waiting_threads, 1);
}

static __always_inline void report_wait(struct task_struct *task, __u64 since_ns, __u64 now_ns)
{
	union scratch *room = cpu_scratch();
	struct kernel_wait_event *event;
	long bytes;

	if (!room)
		return;
	event = &room->kernel_wait;
	event->kind = EVENT_KERNEL_WAIT;
	event->tid = task->pid;
	event->start_ns = since_ns;
	event->end_ns = now_ns;
	event->reserved = 0;
	bpf_probe_read_kernel_str(event->comm, sizeof(event->comm), task->comm);
	bytes = bpf_get_task_stack(task, event->stack, sizeof(event->stack), 0);
	/* without a stack nobody knows what the wait was for */
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
