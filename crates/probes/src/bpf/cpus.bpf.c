// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * CPUs that something outside takes away from this machine: a hypervisor that runs other guests on them, or pauses this
 * one. A clock interrupts each CPU, including idle ones (perf_swevent_hrtimer, kernel/events/core.c). Its interrupt
 * comes late if the CPU did not run, and immediately when it runs again: the current thread was on the CPU during the
 * gap.
 *
 * The interrupt is also skipped while a BPF program or a map look-up is in progress on the CPU (bpf_prog_active,
 * kernel/events/core.c), and comes late while interrupts are off. The kernel counts a CPU's time by its own ticks, one
 * by one: if it counted about as much as has passed, the CPU ran.
 */
#pragma once
#include "state.h"

/* The clock's period, as user space sets it (session/links.rs). */
#define TICK_NS 10000000
/* Two interrupts in a row were missing. */
#define MIN_GAP_NS (3 * TICK_NS)
/* Less steal time than this between two interrupts, a tenth, is hardly noticeable. */
#define MIN_STOLEN_NS (TICK_NS / 10)

extern const struct kernel_cpustat kernel_cpustat __ksym __weak;

struct cpu_watch {
	/* the last interrupt, and the one before */
	__u64 at_ns;
	__u64 before_ns;
	/* time counted by then: at work, and stolen */
	__u64 worked_ns;
	__u64 stolen_ns;
	/* steal time before an unreported gap: it is counted only at the kernel's next tick */
	__u64 stolen_before_ns;
	struct cpu_gap_event gap;
};

BPF_MAP(cpu_watches, PERCPU_ARRAY, __u32, struct cpu_watch, 1);

static __always_inline void report_gap(struct cpu_watch *watch, __u64 stolen_ns)
{
	watch->gap.stolen_ns = stolen_ns - watch->stolen_before_ns;
	emit(&watch->gap, sizeof(watch->gap));
	watch->gap.gap = 0;
}

static __always_inline void begin_gap(struct cpu_watch *watch, __u64 now)
{
	watch->stolen_before_ns = watch->stolen_ns;
	watch->gap.kind = EVENT_CPU_GAP;
	watch->gap.cpu = bpf_get_smp_processor_id();
	watch->gap.start_ns = watch->at_ns;
	watch->gap.end_ns = now;
	watch->gap.tid = current_ids() ? visible_tid() : 0;
	bpf_get_current_comm(watch->gap.comm, sizeof(watch->gap.comm));
	watch->gap.gap = 1;
}

static __always_inline void report_steal(struct cpu_watch *watch, __u64 now, __u64 stolen_ns)
{
	struct cpu_gap_event steal = {
		.kind = EVENT_CPU_GAP,
		.cpu = bpf_get_smp_processor_id(),
		/* the kernel's tick may have preceded the last interrupt */
		.start_ns = watch->before_ns,
		.end_ns = now,
		.stolen_ns = stolen_ns,
	};

	emit(&steal, sizeof(steal));
}

SEC("perf_event")
int cpu_tick(void *ctx)
{
	__u64 times[CPU_TIMES], now = bpf_ktime_get_ns(), worked_ns, stolen_ns, passed_ns;
	__u32 zero = 0;
	struct cpu_watch *watch = bpf_map_lookup_elem(&cpu_watches, &zero);
	const struct kernel_cpustat *counted;

	if (!watch || !&kernel_cpustat)
		return 0;
	counted = bpf_this_cpu_ptr(&kernel_cpustat);
	if (bpf_probe_read_kernel(times, sizeof(times), &counted->cpustat))
		return 0;
	worked_ns = times[CPUTIME_USER] + times[CPUTIME_NICE] + times[CPUTIME_SYSTEM] +
		    times[CPUTIME_SOFTIRQ] + times[CPUTIME_IRQ];
	stolen_ns = times[CPUTIME_STEAL];
	if (watch->at_ns) {
		passed_ns = now - watch->at_ns;
		if (watch->gap.gap)
			report_gap(watch, stolen_ns);
		else if (passed_ns < MIN_GAP_NS && stolen_ns - watch->stolen_ns >= MIN_STOLEN_NS &&
			 watch->before_ns)
			report_steal(watch, now, stolen_ns - watch->stolen_ns);
		if (passed_ns >= MIN_GAP_NS && (worked_ns - watch->worked_ns) * 2 < passed_ns)
			begin_gap(watch, now);
	}
	watch->before_ns = watch->at_ns;
	watch->at_ns = now;
	watch->worked_ns = worked_ns;
	watch->stolen_ns = stolen_ns;
	return 0;
}
