/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The contract between the BPF programs and user space: the records of the ring buffer, the loss counters, and the
 * settings that user space fills in before loading. The Rust side gets these types from the generated skeleton.
 *
 * All times are CLOCK_MONOTONIC in nanoseconds. Device numbers are the kernel's (major << 20 | minor). Records are
 * copied as bytes: every padding byte is named, so that no stale memory leaves the kernel.
 */
#ifndef BROKERSCOPE_EVENTS_H
#define BROKERSCOPE_EVENTS_H

#include "endpoints.h"
#include "kernel.h"

/* The fixed part of a magic-2 record batch, up to and including its record count (KIP-98). */
#define HEAD_BYTES 61
/* NAME_MAX and the terminating NUL. */
#define NAME_BYTES 256
/* Components kept of a file's path, including the file's own name. */
#define PATH_COMPONENTS 16
#define PATH_BYTES (PATH_COMPONENTS * NAME_BYTES)
/* Bytes of a path argument, including the terminating NUL; longer ones are cut. */
#define GIVEN_BYTES 1024
#define FS_BYTES 16
/* Stacks from a write down to __schedule have up to about 30 frames, with stacked block devices. */
#define STACK_FRAMES 48
/* From an I/O completion in an interrupt down to the wake-up there are about 25 frames. */
#define WAKER_FRAMES 32
#define RWBS_BYTES 16

/* Every padding byte is named. */
#pragma clang diagnostic push
#pragma clang diagnostic error "-Wpadded"

/* The kind of a record: its first word. */
enum event_kind {
	EVENT_FILE_OP = 1,
	EVENT_OFF_CPU = 2,
	EVENT_JOURNAL_COMMIT = 3,
	EVENT_BLOCK_IO = 4,
	EVENT_DIRTY_THROTTLE = 5,
	EVENT_FILE_PATH = 6,
	EVENT_RECLAIM = 20,
	EVENT_KERNEL_SPAN = 21,
	EVENT_SOCKET = 22,
	EVENT_TCP_TROUBLE = 23,
	EVENT_KERNEL_WAIT = 24,
	EVENT_WAKER_STACK = 25,
	EVENT_PROCESS_STOP = 26,
	EVENT_CPU_GAP = 27,
};

/* The operations on files: model::FileOpKind says which system calls each one is. */
enum file_op {
	OP_WRITE = 1,
	OP_READ = 2,
	OP_SENDFILE = 3,
	OP_SPLICE = 4,
	OP_COPY = 5,
	OP_FSYNC = 6,
	OP_FDATASYNC = 7,
	OP_MSYNC = 8,
	OP_TRUNCATE = 9,
	OP_ALLOCATE = 10,
	OP_RENAME = 11,
	OP_UNLINK = 12,
	OP_OPEN = 13,
	OP_MMAP_FAULT = 14,
};

/* Slots of `lost`. */
enum lost_slot {
	/* no room in the ring buffer */
	LOST_RING_FULL = 0,
	/* no room in a map: an operation, commit or block request is not followed */
	LOST_MAP_FULL = 1,
	/* the head of a written buffer or a path argument could not be read; the operation is reported without it */
	LOST_HEAD = 2,
	/* no kernel stack could be taken; the interval is reported without it */
	LOST_STACK = 3,
	/* a sync of a mapped file that was not found: it is not reported */
	LOST_MAPPING = 4,
	/* the kernel took a thread off the CPU within a call on a file, and the interval was not reported */
	LOST_SWITCH = 5,
	LOST_SLOTS = 6,
};

/* A file for as long as it exists: inode numbers are reused with another generation. */
struct file_key {
	__u64 inode;
	__u32 device;
	__u32 generation;
};

/* An operation on a file, when the system call returned. */
struct file_op_event {
	__u32 kind;
	__u32 tid;
	__u64 start_ns;
	__u64 end_ns;
	/* as the system call returned it: bytes, a descriptor or 0, or a negative errno */
	__s64 result;
	/* the file position at entry, the call's own offset, the size with O_APPEND, or a new length */
	__u64 offset;
	/* all zero where only a name is known: see file_name_event */
	struct file_key file;
	/* the file's path is that of its file_path_event of this time or a later one */
	__u64 path_ns;
	/* bytes of the requested range that this call added to the page cache, and bytes outside the range */
	__u64 disk_bytes;
	__u64 readahead_bytes;
	__u32 pid;
	__s32 fd;
	/* the jbd2 transaction of the last handle that the thread started within the call; if has_handle */
	__u32 transaction;
	/* enum file_op */
	__u8 op;
	__u8 has_handle;
	/* valid bytes of the head in file_write_event */
	__u8 head_len;
	/* whether disk_bytes and readahead_bytes are valid */
	__u8 reads_pages;
	char comm[TASK_COMM_LEN];
};

