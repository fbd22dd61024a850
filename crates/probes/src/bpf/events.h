/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The contract between the BPF programs and user space: every record of the ring buffer, the counters of
 * what was lost, and the settings that user space fills in before loading. The Rust side gets these types
 * from the generated skeleton; `decode.rs` asserts the same sizes as the end of this file.
 *
 * All times are CLOCK_MONOTONIC in nanoseconds. Device numbers are the kernel's (major << 20 | minor).
 * Records are byte-copied: every padding byte is named, so that no stale memory leaves the kernel.
 */
#ifndef BROKERSCOPE_EVENTS_H
#define BROKERSCOPE_EVENTS_H

/* The fixed part of a magic-2 record batch up to and with its record count (KIP-98). */
#define HEAD_BYTES 61
/* NAME_MAX and the terminating NUL. */
#define NAME_BYTES 256
/* Components kept of a file's path, the file's own name among them. */
#define PATH_COMPONENTS 3
#define PATH_BYTES (PATH_COMPONENTS * NAME_BYTES)
#define FS_BYTES 16
/* Deepest seen from a write down to __schedule is about 30, with stacked block devices. */
#define STACK_FRAMES 48
#define RWBS_BYTES 16

/* What a record is: the first word of each. */
enum event_kind {
	EVENT_FILE_WRITE = 1,
	EVENT_OFF_CPU = 2,
	EVENT_JOURNAL_COMMIT = 3,
	EVENT_BLOCK_IO = 4,
	EVENT_DIRTY_THROTTLE = 5,
};

/* Slots of the per-CPU array `lost`. */
enum lost_slot {
	/* no room in the ring buffer */
	LOST_RING_FULL = 0,
	/* no room in a map: an operation, commit or block request that cannot be followed */
	LOST_MAP_FULL = 1,
	/* the head of a written buffer could not be read; the write itself is reported */
	LOST_HEAD = 2,
	/* no kernel stack could be taken; the interval itself is reported */
	LOST_STACK = 3,
	LOST_SLOTS = 4,
};

/* A write(2), pwrite64(2), writev(2), pwritev(2) or pwritev2(2) to a regular file, when it returned. */
struct file_write_event {
	__u32 kind;
	__u32 tid;
	__u64 start_ns;
	__u64 end_ns;
	/* as the system call returned it: bytes, or a negative errno */
	__s64 result;
	/* where the write went: the file position at entry, pwrite's offset, or the size with O_APPEND */
	__u64 offset;
	__u64 inode;
	__u32 device;
	__s32 fd;
	/* the jbd2 transaction of the last handle that the thread started within the call; if has_handle */
	__u32 transaction;
	__u8 has_handle;
	/* valid bytes of head */
	__u8 head_len;
	/* valid bytes of path */
	__u16 path_len;
	char comm[TASK_COMM_LEN];
	char fs[FS_BYTES];
	__u8 head[HEAD_BYTES];
	__u8 reserved[3];
	/* NUL-terminated names, the file's own first, then its parents'; only path_len bytes are sent */
	char path[PATH_BYTES];
};

/* A thread was off the CPU within such a write, or waited long after it (off_cpu.h). */
struct off_cpu_event {
	__u32 kind;
	__u32 tid;
	__u64 start_ns;
	__u64 end_ns;
	/* when it was made runnable; 0 if that was not seen */
	__u64 woken_ns;
	char comm[TASK_COMM_LEN];
	/* it was taken off the CPU although it could have gone on */
	__u8 preempted;
	__u8 reserved[3];
	/* valid frames of stack */
	__u32 frames;
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

/* A request to a block device, when it was completed. */
struct block_io_event {
	__u32 kind;
	__u32 device;
	__u64 start_ns;
	__u64 end_ns;
	__u64 sector;
	__u32 bytes;
	/* the thread that handed it to the driver: often a kernel worker */
	__u32 tid;
	char comm[TASK_COMM_LEN];
	/* NUL-terminated flags as in the tracepoint */
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
	__u64 limit_pages;
	__u64 setpoint_pages;
	char comm[TASK_COMM_LEN];
};

/*
 * Where a tracepoint's field lies in its record, from the tracepoint's own format file: fields move between
 * kernels (block_rq_issue gained ioprio), and for tracepoints of modules there may be no BTF to ask.
 */
struct field {
	__u16 offset;
	__u16 size;
};

struct commit_fields {
	struct field dev, transaction;
};

struct run_stats_fields {
	struct field dev, tid, wait, running, locked, flushing, logging;
	struct field handle_count, blocks, blocks_logged;
};

struct handle_fields {
	struct field dev, tid;
};

struct rq_issue_fields {
	struct field dev, sector, nr_sector, bytes, rwbs;
};

struct rq_complete_fields {
	struct field dev, sector, nr_sector;
};

struct dirty_fields {
	struct field limit, setpoint, dirty, pause;
};

struct fields {
	struct commit_fields start_commit;
	struct commit_fields end_commit;
	struct run_stats_fields run_stats;
	struct handle_fields handle_start;
	struct rq_issue_fields rq_issue;
	struct rq_complete_fields rq_complete;
	struct dirty_fields dirty;
};

/* Set once before loading; constants to the verifier. */
struct settings {
	/* the process to watch, as the root pid namespace numbers it */
	__u32 tgid;
	__u8 stacks;
	/* only the devices in the map `devices` */
	__u8 only_devices;
	__u16 reserved;
	/* wake the reader when this much is waiting in the ring buffer */
	__u64 wake_bytes;
	struct fields at;
};

/* Never read: it makes the record types part of the object's BTF, from where the skeleton takes them. */
struct records {
	struct file_write_event file_write;
	struct off_cpu_event off_cpu;
	struct journal_commit_event journal_commit;
	struct block_io_event block_io;
	struct dirty_throttle_event dirty_throttle;
};

_Static_assert(sizeof(struct file_write_event) == 160 + PATH_BYTES, "file_write_event");
_Static_assert(sizeof(struct off_cpu_event) == 56 + 8 * STACK_FRAMES, "off_cpu_event");
_Static_assert(sizeof(struct journal_commit_event) == 88, "journal_commit_event");
_Static_assert(sizeof(struct block_io_event) == 72, "block_io_event");
_Static_assert(sizeof(struct dirty_throttle_event) == 64, "dirty_throttle_event");
_Static_assert(__builtin_offsetof(struct file_write_event, path) == 160, "file_write_event.path");
_Static_assert(__builtin_offsetof(struct off_cpu_event, stack) == 56, "off_cpu_event.stack");

#endif
