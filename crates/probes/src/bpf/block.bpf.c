// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Requests to block devices, and how long they waited in the device's queue. */
#include "state.h"

/*
 * When bios entered a device's queue, which shows how long a request waited for the driver. That time includes the plug
 * of the submitting thread, the I/O scheduler, the wait for a free request (tag), limits that count requests (iocost,
 * iolatency, writeback throttling), a frozen queue, and for a write that must follow a flush, that flush. It excludes
 * blk-throttle (io.max, blkio.throttle.*), which holds bios back before they enter the queue (submit_bio_noacct,
 * block/blk-core.c). A request counts from its first part; flushes without data have none.
 */

struct queued_bio {
	__u64 since_ns;
	/* on the disk, even for a partition's bio, which is remapped before it enters */
	__u64 sector;
};

/*
 * By the bio's address. No tracepoint shows every bio's end, notably that of a bio merged into another's request: LRU
 * evicts finished ones. If a bio that enters no queue (a clone's, a command's) reuses the address of one that did, its
 * sector differs.
 */
BPF_MAP(queued, LRU_HASH, __u64, struct queued_bio, 16384);

static __always_inline int remember_queued(struct bio *bio, __u64 since_ns)
{
	struct queued_bio value = { .since_ns = since_ns, .sector = BPF_CORE_READ(bio, bi_iter.bi_sector) };
	__u64 key = (__u64)bio;

	/* without room the request is reported without its queue time */
	bpf_map_update_elem(&queued, &key, &value, BPF_ANY);
	return 0;
}

/* Returns 0 if its first part was not seen entering. */
static __always_inline __u64 queued_at(struct request *request)
{
	__u64 key = (__u64)BPF_CORE_READ(request, bio);
	struct queued_bio *first = bpf_map_lookup_elem(&queued, &key);

	return first && first->sector == BPF_CORE_READ(request, __sector) ? first->since_ns : 0;
}

/*
 * A bio too large for the device enters once and is split there. The part split off is a new bio; the rest, to which it
 * reports, continues from another sector.
 */
static __always_inline int split_bio(struct bio *part)
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
	return split_bio(part);
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
	return split_bio(part);
}

/*
 * Requests to block devices, from the driver's start to completion, of all processes, because kernel workers write most
 * of a broker's data. Devices without a request queue (dm, md) appear as the devices below them. The file is the one
 * that the request's first page belongs to; the wait before the driver is known from the request's bio. For kernels
 * without BTF see requests_at.
 */

struct block_request {
	/* complete but for the end time */
	struct block_io_event event;
	/* used if the kernel has no BTF */
	__u32 sectors_left;
	__u32 reserved;
};

BPF_MAP(devices, HASH, __u32, __u8, 256);

/*
 * By the request's address: a device has a fixed set of requests (its tags), each in flight once. User space shrinks
 * the map if requests_at is used instead.
 */
BPF_MAP(requests, HASH, __u64, struct block_request, 16384);

static __always_inline bool is_followed_device(__u32 device)
{
	return !settings.only_devices || bpf_map_lookup_elem(&devices, &device);
}

static __always_inline struct gendisk *disk_of(struct request *request)
{
	struct request___with_disk *old = (void *)request;

	if (bpf_core_field_exists(old->rq_disk))
		return BPF_CORE_READ(old, rq_disk);
	return BPF_CORE_READ(request, q, disk);
}

static __always_inline __u32 device_of(struct request *request)
{
	struct gendisk *disk = disk_of(request);

	return (__u32)BPF_CORE_READ(disk, major) << MINOR_BITS | BPF_CORE_READ(disk, first_minor);
}

/*
 * A part of a large folio has its head's address instead of these fields; from 7.1 on perhaps a mask that yields the
 * head from the part's own address (compound_info_has_mask, include/linux/page-flags.h). A mask ends in a run of zeros
 * below ones, so its negative is a power of two, which no address of a page is.
 */
