/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * State shared by the handlers: settings, the ring buffer, the loss counters, and the calls that the target's threads
 * are inside of. Knows no hook.
 */
#ifndef BROKERSCOPE_STATE_H
#define BROKERSCOPE_STATE_H

#include "events.h"
#include "kernel.h"
#include "open_file.h"
#include "process_ids.h"

const volatile struct settings settings = {};
const volatile struct fields fields = {};
const volatile struct records records = {};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	/* user space sets the size before loading */
	__uint(max_entries, 4 * 1024 * 1024);
} ring SEC(".maps");

/* Indexed by enum lost_slot. User space reads it in shared memory: bpf.rs explains why. */
__u64 lost[LOST_SLOTS];

/* The connection's side of a call on a socket, or of a sendfile or splice to one. */
struct socket_side {
	/* NULL if it is no TCP connection */
	struct sock *sock;
	/* both at the call's entry */
	__u32 sequence;
	__u32 peer_window;
	struct endpoints ends;
	__u32 reserved;
};

/*
 * The system call that a thread is inside of, or its last one. The entry stays when the call returns: what the thread
 * waits for next, such as a fault on a segment's mapped index, belongs to the same append, and a present entry need not
 * be inserted again.
 */
struct op {
	/* fields that every switch and wake-up of the thread reads, in one cache line */

	/* when the thread left the CPU; 0 while it runs */
	__u64 off_ns;
	/* a fault on a mapped file outside of a call, see memory.bpf.c; 0 if none since the last call */
	__u64 fault_ns;
	/* enum phase */
	__u8 phase;
	/* enum file_op */
	__u8 kind;
	__u8 has_handle;
	__u8 vectored;
	__u8 preempted;
	/* the operation is on a name: its file is known when the call returns, if at all */
	__u8 named;
	/* it reads this file through the page cache; past it; through another file system's */
	__u8 reads;
	__u8 direct;
	/* the thread; 0 if the entry is free */
	__u32 tid;
	__u32 transaction;

	__u64 start_ns;
	__u64 offset;
	/* user space's buffer, or its first iovec if vectored; a path for operations on names */
	__u64 buffer;
	/* requested bytes; a rename's second path */
	__u64 count;
	/* of the file; unset for operations on names */
	struct dentry *dentry;

	/* fields that every call also sets, in the next cache line */

	struct file_key file;
	/* the directory that a relative path starts from, for operations on names */
	__s32 fd;
	/* likewise for a rename's second path */
	__s32 to_fd;
	__u8 stacked;
	/* enum parked */
	__u8 parked;
	/* for settle_switches(): the program on switches had already run when the call began */
	__u8 counts_switches;
	__u8 reserved;
	/* the kernel's count of the thread's switches when the call began, and switches reported since; modulo 2^16 */
	__u16 switches;
	__u16 reported;
	__u64 disk_bytes;
	__u64 readahead_bytes;
	/* the run queue's clock when the thread left the CPU */
	__u64 off_clock;
	/* the connection it reads from or writes to */
	struct socket_side socket;
	__u64 fault_bytes;
	__u64 fault_offset;
	__u64 fault_inode;
	__u32 fault_device;
	/* the thread left the CPU to wait for that fault's page */
	__u32 fault_waits;
	__u64 woken_ns;
	/* who made it runnable, if woken_ns */
	__u32 waker_tid;
	/* valid frames of stack */
	__u32 frames;
	char waker_comm[TASK_COMM_LEN];
	/* taken when the thread left the CPU */
	__u64 stack[STACK_FRAMES];
} __attribute__((aligned(64)));

/* Whether the thread is off the CPU, since off_ns, in a wait whose reason user space determines. */
enum parked {
	NOT_PARKED = 0,
	PARKED = 1,
	/* it waited for work and got it */
	PARKED_IDLE = 2,
};

enum phase {
	/* the thread's last call was not on a file: nothing it does is followed */
	PHASE_NONE = 0,
	/* within a call on a file */
	PHASE_INSIDE = 1,
	/* after it, until the thread's next call: only long uninterruptible waits are followed */
	PHASE_AFTER = 2,
	/* within a call on a socket */
	PHASE_SOCKET = 3,
};

