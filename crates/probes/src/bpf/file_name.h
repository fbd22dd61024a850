/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Operations on names: rename, unlink, truncate by path, open. The kernel's tracepoints give the paths as the
 * program wrote them, with the directories that relative ones start from; user space makes files of them. An
 * open that succeeded is reported by what it opened.
 */

/* A call on one or two paths begins. */
static __always_inline int begin_name(__u8 kind, __s32 dir, __u64 path, __s32 to_dir, __u64 to_path,
				      __u64 offset)
{
	struct op *op = own_op(current_ids());

	if (!op)
		return 0;
	reset_op(op, kind);
	op->named = 1;
	op->offset = offset;
	op->buffer = path;
	op->count = to_path;
	op->fd = dir;
	op->to_fd = to_dir;
	__builtin_memset(&op->file, 0, sizeof(op->file));
	op->phase = PHASE_INSIDE;
	op->start_ns = bpf_ktime_get_ns();
	return 0;
}

/* Sees to it that user space knows the directory that a relative path starts from. Uses the scratch room. */
static __always_inline void find_start(struct given_path *given, __u64 path, __s32 dir, __u64 now)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	struct dentry *dentry;
	char first = 0;

	__builtin_memset(given, 0, sizeof(*given));
	bpf_probe_read_user(&first, sizeof(first), (const void *)path);
	if (!path || first == '/')
		return;
	if (dir == AT_FDCWD)
		dentry = BPF_CORE_READ(task, fs, pwd.dentry);
	else
		dentry = BPF_CORE_READ(open_file(dir), f_path.dentry);
	identify(&given->dir, BPF_CORE_READ(dentry, d_inode));
	given->dir_path_ns = path_of(dentry, &given->dir, now);
}

/* Read when the call returns, because the kernel has just read it. Returns its bytes with the NUL. */
static __always_inline __u16 read_given(char *to, __u64 path)
{
	long bytes = path ? bpf_probe_read_user_str(to, GIVEN_BYTES, (const void *)path) : 0;

	if (path && bytes <= 0)
		count_lost(LOST_HEAD);
	return bytes > 0 ? bytes : 0;
}

/* The call returned, and no file is known for it but by its name. */
static __always_inline void send_names(struct op *op, __s64 result, __u64 now)
{
	struct given_path from, to;
	struct file_name_event *event;
	union scratch *room;
	__u64 first, second;

	find_start(&from, op->buffer, op->fd, now);
	find_start(&to, op->count, op->to_fd, now);
	room = scratch();
	if (!room)
		return;
	event = &room->file_name;
	describe(&event->op, op, result);
	event->op.end_ns = now;
	first = read_given(event->given, op->buffer);
	from.length = first;
	event->from = from;
	/* bounded right before they are used: see off_cpu.h */
	barrier_var(first);
	if (first > GIVEN_BYTES)
		return;
	second = read_given(event->given + first, op->count);
	to.length = second;
	event->to = to;
	first += second;
	barrier_var(first);
	if (first <= 2 * GIVEN_BYTES)
		emit(event, __builtin_offsetof(struct file_name_event, given) + first);
}

/* An open succeeded: only regular files are reported. */
static __always_inline void send_opened(struct op *op, __u32 fd, __u64 now)
{
	struct file *file = open_file(fd);
	struct inode *inode = BPF_CORE_READ(file, f_inode);
	struct file_op_event *event;
	union scratch *room;
	__u64 path_ns;

	if ((BPF_CORE_READ(inode, i_mode) & S_IFMT) != S_IFREG)
		return;
	identify(&op->file, inode);
	path_ns = path_of(BPF_CORE_READ(file, f_path.dentry), &op->file, now);
	room = scratch();
	if (!room)
		return;
	event = &room->file_write.op;
	describe(event, op, fd);
	event->end_ns = now;
	event->path_ns = path_ns;
	event->fd = fd;
	emit(event, sizeof(*event));
}

/* The call on a name returned. */
static __always_inline void end_name(struct op *op, __s64 result)
{
	__u64 now = bpf_ktime_get_ns();

	if (op->kind == OP_OPEN && result >= 0) {
		send_opened(op, result, now);
		return;
	}
	if (op->kind == OP_RENAME && !result)
		__sync_fetch_and_add(&renames, 1);
	send_names(op, result, now);
}
