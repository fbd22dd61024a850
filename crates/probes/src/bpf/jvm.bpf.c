// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * HotSpot's own probes: monitor waits, and JVM pauses. A separate object: its programs sit in one process's library,
 * unlike those of probes.bpf.c.
 *
 * Programs on user-space probes may be preempted and migrated between each other (Linux 6.0:
 * bpf_prog_run_array_uprobe), so only counters are per CPU, and those are added to atomically.
 */
#include "kernel.h"

/* At most two locations per probe in the JVMs examined. */
#define BPF_USDT_MAX_SPEC_CNT 64
#include <bpf/usdt.bpf.h>

#include "jvm.h"
#include "process_ids.h"

const volatile struct jvm_settings settings = {};
const volatile struct jvm_records records = {};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	/* user space sets the size before loading */
	__uint(max_entries, 256 * 1024);
} ring SEC(".maps");

BPF_MAP(counts, PERCPU_ARRAY, __u32, __u64, JVM_COUNTS);

static __always_inline void count(__u32 slot, __u64 by)
{
	__u64 *value = bpf_map_lookup_elem(&counts, &slot);

	if (value)
		__sync_fetch_and_add(value, by);
}

/*
 * The reader polls waits by itself: it is woken only before the buffer fills up, so that threads send few interrupts.
 * Pauses are rare: the first after the reader has read everything wakes it (wake_bytes 0).
 */
static __always_inline __u64 wake(void)
{
	bool late;

	if (!settings.wake_bytes)
		return 0;
	late = bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA) >= settings.wake_bytes;
	return late ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP;
}

static __always_inline void emit(void *event, __u64 size)
{
	if (bpf_ringbuf_output(&ring, event, size, wake()))
		count(JVM_RING_FULL, 1);
}

/* Child processes that have not yet called exec run into the same breakpoints. */
static __always_inline bool is_target(__u64 id)
{
	return id >> 32 == settings.tgid;
}

static __always_inline bool argument(struct pt_regs *ctx, __u64 number, long *value)
{
	if (!bpf_usdt_arg(ctx, number, value))
		return true;
	count(JVM_NO_ARGUMENT, 1);
	return false;
}

/* Reads a text whose address is that argument and whose length is the next; returns its bytes, 0 if unreadable. */
static __always_inline __u32 read_name(struct pt_regs *ctx, __u64 number, char *to, long most)
{
	long name, bytes;

	if (!argument(ctx, number, &name) || !argument(ctx, number + 1, &bytes) || !name || bytes <= 0)
		return 0;
	if (bytes > most)
		bytes = most;
	return bpf_probe_read_user(to, bytes, (const void *)name) ? 0 : bytes;
}

/*
 * Contended monitor waits, from HotSpot's monitor__contended__* (src/hotspot/share/runtime/objectMonitor.cpp). Their
 * arguments are the Java thread's number, the ObjectMonitor's address, and the class's name with its length. Does not
 * see a thread that takes a monitor without waiting. Who hands it over is seen by contended_waking, or by the third of
 * the probes.
 */

/* A thread that waits, or has waited. */
struct monitor_wait {
	__u64 start_ns;
	/* 0 once it has the monitor */
	__u64 monitor;
	/* since when no hand-over can have been missed: the last wake-up by anything else, or the start of the wait */
	__u64 seen_from_ns;
};

/* A thread that released a monitor for which others waited. */
struct monitor_release {
	/* monitor that this entry is for: entries are written in place, and may just have been reused for another */
	__u64 monitor;
	__u64 ns;
	/* as in records; 0 if uncertain */
	__u32 tid;
	__u32 reserved;
	char comm[TASK_COMM_LEN];
};

/*
 * Keyed by tid, and never deleted from: a thread that has waited once waits again, and reusing its entry costs a
 * look-up instead of an insertion and a removal. Sized for far more threads than a broker has; the least recently used
 * are evicted.
 */
BPF_MAP(monitor_waits, LRU_HASH, __u32, struct monitor_wait, 4096);

/* The last release of each monitor. Monitors come and go: the least recently used are evicted and then unknown. */
BPF_MAP(monitor_releases, LRU_HASH, __u64, struct monitor_release, 4096);

