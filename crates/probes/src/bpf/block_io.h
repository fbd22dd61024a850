/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Requests to block devices, from the driver's start to completion: of all processes, because the kernel's
 * workers write most of a broker's data. Devices without a request queue of their own (dm, md) show up as
 * the devices below them. Does not know files.
 */

struct block_key {
	__u32 device;
	/* a flush without data may be under way beside a request at the same sector, which is then 0 */
	__u32 has_data;
	__u64 sector;
};

struct block_request {
	__u64 start_ns;
	__u64 sector;
	__u32 sectors_left;
	__u32 bytes;
	__u32 tid;
	__u32 reserved;
	char comm[TASK_COMM_LEN];
	char rwbs[RWBS_BYTES];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct block_key);
	__type(value, struct block_request);
} requests SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 256);
	__type(key, __u32);
	__type(value, __u8);
} devices SEC(".maps");

static __always_inline void follow(struct block_key *key, struct block_request *request)
{
	if (bpf_map_update_elem(&requests, key, request, BPF_ANY))
		count_lost(LOST_MAP_FULL);
}

SEC("tracepoint/block/block_rq_issue")
int rq_issue(void *ctx)
{
	struct block_request request = {};
	struct block_key key = {};

	READ_FIELD(key.device, ctx, settings.at.rq_issue.dev);
	if (settings.only_devices && !bpf_map_lookup_elem(&devices, &key.device))
		return 0;
	READ_FIELD(key.sector, ctx, settings.at.rq_issue.sector);
	READ_FIELD(request.sectors_left, ctx, settings.at.rq_issue.nr_sector);
	READ_FIELD(request.bytes, ctx, settings.at.rq_issue.bytes);
	/* 8 or 10 bytes, depending on the kernel */
	bpf_probe_read_kernel(request.rwbs, settings.at.rq_issue.rwbs.size & (RWBS_BYTES - 1),
			      ctx + settings.at.rq_issue.rwbs.offset);
	key.has_data = request.sectors_left != 0;
	request.sector = key.sector;
	request.tid = bpf_get_current_pid_tgid();
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
	bpf_map_delete_elem(&requests, key);
	follow(&next, &rest);
}

static __always_inline int complete(struct block_key *key, __u32 done)
{
	struct block_io_event event = { .kind = EVENT_BLOCK_IO };
	struct block_request *request;

	/* a flush has no sector; the issue's tracepoint shows it as 0 (blk_rq_trace_sector) */
	if (key->sector == ~0ULL)
		key->sector = 0;
	key->has_data = done != 0;
	request = bpf_map_lookup_elem(&requests, key);
	if (!request)
		return 0;
	if (done < request->sectors_left) {
		follow_rest(key, request, done);
		return 0;
	}
	event.device = key->device;
	event.start_ns = request->start_ns;
	event.end_ns = bpf_ktime_get_ns();
	event.sector = request->sector;
	event.bytes = request->bytes;
	event.tid = request->tid;
	__builtin_memcpy(event.comm, request->comm, sizeof(event.comm));
	__builtin_memcpy(event.rwbs, request->rwbs, sizeof(event.rwbs));
	emit(&event, sizeof(event));
	bpf_map_delete_elem(&requests, key);
	return 0;
}

/*
 * Completions come in interrupts. A program on a classic tracepoint is skipped where the interrupt hit
 * another such program on that CPU (bpf_prog_active in trace_call_bpf, kernel/trace/bpf_trace.c), which
 * loses some completions in a thousand under load; programs on BTF tracepoints guard only against
 * themselves. So this one is preferred, and the classic one below is for kernels without BTF.
 */
static __always_inline struct gendisk *disk_of(struct request *request)
{
	struct request___with_disk *old = (void *)request;

	if (bpf_core_field_exists(old->rq_disk))
		return BPF_CORE_READ(old, rq_disk);
	return BPF_CORE_READ(request, q, disk);
}

SEC("tp_btf/block_rq_complete")
int BPF_PROG(block_rq_complete, struct request *request, int error, unsigned int bytes)
{
	struct gendisk *disk = disk_of(request);
	struct block_key key = {};

	key.device = (__u32)BPF_CORE_READ(disk, major) << MINOR_BITS | BPF_CORE_READ(disk, first_minor);
	key.sector = BPF_CORE_READ(request, __sector);
	return complete(&key, bytes >> 9);
}

SEC("tracepoint/block/block_rq_complete")
int rq_complete(void *ctx)
{
	struct block_key key = {};
	__u32 done = 0;

	READ_FIELD(key.device, ctx, settings.at.rq_complete.dev);
	READ_FIELD(key.sector, ctx, settings.at.rq_complete.sector);
	READ_FIELD(done, ctx, settings.at.rq_complete.nr_sector);
	return complete(&key, done);
}