/* An OP_WRITE and the first bytes written, head_len of them. */
struct file_write_event {
	struct file_op_event op;
	__u8 head[HEAD_BYTES];
	__u8 reserved[3];
};

/* A path argument, and the directory that it starts from unless it starts at the root. */
struct given_path {
	struct file_key dir;
	/* as in file_op_event */
	__u64 dir_path_ns;
	/* bytes in file_name_event.given, including the terminating NUL; 0 if it could not be read */
	__u16 length;
	__u16 reserved[3];
};

/* An operation on a name: OP_RENAME, OP_UNLINK, OP_TRUNCATE by path, and an OP_OPEN that failed. */
struct file_name_event {
	struct file_op_event op;
	struct given_path from;
	/* a rename's second path */
	struct given_path to;
	/* both paths, one after the other; only their lengths are sent */
	char given[2 * GIVEN_BYTES];
};

/* Where a file is, sent when that may have changed, and before the first operation that refers to it. */
struct file_path_event {
	__u32 kind;
	/* valid bytes of path */
	__u16 path_len;
	/* the path starts at the file system's root */
	__u8 whole;
	__u8 reserved;
	struct file_key file;
	__u64 path_ns;
	char fs[FS_BYTES];
	/* NUL-terminated names, the file's own first, then its parents'; only path_len bytes are sent */
	char path[PATH_BYTES];
};

/* A call on a TCP connection, when it returned. */
struct socket_event {
	__u32 kind;
	__u32 tid;
	__u64 start_ns;
	__u64 end_ns;
	/* bytes, or a negative errno */
	__s32 result;
	/* copied_seq of reads, write_seq of writes, at entry and at return */
	__u32 sequence;
	__u32 sequence_end;
	/* snd_wnd at entry; 0 for reads */
	__u32 peer_window;
	struct endpoints ends;
	__u32 pid;
	char comm[TASK_COMM_LEN];
	/* OP_READ, OP_WRITE, OP_SENDFILE or OP_SPLICE */
	__u8 op;
	__u8 reserved[7];
};

enum tcp_trouble {
	/* a segment was retransmitted */
	TCP_RETRANSMIT = 1,
	/* the peer's window was closed when a thread wanted to write */
	TCP_ZERO_WINDOW = 2,
	/* the connection was opened without window scaling */
	TCP_NO_WINDOW_SCALING = 3,
};

/* Trouble on a connection of the target. */
struct tcp_trouble_event {
	__u32 kind;
	/* enum tcp_trouble */
	__u32 trouble;
	__u64 at_ns;
	struct endpoints ends;
	__u32 reserved;
};

/* A thread was off the CPU within an operation of the target, or waited long after it. */
struct off_cpu_event {
	__u32 kind;
	__u32 tid;
	__u64 start_ns;
	__u64 end_ns;
	/* when it was made runnable; 0 if that was not seen */
	__u64 woken_ns;
	char comm[TASK_COMM_LEN];
	/* who made it runnable, if woken_ns. An interrupt counts as the thread that it interrupted: 0 is idle. */
	__u32 waker_tid;
	char waker_comm[TASK_COMM_LEN];
	/* it was runnable: it waited only for a CPU */
	__u8 preempted;
	__u8 reserved[3];
	/* valid frames of stack */
	__u32 frames;
	__u32 reserved2;
	/* return addresses, innermost first; only `frames` of them are sent */
	__u64 stack[STACK_FRAMES];
};

/* Phases of a commit in jiffies (struct transaction_run_stats_s, include/linux/jbd2.h). */
struct commit_phases {
	__u64 wait;
	__u64 running;
	__u64 locked;
	__u64 flushing;
	__u64 logging;
	__u32 handles;
	__u32 blocks;
	__u32 blocks_logged;
	/* whether jbd2_run_stats was seen for this commit */
	__u32 seen;
};

/* A jbd2 commit, when it ended. */
struct journal_commit_event {
	__u32 kind;
	__u32 device;
	__u32 transaction;
	__u32 reserved;
	__u64 start_ns;
	__u64 end_ns;
	struct commit_phases phases;
};

