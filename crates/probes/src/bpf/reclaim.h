/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Direct reclaim on the target's threads, wherever they are: they had to free memory before they could have
 * some. Global, because the host ran short, or for a memory cgroup that reached its limit. Does not see kswapd.
 */

struct reclaim {
	__u64 start_ns;
	__u32 memcg;
	__u32 reserved;
};

/* Keyed by tid. A thread reclaims once at a time: what it allocates meanwhile comes from reserves. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, struct reclaim);
} reclaims SEC(".maps");

static __always_inline int begin_reclaim(bool memcg)
{
	__u64 id = current_ids();
	struct reclaim reclaim = { .memcg = memcg };
	__u32 tid = id;

	if (!is_target(id))
		return 0;
	reclaim.start_ns = bpf_ktime_get_ns();
	if (bpf_map_update_elem(&reclaims, &tid, &reclaim, BPF_ANY))
		count_lost(LOST_MAP_FULL);
	return 0;
}

SEC("tracepoint/vmscan/mm_vmscan_direct_reclaim_begin")
int reclaim_begin(void *ctx)
{
	return begin_reclaim(false);
}

SEC("tracepoint/vmscan/mm_vmscan_memcg_reclaim_begin")
int memcg_reclaim_begin(void *ctx)
{
	return begin_reclaim(true);
}

/* Both ends are of one class of tracepoints and have the same fields (include/trace/events/vmscan.h). */
SEC("tracepoint/vmscan/mm_vmscan_direct_reclaim_end")
int reclaim_end(void *ctx)
{
	struct reclaim_event event = { .kind = EVENT_RECLAIM };
	__u64 id = current_ids();
	struct reclaim *reclaim;
	__u32 tid = id;

	if (!is_target(id))
		return 0;
	reclaim = bpf_map_lookup_elem(&reclaims, &tid);
	if (!reclaim)
		return 0;
	event.tid = shown_current();
	event.start_ns = reclaim->start_ns;
	event.end_ns = bpf_ktime_get_ns();
	event.memcg = reclaim->memcg;
	READ_FIELD(event.pages, ctx, settings.at.reclaim_end.nr_reclaimed);
	bpf_get_current_comm(event.comm, sizeof(event.comm));
	bpf_map_delete_elem(&reclaims, &tid);
	emit(&event, sizeof(event));
	return 0;
}