static __always_inline void *head_of(struct page *page)
{
	struct page___since_7_1 *renamed = (void *)page;
	__u64 info, size;

	if (!bpf_core_field_exists(renamed->compound_info)) {
		info = BPF_CORE_READ(page, compound_head);
		return info & 1 ? (void *)(info - 1) : page;
	}
	info = BPF_CORE_READ(renamed, compound_info);
	if (!(info & 1))
		return page;
	size = -(info & ~1ULL);
	return size & (size - 1) ? (void *)(info - 1) : (void *)((__u64)page & info);
}

/* The page's mapping in the page cache; the low bits of other pages' mappings mark them as not in it. */
static __always_inline struct address_space *mapping_of(struct page *page)
{
	struct folio *folio = head_of(page);
	struct page *old = (void *)folio;
	struct address_space *mapping;

	/* struct folio exists since 5.16; struct page then lost the field */
	if (bpf_core_field_exists(folio->mapping))
		mapping = BPF_CORE_READ(folio, mapping);
	else
		mapping = BPF_CORE_READ(old, mapping);
	return (__u64)mapping & 3 ? NULL : mapping;
}

/*
 * Finds the file whose page the request's first part holds. All parts of a bio from the page cache belong to one file.
 * Journals and other metadata are in the block device's own pages, direct I/O in the process's: neither is a regular
 * file.
 */
static __always_inline void find_file(struct block_io_event *found, struct request *request)
{
	struct bio *bio = BPF_CORE_READ(request, bio);
	struct bio_vec *parts = BPF_CORE_READ(bio, bi_io_vec);
	struct page *page = NULL;
	struct inode *inode;

	/* a flush has no bio, a discard no pages */
	if (!parts)
		return;
	parts += BPF_CORE_READ(bio, bi_iter.bi_idx);
	bpf_probe_read_kernel(&page, sizeof(page), &parts->bv_page);
	inode = BPF_CORE_READ(mapping_of(page), host);
	if ((BPF_CORE_READ(inode, i_mode) & S_IFMT) != S_IFREG)
		return;
	identify(&found->file, inode);
}

#define REQUEST_FLAG(flags, name, ours)                                                                      \
	((flags) >> bpf_core_enum_value(enum req_flag_bits, name) & 1 ? (ours) : 0)

static __always_inline __u16 flags_of(__u32 flags)
{
	return REQUEST_FLAG(flags, __REQ_PREFLUSH, BLOCK_PREFLUSH) |
	       REQUEST_FLAG(flags, __REQ_FUA, BLOCK_FUA) | REQUEST_FLAG(flags, __REQ_RAHEAD, BLOCK_AHEAD) |
	       REQUEST_FLAG(flags, __REQ_SYNC, BLOCK_SYNC) | REQUEST_FLAG(flags, __REQ_META, BLOCK_META);
}

/* Runs in the thread that hands the request to the driver. */
static __always_inline void begin_event(struct block_io_event *event, __u32 device)
{
	event->kind = EVENT_BLOCK_IO;
	event->device = device;
	event->tid = visible_tid();
	bpf_get_current_comm(event->comm, sizeof(event->comm));
}

static __always_inline int issue(struct request *request)
{
	struct block_request started = {};
	struct block_io_event *event = &started.event;
	__u64 key = (__u64)request;
	__u32 flags, device = device_of(request);

	if (!is_followed_device(device))
		return 0;
	begin_event(event, device);
	flags = BPF_CORE_READ(request, cmd_flags);
	event->op = flags & REQ_OP_MASK;
	event->flags = flags_of(flags);
	event->sector = BPF_CORE_READ(request, __sector);
	/* a flush has no sector (blk_rq_trace_sector) */
	if (event->sector == ~0ULL)
		event->sector = 0;
	event->bytes = BPF_CORE_READ(request, __data_len);
	event->queued_ns = queued_at(request);
	if (event->op == REQ_OP_READ || event->op == REQ_OP_WRITE)
		find_file(event, request);
	event->start_ns = bpf_ktime_get_ns();
	if (bpf_map_update_elem(&requests, &key, &started, BPF_ANY))
		count_lost(LOST_MAP_FULL);
	return 0;
}

