/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The contract between jvm.bpf.c and user space: settings, counters and records. The Rust side gets these types
 * from the generated skeleton.
 *
 * All times are CLOCK_MONOTONIC in nanoseconds. Every padding byte is named.
 */
#ifndef BROKERSCOPE_JVM_H
#define BROKERSCOPE_JVM_H

#include "kernel.h"

/* Bytes kept of a class's name: longer names lose their end. A power of two. */
#define CLASS_BYTES 128
/* Bytes kept of a VM operation's name. */
#define OPERATION_BYTES 64

/* Every padding byte is named. */
#pragma clang diagnostic push
#pragma clang diagnostic error "-Wpadded"

enum jvm_event_kind {
	JVM_MONITOR_WAIT = 1,
	JVM_PAUSE = 2,
};

enum jvm_pause_kind {
	JVM_SAFEPOINT = 0,
	JVM_COLLECTION = 1,
};

/* Slots of the per-CPU array `counts`. */
enum jvm_count {
	/* records for which the ring buffer had no room */
	JVM_RING_FULL = 0,
	/* waits not followed: too many threads */
	JVM_MAP_FULL = 1,
	/* probes whose arguments could not be read */
	JVM_NO_ARGUMENT = 2,
	/* waits shorter than settings.min_ns */
	JVM_SHORT_WAITS = 3,
	/* nanoseconds of those waits */
	JVM_SHORT_NS = 4,
	JVM_COUNTS = 5,
};

/* Set once before loading; constants to the verifier. */
struct jvm_settings {
	/* the process to watch, as the root pid namespace numbers it */
	__u32 tgid;
	__u32 reserved;
	/* shorter waits are counted and not sent */
	__u64 min_ns;
	/* wake the reader from this many bytes in the ring buffer; 0: for the first record after it has read all */
	__u64 wake_bytes;
	/* offset of the owner in an ObjectMonitor; the owner is 0 if there is none */
	__u64 owner_at;
};

struct monitor_wait_event {
	/* JVM_MONITOR_WAIT */
	__u32 kind;
	__u32 tid;
	__u64 start_ns;
	__u64 end_ns;
	/* address of the JVM's ObjectMonitor */
	__u64 monitor;
	/* the thread that last handed the monitor over during the wait; 0 if not seen, or uncertain */
	__u32 holder_tid;
	/* valid bytes of class_name; the rest is not sent */
	__u32 class_bytes;
	char comm[TASK_COMM_LEN];
	char holder_comm[TASK_COMM_LEN];
	/* as in a class file: java/lang/Object */
	char class_name[CLASS_BYTES];
};

struct jvm_pause_event {
	/* JVM_PAUSE */
	__u32 kind;
	/* enum jvm_pause_kind */
	__u32 pause;
	__u64 start_ns;
	__u64 end_ns;
	/* when its first VM operation began; 0 if that was not seen */
	__u64 operation_ns;
	/* a collection of the whole heap */
	__u32 full;
	/* valid bytes of operation */
	__u32 operation_bytes;
	char operation[OPERATION_BYTES];
};

#pragma clang diagnostic pop

/* Never read: it puts these types into the object's BTF, from which the skeleton takes them. */
struct jvm_records {
	struct monitor_wait_event monitor_wait;
	struct jvm_pause_event pause;
	enum jvm_event_kind kind;
	enum jvm_pause_kind pause_kind;
	enum jvm_count count;
};

#endif