/*
 * Number of waiting threads: while it is 0, most of the time, woken threads need no look-up. A thread whose entry was
 * evicted while it waited counts for ever, which costs only look-ups.
 */
static __u64 waiting;

SEC("usdt")
int contended_enter(struct pt_regs *ctx)
{
	__u64 id = current_ids();
	struct monitor_wait wait = {}, *known;
	bool waits_already = false;
	__u32 tid = id;
	long monitor;

	if (!is_target(id) || !argument(ctx, 1, &monitor))
		return 0;
	wait.monitor = monitor;
	wait.start_ns = bpf_ktime_get_ns();
	wait.seen_from_ns = wait.start_ns;
	known = bpf_map_lookup_elem(&monitor_waits, &tid);
	if (known) {
		waits_already = known->monitor;
		/* only the thread itself uses its entry */
		*known = wait;
	} else if (bpf_map_update_elem(&monitor_waits, &tid, &wait, BPF_ANY)) {
		count(JVM_MAP_FULL, 1);
		return 0;
	}
	if (!waits_already)
		__sync_fetch_and_add(&waiting, 1);
	return 0;
}

/* Names the holder if a hand-over of the monitor was seen during the wait: that thread had it until then. */
static __always_inline void name_holder(struct monitor_wait_event *event, const struct monitor_wait *wait)
{
	/* Linux 6.1 accepts no key in ring-buffer memory. */
	__u64 monitor = event->monitor;
	struct monitor_release *release = bpf_map_lookup_elem(&monitor_releases, &monitor);

	event->holder_tid = 0;
	if (!release || release->monitor != monitor || release->ns < wait->seen_from_ns)
		return;
	event->holder_tid = release->tid;
	__builtin_memcpy(event->holder_comm, release->comm, sizeof(event->holder_comm));
}

/* Built in the ring buffer, without a copy: most of a record is names that do not fill their fields. */
static __always_inline void report_wait(struct pt_regs *ctx, const struct monitor_wait *wait, __u64 end_ns)
{
	struct monitor_wait_event *event = bpf_ringbuf_reserve(&ring, sizeof(*event), 0);

	if (!event) {
		count(JVM_RING_FULL, 1);
		return;
	}
	event->kind = JVM_MONITOR_WAIT;
	event->tid = visible_tid();
	event->start_ns = wait->start_ns;
	event->end_ns = end_ns;
	event->monitor = wait->monitor;
	name_holder(event, wait);
	event->class_bytes = read_name(ctx, 2, event->class_name, CLASS_BYTES);
	bpf_get_current_comm(event->comm, sizeof(event->comm));
	bpf_ringbuf_submit(event, wake());
}

/* The thread has the monitor now. Waits that began before the probes were attached are not reported. */
SEC("usdt")
int contended_entered(struct pt_regs *ctx)
{
	__u64 end_ns = bpf_ktime_get_ns(), id = current_ids();
	struct monitor_wait wait, *found;
	__u32 tid = id;
	long monitor;

	if (!is_target(id) || !argument(ctx, 1, &monitor))
		return 0;
	found = bpf_map_lookup_elem(&monitor_waits, &tid);
	if (!found || !found->monitor)
		return 0;
	wait = *found;
	found->monitor = 0;
	__sync_fetch_and_add(&waiting, -1);
	/* A virtual thread may continue elsewhere and leave its wait with its carrier thread. */
	if (wait.monitor != monitor)
		return 0;
	if (end_ns - wait.start_ns >= settings.min_ns) {
		report_wait(ctx, &wait, end_ns);
		return 0;
	}
	count(JVM_SHORT_WAITS, 1);
	count(JVM_SHORT_NS, end_ns - wait.start_ns);
	return 0;
}

/* Never too late: the thread about to be woken cannot arrive before this has been stored. */
static __always_inline void remember_release(__u64 monitor, __u32 tid)
{
	struct monitor_release release = { .monitor = monitor, .tid = tid }, *known;

	release.ns = bpf_ktime_get_ns();
	bpf_get_current_comm(release.comm, sizeof(release.comm));
	known = bpf_map_lookup_elem(&monitor_releases, &release.monitor);
	if (known)
		*known = release;
	else
		bpf_map_update_elem(&monitor_releases, &release.monitor, &release, BPF_ANY);
}

