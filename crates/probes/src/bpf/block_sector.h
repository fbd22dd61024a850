/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Requests to block devices where the kernel has no BTF: by classic tracepoints, which show a request's sector and
 * not the request. Knows neither files nor how long requests waited.
 */

struct block_key {
	__u32 device;
	/* a flush without data may be under way beside a request at the same sector, which is then 0 */
	__u32 has_data;
	__u64 sector;
};

/* User space makes the map small where block_io.h is used instead. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct block_key);
	__type(value, struct block_request);
} requests_at SEC(".maps");

static __always_inline void follow(struct block_key *key, struct block_request *request)
{
	if (bpf_map_update_elem(&requests_at, key, request, BPF_ANY))
		count_lost(LOST_MAP_FULL);
}

SEC("tracepoint/block/block_rq_issue")
int rq_issue(void *ctx)
{
	struct block_request request = { .op = BLOCK_OP_IN_RWBS };
	struct block_key key = {};

	READ_FIELD(key.device, ctx, settings.at.rq_issue.dev);
	if (!is_followed_device(key.device))
		return 0;
	READ_FIELD(key.sector, ctx, settings.at.rq_issue.sector);
	READ_FIELD(request.sectors_left, ctx, settings.at.rq_issue.nr_sector);
	READ_FIELD(request.bytes, ctx, settings.at.rq_issue.bytes);
	/* 8 or 10 bytes, depending on the kernel */
	bpf_probe_read_kernel(request.rwbs, settings.at.rq_issue.rwbs.size & (RWBS_BYTES - 1),
			      ctx + settings.at.rq_issue.rwbs.offset);
	key.has_data = request.sectors_left != 0;
	request.device = key.device;
	request.sector = key.sector;
	request.tid = shown_current();
	bpf_get_current_comm(request.comm, sizeof(request.comm));
	request.start_ns = bpf_ktime_get_ns();
	follow(&key, &request);
	return 0;
}

/* Some drivers complete a request piece by piece: the rest goes on under the sector it then starts at. */
static __always_inline void follow_rest(struct block_key *key, struct block_request *request, __u32 done)
{
	struct block_request rest = *request;
	struct block_key next = *key;

	next.sector += done;
	rest.sectors_left -= done;
	bpf_map_delete_elem(&requests_at, key);
	follow(&next, &rest);
}

SEC("tracepoint/block/block_rq_complete")
int rq_complete(void *ctx)
{
	struct block_request *request;
	struct block_key key = {};
	__u32 done = 0;

	READ_FIELD(key.device, ctx, settings.at.rq_complete.dev);
	READ_FIELD(key.sector, ctx, settings.at.rq_complete.sector);
	READ_FIELD(done, ctx, settings.at.rq_complete.nr_sector);
	/* a flush has no sector; the issue's tracepoint shows it as 0 (blk_rq_trace_sector) */
	if (key.sector == ~0ULL)
		key.sector = 0;
	key.has_data = done != 0;
	request = bpf_map_lookup_elem(&requests_at, &key);
	if (!request)
		return 0;
	if (done < request->sectors_left) {
		follow_rest(&key, request, done);
		return 0;
	}
	report(request);
	bpf_map_delete_elem(&requests_at, &key);
	return 0;
}
