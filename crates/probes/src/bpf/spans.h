/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef BROKERSCOPE_SPANS_H
#define BROKERSCOPE_SPANS_H

#include "state.h"

/*
 * Calls of kernel functions, from entry to return, in one table. Does not know which functions those are or which hooks
 * show their ends: filesystems.bpf.c and memory.bpf.c do.
 */

struct span_key {
	__u32 tid;
	/* enum span_function: a thread may be inside several functions at once, but in each only once */
	__u32 function;
};

struct span_start {
	__u64 ns;
	/* of the file system; for reclaim: whether a memory cgroup caused it */
	__u32 device;
	__u32 reserved;
};

BPF_MAP(spans, HASH, struct span_key, struct span_start, 4096);

static __always_inline int span_enter(__u32 function, __u32 device)
{
	struct span_key key = { .tid = current_ids(), .function = function };
	struct span_start start = { .ns = bpf_ktime_get_ns(), .device = device };

	if (bpf_map_update_elem(&spans, &key, &start, BPF_ANY))
		count_lost(LOST_MAP_FULL);
	return 0;
}

/* Removes and returns the start of the call that the thread is inside of; returns false if it was not seen. */
static __always_inline bool take_span(__u32 function, struct span_start *start)
{
	struct span_key key = { .tid = current_ids(), .function = function };
	struct span_start *entered = bpf_map_lookup_elem(&spans, &key);

	if (!entered)
		return false;
	*start = *entered;
	bpf_map_delete_elem(&spans, &key);
	return true;
}

/* A call of the current thread; the caller sets its times. */
static __always_inline struct kernel_span_event span_of_current(__u32 function, __u8 source, __u32 device)
{
	struct kernel_span_event event = { .kind = EVENT_KERNEL_SPAN,
					   .tid = visible_tid(),
					   .device = device,
					   .function = function,
					   .source = source };

	bpf_get_current_comm(event.comm, sizeof(event.comm));
	return event;
}

/* A call whose entry was not seen is not reported: its duration is unknown. */
static __always_inline int span_exit(__u32 function, __u8 source)
{
	struct kernel_span_event event;
	struct span_start start;

	if (!take_span(function, &start))
		return 0;
	event = span_of_current(function, source, start.device);
	event.start_ns = start.ns;
	event.end_ns = bpf_ktime_get_ns();
	emit(&event, sizeof(event));
	return 0;
}

#endif
