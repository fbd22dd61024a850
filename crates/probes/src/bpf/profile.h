/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The contract between profile.bpf.c and user space: settings, the tables that the programs fill, and the record of a
 * single sample. The Rust side gets these types from the generated skeleton.
 *
 * All times are CLOCK_MONOTONIC in nanoseconds. Every padding byte is named, because keys are compared as bytes.
 */
#ifndef BROKERSCOPE_PROFILE_H
#define BROKERSCOPE_PROFILE_H

#include "kernel.h"

/* Default of kernel.perf_event_max_stack: no stack is longer unless that was raised. */
#define PROFILE_FRAMES 127
/* System calls of a family: write(2) has five forms. */
#define PROFILE_CALLS 8

/* Every padding byte is named. */
#pragma clang diagnostic push
#pragma clang diagnostic error "-Wpadded"

/* In place of a stack's number: there is no stack (all in user space, or all in the kernel), or it was lost. */
enum { STACK_NONE = 0, STACK_LOST = 1 };

enum time_state {
	TIME_ON_CPU = 0,
	TIME_OFF_CPU = 1,
};

/* Slots of the per-CPU array `lost`. */
enum profile_lost {
	/* no room for another stack: the time is counted without it */
	PROFILE_LOST_STACK = 0,
	/* no room for another combination: the time is in no table */
	PROFILE_LOST_TIME = 1,
	/* nanoseconds of that time */
	PROFILE_LOST_NS = 2,
	/* no room for another thread: an interval was not followed */
	PROFILE_LOST_THREAD = 3,
	/* no room in the ring buffer: single samples */
	PROFILE_LOST_RING = 4,
	PROFILE_LOST_SLOTS = 5,
};

/* Set once before loading; constants to the verifier. */
struct profile_settings {
	/* the process to watch, as the root pid namespace numbers it */
	__u32 tgid;
	/* keep threads of the same name apart */
	__u8 by_thread;
	/* valid entries of `call`; 0: profile everything */
	__u8 calls;
	__u16 reserved;
	/* the time that one sample stands for */
	__u64 period_ns;
	/* shorter off-CPU intervals are left out */
	__u64 min_ns;
	/* profile only these system calls, by number */
	__s32 call[PROFILE_CALLS];
};

/* Return addresses, innermost first. */
struct stack {
	__u64 frames;
	__u64 frame[PROFILE_FRAMES];
};

/* The key by which time is summed. */
struct stack_key {
	__u64 user_stack;
	__u64 kernel_stack;
	/* 0 unless by_thread */
	__u32 tid;
	__u32 state;
	char comm[TASK_COMM_LEN];
};

struct stack_time {
	__u64 ns;
	__u64 count;
};

/* A thread that is off the CPU. */
struct off_cpu {
	/* 0 while it runs, or if the interval is left out */
	__u64 since_ns;
	__u64 user_stack;
	__u64 kernel_stack;
	char comm[TASK_COMM_LEN];
};

/* A single sample, in the ring buffer. */
struct sample_event {
	__u64 at_ns;
	__u64 user_stack;
	__u64 kernel_stack;
	__u32 tid;
	__u32 reserved;
	char comm[TASK_COMM_LEN];
};

#pragma clang diagnostic pop

/* Never read: it puts these types into the object's BTF, from which the skeleton takes them. */
struct profile_records {
	struct stack stack;
	struct stack_key stack_key;
	struct stack_time stack_time;
	enum profile_lost lost;
	struct off_cpu away;
	struct sample_event sample;
};

#endif
