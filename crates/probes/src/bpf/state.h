/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the handlers share: settings, the ring buffer, the counters of what was lost, and the writes that
 * the target's threads are inside of. Knows no hook.
 */
#ifndef BROKERSCOPE_STATE_H
#define BROKERSCOPE_STATE_H

const volatile struct settings settings = {};
const volatile struct records records = {};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	/* user space sets the size it wants before loading */
	__uint(max_entries, 4 * 1024 * 1024);
} ring SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, LOST_SLOTS);
	__type(key, __u32);
	__type(value, __u64);
} lost SEC(".maps");

/*
 * A write that a thread is inside of, or the last one it was inside of. The entry stays when the write
 * returns: what the thread waits for next, as for a fault on the segment's mapped index, belongs to the same
 * append, and an entry that is there need not be inserted again.
 */
struct op {
	__u64 start_ns;
	__u64 offset;
	/* user space's buffer, or its first iovec if vectored */
	const void *buffer;
	__u64 count;
	struct dentry *dentry;
	__u64 inode;
	__u32 device;
	__s32 fd;
	__u32 transaction;
	__u8 has_handle;
	__u8 vectored;
	__u8 preempted;
	/* one of enum phase */
	__u8 phase;
	/* when the thread left the CPU; 0 while it runs */
	__u64 off_ns;
	__u64 woken_ns;
	__u32 frames;
	__u32 reserved2;
	/* taken where the thread left the CPU */
	__u64 stack[STACK_FRAMES];
};

enum phase {
	/* the thread's last write was not to a regular file: nothing it does is followed */
	PHASE_NONE = 0,
	/* within the write */
	PHASE_INSIDE = 1,
	/* after it, until the thread's next write: only long uninterruptible waits are followed */
	PHASE_AFTER = 2,
};

/* Far more threads than a broker has, those that ended included; beyond it writes are counted as lost. */
#define MAX_OPS 4096

/*
 * Keyed by tid. Preallocated, and inserted into only at a system call's entry: the scheduler's handlers
 * look up and change values in place, so they take no lock while holding the run queue's.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_OPS);
	__type(key, __u32);
	__type(value, struct op);
} ops SEC(".maps");

/* Room for what is larger than a BPF stack. All users run with preemption off. */
union scratch {
	struct op op;
	struct file_write_event file_write;
	struct off_cpu_event off_cpu;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, union scratch);
} scratches SEC(".maps");

static __always_inline void count_lost(__u32 slot)
{
	__u64 *count = bpf_map_lookup_elem(&lost, &slot);

	/* per CPU, but a handler in an interrupt may share the slot */
	if (count)
		__sync_fetch_and_add(count, 1);
}

static __always_inline union scratch *scratch(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&scratches, &zero);
}

/*
 * Hands a record over. The reader looks by itself every few dozen milliseconds; waking it for every record
 * would cost the broker's threads an interrupt each, so it is woken only when the buffer fills up.
 */
static __always_inline void emit(void *record, __u64 size)
{
	bool filling = bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA) >= settings.wake_bytes;

	if (bpf_ringbuf_output(&ring, record, size, filling ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP))
		count_lost(LOST_RING_FULL);
}

static __always_inline bool is_target(__u64 pid_tgid)
{
	return pid_tgid >> 32 == settings.tgid;
}

/* The thread's last write, whatever its phase. */
static __always_inline struct op *last_op_of(__u32 tid)
{
	return bpf_map_lookup_elem(&ops, &tid);
}

/* The write that the thread is inside of, if any. */
static __always_inline struct op *op_of(__u32 tid)
{
	struct op *op = last_op_of(tid);

	return op && op->phase == PHASE_INSIDE ? op : NULL;
}

/* Reads a classic tracepoint's field from where its format file says it is. */
#define READ_FIELD(to, ctx, at) bpf_probe_read_kernel(&(to), sizeof(to), (const void *)(ctx) + (at).offset)

#endif
