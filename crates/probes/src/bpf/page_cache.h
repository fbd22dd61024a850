/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Pages of files that the target's own threads bring into the page cache. Within an operation they say how
 * much of it came from the device; outside of one, the thread stores to or loads from a mapped file, and if it
 * then waits for the page, that is an OP_MMAP_FAULT.
 */

static __always_inline bool is_of(struct op *op, __u64 inode, __u32 device)
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

/* The thread is in a fault on this file, as far as it is known now. */
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
	/* most pages are added by writes, of which nothing is asked */
	if (!op || op->phase == PHASE_SOCKET || (op->phase == PHASE_INSIDE && !op->reads))
		return 0;
	READ_FIELD(inode, ctx, settings.at.page_added.ino);
	READ_FIELD(device, ctx, settings.at.page_added.dev);
	READ_FIELD(index, ctx, settings.at.page_added.index);
	/* since 5.18; before, a page at a time */
	if (settings.at.page_added.order.size)
		READ_FIELD(order, ctx, settings.at.page_added.order);
	bytes = 1ULL << (settings.page_shift + (order & 15));
	index <<= settings.page_shift;
	if (op->phase == PHASE_INSIDE) {
		if (is_of(op, inode, device))
			count_pages(op, index, bytes);
		return 0;
	}
	if (!op->fault_ns || op->fault_inode != inode || op->fault_device != device)
		note_fault(op, inode, device, index);
	op->fault_bytes += bytes;
	return 0;
}

/* Says which page was wanted, and sees waits for a page that another thread is reading; since 6.12. */
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
	READ_FIELD(inode, ctx, settings.at.page_fault.ino);
	READ_FIELD(device, ctx, settings.at.page_fault.dev);
	READ_FIELD(index, ctx, settings.at.page_fault.index);
	note_fault(op, inode, device, index << settings.page_shift);
	return 0;
}