/*
 * The monitor is free and a waiting thread is about to be woken. A thread that took it in between may be here at the
 * same time: whichever is stored had the monitor during the wait. Unused with contended_waking, which is no trap.
 */
SEC("usdt")
int contended_exit(struct pt_regs *ctx)
{
	long monitor;

	if (is_target(current_ids()) && argument(ctx, 1, &monitor))
		remember_release(monitor, visible_tid());
	return 0;
}

/*
 * Who hands a monitor over, from who wakes a thread that waits for it: HotSpot's ObjectMonitor::ExitEpilog releases the
 * monitor, fires monitor__contended__exit, and wakes the waiter (src/hotspot/share/runtime/objectMonitor.cpp). Unlike
 * that probe, the kernel's tracepoint of wake-ups is no trap for the releasing thread.
 *
 * Runs for every wake-up of the host, and returns after one check of the woken task while none of the target's threads
 * waits for a monitor. Misses a waiter that is let in while it is awake: before it sleeps, or after a timer that older
 * HotSpots set, while it has no CPU. Then the releaser seen before was not the last.
 */

/* include/uapi/linux/futex.h; older C libraries signal a condition with FUTEX_WAKE_OP */
#define FUTEX_WAKE 1
#define FUTEX_WAKE_OP 5
#define FUTEX_WAKE_BITSET 10
/* FUTEX_PRIVATE_FLAG, FUTEX_CLOCK_REALTIME */
#define FUTEX_FLAGS (128 | 256)

/* include/uapi/asm-generic/unistd.h, arch/x86/entry/syscalls/syscall_64.tbl; and the calls' arguments as in kernel.h */
#if defined(__TARGET_ARCH_arm64)
#define FUTEX_CALL 98
#define FIRST_OF(registers) ((registers)->regs[0])
#define SECOND_OF(registers) ((registers)->regs[1])
#define THIRD_OF(registers) ((registers)->regs[2])
#else
#define FUTEX_CALL 202
#define FIRST_OF(registers) ((registers)->di)
#define SECOND_OF(registers) ((registers)->si)
#define THIRD_OF(registers) ((registers)->dx)
#endif

#define CALL_OF(registers) ((__s32)(registers)->CALL_NUMBER)

/* Registers with which a thread entered the kernel. */
static __always_inline struct pt_regs *registers_of(struct task_struct *task)
{
	return (void *)bpf_task_pt_regs(task);
}

/* Whether one thread is woken, as by the release of a monitor; the end of a safepoint wakes all its waiters. */
static __always_inline bool wakes_one(struct pt_regs *waker)
{
	__u32 operation = (__u32)SECOND_OF(waker) & ~FUTEX_FLAGS;

	if (CALL_OF(waker) != FUTEX_CALL || (__u32)THIRD_OF(waker) != 1)
		return false;
	return operation == FUTEX_WAKE || operation == FUTEX_WAKE_BITSET || operation == FUTEX_WAKE_OP;
}

/*
 * Whether the current thread wakes that one through the futex word on which it sleeps. A timer or a signal that ends a
 * sleep comes from elsewhere, perhaps in an interrupt of some thread; a thread inside this very call wakes the sleeper
 * anyway.
 */
static __always_inline bool wakes(struct pt_regs *sleeper)
{
	struct pt_regs *waker = registers_of(bpf_get_current_task_btf());

	return waker && wakes_one(waker) && FIRST_OF(waker) == FIRST_OF(sleeper);
}

/*
 * A thread that releases a monitor has cleared its owner before. Thread.interrupt also wakes a waiter but releases
 * nothing: usually some thread then has the monitor. So if the owner is set, another thread may have taken the monitor
 * in that moment, and the releaser is uncertain.
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
	/* a thread outside of calls waits for memory, as in the trap of the probe that reports the monitor entered */
	if (!monitor || !sleeper || CALL_OF(sleeper) < 0)
		return 0;
	if (is_target(current_ids()) && wakes(sleeper))
		remember_release(monitor, is_free(monitor) ? visible_tid() : 0);
	else
		wait->seen_from_ns = bpf_ktime_get_ns();
	return 0;
}

