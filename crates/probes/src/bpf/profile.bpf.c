// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Profiles where a process's threads spend their time, on and off the CPU: a separate object, so that a profile neither
 * needs nor slows the probes of probes.bpf.c. Time is summed here, by thread name and stacks: the cost of a profile
 * does not grow with its length, and user space reads it once, at the end.
 *
 * `sample_total` and `sched_switch` do that; `sample_each` delivers single samples instead, for a recording. User space
 * loads what it uses.
 */
#include "kernel.h"

#include "process_ids.h"
#include "profile.h"

/* include/linux/sched.h: a thread's last switch */
#define TASK_DEAD 0x80

const volatile struct profile_settings settings = {};
const volatile struct profile_records records = {};

BPF_MAP(lost, PERCPU_ARRAY, __u32, __u64, PROFILE_LOST_SLOTS);

/*
 * Stacks by a hash of their frames. Not a BPF_MAP_TYPE_STACK_TRACE: that has one slot for a hash's low bits, so of two
 * thousand stacks in sixteen thousand slots one in sixteen would find its slot taken.
 */
BPF_MAP(stacks, HASH, __u64, struct stack, 8192);

BPF_MAP(stack_times, HASH, struct stack_key, struct stack_time, 16384);

/* Keyed by tid. */
BPF_MAP(off_cpu_threads, HASH, __u32, struct off_cpu, 8192);

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 256 * 1024);
} ring SEC(".maps");

/* Scratch space for what exceeds a BPF stack. All users run with interrupts off, so they never nest. */
BPF_MAP(scratches, PERCPU_ARRAY, __u32, struct stack, 1);

static __always_inline void count_lost(__u32 slot, __u64 by)
{
	__u64 *count = bpf_map_lookup_elem(&lost, &slot);

	if (count)
		*count += by;
}

/*
 * Whether the current thread is inside one of the selected system calls, by the registers with which it entered the
 * kernel.
 */
static __always_inline bool is_inside(void)
{
	struct pt_regs *registers;
	__s32 call;
	int i;

	if (!settings.calls)
		return true;
	registers = (void *)bpf_task_pt_regs(bpf_get_current_task_btf());
	call = BPF_CORE_READ(registers, CALL_NUMBER);
	for (i = 0; i < PROFILE_CALLS; i++)
		if (i < settings.calls && settings.call[i] == call)
			return true;
	return false;
}

static __always_inline __u64 hash_of(const struct stack *stack)
{
	__u64 hash = 0xcbf29ce484222325;
	__u32 i;

	for (i = 0; i < PROFILE_FRAMES; i++) {
		if (i >= stack->frames)
			break;
		hash = (hash ^ stack->frame[i]) * 0x9e3779b97f4a7c15;
		hash ^= hash >> 32;
	}
	return hash > STACK_LOST ? hash : STACK_LOST + 1;
}

/* Returns the number of the current thread's stack, kernel or user; the stack itself is stored once. */
static __always_inline __u64 store_stack(void *ctx, __u64 flags)
{
	__u32 zero = 0;
	struct stack *stack = bpf_map_lookup_elem(&scratches, &zero);
	__u64 hash;
	long bytes;

	if (!stack)
		return STACK_LOST;
	bytes = bpf_get_stack(ctx, stack->frame, sizeof(stack->frame), flags);
	if (bytes <= 0)
		return STACK_NONE;
	stack->frames = (__u64)bytes / sizeof(stack->frame[0]);
	hash = hash_of(stack);
	if (bpf_map_lookup_elem(&stacks, &hash))
		return hash;
	if (!bpf_map_update_elem(&stacks, &hash, stack, BPF_ANY))
		return hash;
	count_lost(PROFILE_LOST_STACK, 1);
	return STACK_LOST;
}

