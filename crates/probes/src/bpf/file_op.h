/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Operations on files by the target, from the entry of the system call to its return. Does not see
 * io_uring, and of mapped files only their syncs. Knows no hook: file_call.h does.
 */

/* The offset of a call that names none. */
#define AT_POSITION (-1LL)

/* What a call asks of the file behind a descriptor, as its arguments say. */
struct asked {
	__u8 op;
	/* buffer is an array of iovecs */
	__u8 vectored;
	/* it takes bytes from the file */
	__u8 reads;
	__u32 fd;
	__u64 buffer;
	__u64 count;
	__s64 offset;
};

/* The offset an operation without one of its own is at: only the entry still knows it. */
static __always_inline __u64 position(struct file *file, struct inode *inode, __u8 op)
{
	if (op == OP_WRITE && DIRECT(file, f_flags) & O_APPEND)
		return DIRECT(inode, i_size);
	return DIRECT(file, f_pos);
}

static __always_inline bool moves_bytes(__u8 op)
{
	return op >= OP_WRITE && op <= OP_COPY;
}

/* Directories are synced like files, and a broker does so after it made or renamed one. */
static __always_inline bool is_followed_type(__u16 mode, __u8 op)
{
	if ((mode & S_IFMT) == S_IFREG)
		return true;
	return (mode & S_IFMT) == S_IFDIR && (op == OP_FSYNC || op == OP_FDATASYNC);
}

static __always_inline void watch_pages(struct op *op, struct file *file)
{
	op->reads = 1;
	op->direct = !!(DIRECT(file, f_flags) & O_DIRECT);
}

/* The call on a regular file begins; NULL where it cannot be followed. */
static __always_inline struct op *begin_file(__u32 tid, struct file *file, struct inode *inode,
					     const struct asked *asked)
{
	struct op *op = own_op(tid);
	struct super_block *super;

	if (!op)
		return NULL;
	reset_op(op, asked->op);
	op->offset = asked->offset;
	if (moves_bytes(asked->op) && asked->offset < 0)
		op->offset = position(file, inode, asked->op);
	op->buffer = asked->buffer;
	op->count = asked->count;
	op->vectored = asked->vectored;
	op->fd = asked->fd;
	op->dentry = BPF_CORE_READ(file, f_path.dentry);
	identify(&op->file, inode);
	super = DIRECT(inode, i_sb);
	op->stacked = DIRECT(super, s_magic) == OVERLAYFS_SUPER_MAGIC;
	if (asked->reads)
		watch_pages(op, file);
	op->phase = PHASE_INSIDE;
	op->start_ns = bpf_ktime_get_ns();
	return op;
}

/* Any call on a descriptor. */
static __always_inline int begin(const struct asked *asked)
{
	__u32 tid = current_ids();
	struct file *file = open_file(asked->fd);
	struct inode *inode = DIRECT(file, f_inode);
	__u16 mode = DIRECT(inode, i_mode);

	/* pipes and the like end here; a failed read leaves 0, which is no type */
	if (is_followed_type(mode, asked->op))
		begin_file(tid, file, inode, asked);
	else if ((mode & S_IFMT) == S_IFSOCK)
		begin_socket(tid, file, asked->op, asked->fd, asked->count);
	else
		forget_op(tid);
	return 0;
}

/* A call that takes bytes from one descriptor to another: from a file, or with splice to one. */
static __always_inline int begin_transfer(__u8 kind, __u32 from_fd, __s64 from, __u32 to_fd, __s64 to,
					  __u64 count)
{
	struct asked asked = { .op = kind, .reads = true, .fd = from_fd, .count = count, .offset = from };
	__u32 tid = current_ids();
	struct file *file = open_file(from_fd);
	struct inode *inode = DIRECT(file, f_inode);
	struct op *op;

	if (is_followed_type(DIRECT(inode, i_mode), kind)) {
		op = begin_file(tid, file, inode, &asked);
		if (op)
			begin_socket_side(op, to_fd);
		return 0;
	}
	asked.reads = false;
	asked.fd = to_fd;
	asked.offset = to;
	return begin(&asked);
}

/* Read when the call returns: the kernel has just read the buffer, so its pages are present. */
static __always_inline __u8 read_head(__u8 *head, struct op *op)
{
	struct iovec first = { (const void *)op->buffer, op->count };
	__u64 bytes;

	if (op->vectored && bpf_probe_read_user(&first, sizeof(first), (const void *)op->buffer)) {
		count_lost(LOST_HEAD);
		return 0;
	}
	bytes = first.iov_len;
	if (bytes > HEAD_BYTES)
		bytes = HEAD_BYTES;
	if (bytes && bpf_probe_read_user(head, bytes, first.iov_base)) {
		count_lost(LOST_HEAD);
		return 0;
	}
	return bytes;
}

static __always_inline void describe(struct file_op_event *event, struct op *op, __s64 result)
{
	event->kind = EVENT_FILE_OP;
	event->tid = shown_current();
	event->pid = shown_current_process();
	event->start_ns = op->start_ns;
	event->result = result;
	event->offset = op->offset;
	event->file = op->file;
	event->path_ns = 0;
	event->disk_bytes = op->disk_bytes;
	event->readahead_bytes = op->readahead_bytes;
	event->fd = op->fd;
	event->transaction = op->transaction;
	event->op = op->kind;
	event->has_handle = op->has_handle;
	event->head_len = 0;
	event->reads_pages = op->reads && (op->direct || settings.at.page_added.ino.size);
	if (op->direct)
		event->disk_bytes = result > 0 ? result : 0;
	bpf_get_current_comm(event->comm, sizeof(event->comm));
}

static __always_inline void send_write(struct op *op, __s64 result, __u64 now, __u64 path_ns)
{
	struct file_write_event *event = reserve(sizeof(*event));

	if (!event)
		return;
	describe(&event->op, op, result);
	event->op.end_ns = now;
	event->op.path_ns = path_ns;
	/* what is not head is of records that were read before */
	event->op.head_len = result > 0 ? read_head(event->head, op) : 0;
	submit(event);
}

static __always_inline void send_other(struct op *op, __s64 result, __u64 now, __u64 path_ns)
{
	struct file_op_event *event = reserve(sizeof(*event));

	if (!event)
		return;
	describe(event, op, result);
	event->end_ns = now;
	event->path_ns = path_ns;
	submit(event);
}

/* The call on a file returned. */
static __always_inline void end_file(struct op *op, __s64 result)
{
	__u64 now = bpf_ktime_get_ns();
	__u64 path_ns = path_of(op->dentry, &op->file, now);

	if (op->kind == OP_WRITE)
		send_write(op, result, now, path_ns);
	else
		send_other(op, result, now, path_ns);
}
