/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The contract between always_on.bpf.c and user space: settings, counters, and the layout of shared memory. The Rust
 * side gets these types from the generated skeleton.
 *
 * All times are CLOCK_MONOTONIC in nanoseconds. Every padding byte is named.
 */
#ifndef BROKERSCOPE_ALWAYS_ON_H
#define BROKERSCOPE_ALWAYS_ON_H

#include "kernel.h"

/* Listeners of a broker. */
#define MAX_PORTS 16
/* Return addresses kept per stack. */
#define WAIT_FRAMES 48
/* Bytes kept of a slow request's answer. */
#define ANSWER_BYTES 256

/* Sub-buckets per power of two: the midpoint of a bucket is within 0.8 % of every value in it. */
#define SUB_BUCKET_BITS 6
#define SUB_BUCKETS (1 << SUB_BUCKET_BITS)
/* Longer latencies (18 minutes) are in the last bucket. */
#define MAX_LATENCY_BITS 40
#define BUCKETS ((MAX_LATENCY_BITS - SUB_BUCKET_BITS + 1) * SUB_BUCKETS)

/* Marks kept for one CPU's part of an array of records; see struct part. */
#define MARKS 512
/* log2 of the marks that cover the present slots; the other half covers as many slots that were overwritten. */
#define MARK_BITS 8

#pragma clang diagnostic push
#pragma clang diagnostic error "-Wpadded"

/* Set once before loading; constants to the verifier. */
struct always_on_settings {
	/* the process to watch, as the root pid namespace numbers it */
	__u32 tgid;
	/* valid entries of ports; 0: all connections that the process accepts while it is watched */
	__u32 port_count;
	__u16 ports[MAX_PORTS];
	/* shorter waits are not recorded */
	__u64 min_wait_ns;
	/* log2 of the slots in one CPU's part */
	__u32 record_bits;
	__u32 wait_bits;
	/* histograms that fit in memory; log2 of the parts of each */
	__u32 histograms;
	__u32 histogram_bits;
	/* slow requests submitted per second */
	__u32 slow_per_second;
	__u32 reserved;
};

/* Settings that user space changes while the programs run. */
struct always_on_control {
	/* requests that took at least this long are submitted */
	__u64 threshold_ns;
};

/* Slots of `counts`. */
enum always_on_count {
	/* requests without a histogram: more pairs of API and listener than expected */
	COUNT_NO_HISTOGRAM = 0,
	/* slow requests not submitted: over the limit; no room in the ring buffer */
	COUNT_OVER_LIMIT,
	COUNT_RING_FULL,
	/* connections without state: no memory */
	COUNT_NO_CONNECTION,
	/* reads of connections whose request boundaries are unknown */
	COUNT_UNSYNCHRONISED,
	/* frames that are not Kafka's, or whose head could not be read */
	COUNT_BAD_FRAME,
	/* requests abandoned because their answers could not be followed */
	COUNT_GIVEN_UP,
	/* answers whose correlation id matches no open request; answers without an open request */
	COUNT_MISMATCHED,
	COUNT_UNMATCHED,
	/* Fetch requests whose max_wait_ms could not be read: they are not submitted */
	COUNT_NO_MAX_WAIT,
	/* waits not followed: two threads share a slot */
	COUNT_NO_SLOT,
	/* waits without a stack */
	COUNT_NO_STACK,
	COUNTS,
};

/* Both ends of a connection, in network order; IPv4 addresses are mapped. */
struct ends {
	__be32 local[4];
	__be32 remote[4];
	__be16 local_port;
	__be16 remote_port;
	/* the connection's number, from 1; the slot in `all_ends` is number modulo MAX_ENDS */
	__u32 number;
	/* written last, like a record's */
	__u64 stamp;
};

#define MAX_ENDS 16384

/* Bytes kept of a client id. */
#define MAX_CLIENT_ID 64

/*
 * Part of all requests of one API on one listener: those of some CPUs, so that no two of them fetch each other's cache
 * lines. Counters only grow; the parts of a histogram lie side by side.
 */
struct histogram {
	/* of the first part: (API key << 16 | port) + 1, or 0 if unused */
	__u64 key;
	/* requests begun; those not counted in the buckets or below are open, or their connection is gone */
	__u64 requests;
	__u64 request_bytes;
	/* requests without an answer that expect none, such as a producer's with acks=0 */
	__u64 unanswered;
	/* requests whose answers could not be followed */
	__u64 given_up;
	/* of answered requests */
	__u64 answer_bytes;
	__u64 total_ns;
	__u64 reserved;
	/* answered requests by latency */
	__u64 buckets[BUCKETS];
};

/*
 * One CPU's part of an array of records, used in turn: record number N has slot N modulo the slot count. A record's
 * stamp is its number + 1, and 0 while it is written.
 */
struct mark {
	/* number of the next record when the mark was made, + 1 */
	__u64 stamp;
	__u64 ns;
};

struct part {
	/* records so far */
	__u64 head;
	__u64 reserved[7];
	struct mark marks[MARKS];
};

enum record_kind {
	RECORD_REQUEST = 1,
	RECORD_APPEND,
	RECORD_CPU_WAIT,
};

enum request_flag {
	REQUEST_ANSWERED = 1,
	REQUEST_GIVEN_UP = 2,
};

