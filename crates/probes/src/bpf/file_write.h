/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Writes to regular files by the target, from the entry of the system call to its return. Does not see
 * writes through mmap, splice, sendfile, copy_file_range or io_uring.
 *
 * Hooks: the classic tracepoints of these system calls alone. Any system-call tracepoint puts all threads
 * of the host on the entry path that traces (SYSCALL_WORK_SYSCALL_TRACEPOINT, kernel/tracepoint.c), which
 * then tests one bit per call (kernel/trace/trace_syscalls.c). The generic sys_enter/sys_exit tracepoints
 * would run a BPF program on top for every system call of every process; with these only callers of write
 * pay for one, which returns after comparing the process id.
 */

/* NULL where the number is no open file. A racing close makes reads fail or be of another file: harmless. */
static __always_inline struct file *open_file(__u32 fd)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	struct fdtable *table = BPF_CORE_READ(task, files, fdt);
	struct file **files = BPF_CORE_READ(table, fd);
	struct file *file = NULL;

	if (fd < BPF_CORE_READ(table, max_fds))
		bpf_probe_read_kernel(&file, sizeof(file), files + fd);
	return file;
}

/* The offset a write without one of its own goes to: only the entry still knows it. */
static __always_inline __u64 position(struct file *file, struct inode *inode)
{
	if (BPF_CORE_READ(file, f_flags) & O_APPEND)
		return BPF_CORE_READ(inode, i_size);
	return BPF_CORE_READ(file, f_pos);
}

/*
 * Not a regular file. An exit that was missed must not be completed by this call's; and a thread that writes
 * to a socket or wakes another one is done with its append.
 */
static __always_inline void forget_op(__u32 tid)
{
	struct op *op = last_op_of(tid);

	if (op)
		op->phase = PHASE_NONE;
}

/* `offset` is negative where the call names none. */
static __always_inline int begin_write(__u64 fd, __u64 buffer, __u64 count, bool vectored, __s64 offset)
{
	__u32 tid = bpf_get_current_pid_tgid();
	struct file *file = open_file(fd);
	struct inode *inode = BPF_CORE_READ(file, f_inode);
	union scratch *room = scratch();
	struct op *op;

	if (!room)
		return 0;
	/* sockets and pipes end here; a failed read leaves 0, which is no regular file either */
	if ((BPF_CORE_READ(inode, i_mode) & S_IFMT) != S_IFREG) {
		forget_op(tid);
		return 0;
	}
	op = &room->op;
	op->offset = offset < 0 ? position(file, inode) : offset;
	op->buffer = (const void *)buffer;
	op->count = count;
	op->vectored = vectored;
	op->fd = fd;
	op->dentry = BPF_CORE_READ(file, f_path.dentry);
	op->inode = BPF_CORE_READ(inode, i_ino);
	op->device = BPF_CORE_READ(inode, i_sb, s_dev);
	op->transaction = 0;
	op->has_handle = 0;
	op->preempted = 0;
	op->phase = PHASE_INSIDE;
	op->off_ns = 0;
	op->woken_ns = 0;
	op->frames = 0;
	op->start_ns = bpf_ktime_get_ns();
	if (bpf_map_update_elem(&ops, &tid, op, BPF_ANY))
		count_lost(LOST_MAP_FULL);
	return 0;
}

SEC("tracepoint/syscalls/sys_enter_write")
int write_enter(struct syscall_enter *ctx)
{
	if (!is_target(bpf_get_current_pid_tgid()))
		return 0;
	return begin_write(ctx->args[0], ctx->args[1], ctx->args[2], false, -1);
}

SEC("tracepoint/syscalls/sys_enter_pwrite64")
int pwrite_enter(struct syscall_enter *ctx)
{
	/* a negative offset is refused before anything is written */
	if (!is_target(bpf_get_current_pid_tgid()) || (__s64)ctx->args[3] < 0)
		return 0;
	return begin_write(ctx->args[0], ctx->args[1], ctx->args[2], false, ctx->args[3]);
}

