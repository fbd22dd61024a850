// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Memory: pages read into the page cache, pauses for dirty pages, direct reclaim. */
#include "spans.h"
#include "state.h"

/*
 * Pages of files that the target's own threads bring into the page cache. Within an operation they show how much of it
 * came from the device; outside of one, the thread accesses a mapped file, and if it then waits for the page, that is
 * an OP_MMAP_FAULT.
 */

static __always_inline bool is_same_file(struct op *op, __u64 inode, __u32 device)
{
	/* an overlay's pages are those of the file below it */
	return op->stacked || (op->file.inode == inode && op->file.device == device);
}

static __always_inline void count_pages(struct op *op, __u64 start, __u64 bytes)
{
	__u64 end = start + bytes, wanted_end = op->offset + op->count;
	__u64 from = start > op->offset ? start : op->offset;
	__u64 to = end < wanted_end ? end : wanted_end;
	__u64 wanted = to > from ? to - from : 0;

	op->disk_bytes += wanted;
	op->readahead_bytes += bytes - wanted;
}

/* The thread is in a fault on this file, as far as is known now. */
static __always_inline void note_fault(struct op *op, __u64 inode, __u32 device, __u64 offset)
{
	op->fault_ns = bpf_ktime_get_ns();
	op->fault_bytes = 0;
	op->fault_offset = offset;
	op->fault_inode = inode;
	op->fault_device = device;
}

SEC("tracepoint/filemap/mm_filemap_add_to_page_cache")
int page_added(void *ctx)
{
	__u64 id = current_ids(), inode = 0, index = 0, bytes;
	__u32 device = 0;
	__u8 order = 0;
	struct op *op;

	if (!is_target(id))
		return 0;
	op = own_op(id);
	/* most pages are added by writes, for which nothing is counted */
	if (!op || op->phase == PHASE_SOCKET || (op->phase == PHASE_INSIDE && !op->reads))
		return 0;
	READ_FIELD(inode, ctx, page_added.i_ino);
	READ_FIELD(device, ctx, page_added.s_dev);
	READ_FIELD(index, ctx, page_added.index);
	/* since 5.18; before that, one page at a time */
	if (fields.page_added.order.size)
		READ_FIELD(order, ctx, page_added.order);
	bytes = 1ULL << (settings.page_shift + (order & 15));
	index <<= settings.page_shift;
	if (op->phase == PHASE_INSIDE) {
		if (is_same_file(op, inode, device))
			count_pages(op, index, bytes);
		return 0;
	}
	if (!op->fault_ns || op->fault_inode != inode || op->fault_device != device)
		note_fault(op, inode, device, index);
	op->fault_bytes += bytes;
	return 0;
}

/* Shows which page the fault needs, and sees waits for a page that another thread reads; since 6.12. */
SEC("tracepoint/filemap/mm_filemap_fault")
int page_fault(void *ctx)
{
	__u64 id = current_ids(), inode = 0, index = 0;
	__u32 device = 0;
	struct op *op;

	if (!is_target(id))
		return 0;
	op = own_op(id);
	/* a fault on a buffer that a call reads or writes is part of the call */
	if (!op || op->phase == PHASE_INSIDE || op->phase == PHASE_SOCKET)
		return 0;
	READ_FIELD(inode, ctx, page_fault.i_ino);
	READ_FIELD(device, ctx, page_fault.s_dev);
	READ_FIELD(index, ctx, page_fault.index);
	note_fault(op, inode, device, index << settings.page_shift);
	return 0;
}

/* Pauses that the kernel imposes on the target's threads because too many pages are dirty. */

SEC("tracepoint/writeback/balance_dirty_pages")
int balance_dirty_pages(void *ctx)
{
	struct dirty_throttle_event event = { .kind = EVENT_DIRTY_THROTTLE };
	__u64 id = current_ids();
	__s64 pause_ms = 0;

	if (!is_target(id))
		return 0;
	/* zero or less: checked and not paused (mm/page-writeback.c) */
	READ_FIELD(pause_ms, ctx, balance_dirty_pages.pause);
	if (pause_ms <= 0)
		return 0;
	event.tid = visible_tid();
	event.start_ns = bpf_ktime_get_ns();
	event.pause_ms = pause_ms;
	READ_FIELD(event.dirty_pages, ctx, balance_dirty_pages.dirty);
	READ_FIELD(event.setpoint_pages, ctx, balance_dirty_pages.setpoint);
	emit(&event, sizeof(event));
	return 0;
}

/*
 * Direct reclaim on the target's threads, wherever they are: they had to free memory before they could allocate. Global
 * reclaim, because the host ran short, or for a memory cgroup that reached its limit. Does not see kswapd.
 */

/* Reclaim does not nest: allocations during reclaim come from reserves. */
static __always_inline int begin_reclaim(bool memcg)
{
	return is_target(current_ids()) ? span_enter(direct_reclaim, memcg) : 0;
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

/* Both events are of one class of tracepoints and have the same fields (include/trace/events/vmscan.h). */
SEC("tracepoint/vmscan/mm_vmscan_direct_reclaim_end")
int reclaim_end(void *ctx)
{
	struct reclaim_event event = { .kind = EVENT_RECLAIM };
	struct span_start start;

	if (!is_target(current_ids()) || !take_span(direct_reclaim, &start))
		return 0;
	event.tid = visible_tid();
	event.start_ns = start.ns;
	event.end_ns = bpf_ktime_get_ns();
	event.memcg = start.device;
	READ_FIELD(event.pages, ctx, reclaim_end.nr_reclaimed);
	bpf_get_current_comm(event.comm, sizeof(event.comm));
	emit(&event, sizeof(event));
	return 0;
}
