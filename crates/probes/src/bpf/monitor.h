/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Contended waits for monitors, from HotSpot's monitor__contended__* (src/hotspot/share/runtime/objectMonitor.cpp): their
 * arguments are the Java thread's number, the ObjectMonitor's address, and the class's name with its length. Does not
 * see who takes a monitor without waiting. Who hands it over is seen by monitor_waker.h, or by the third of the probes.
 */

/* A thread that waits, or has waited. */
struct monitor_wait {
	__u64 start_ns;
	/* 0 once it has the monitor */
	__u64 monitor;
	/* since when nobody could hand it the monitor unseen: when it was last woken by anything else, or began to wait */
	__u64 seen_from_ns;
};

/* A thread that let go of a monitor for which others waited. */
struct monitor_release {
	/* whose place this is: places are written to where they are, and may just have become another's */
	__u64 monitor;
	__u64 ns;
	/* as records give it; 0 where it is not certain who it was */
	__u32 tid;
	__u32 reserved;
	char comm[TASK_COMM_LEN];
};

/*
 * Keyed by tid, and never deleted from: a thread that has waited once waits again, and its place costs it a look, not an
 * insertion and a removal. Far more threads than a broker has: those that did not wait for long make room.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, struct monitor_wait);
} monitor_waits SEC(".maps");

/* By monitor, the last one. Monitors come and go: what was not used for long makes room, and is then not known. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, struct monitor_release);
} monitor_releases SEC(".maps");

/*
 * How many threads wait: as long as none does, most of the time, nobody who is woken need be looked up. A thread that
 * lost its place while it waited counts for ever, which costs looks and nothing else.
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
		/* nobody else has a thread's own */
		*known = wait;
	} else if (bpf_map_update_elem(&monitor_waits, &tid, &wait, BPF_ANY)) {
		count(JVM_MAP_FULL, 1);
		return 0;
	}
	if (!waits_already)
		__sync_fetch_and_add(&waiting, 1);
	return 0;
}

/* Who was seen to hand the monitor over during the wait: then that thread had it until then. */
static __always_inline void name_holder(struct monitor_wait_event *event, const struct monitor_wait *wait)
{
	/* Linux 6.1 takes no key from a ring. */
	__u64 monitor = event->monitor;
	struct monitor_release *release = bpf_map_lookup_elem(&monitor_releases, &monitor);

	event->holder_tid = 0;
	if (!release || release->monitor != monitor || release->ns < wait->seen_from_ns)
		return;
	event->holder_tid = release->tid;
	__builtin_memcpy(event->holder_comm, release->comm, sizeof(event->holder_comm));
}

static __always_inline void name_class(struct pt_regs *ctx, struct monitor_wait_event *event)
{
	long name, bytes;

	event->class_bytes = 0;
	if (!argument(ctx, 2, &name) || !argument(ctx, 3, &bytes) || !name || bytes <= 0)
		return;
	if (bytes > CLASS_BYTES)
		bytes = CLASS_BYTES;
	if (!bpf_probe_read_user(event->class_name, bytes, (const void *)name))
		event->class_bytes = bytes;
}

/* Written where it is read from: most of a record are names that are shorter than their room. */
static __always_inline void report_wait(struct pt_regs *ctx, const struct monitor_wait *wait, __u64 end_ns)
{
	struct monitor_wait_event *event = bpf_ringbuf_reserve(&ring, sizeof(*event), 0);

	if (!event) {
		count(JVM_RING_FULL, 1);
		return;
	}
	event->kind = JVM_MONITOR_WAIT;
	event->tid = shown_current();
	event->start_ns = wait->start_ns;
	event->end_ns = end_ns;
	event->monitor = wait->monitor;
	name_holder(event, wait);
	name_class(ctx, event);
	bpf_get_current_comm(event->comm, sizeof(event->comm));
	bpf_ringbuf_submit(event, wake());
}

/* The thread has the monitor now. What it waited for before the probes were there is not reported. */
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
	/* A virtual thread may go on elsewhere, and leaves its wait with the thread that carried it. */
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

/* It cannot be too late: the thread that is about to be woken cannot be there before this has been stored. */
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
 * The monitor is free and a waiting thread is about to be woken. A thread that took it in between may be here at the same
 * time: whichever is stored had it during the wait. Not used where monitor_waker.h is, which is no trap.
 */
SEC("usdt")
int contended_exit(struct pt_regs *ctx)
{
	long monitor;

	if (is_target(current_ids()) && argument(ctx, 1, &monitor))
		remember_release(monitor, shown_current());
	return 0;
}
