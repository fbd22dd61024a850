/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Whether a thread that leaves the CPU waits for a page of a mapped file, and the OP_MMAP_FAULT when it has
 * waited: from the fault's entry into the page cache (before 6.12: from the first page it added) to the CPU.
 * page_cache.h knows the file; off_cpu.h the scheduler.
 */

/* Deepest that filemap_fault is above __schedule. */
#define FAULT_FRAMES 16

/*
 * Waits for a page that is being read are killable and for I/O (__folio_lock_killable, mm/filemap.c), other than
 * those for a file system's metadata and for a free request, which may come before it.
 */
static __always_inline bool waits_for_page(struct op *op, struct task_struct *task)
{
	long killable = TASK_WAKEKILL | TASK_UNINTERRUPTIBLE;

	if (!op->fault_ns || !BPF_CORE_READ_BITFIELD_PROBED(task, in_iowait))
		return false;
	return (state_of(task) & killable) == killable;
}

/*
 * The stack proves it: a thread may have gone on after a fault that had its page in memory. Where stacks or
 * names are not to be had, pages that were added must do.
 */
static __always_inline bool left_in_fault(struct op *op)
{
	if (!settings.filemap_fault_end)
		return op->fault_bytes;
	for (__u32 i = 0; i < FAULT_FRAMES; i++)
		if (op->stack[i] - settings.filemap_fault <
		    settings.filemap_fault_end - settings.filemap_fault)
			return i < op->frames;
	return false;
}

/* The thread is back on the CPU after such a wait. Uses the scratch room of the CPU. */
static __always_inline void send_fault(struct op *op, struct task_struct *task, __u64 now)
{
	union scratch *room = cpu_scratch();
	struct file_op_event *event;
	__u64 page = 1ULL << settings.page_shift;

	if (!room)
		return;
	event = &room->file_write.op;
	__builtin_memset(event, 0, sizeof(*event));
	event->kind = EVENT_FILE_OP;
	event->tid = shown_thread(task);
	event->pid = shown_process(task);
	event->start_ns = op->fault_ns;
	event->end_ns = now;
	event->result = page;
	event->offset = op->fault_offset;
	event->file.inode = op->fault_inode;
	event->file.device = op->fault_device;
	event->fd = -1;
	event->op = OP_MMAP_FAULT;
	/* a page that another thread was reading is from the device as well */
	event->disk_bytes = page;
	event->readahead_bytes = op->fault_bytes > page ? op->fault_bytes - page : 0;
	event->reads_pages = 1;
	bpf_probe_read_kernel_str(event->comm, sizeof(event->comm), task->comm);
	emit(event, sizeof(*event));
}
