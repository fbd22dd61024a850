/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The contract between always_on.bpf.c and user space: settings, counters, and what lies in memory that both share.
 * The Rust side gets these types from the generated skeleton.
 *
 * All times are CLOCK_MONOTONIC in nanoseconds. Every padding byte is named.
 */
#ifndef BROKERSCOPE_ALWAYS_ON_H
#define BROKERSCOPE_ALWAYS_ON_H

#include "kernel.h"

/* Listeners of a broker. */
#define MAX_PORTS 16
/* Return addresses kept of a stack. */
#define WAIT_FRAMES 48
/* Bytes kept of a slow request's answer. */
#define ANSWER_BYTES 256

/* Sub-buckets of each power of two: the middle of a bucket is within 0.8 % of every value in it. */
#define SUB_BUCKET_BITS 6
#define SUB_BUCKETS (1 << SUB_BUCKET_BITS)
/* Longer latencies (18 minutes) are in the last bucket. */
#define MAX_LATENCY_BITS 40
#define BUCKETS ((MAX_LATENCY_BITS - SUB_BUCKET_BITS + 1) * SUB_BUCKETS)

/* Times kept of one CPU's part of an array of records; see struct part. */
#define MARKS 512
/* So many for the slots that there are: those overwritten since are known for as long again. */
#define MARK_BITS 8

#pragma clang diagnostic push
#pragma clang diagnostic error "-Wpadded"

/* Set once before loading; constants to the verifier. */
struct always_on_settings {
	/* the process to watch, as the root pid namespace numbers it */
	__u32 tgid;
	/* valid entries of ports; 0 for all connections that the process accepts while it is watched */
	__u32 port_count;
	__u16 ports[MAX_PORTS];
	/* shorter waits are not recorded */
	__u64 min_wait_ns;
	/* slots of one CPU's part, as a power of two */
	__u32 record_bits;
	__u32 wait_bits;
	/* histograms that there is memory for */
	__u32 histograms;
	/* slow requests that are submitted in one second */
	__u32 slow_per_second;
};

/* What user space changes while the programs run. */
struct always_on_control {
	/* requests that took as long or longer are submitted */
	__u64 threshold_ns;
};

/* Slots of `counts`. */
enum always_on_count {
	/* requests that have no histogram: there are more pairs of API and listener than expected */
	COUNT_NO_HISTOGRAM = 0,
	/* slow requests that were not submitted: over the limit; the ring buffer had no room */
	COUNT_OVER_LIMIT,
	COUNT_RING_FULL,
	/* connections that have no state: no memory */
	COUNT_NO_CONNECTION,
	/* reads of connections of which it is not known where a request begins */
	COUNT_UNSYNCHRONISED,
	/* frames that are none of Kafka's, or whose head could not be read */
	COUNT_BAD_FRAME,
	/* requests given up because their answers could not be followed */
	COUNT_GIVEN_UP,
	/* answers whose correlation id is of no open request; answers where no request is open */
	COUNT_MISMATCHED,
	COUNT_UNMATCHED,
	/* Fetch requests whose max_wait_ms could not be read: they are not submitted */
	COUNT_NO_MAX_WAIT,
	/* waits that were not followed: two threads have the same slot */
	COUNT_NO_SLOT,
	/* waits without a stack */
	COUNT_NO_STACK,
	COUNTS,
};

/* The ends of a connection, in network order; IPv4 addresses are mapped. */
struct ends {
	__be32 local[4];
	__be32 remote[4];
	__be16 local_port;
	__be16 remote_port;
	/* of the connection, from 1; slot number modulo MAX_ENDS of `all_ends` */
	__u32 number;
	/* written last, as a record's */
	__u64 stamp;
};

#define MAX_ENDS 16384

/* Of what a client calls itself, so many bytes are kept. */
#define MAX_CLIENT_ID 64

/* All requests of one API on one listener. Counters only grow. */
struct histogram {
	/* (API key << 16 | port) + 1; 0 where it is not used */
	__u64 key;
	/* begun; what is not in the buckets and not counted below is open or its connection is gone */
	__u64 requests;
	__u64 request_bytes;
	/* those that got no answer and expect none, as of a producer with acks=0 */
	__u64 unanswered;
	/* those whose answers could not be followed */
	__u64 given_up;
	/* of answered requests */
	__u64 answer_bytes;
	__u64 total_ns;
	__u64 reserved;
	/* answered requests by latency */
	__u64 buckets[BUCKETS];
};