/* Flags of a block request in records: the running kernel has them at other bits. */
enum block_flag {
	BLOCK_PREFLUSH = 1,
	BLOCK_FUA = 2,
	BLOCK_AHEAD = 4,
	BLOCK_SYNC = 8,
	BLOCK_META = 16,
};

/* Operation number if rwbs holds the operation and the flags. */
#define BLOCK_OP_IN_RWBS 0xffff

/* A request to a block device, when it was completed. */
struct block_io_event {
	__u32 kind;
	/* the whole disk */
	__u32 device;
	/* when its first part entered the device's queue; 0 if that was not seen */
	__u64 queued_ns;
	__u64 start_ns;
	__u64 end_ns;
	__u64 sector;
	/* the regular file whose page the first part holds; else 0 */
	struct file_key file;
	__u32 bytes;
	/* the thread that handed it to the driver: often a kernel worker */
	__u32 tid;
	/* enum req_op of the kernel, or BLOCK_OP_IN_RWBS */
	__u16 op;
	/* bits of enum block_flag */
	__u16 flags;
	__u32 reserved;
	char comm[TASK_COMM_LEN];
	/* NUL-terminated flags as in the classic tracepoint, if op is BLOCK_OP_IN_RWBS */
	char rwbs[RWBS_BYTES];
};

/* A thread of the target is about to be paused for dirty pages. */
struct dirty_throttle_event {
	__u32 kind;
	__u32 tid;
	__u64 start_ns;
	/* milliseconds: the tracepoint converts from jiffies (include/trace/events/writeback.h) */
	__u64 pause_ms;
	__u64 dirty_pages;
	__u64 setpoint_pages;
};

/* Direct reclaim by a thread of the target, when it ended. */
struct reclaim_event {
	__u32 kind;
	__u32 tid;
	__u64 start_ns;
	__u64 end_ns;
	__u64 pages;
	/* caused by a memory cgroup's limit */
	__u8 memcg;
	__u8 reserved[7];
	char comm[TASK_COMM_LEN];
};

/* Kernel functions whose calls are reported, by name. */
enum span_function {
	no_function,
	ext4_fc_commit,
	xlog_grant_head_wait,
	xlog_sync,
	btrfs_commit_transaction,
	ext4_file_write_iter,
	ext4_sync_file,
	ext4_dirty_inode,
	jbd2_log_wait_commit,
	xfs_file_write_iter,
	xfs_file_fsync,
	xfs_log_force,
	xfs_log_force_seq,
	btrfs_file_write_iter,
	btrfs_sync_file,
	/* lasts until the file system is thawed */
	freeze_super,
	/* ends the freeze; not reported by itself */
	thaw_super,
	/* reported as reclaim_event */
	direct_reclaim,
};

/* How the ends of a call are known. */
enum span_source {
	SPAN_BY_FUNCTION = 0,
	SPAN_BY_TRACEPOINTS = 1,
	/* only the end is known; the thread's waits inside the function give a latest start */
	SPAN_END_ONLY = 2,
};

/* A call of a kernel function, when it returned. */
struct kernel_span_event {
	__u32 kind;
	/* the calling thread */
	__u32 tid;
	__u64 start_ns;
	__u64 end_ns;
	/* of the file system; 0 if unknown */
	__u32 device;
	/* enum span_function */
	__u16 function;
	/* enum span_source */
	__u8 source;
	__u8 reserved;
	char comm[TASK_COMM_LEN];
};

/* Kernel stack of the waker that ended such a long wait; sent before the wait itself. */
struct waker_stack_event {
	__u32 kind;
	/* the thread that was made runnable */
	__u32 tid;
	__u64 woken_ns;
	__u32 reserved;
	__u32 frames;
	/* as in off_cpu_event */
	__u64 stack[WAKER_FRAMES];
};

enum stop_reason {
	NOT_STOPPED = 0,
	STOPPED_BY_SIGNAL = 1,
	STOPPED_BY_FREEZER = 2,
	STOPPED_BY_TRACER = 3,
};

/* A stop of all threads of the target, when the last was released; by a tracer, when the first was. */
struct process_stop_event {
	__u32 kind;
	/* threads that were seen to stop */
	__u32 threads;
	__u64 start_ns;
	__u64 end_ns;
	/* who sent the signal, traces the process or thawed the cgroup; 0 if that was not seen */
	__u32 by_tid;
	char by_comm[TASK_COMM_LEN];
	/* enum stop_reason */
	__u8 reason;
	__u8 reserved[3];
};