static __always_inline void add_time(struct stack_key *key, __u64 ns)
{
	struct stack_time fresh = { .ns = ns, .count = 1 };
	struct stack_time *spent = bpf_map_lookup_elem(&stack_times, key);

	if (!spent) {
		if (!bpf_map_update_elem(&stack_times, key, &fresh, BPF_NOEXIST))
			return;
		/* another CPU may have been first */
		spent = bpf_map_lookup_elem(&stack_times, key);
	}
	if (spent) {
		__sync_fetch_and_add(&spent->ns, ns);
		__sync_fetch_and_add(&spent->count, 1);
		return;
	}
	count_lost(PROFILE_LOST_TIME, 1);
	count_lost(PROFILE_LOST_NS, ns);
}

static __always_inline bool is_target_current(void)
{
	return current_ids() >> 32 == settings.tgid;
}

SEC("perf_event")
int sample_total(void *ctx)
{
	struct stack_key key = { .state = TIME_ON_CPU };

	if (!is_target_current() || !is_inside())
		return 0;
	key.user_stack = store_stack(ctx, BPF_F_USER_STACK);
	key.kernel_stack = store_stack(ctx, 0);
	if (settings.by_thread)
		key.tid = visible_tid();
	bpf_get_current_comm(key.comm, sizeof(key.comm));
	add_time(&key, settings.period_ns);
	return 0;
}

SEC("perf_event")
int sample_each(void *ctx)
{
	struct sample_event sample = {};

	if (!is_target_current())
		return 0;
	sample.at_ns = bpf_ktime_get_ns();
	sample.tid = visible_tid();
	sample.user_stack = store_stack(ctx, BPF_F_USER_STACK);
	sample.kernel_stack = store_stack(ctx, 0);
	bpf_get_current_comm(sample.comm, sizeof(sample.comm));
	/* the reader polls once a second: samples are few, and waking it would cost more than they do */
	if (bpf_ringbuf_output(&ring, &sample, sizeof(sample), BPF_RB_NO_WAKEUP))
		count_lost(PROFILE_LOST_RING, 1);
	return 0;
}

/* The stacks are taken when the thread leaves: when it returns, the CPU still runs on the other thread's stack. */
static __always_inline void leave_cpu(void *ctx, struct task_struct *task)
{
	__u32 tid = task->pid;
	struct off_cpu *known = bpf_map_lookup_elem(&off_cpu_threads, &tid);
	struct off_cpu away = {};

	/* a dead thread's id may be reused, and so may its entry */
	if (state_of(task) & TASK_DEAD) {
		bpf_map_delete_elem(&off_cpu_threads, &tid);
		return;
	}
	if (!is_inside()) {
		if (known)
			known->since_ns = 0;
		return;
	}
	away.since_ns = bpf_ktime_get_ns();
	away.user_stack = store_stack(ctx, BPF_F_USER_STACK);
	away.kernel_stack = store_stack(ctx, 0);
	bpf_probe_read_kernel_str(away.comm, sizeof(away.comm), task->comm);
	if (known)
		*known = away;
	else if (bpf_map_update_elem(&off_cpu_threads, &tid, &away, BPF_ANY))
		count_lost(PROFILE_LOST_THREAD, 1);
}

static __always_inline void regain_cpu(struct task_struct *task)
{
	__u32 tid = task->pid;
	struct off_cpu *away = bpf_map_lookup_elem(&off_cpu_threads, &tid);
	struct stack_key key = { .state = TIME_OFF_CPU };
	__u64 ns;

	if (!away || !away->since_ns)
		return;
	ns = bpf_ktime_get_ns() - away->since_ns;
	away->since_ns = 0;
	if (ns < settings.min_ns)
		return;
	key.user_stack = away->user_stack;
	key.kernel_stack = away->kernel_stack;
	if (settings.by_thread)
		key.tid = visible_tid_of(task);
	bpf_probe_read_kernel_str(key.comm, sizeof(key.comm), task->comm);
	add_time(&key, ns);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(sched_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	if ((__u32)prev->tgid == settings.tgid)
		leave_cpu(ctx, prev);
	if ((__u32)next->tgid == settings.tgid)
		regain_cpu(next);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