/*
 * Threads' entries. A thread has the slot of its id's last bits, which consecutively started threads do not share;
 * finding it takes no call and no search. Entries are made at a system call's entry: the scheduler's handlers look up
 * and change values in place, so they take no lock while they hold the run queue's.
 */
#define SLOTS 4096

BPF_MAP(ops, ARRAY, __u32, struct op, SLOTS);

/* Which slots are taken: of several threads that want one at once, one gets it. The entry names its thread. */
BPF_MAP(slots, HASH, __u32, __u8, SLOTS);

/* Entries of threads whose slot another thread has, by tid. Preallocated; calls beyond it are counted as lost. */
BPF_MAP(overflow_ops, HASH, __u32, struct op, 1024);

/* Number of overflow entries. */
static __u32 overflow;

/* Scratch space for what exceeds a BPF stack. */
union scratch {
	struct op op;
	struct file_write_event file_write;
	struct file_name_event file_name;
	struct file_path_event file_path;
	struct off_cpu_event off_cpu;
	struct kernel_wait_event kernel_wait;
};

/* For handlers that run with preemption off. */
BPF_MAP(scratches, PERCPU_ARRAY, __u32, union scratch, 1);

/* For handlers that may be preempted by another thread's on the same CPU. Created only if settings.preemptible. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, union scratch);
} thread_scratches SEC(".maps");

static __always_inline void count_lost(__u32 slot)
{
	if (slot < LOST_SLOTS)
		__sync_fetch_and_add(&lost[slot], 1);
}

/* For handlers that hold the run queue's lock, or run in an interrupt. */
static __always_inline union scratch *cpu_scratch(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&scratches, &zero);
}

/*
 * For handlers of system calls. Tracepoints of system calls keep preemption off (kernel/trace/trace_syscalls.c); fentry
 * and fexit only keep a thread on its CPU (__bpf_prog_enter_recur, kernel/bpf/trampoline.c).
 */
static __always_inline union scratch *scratch(void)
{
	union scratch *buffer;

	if (!settings.preemptible)
		return cpu_scratch();
	buffer = bpf_task_storage_get(&thread_scratches, bpf_get_current_task_btf(), NULL,
				      BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!buffer)
		count_lost(LOST_MAP_FULL);
	return buffer;
}

/*
 * The reader polls by itself every few dozen milliseconds; waking it for every record would cost the broker's threads
 * an interrupt each, so it is woken only when the buffer fills up. Of rare events, the first after the reader has read
 * everything wakes it (wake_bytes 0).
 */
static __always_inline __u64 wake_up(void)
{
	bool filling;

	if (!settings.wake_bytes)
		return 0;
	filling = bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA) >= settings.wake_bytes;
	return filling ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP;
}

/*
 * Reserves room in the ring buffer for a record of a constant size, which avoids a copy. For submit(); NULL if it is
 * full.
 */
static __always_inline void *reserve(__u64 size)
{
	void *record = bpf_ringbuf_reserve(&ring, size, 0);

	if (!record)
		count_lost(LOST_RING_FULL);
	return record;
}

static __always_inline void submit(void *record)
{
	bpf_ringbuf_submit(record, wake_up());
}

/* Sends a record of any size; returns false if there was no room. */
static __always_inline bool emit(void *record, __u64 size)
{
	if (bpf_ringbuf_output(&ring, record, size, wake_up())) {
		count_lost(LOST_RING_FULL);
		return false;
	}
	return true;
}

/* The target's children by process id. */
BPF_MAP(children, HASH, __u32, __u8, 1024);

/* How many more children there are than when the programs were loaded. */
__s32 more_children;

/* The target itself costs one comparison, and so does every other process while the target has no children. */
static __always_inline bool is_target_process(__u32 tgid)
{
	if (tgid == settings.tgid)
		return true;
	return (__s32)settings.children + more_children > 0 && bpf_map_lookup_elem(&children, &tgid);
}

static __always_inline bool is_target(__u64 pid_tgid)
{
	return is_target_process(pid_tgid >> 32);
}

static __always_inline bool in_target(struct task_struct *task)
{
	return is_target_process(task->tgid);
}

