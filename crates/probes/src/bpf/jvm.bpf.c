// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What HotSpot's own probes tell: waits for monitors, and stops of all Java threads. An object of its own: its programs
 * sit in one process's library, where the probes of probes.bpf.c have nothing to do.
 *
 * Programs on user space's probes may be preempted and moved between each other (Linux 6.0: bpf_prog_run_array_uprobe), so
 * nothing here is per CPU but counters, and those are added to atomically.
 */
#include "kernel.h"

/* bpf_tracing.h then takes the kernel's names for registers, which kernel.h declares. */
#define __VMLINUX_H__

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

/* At most two places a probe in the JVMs that were looked at. */
#define BPF_USDT_MAX_SPEC_CNT 64
#include <bpf/usdt.bpf.h>

#include "jvm.h"

const volatile struct jvm_settings settings = {};
const volatile struct jvm_records records = {};

#include "process_ids.h"

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	/* user space sets the size it wants before loading */
	__uint(max_entries, 256 * 1024);
} ring SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, JVM_COUNTS);
	__type(key, __u32);
	__type(value, __u64);
} counts SEC(".maps");

static __always_inline void count(__u32 slot, __u64 by)
{
	__u64 *value = bpf_map_lookup_elem(&counts, &slot);

	if (value)
		__sync_fetch_and_add(value, by);
}

/* The reader comes by itself: it is woken only where it may be too late, so that threads send no interrupts. */
static __always_inline __u64 wake(void)
{
	bool late = bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA) >= settings.wake_bytes;

	return late ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP;
}

static __always_inline void emit(void *event, __u64 size)
{
	if (bpf_ringbuf_output(&ring, event, size, wake()))
		count(JVM_RING_FULL, 1);
}

/* Children that have not yet begun a program of their own run into the same breakpoints. */
static __always_inline bool is_target(__u64 id)
{
	return id >> 32 == settings.tgid;
}

static __always_inline bool argument(struct pt_regs *ctx, __u64 number, long *value)
{
	if (!bpf_usdt_arg(ctx, number, value))
		return true;
	count(JVM_NO_ARGUMENT, 1);
	return false;
}

#include "monitor.h"
#include "monitor_waker.h"
#include "safepoint.h"

/* In place of any other, to be measured: what it costs is what the kernel takes to call a program. */
SEC("usdt")
int nothing(struct pt_regs *ctx)
{
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