struct request_record {
	__u64 stamp;
	__u8 kind;
	/* enum request_flag */
	__u8 flags;
	__s16 api_version;
	/* wrote the last byte of the answer; equals reader_tid for an unanswered request */
	__u32 tid;
	/* when its first byte was in the receive buffer */
	__u64 first_ns;
	/* when the last byte of its answer was written, or it was found unanswered */
	__u64 last_ns;
	/* microseconds after first_ns: its last byte was read; the first byte of its answer was written */
	__u32 complete_us;
	__u32 answer_us;
	__u32 connection;
	__s32 correlation_id;
	__u32 request_bytes;
	__u32 answer_bytes;
	__s16 api_key;
	/* host order */
	__u16 local_port;
	__u32 reader_tid;
};

/* A write to a file, in the page cache. */
struct append_record {
	__u64 stamp;
	__u8 kind;
	/* position and length are those requested, when the write began */
	__u8 at_entry;
	/* number of this call among the thread's writing calls; 0 if the kernel does not count them */
	__u16 write_call;
	__u32 tid;
	/* when the first piece was in the page cache; when the last was */
	__u64 first_ns;
	__u64 last_ns;
	__u64 inode;
	__u32 device;
	__u32 generation;
	__u64 position;
	__u64 length;
};

/* Why a thread was off the CPU. */
enum wait_place {
	/* uninterruptible sleep */
	WAIT_ASLEEP,
	/* preempted in the kernel: it is still in the call that it was in */
	WAIT_PREEMPTED,
	/* switched out on return to user space: it is no longer in a call */
	WAIT_AT_EXIT,
	/* stopped by a signal, with its process; frozen with its cgroup */
	WAIT_STOPPED,
	WAIT_FROZEN,
};

/* A runnable thread without a CPU, or a stopped one. Its stack would not show why. */
struct cpu_wait_record {
	__u64 stamp;
	__u8 kind;
	/* enum wait_place */
	__u8 place;
	__u8 reserved[2];
	__u32 tid;
	__u64 first_ns;
	__u64 last_ns;
	/* time in the run queue, by the scheduler's accounting */
	__u64 queue_ns;
	/* the system call's number; -1 outside of one */
	__s32 call;
	/* as in append_record */
	__u32 write_call;
	char comm[TASK_COMM_LEN];
};

/* A call that reads, sends or syncs a file. */
struct file_call {
	/*
	 * for reads and sends, this call's number among the thread's reading calls; for a sync, writing calls before it
	 */
	__u64 number;
	/* 0 if the thread is in no such call */
	__u64 inode;
	__u32 device;
	__u32 reserved;
};

/* A thread in uninterruptible sleep. */
struct wait_record {
	__u64 stamp;
	__u32 reserved_word;
	__u32 tid;
	__u64 first_ns;
	__u64 last_ns;
	/* time in the run queue, by the scheduler's accounting */
	__u64 queue_ns;
	/* the system call's first argument */
	__u64 argument;
	/* the system call's number; -1 outside of one */
	__s32 call;
	__u32 frames;
	char comm[TASK_COMM_LEN];
	/* as in append_record, for the writing call that the thread was in */
	__u64 write_call;
	struct file_call file_call;
	__u64 reserved[3];
	/* return addresses, innermost first */
	__u64 stack[WAIT_FRAMES];
};

/* A slow request, in the ring buffer. */
struct slow_request {
	/* when its first byte was in the receive buffer; when its last byte was */
	__u64 arrival_ns;
	__u64 complete_ns;
	__u64 first_read_ns;
	__u64 last_read_ns;
	__u64 first_write_ns;
	__u64 last_write_ns;
	/* when the previous answer on the connection was written; 0 if there was none */
	__u64 previous_ns;
	struct ends ends;
	__u32 reader_tid;
	__u32 tid;
	__s16 api_key;
	__s16 api_version;
	__s32 correlation_id;
	__u32 request_bytes;
	__u32 answer_bytes;
	/* sequence numbers of the request's first byte and of the answer's */
	__u32 read_sequence;
	__u32 write_sequence;
	/* of a Fetch */
	__u32 max_wait_ms;
	/* valid bytes of answer, at most ANSWER_BYTES: the rest only shows the verifier that copies stay inside */
	__u32 head_bytes;
	__u8 answer[2 * ANSWER_BYTES];
	/* client id, if known; its valid bytes */
	__u32 client_bytes;
	__u8 client[MAX_CLIENT_ID];
	/* the connection's descriptor in the call that wrote the answer's last byte */
	__s32 descriptor;
};

#pragma clang diagnostic pop

_Static_assert(sizeof(struct request_record) == 64, "one cache line");
_Static_assert(sizeof(struct append_record) == 64, "one cache line");
_Static_assert(sizeof(struct cpu_wait_record) == 64, "one cache line");
_Static_assert(sizeof(struct wait_record) == 512, "one slot");

/* Never read: it puts these types into the object's BTF, from which the skeleton takes them. */
struct always_on_records {
	struct request_record request;
	struct append_record append;
	struct cpu_wait_record cpu_wait;
	struct wait_record wait;
	struct slow_request slow;
	struct histogram histogram;
	struct part part;
	enum always_on_count count;
	enum record_kind kind;
	enum request_flag request_flag;
	enum wait_place wait_place;
};

#endif