static __always_inline void report(struct block_request *request)
{
	request->event.end_ns = bpf_ktime_get_ns();
	emit(&request->event, sizeof(request->event));
}

/* A request that the driver returns and that is issued again starts again: the device has it from then on. */
SEC("tp_btf/block_rq_issue")
int BPF_PROG(block_rq_issue, struct request *request)
{
	return issue(request);
}

/* before 5.11 (a54895fa057c) */
SEC("tp_btf/block_rq_issue")
int BPF_PROG(block_rq_issue_of_queue, struct request_queue *queue, struct request *request)
{
	return issue(request);
}

/*
 * Completions come in interrupts. A program on a classic tracepoint is skipped if the interrupt hits another such
 * program on that CPU (bpf_prog_active in trace_call_bpf, kernel/trace/bpf_trace.c), which loses some completions in a
 * thousand under load; programs on BTF tracepoints guard only against themselves. Some drivers complete a request piece
 * by piece: it ends with the last piece.
 */
SEC("tp_btf/block_rq_complete")
int BPF_PROG(block_rq_complete, struct request *request, int error, unsigned int bytes)
{
	__u64 key = (__u64)request;
	struct block_request *started = bpf_map_lookup_elem(&requests, &key);

	if (!started || bytes < BPF_CORE_READ(request, __data_len))
		return 0;
	report(started);
	bpf_map_delete_elem(&requests, &key);
	return 0;
}

/*
 * Requests to block devices on kernels without BTF, from classic tracepoints, which show a request's sector but not the
 * request. Knows neither files nor how long requests waited.
 */

struct block_key {
	__u32 device;
	/* a flush without data may be in flight together with a request at its sector, 0 */
	__u32 has_data;
	__u64 sector;
};

/* User space shrinks the map if requests is used instead. */
BPF_MAP(requests_at, HASH, struct block_key, struct block_request, 16384);

static __always_inline void follow(struct block_key *key, struct block_request *request)
{
	if (bpf_map_update_elem(&requests_at, key, request, BPF_ANY))
		count_lost(LOST_MAP_FULL);
}

SEC("tracepoint/block/block_rq_issue")
int rq_issue(void *ctx)
{
	struct block_request request = {};
	struct block_io_event *event = &request.event;
	struct block_key key = {};

	READ_FIELD(key.device, ctx, rq_issue.dev);
	if (!is_followed_device(key.device))
		return 0;
	READ_FIELD(key.sector, ctx, rq_issue.sector);
	READ_FIELD(request.sectors_left, ctx, rq_issue.nr_sector);
	READ_FIELD(event->bytes, ctx, rq_issue.bytes);
	/* 8 or 10 bytes, depending on the kernel */
	bpf_probe_read_kernel(event->rwbs, fields.rq_issue.rwbs.size & (RWBS_BYTES - 1),
			      ctx + fields.rq_issue.rwbs.offset);
	key.has_data = request.sectors_left != 0;
	begin_event(event, key.device);
	event->op = BLOCK_OP_IN_RWBS;
	event->sector = key.sector;
	event->start_ns = bpf_ktime_get_ns();
	follow(&key, &request);
	return 0;
}

/* Some drivers complete a request piece by piece: the rest continues under the sector it then starts at. */
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

	READ_FIELD(key.device, ctx, rq_complete.dev);
	READ_FIELD(key.sector, ctx, rq_complete.sector);
	READ_FIELD(done, ctx, rq_complete.nr_sector);
	/* a flush has no sector; the issue tracepoint shows it as 0 (blk_rq_trace_sector) */
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
