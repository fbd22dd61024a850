// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Threads that leave and regain the CPU: of the target, and of file systems. */
#include "state.h"
#include "stops.bpf.c"

/*
 * Whether a thread that leaves the CPU waits for a page of a mapped file, and the OP_MMAP_FAULT when it has
 * waited: from the fault's entry into the page cache (before 6.12: from the first page it added) to the CPU.
 * memory.bpf.c knows the file.
 */

/* Deepest that filemap_fault is above __schedule. */
#define FAULT_FRAMES 16

/*
 * Waits for a page that is being read are killable and for I/O (__folio_lock_killable, mm/filemap.c), other than
 * those for a file system's metadata and for a free request, which may come before it.
 */
static __always_inline bool waits_for_page(struct op *op, struct task_struct *task)
{
	long killable = TASK_WAKEKILL | TASK_UNINTERRUPTIBLE;

	if (!op->fault_ns || !BPF_CORE_READ_BITFIELD_PROBED(task, in_iowait))
		return false;
	return (state_of(task) & killable) == killable;
}

/*
 * The stack proves it: a thread may have gone on after a fault that had its page in memory. Where stacks or
 * names are not to be had, pages that were added must do.
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

/* The thread is back on the CPU after such a wait. Uses the scratch buffer of the CPU. */
static __always_inline void send_fault(struct op *op, struct task_struct *task, __u64 now)
{
	union scratch *buffer = cpu_scratch();
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
	/* a page that another thread was reading is from the device as well */
	event->disk_bytes = page;
	event->readahead_bytes = op->fault_bytes > page ? op->fault_bytes - page : 0;
	event->reads_pages = 1;
	bpf_probe_read_kernel_str(event->comm, sizeof(event->comm), task->comm);
	emit(event, sizeof(*event));
}

/*
 * Long waits of the file systems' own threads, which commit and clean for everyone: of those that user space lists,
 * because no field of a task says what it works for. Called from the one hook on switches. Idle threads
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
BPF_MAP(kernel_threads, HASH, __u32, struct kernel_thread, 1024);

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
 * been in a call on a file or a socket are not followed, but for faults on mapped files.
 */

/* Shorter waits after a call are not worth an event, shorter ones within not their waker's stack. */
#define LONG_WAIT_NS 1000000

/*
 * How many threads are off the CPU and followed. As long as none is, most of the time, no thread that is woken or
 * gets a CPU need be looked up; nobody changes it but for such an away.
 */
static __u32 off_cpu_count;

/* Whether the thread's time off the CPU is to be reported. */
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

	op->parked = NOT_PARKED;
	op->preempted = runnable;
	op->fault_waits = waits_for_page(op, task);
	op->woken_ns = 0;
	op->frames = 0;
	op->off_ns = bpf_ktime_get_ns();
	__sync_fetch_and_add(&off_cpu_count, 1);
	/* who waits for nothing but the CPU may be anywhere */
	if (!settings.stacks || runnable)
		return;
	bytes = bpf_get_stack(ctx, op->stack, sizeof(op->stack), 0);
	if (bytes > 0)
		op->frames = bytes / sizeof(op->stack[0]);
	else
		count_lost(LOST_STACK);
}

/*
 * Threads that serve requests wait for Java's locks in a futex, which is an interruptible wait outside of any call on a
 * file. Of such waits only long ones are reported, with who ended them. Request handlers wait for work in a futex too:
 * what a network thread ends, or an interrupt of an idle CPU, is left out. Network threads wait for work in epoll, which
 * user space tells apart by the stack. That is taken when the thread returns, as for kernel threads.
 */

/* Shorter ones hold up no request for long; longer ones are of idle threads. */
#define FUTEX_WAIT_NS 10000000
#define FUTEX_WAIT_MAX_NS 10000000000

/* Kafka's request handlers and network threads; before Kafka 2.2 without the first two words. */
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

static __always_inline void park(struct op *op)
{
	op->preempted = 0;
	op->fault_waits = 0;
	op->woken_ns = 0;
	op->frames = 0;
	op->parked = PARKED;
	op->off_ns = bpf_ktime_get_ns();
	__sync_fetch_and_add(&off_cpu_count, 1);
}

/* Within a call every interval counts; after one, or for want of a CPU, long ones; and those for a mapped page. */
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

/* A thread that was not followed and was long without a CPU counts as preempted: for that time it waited for nothing else. */
static __always_inline void use_scheduler_account(struct op *op, __u64 waited)
{
	op->off_ns = bpf_ktime_get_ns() - waited;
	op->woken_ns = 0;
	op->frames = 0;
	op->preempted = 1;
	op->fault_waits = 0;
}

static __always_inline void send_off_cpu(struct task_struct *task, struct op *op, __u64 now)
{
	union scratch *buffer = cpu_scratch();
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
	/* bounded right before it is used: verifiers before 6.3 forget the bound of a value that was spilled */
	stack_bytes = (__u64)op->frames * sizeof(op->stack[0]);
	barrier_var(stack_bytes);
	if (stack_bytes > sizeof(op->stack))
		return;
	bpf_probe_read_kernel(event->stack, stack_bytes, op->stack);
	emit(event, __builtin_offsetof(struct off_cpu_event, stack) + stack_bytes);
}

/* A thread that was parked may have waited for the CPU after that: that part is the scheduler's own account. */
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
	/* without a stack nobody knows that it was a futex */
	if (bytes <= 0) {
		count_lost(LOST_STACK);
		return;
	}
	op->frames = bytes / sizeof(op->stack[0]);
	send_off_cpu(task, op, until);
}

static __always_inline void regain_cpu(struct task_struct *task)
{
	__u64 waited = waited_for_cpu(task);
	bool in_fault;
	struct op *op;
	__u64 now;

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
	if (!op->off_ns)
		return;
	now = bpf_ktime_get_ns();
	in_fault = op->fault_waits && left_in_fault(op);
	if (is_reported(op, in_fault, now - op->off_ns))
		send_off_cpu(task, op, now);
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

		if (settings.process_stops && !runnable && (__u32)prev->tgid == settings.tgid)
			thread_leaves(prev);
		op = last_op_of(prev->pid);
		if (op && is_followed(op, prev, runnable))
			leave_cpu(ctx, op, prev, runnable);
		else if (op && is_parked(prev, runnable))
			park(op);
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

/* Wake-ups come in interrupts too, which may hit a handler that is using the other scratch buffer. */
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

/* A handler that gets work unlocks the queue within this time, which may wake the next one that gets work. */
#define TAKES_WORK_NS 1000000

/* Whether a handler that is parked gets work from the thread that runs now. Nobody runs where an idle CPU is interrupted. */
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
 * Runs in the waker, once for each time that the task becomes runnable (try_to_wake_up, kernel/sched/core.c); what
 * the wake-up itself takes counts as waiting for the CPU.
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