/* The thread's last call, in any phase. */
static __always_inline struct op *last_op_of(__u32 tid)
{
	__u32 slot = tid & (SLOTS - 1);
	struct op *op = bpf_map_lookup_elem(&ops, &slot);

	if (op && op->tid == tid)
		return op;
	return overflow ? bpf_map_lookup_elem(&overflow_ops, &tid) : NULL;
}

/* The call on a file that the thread is inside of, if any. */
static __always_inline struct op *op_of(__u32 tid)
{
	struct op *op = last_op_of(tid);

	return op && op->phase == PHASE_INSIDE ? op : NULL;
}

static __always_inline void add_overflow_op(__u32 tid)
{
	union scratch *buffer = scratch();

	if (!buffer)
		return;
	__builtin_memset(&buffer->op, 0, sizeof(buffer->op));
	buffer->op.tid = tid;
	if (bpf_map_update_elem(&overflow_ops, &tid, &buffer->op, BPF_NOEXIST))
		count_lost(LOST_MAP_FULL);
	else
		__sync_fetch_and_add(&overflow, 1);
}

/* Makes an entry for a thread that has none. */
static __noinline int make_op(__u32 tid)
{
	__u32 slot = tid & (SLOTS - 1);
	struct op *op = bpf_map_lookup_elem(&ops, &slot);
	__u8 taken = 1;

	if (op && !bpf_map_update_elem(&slots, &slot, &taken, BPF_NOEXIST)) {
		__builtin_memset(op, 0, sizeof(*op));
		op->tid = tid;
	} else {
		add_overflow_op(tid);
	}
	return 0;
}

/* A thread has ended. */
static __always_inline void drop_op(__u32 tid)
{
	__u32 slot = tid & (SLOTS - 1);
	struct op *op = bpf_map_lookup_elem(&ops, &slot);

	if (op && op->tid == tid) {
		op->tid = 0;
		bpf_map_delete_elem(&slots, &slot);
	} else if (overflow && !bpf_map_delete_elem(&overflow_ops, &tid)) {
		__sync_fetch_and_add(&overflow, -1);
	}
}

/*
 * The thread's entry, made if there is none. Only its own thread changes it, except for woken_ns, which is valid only
 * while the thread is off the CPU.
 */
static __always_inline struct op *own_op(__u32 tid)
{
	struct op *op = last_op_of(tid);

	if (op)
		return op;
	make_op(tid);
	return last_op_of(tid);
}

/* Whether the program on switches has run. */
static __u8 sees_switches;

/* The kernel's own count, incremented each time it hands the CPU to another thread (__schedule). */
static __always_inline __u16 switches_of_current(void)
{
	struct task_struct *task = TYPED(struct task_struct, bpf_get_current_task());

	return DIRECT(task, nvcsw) + DIRECT(task, nivcsw);
}

/*
 * The thread is within a call on a file from now on. A handler that may be preempted counts at most one switch too
 * many.
 */
static __always_inline void enter_call(struct op *op)
{
	op->counts_switches = sees_switches;
	op->reported = 0;
	op->phase = PHASE_INSIDE;
	op->switches = switches_of_current();
	op->start_ns = bpf_ktime_get_ns();
}

/*
 * A call that is not followed. It must not complete a call whose exit was missed; and a thread that writes to a socket
 * or wakes another one is done with its append.
 */
static __always_inline void forget_op(__u32 tid)
{
	struct op *op = last_op_of(tid);

	if (op)
		op->phase = PHASE_NONE;
}

static __always_inline void identify(struct file_key *file, struct inode *found)
{
	struct inode *inode = TYPED(struct inode, found);
	struct super_block *super = DIRECT(inode, i_sb);

	file->inode = DIRECT(inode, i_ino);
	file->generation = DIRECT(inode, i_generation);
	file->device = DIRECT(super, s_dev);
}

/* Reads a classic tracepoint's field at the offset from its format file. */
#define READ_FIELD(to, ctx, field)                                                                           \
	bpf_probe_read_kernel(&(to), sizeof(to), (const void *)(ctx) + fields.field.offset)

#endif