/* A CPU was taken away from this machine. */
struct cpu_gap_event {
	__u32 kind;
	__u32 cpu;
	/* the clock's interrupts before and after; for steal time without a gap, those between which it was counted */
	__u64 start_ns;
	__u64 end_ns;
	/* steal time counted meanwhile */
	__u64 stolen_ns;
	/* the thread on the CPU during a gap; 0 if none */
	__u32 tid;
	char comm[TASK_COMM_LEN];
	/* no interrupt came for long, and the CPU did not run */
	__u8 gap;
	__u8 reserved[3];
};

/* A file system's own thread waited long: it delays everything that waits for its work. */
struct kernel_wait_event {
	__u32 kind;
	__u32 tid;
	__u64 start_ns;
	__u64 end_ns;
	char comm[TASK_COMM_LEN];
	__u32 reserved;
	__u32 frames;
	/* as in off_cpu_event */
	__u64 stack[STACK_FRAMES];
};

/*
 * Where a tracepoint's field lies in its record, from the tracepoint's own format file: fields move between kernels
 * (block_rq_issue gained ioprio), and tracepoints of modules may have no BTF.
 */
struct field {
	__u16 offset;
	__u16 size;
};

#define FIELDS(...)                                                                                          \
	struct {                                                                                             \
		struct field __VA_ARGS__;                                                                    \
	}

/* By program and by the field's name in the format file. Declared with the probes in registry.rs. */
struct fields {
	FIELDS(dev, transaction) start_commit, end_commit;
	FIELDS(dev, tid, wait, running, locked, flushing, logging, handle_count, blocks, blocks_logged)
	run_stats;
	FIELDS(dev, tid) handle_start;
	FIELDS(dev, sector, nr_sector, bytes, rwbs) rq_issue;
	FIELDS(dev, sector, nr_sector) rq_complete;
	FIELDS(setpoint, dirty, pause) balance_dirty_pages;
	FIELDS(nr_reclaimed) reclaim_end;
	FIELDS(dev) fc_commit_start, sync_file_enter, grant_sleep;
	FIELDS(dev, lsn) iclog_syncing, iclog_sync_done;
	/* `order` has size 0 where the kernel has none */
	FIELDS(i_ino, s_dev, index, order) page_added;
	FIELDS(i_ino, s_dev, index) page_fault;
	FIELDS(pid, clone_flags) task_start;
	FIELDS(sig, pid) signal_generated;
};

/* Set once before loading; constants to the verifier. */
struct settings {
	/* the process to watch, as the root pid namespace numbers it */
	__u32 tgid;
	__u8 stacks;
	/* report only devices in the map `devices` */
	__u8 only_devices;
	/* follow the target's TCP connections */
	__u8 sockets;
	/* follow the threads in the map `kernel_threads` too */
	__u8 kernel_threads;
	/* microseconds per jiffy; 0 if unknown */
	__u32 jiffy_us;
	/* entries of the map `children` at load time */
	__u32 children;
	/* where the kernel function of that name begins and ends; 0 if unknown */
	__u64 filemap_fault;
	__u64 filemap_fault_end;
	/* log2 of the page size */
	__u32 page_shift;
	/* handlers of system calls may be preempted, because they are on fentry and fexit */
	__u8 preemptible;
	/* both ends of btrfs commits are seen by hooking their function */
	__u8 exact_commits;
	/* report long interruptible waits of request-serving threads too */
	__u8 futex_waits;
	/* report when all threads of the target are stopped */
	__u8 process_stops;
	/* wake the reader when this much is in the ring buffer; 0: as soon as anything is */
	__u64 wake_bytes;
};

#pragma clang diagnostic pop

/* Never read: it puts the record types into the object's BTF, from which the skeleton takes them. */
struct records {
	struct file_op_event file_op;
	struct file_write_event file_write;
	struct file_name_event file_name;
	struct file_path_event file_path;
	struct socket_event socket;
	struct tcp_trouble_event tcp_trouble;
	struct off_cpu_event off_cpu;
	struct journal_commit_event journal_commit;
	struct block_io_event block_io;
	struct dirty_throttle_event dirty_throttle;
	struct reclaim_event reclaim;
	struct kernel_span_event kernel_span;
	struct waker_stack_event waker_stack;
	struct kernel_wait_event kernel_wait;
	struct process_stop_event process_stop;
	struct cpu_gap_event cpu_gap;
	enum event_kind event_kind;
	enum file_op file_operation;
	enum tcp_trouble trouble;
	enum block_flag block_flag;
	enum span_function span_function;
	enum span_source span_source;
	enum stop_reason stop_reason;
	enum lost_slot lost_slot;
};

#endif
