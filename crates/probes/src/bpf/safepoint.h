/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Stops of all Java threads: safepoints as a whole (src/hotspot/share/services/runtimeService.cpp), the VM operation that
 * they were for (src/hotspot/share/runtime/vmThread.cpp) and collections within them (src/hotspot/share/gc/shared/
 * gcVMOperations.cpp). All of it happens in the VM's own thread, one after the other.
 */

struct safepoint {
	/* 0 between safepoints */
	__u64 start_ns;
	/* its first operation; 0 before */
	__u64 operation_ns;
	/* 0 outside of collections */
	__u64 collection_ns;
	/* collections may be parts of others: only the outermost is told */
	__u32 depth;
	__u32 full;
	__u32 operation_bytes;
	__u32 reserved;
	char operation[OPERATION_BYTES];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct safepoint);
} safepoints SEC(".maps");

static __always_inline struct safepoint *current_safepoint(void)
{
	__u32 zero = 0;

	return is_target(current_ids()) ? bpf_map_lookup_elem(&safepoints, &zero) : NULL;
}

static __always_inline void report_pause(const struct safepoint *safepoint, __u32 pause, __u64 start_ns)
{
	struct jvm_pause_event event = {
		.kind = JVM_PAUSE,
		.pause = pause,
		.start_ns = start_ns,
		.end_ns = bpf_ktime_get_ns(),
		.operation_ns = safepoint->operation_ns,
		.full = safepoint->full,
		.operation_bytes = safepoint->operation_bytes,
	};

	__builtin_memcpy(event.operation, safepoint->operation, sizeof(event.operation));
	emit(&event, sizeof(event));
}

SEC("usdt")
int safepoint_begin(struct pt_regs *ctx)
{
	struct safepoint *safepoint = current_safepoint();

	if (!safepoint)
		return 0;
	__builtin_memset(safepoint, 0, sizeof(*safepoint));
	safepoint->start_ns = bpf_ktime_get_ns();
	return 0;
}

/* Operations also run outside of safepoints; one may run others. */
SEC("usdt")
int operation_begin(struct pt_regs *ctx)
{
	struct safepoint *safepoint = current_safepoint();
	long name, bytes;

	if (!safepoint || !safepoint->start_ns || safepoint->operation_ns)
		return 0;
	safepoint->operation_ns = bpf_ktime_get_ns();
	if (!argument(ctx, 0, &name) || !argument(ctx, 1, &bytes) || !name || bytes <= 0)
		return 0;
	if (bytes > OPERATION_BYTES)
		bytes = OPERATION_BYTES;
	if (!bpf_probe_read_user(safepoint->operation, bytes, (const void *)name))
		safepoint->operation_bytes = bytes;
	return 0;
}

SEC("usdt")
int collection_begin(struct pt_regs *ctx)
{
	struct safepoint *safepoint = current_safepoint();
	long full = 0;

	if (!safepoint)
		return 0;
	argument(ctx, 0, &full);
	if (safepoint->depth++ == 0) {
		safepoint->collection_ns = bpf_ktime_get_ns();
		safepoint->full = 0;
	}
	safepoint->full |= !!full;
	return 0;
}

SEC("usdt")
int collection_end(struct pt_regs *ctx)
{
	struct safepoint *safepoint = current_safepoint();

	if (!safepoint || !safepoint->depth)
		return 0;
	if (--safepoint->depth == 0)
		report_pause(safepoint, JVM_COLLECTION, safepoint->collection_ns);
	return 0;
}

SEC("usdt")
int safepoint_end(struct pt_regs *ctx)
{
	struct safepoint *safepoint = current_safepoint();

	if (!safepoint || !safepoint->start_ns)
		return 0;
	report_pause(safepoint, JVM_SAFEPOINT, safepoint->start_ns);
	safepoint->start_ns = 0;
	safepoint->depth = 0;
	return 0;
}
