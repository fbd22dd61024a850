/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * When bios entered a device's queue, so that block_io.h can say how long a request waited for the driver. In that
 * time are: the plug of the thread that submits, the I/O scheduler, the wait for a free request (tag), limits that
 * count requests (iocost, iolatency, writeback throttling), a queue that is frozen, and for a write that must come
 * after a flush, that flush. Not in it is blk-throttle (io.max, blkio.throttle.*): it holds bios back before they
 * enter the queue (submit_bio_noacct, block/blk-core.c). A request counts from its first part; flushes without
 * data have none.
 */

struct queued_bio {
	__u64 since_ns;
	/* on the disk: also for a partition's bio, which is remapped before it enters */
	__u64 sector;
};

/*
 * By the bio's address. No tracepoint shows every bio's end, above all not of one that was merged into another's
 * request: what is done with goes by LRU. Should a bio that enters no queue (a clone's, a command's) have the
 * address of one that did, its sector is another.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, __u64);
	__type(value, struct queued_bio);
} queued SEC(".maps");

static __always_inline int remember_queued(struct bio *bio, __u64 since_ns)
{
	struct queued_bio value = { .since_ns = since_ns, .sector = BPF_CORE_READ(bio, bi_iter.bi_sector) };
	__u64 key = (__u64)bio;

	/* without room the request is reported without its queue time */
	bpf_map_update_elem(&queued, &key, &value, BPF_ANY);
	return 0;
}

/* 0 where its first part was not seen entering. */
static __always_inline __u64 queued_at(struct request *request)
{
	__u64 key = (__u64)BPF_CORE_READ(request, bio);
	struct queued_bio *first = bpf_map_lookup_elem(&queued, &key);

	return first && first->sector == BPF_CORE_READ(request, __sector) ? first->since_ns : 0;
}

/*
 * A bio too large for the device enters once and is cut there. The part cut off is a new bio; the rest, to which it
 * reports, goes on from another sector.
 */
static __always_inline int cut(struct bio *part)
{
	struct bio *rest = BPF_CORE_READ(part, bi_private);
	__u64 key = (__u64)rest;
	struct queued_bio *whole = bpf_map_lookup_elem(&queued, &key);

	if (!whole)
		return 0;
	remember_queued(part, whole->since_ns);
	whole->sector = BPF_CORE_READ(rest, bi_iter.bi_sector);
	return 0;
}

SEC("tp_btf/block_bio_queue")
int BPF_PROG(block_bio_queue, struct bio *bio)
{
	return remember_queued(bio, bpf_ktime_get_ns());
}

SEC("tp_btf/block_split")
int BPF_PROG(block_split, struct bio *part)
{
	return cut(part);
}

/* before 5.11 (e8a676d61c07, eb6f7f7cd3af) */
SEC("tp_btf/block_bio_queue")
int BPF_PROG(block_bio_queue_of_queue, struct request_queue *queue, struct bio *bio)
{
	return remember_queued(bio, bpf_ktime_get_ns());
}

SEC("tp_btf/block_split")
int BPF_PROG(block_split_of_queue, struct request_queue *queue, struct bio *part)
{
	return cut(part);
}
