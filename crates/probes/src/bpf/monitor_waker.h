/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Who hands a monitor over, told by who wakes a thread that waits for it: HotSpot's ObjectMonitor::ExitEpilog lets go of
 * the monitor, fires monitor__contended__exit, and wakes the waiter (src/hotspot/share/runtime/objectMonitor.cpp). The
 * kernel's tracepoint of wake-ups is no trap for the thread that lets go, as that probe is.
 *
 * Runs for every wake-up of the host, and leaves after one look at the woken task while none of the target's threads
 * waits for a monitor. Does not see a waiter that is let in while it is awake: before it sleeps, or after a timer that
 * older HotSpots set, as long as it has no processor. Then whoever was seen before was not the last.
 */

/* include/uapi/linux/futex.h; older C libraries signal a condition by FUTEX_WAKE_OP */
#define FUTEX_WAKE 1
#define FUTEX_WAKE_OP 5
#define FUTEX_WAKE_BITSET 10
/* FUTEX_PRIVATE_FLAG, FUTEX_CLOCK_REALTIME */
#define FUTEX_FLAGS (128 | 256)

/* include/uapi/asm-generic/unistd.h, arch/x86/entry/syscalls/syscall_64.tbl; and the calls' arguments as in kernel.h */
#if defined(__TARGET_ARCH_arm64)
#define FUTEX_CALL 98
#define CALL_OF(registers) ((__s32)(registers)->syscallno)
#define FIRST_OF(registers) ((registers)->regs[0])
#define SECOND_OF(registers) ((registers)->regs[1])
#define THIRD_OF(registers) ((registers)->regs[2])
#else
#define FUTEX_CALL 202
#define CALL_OF(registers) ((__s32)(registers)->orig_ax)
#define FIRST_OF(registers) ((registers)->di)
#define SECOND_OF(registers) ((registers)->si)
#define THIRD_OF(registers) ((registers)->dx)
#endif

/* With which a thread entered the kernel. */
static __always_inline struct pt_regs *registers_of(struct task_struct *task)
{
	return (void *)bpf_task_pt_regs(task);
}

/* One thread is to be woken, as who has let go of a monitor does; the end of a safepoint wakes all that are there. */
static __always_inline bool wakes_one(struct pt_regs *waker)
{
	__u32 operation = (__u32)SECOND_OF(waker) & ~FUTEX_FLAGS;

	if (CALL_OF(waker) != FUTEX_CALL || (__u32)THIRD_OF(waker) != 1)
		return false;
	return operation == FUTEX_WAKE || operation == FUTEX_WAKE_BITSET || operation == FUTEX_WAKE_OP;
}

/*
 * The thread that runs is waking that one, by the word that it sleeps on. A timer that ends a sleep, or a signal, comes
 * from elsewhere, if in an interrupt of some thread; one that is inside this very call wakes the sleeper anyway.
 */
static __always_inline bool wakes(struct pt_regs *sleeper)
{
	struct pt_regs *waker = registers_of(bpf_get_current_task_btf());

	return waker && wakes_one(waker) && FIRST_OF(waker) == FIRST_OF(sleeper);
}

/*
 * Whoever lets go of a monitor has cleared its owner before. Thread.interrupt wakes a waiter too and lets go of nothing:
 * mostly somebody has the monitor then. So it may be where another thread took the monitor within that moment, and then
 * it is not certain who it was.
 */
static __always_inline bool is_free(__u64 monitor)
{
	__u64 owner = 1;

	bpf_probe_read_user(&owner, sizeof(owner), (const void *)(monitor + settings.owner_at));
	return !owner;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(contended_waking, struct task_struct *task)
{
	struct monitor_wait *wait;
	struct pt_regs *sleeper;
	__u64 monitor;
	__u32 tid;

	if (!waiting || task->tgid != settings.tgid)
		return 0;
	tid = task->pid;
	wait = bpf_map_lookup_elem(&monitor_waits, &tid);
	monitor = wait ? wait->monitor : 0;
	sleeper = registers_of(task);
	/* who is in no call waits for memory, as in the trap of the probe that tells that it has the monitor */
	if (!monitor || !sleeper || CALL_OF(sleeper) < 0)
		return 0;
	if (is_target(current_ids()) && wakes(sleeper))
		remember_release(monitor, is_free(monitor) ? shown_current() : 0);
	else
		wait->seen_from_ns = bpf_ktime_get_ns();
	return 0;
}

/* In place of the other, to be measured: what the kernel takes to call a program there. */
SEC("tp_btf/sched_waking")
int BPF_PROG(nothing_waking, struct task_struct *task)
{
	return 0;
}