/* Replaces contended_waking for measurements: its cost is what the kernel takes to call a program there. */
SEC("tp_btf/sched_waking")
int BPF_PROG(nothing_waking, struct task_struct *task)
{
	return 0;
}

/*
 * JVM pauses: whole safepoints (src/hotspot/share/services/runtimeService.cpp), the VM operations that caused them
 * (src/hotspot/share/runtime/vmThread.cpp) and collections within them
 * (src/hotspot/share/gc/shared/gcVMOperations.cpp). All of it happens in the VM thread, in sequence.
 */

struct safepoint {
	/* 0 between safepoints */
	__u64 start_ns;
	/* its first operation; 0 before */
	__u64 operation_ns;
	/* 0 outside of collections */
	__u64 collection_ns;
	/* collections may nest: only the outermost is reported */
	__u32 depth;
	__u32 full;
	__u32 operation_bytes;
	__u32 reserved;
	char operation[OPERATION_BYTES];
};

BPF_MAP(safepoints, ARRAY, __u32, struct safepoint, 1);

static __always_inline struct safepoint *current_safepoint(void)
{
	__u32 zero = 0;

	return is_target(current_ids()) ? bpf_map_lookup_elem(&safepoints, &zero) : NULL;
}

static __always_inline void report_pause(const struct safepoint *safepoint, __u32 pause, __u64 start_ns)
{
	struct jvm_pause_event event = {
		.kind = JVM_PAUSE,
		.pause = pause,
		.start_ns = start_ns,
		.end_ns = bpf_ktime_get_ns(),
		.operation_ns = safepoint->operation_ns,
		.full = safepoint->full,
		.operation_bytes = safepoint->operation_bytes,
	};

	__builtin_memcpy(event.operation, safepoint->operation, sizeof(event.operation));
	emit(&event, sizeof(event));
}

SEC("usdt")
int safepoint_begin(struct pt_regs *ctx)
{
	struct safepoint *safepoint = current_safepoint();

	if (!safepoint)
		return 0;
	__builtin_memset(safepoint, 0, sizeof(*safepoint));
	safepoint->start_ns = bpf_ktime_get_ns();
	return 0;
}

/* Operations also run outside of safepoints, and may run others. */
SEC("usdt")
int operation_begin(struct pt_regs *ctx)
{
	struct safepoint *safepoint = current_safepoint();

	if (!safepoint || !safepoint->start_ns || safepoint->operation_ns)
		return 0;
	safepoint->operation_ns = bpf_ktime_get_ns();
	safepoint->operation_bytes = read_name(ctx, 0, safepoint->operation, OPERATION_BYTES);
	return 0;
}

SEC("usdt")
int collection_begin(struct pt_regs *ctx)
{
	struct safepoint *safepoint = current_safepoint();
	long full = 0;

	if (!safepoint)
		return 0;
	argument(ctx, 0, &full);
	if (safepoint->depth++ == 0) {
		safepoint->collection_ns = bpf_ktime_get_ns();
		safepoint->full = 0;
	}
	safepoint->full |= !!full;
	return 0;
}

SEC("usdt")
int collection_end(struct pt_regs *ctx)
{
	struct safepoint *safepoint = current_safepoint();

	if (!safepoint || !safepoint->depth)
		return 0;
	if (--safepoint->depth == 0)
		report_pause(safepoint, JVM_COLLECTION, safepoint->collection_ns);
	return 0;
}

SEC("usdt")
int safepoint_end(struct pt_regs *ctx)
{
	struct safepoint *safepoint = current_safepoint();

	if (!safepoint || !safepoint->start_ns)
		return 0;
	report_pause(safepoint, JVM_SAFEPOINT, safepoint->start_ns);
	safepoint->start_ns = 0;
	safepoint->depth = 0;
	return 0;
}

/* Replaces any other program for measurements: its cost is what the kernel takes to call one. */
SEC("usdt")
int nothing(struct pt_regs *ctx)
{
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