/*
 * One CPU's part of an array of records, of which each has slots in turn: record number N has slot N modulo their
 * count. A record's stamp is its number + 1, and 0 while it is written.
 */
struct mark {
	/* (the number of the record before which it was made) + 1 */
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
	/* that wrote the last byte of the answer; of an unanswered request as reader_tid */
	__u32 tid;
	/* its first byte was in the receive buffer */
	__u64 first_ns;
	/* the last byte of its answer was written, or it was found unanswered */
	__u64 last_ns;
	/* since first_ns, microseconds: its last byte was read; the first of its answer was written */
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
	/* the position and length are those asked for, when the write began */
	__u8 at_entry;
	/* which of the thread's calls that write; 0 where the kernel does not count them */
	__u16 write_call;
	__u32 tid;
	/* the first piece was in the page cache; the last */
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
	/* it sleeps uninterruptibly */
	WAIT_ASLEEP,
	/* it was preempted in the kernel: a call that it was in, it still is in */
	WAIT_PREEMPTED,
	/* it gave way on its way back to user space: it is in no call any more */
	WAIT_AT_EXIT,
	/* a signal had stopped it, and so its process; a freezer its cgroup */
	WAIT_STOPPED,
	WAIT_FROZEN,
};

/* A thread that could have run: another one had its CPU, or it was stopped. Where it was then says nothing of why. */
struct cpu_wait_record {
	__u64 stamp;
	__u8 kind;
	/* enum wait_place */
	__u8 place;
	__u8 reserved[2];
	__u32 tid;
	__u64 first_ns;
	__u64 last_ns;
	/* of that, in the run queue, by the scheduler's account */
	__u64 queue_ns;
	/* the system call's number; -1 outside of one */
	__s32 call;
	/* as an append's */
	__u32 write_call;
	char comm[TASK_COMM_LEN];
};

/* A call that reads, sends or syncs a file. */
struct file_call {
	/* which of the thread's calls that read; of a sync, how many that write came before */
	__u64 number;
	/* 0 where the thread is in no such call */
	__u64 inode;
	__u32 device;
	__u32 reserved;
};

/* A thread that slept uninterruptibly. */
struct wait_record {
	__u64 stamp;
	__u32 reserved_word;
	__u32 tid;
	__u64 first_ns;
	__u64 last_ns;
	/* of that, in the run queue, by the scheduler's account */
	__u64 queue_ns;
	/* the system call's first argument */
	__u64 argument;
	/* its number; -1 outside of one */
	__s32 call;
	__u32 frames;
	char comm[TASK_COMM_LEN];
	/* as an append's, of a call that writes: that in which the thread was */
	__u64 write_call;
	struct file_call file_call;
	__u64 reserved[3];
	/* where it returns, innermost first */
	__u64 stack[WAIT_FRAMES];
};

/* In the ring buffer. */
struct slow_request {
	/* its first byte was in the receive buffer; its last byte */
	__u64 arrival_ns;
	__u64 complete_ns;
	__u64 first_read_ns;
	__u64 last_read_ns;
	__u64 first_write_ns;
	__u64 last_write_ns;
	/* the last answer before its own was written to the connection; 0 */
	__u64 previous_ns;
	struct ends ends;
	__u32 reader_tid;
	__u32 tid;
	__s16 api_key;
	__s16 api_version;
	__s32 correlation_id;
	__u32 request_bytes;
	__u32 answer_bytes;
	/* of the request's first byte, and of the answer's */
	__u32 read_sequence;
	__u32 write_sequence;
	/* of a Fetch */
	__u32 max_wait_ms;
	/* valid bytes of answer, ANSWER_BYTES at most: the rest only lets the verifier see that copies stay inside */
	__u32 head_bytes;
	__u8 answer[2 * ANSWER_BYTES];
	/* what the client calls itself, as far as it is known; valid bytes of it */
	__u32 client_bytes;
	__u8 client[MAX_CLIENT_ID];
	/* the connection's, in the call that wrote the answer's last byte */
	__s32 descriptor;
};

#pragma clang diagnostic pop

_Static_assert(sizeof(struct request_record) == 64, "one cache line");
_Static_assert(sizeof(struct append_record) == 64, "one cache line");
_Static_assert(sizeof(struct cpu_wait_record) == 64, "one cache line");
_Static_assert(sizeof(struct wait_record) == 512, "one slot");

/* Never read: it makes these types part of the object's BTF, from where the skeleton takes them. */
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