SEC("tracepoint/syscalls/sys_enter_writev")
int writev_enter(struct syscall_enter *ctx)
{
	if (!is_target(bpf_get_current_pid_tgid()))
		return 0;
	return begin_write(ctx->args[0], ctx->args[1], ctx->args[2], true, -1);
}

/* pwritev and pwritev2, where -1 means the file's position; on 64 bits the low word holds it all */
SEC("tracepoint/syscalls/sys_enter_pwritev")
int pwritev_enter(struct syscall_enter *ctx)
{
	if (!is_target(bpf_get_current_pid_tgid()))
		return 0;
	return begin_write(ctx->args[0], ctx->args[1], ctx->args[2], true, ctx->args[3]);
}

/*
 * The last components of the file's path below its file system's root, the file's own name first. Read
 * when the call returns, so that the event needs no room in the map; the inode check holds off a dentry
 * that another thread's close let go of meanwhile.
 */
static __always_inline __u64 read_path(char *path, struct op *op)
{
	struct dentry *dentry = op->dentry;
	__u64 length = 0;

	if (BPF_CORE_READ(dentry, d_inode, i_ino) != op->inode)
		return 0;
#pragma unroll
	for (int i = 0; i < PATH_COMPONENTS; i++) {
		struct dentry *parent = BPF_CORE_READ(dentry, d_parent);
		const unsigned char *name = BPF_CORE_READ(dentry, d_name.name);
		long bytes;

		if (parent == dentry)
			break;
		bytes = bpf_probe_read_kernel_str(path + length, NAME_BYTES, name);
		if (bytes <= 0 || bytes > NAME_BYTES)
			break;
		length += bytes;
		dentry = parent;
	}
	return length;
}

/* Read when the call returns: the kernel has just read the buffer, so its pages are present. */
static __always_inline __u8 read_head(__u8 *head, struct op *op)
{
	struct iovec first = { op->buffer, op->count };
	__u64 bytes;

	if (op->vectored && bpf_probe_read_user(&first, sizeof(first), op->buffer)) {
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

static __always_inline void describe_write(struct file_write_event *event, struct op *op, __u32 tid)
{
	struct dentry *dentry = op->dentry;

	event->kind = EVENT_FILE_WRITE;
	event->tid = tid;
	event->start_ns = op->start_ns;
	event->offset = op->offset;
	event->inode = op->inode;
	event->device = op->device;
	event->fd = op->fd;
	event->transaction = op->transaction;
	event->has_handle = op->has_handle;
	bpf_get_current_comm(event->comm, sizeof(event->comm));
	event->fs[0] = 0;
	bpf_probe_read_kernel_str(event->fs, sizeof(event->fs),
				  BPF_CORE_READ(dentry, d_inode, i_sb, s_type, name));
}

SEC("tracepoint/syscalls/sys_exit_write")
int write_exit(struct syscall_exit *ctx)
{
	__u64 id = bpf_get_current_pid_tgid();
	__u32 tid = id;
	struct file_write_event *event;
	union scratch *room;
	struct op *op;
	__u64 path_bytes;

	if (!is_target(id))
		return 0;
	op = op_of(tid);
	room = scratch();
	if (!op || !room)
		return 0;
	event = &room->file_write;
	event->end_ns = bpf_ktime_get_ns();
	event->result = ctx->ret;
	describe_write(event, op, tid);
	event->head_len = ctx->ret > 0 ? read_head(event->head, op) : 0;
	path_bytes = read_path(event->path, op);
	event->path_len = path_bytes;
	if (path_bytes <= PATH_BYTES)
		emit(event, __builtin_offsetof(struct file_write_event, path) + path_bytes);
	op->off_ns = 0;
	op->phase = PHASE_AFTER;
	return 0;
}
