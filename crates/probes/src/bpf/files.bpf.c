// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Operations on files: their paths, calls on descriptors, calls on names, syncs of mapped files. Contains no programs:
 * those of the system calls are in calls.bpf.c.
 */
#pragma once
#include "off_cpu.h"
#include "state.h"

/*
 * Where files are. A path is sent once and remembered by user space, because it is longer than everything else about an
 * operation. It is sent again after any rename by the target, which may have moved the file or a directory above it,
 * and after a second, for renames by others. An operation refers to a path by the time at which it was read, so one
 * whose path was lost is reported without a name instead of with an old one.
 */

/* How long a path stays valid without being read again. */
#define PATH_FRESH_NS 1000000000ULL

struct known_path {
	__u64 path_ns;
	/* `renames` before the path was read */
	__u32 renames;
	__u32 reserved;
};

/* The files in use. A file that is evicted is sent again. */
BPF_MAP(known_paths, LRU_HASH, struct file_key, struct known_path, 16384);

/* Renames by the target that succeeded. */
__u32 renames;

/* Reads the names from the file up to its file system's root; returns their bytes. */
static __always_inline __u64 read_names(struct file_path_event *event, struct dentry *dentry)
{
	__u64 length = 0;

	event->whole = 0;
#pragma unroll
	for (int i = 0; i < PATH_COMPONENTS; i++) {
		struct dentry *parent = BPF_CORE_READ(dentry, d_parent);
		const unsigned char *name = BPF_CORE_READ(dentry, d_name.name);
		long bytes;

		if (parent == dentry) {
			event->whole = 1;
			break;
		}
		bytes = bpf_probe_read_kernel_str(event->path + length, NAME_BYTES, name);
		if (bytes <= 0 || bytes > NAME_BYTES)
			break;
		/* 1 to NAME_BYTES, stated so that the verifier of 6.1 sees it in whichever copy the compiler uses */
		barrier_var(bytes);
		length += ((bytes - 1) & (NAME_BYTES - 1)) + 1;
		dentry = parent;
	}
	return length;
}

/* Returns false if there was no room for it. */
static __always_inline bool send_path(struct dentry *dentry, struct file_key *file, __u64 now)
{
	union scratch *buffer = scratch();
	struct file_path_event *event;
	__u64 bytes;

	if (!buffer)
		return false;
	event = &buffer->file_path;
	event->kind = EVENT_FILE_PATH;
	event->reserved = 0;
	event->file = *file;
	event->path_ns = now;
	__builtin_memset(event->fs, 0, sizeof(event->fs));
	bpf_probe_read_kernel_str(event->fs, sizeof(event->fs),
				  BPF_CORE_READ(dentry, d_inode, i_sb, s_type, name));
	bytes = read_names(event, dentry);
	event->path_len = bytes;
	/* bounded right before it is used: see send_off_cpu */
	barrier_var(bytes);
	if (bytes > PATH_BYTES)
		return false;
	return emit(event, __builtin_offsetof(struct file_path_event, path) + bytes);
}

/*
 * Makes user space know where the file is. Returns the time at which the known path was read, 0 if none is known. Uses
 * the scratch buffer. The inode check rejects a dentry that another thread's close released.
 */
static __always_inline __u64 path_of(struct dentry *dentry, struct file_key *file, __u64 now)
{
	struct known_path *known = bpf_map_lookup_elem(&known_paths, file);
	struct known_path fresh = { now, renames, 0 };

	if (known && known->renames == fresh.renames && now - known->path_ns < PATH_FRESH_NS)
		return known->path_ns;
	if (BPF_CORE_READ(dentry, d_inode, i_ino) != file->inode)
		return 0;
	if (!send_path(dentry, file, now))
		return 0;
	if (known) {
		known->path_ns = fresh.path_ns;
		known->renames = fresh.renames;
	} else {
		bpf_map_update_elem(&known_paths, file, &fresh, BPF_ANY);
	}
	return now;
}

/*
 * The target's operations on files, from the entry of the system call to its return. Does not see io_uring, and of
 * mapped files only their syncs. Knows no hook: calls.bpf.c does.
 */

/* Offset of a call without an offset argument. */
#define AT_POSITION (-1LL)

/* What a call's arguments request of the file behind a descriptor. */
struct io_args {
	__u8 op;
	/* buffer is an array of iovecs */
	__u8 vectored;
	/* it reads from the file */
	__u8 reads;
	__u32 fd;
	__u64 buffer;
	__u64 count;
	__s64 offset;
};

/* The offset of an operation without an offset argument, known only at entry. */
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

/* Directories are synced like files: a broker does so after it creates or renames one. */
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

/* Begins a call on a regular file; returns NULL if it cannot be followed. */
static __always_inline struct op *begin_file(__u32 tid, struct file *file, struct inode *inode,
					     const struct io_args *args)
{
	struct op *op = own_op(tid);
	struct super_block *super;

	if (!op)
		return NULL;
	reset_op(op, args->op);
	op->offset = args->offset;
	if (moves_bytes(args->op) && args->offset < 0)
		op->offset = position(file, inode, args->op);
	op->buffer = args->buffer;
	op->count = args->count;
	op->vectored = args->vectored;
	op->fd = args->fd;
	op->dentry = BPF_CORE_READ(file, f_path.dentry);
	identify(&op->file, inode);
	super = DIRECT(inode, i_sb);
	op->stacked = DIRECT(super, s_magic) == OVERLAYFS_SUPER_MAGIC;
	if (args->reads)
		watch_pages(op, file);
	enter_call(op);
	return op;
}

/* Reads the head when the call returns: the kernel has just read the buffer, so its pages are present. */
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

static __always_inline void describe(struct file_op_event *event, struct op *op, __s64 result, __u64 end_ns,
				     __u64 path_ns)
{
	event->kind = EVENT_FILE_OP;
	event->tid = visible_tid();
	event->pid = visible_current_pid();
	event->start_ns = op->start_ns;
	event->end_ns = end_ns;
	event->result = result;
	event->offset = op->offset;
	event->file = op->file;
	event->path_ns = path_ns;
	event->disk_bytes = op->disk_bytes;
	event->readahead_bytes = op->readahead_bytes;
	event->fd = op->fd;
	event->transaction = op->transaction;
	event->op = op->kind;
	event->has_handle = op->has_handle;
	event->head_len = 0;
	event->reads_pages = op->reads && (op->direct || fields.page_added.i_ino.size);
	if (op->direct)
		event->disk_bytes = result > 0 ? result : 0;
	bpf_get_current_comm(event->comm, sizeof(event->comm));
}

static __always_inline void send_write(struct op *op, __s64 result, __u64 now, __u64 path_ns)
{
	struct file_write_event *event = reserve(sizeof(*event));

	if (!event)
		return;
	describe(&event->op, op, result, now, path_ns);
	/* bytes beyond the head are left over from earlier records */
	event->op.head_len = result > 0 ? read_head(event->head, op) : 0;
	submit(event);
}

static __always_inline void send_other(struct op *op, __s64 result, __u64 now, __u64 path_ns)
{
	struct file_op_event *event = reserve(sizeof(*event));

	if (!event)
		return;
	describe(event, op, result, now, path_ns);
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

/*
 * Operations on names: rename, unlink, truncate by path, open. The kernel's tracepoints show the paths as the program
 * wrote them, with the directories that relative ones start from; user space resolves them to files. A successful open
 * is reported by the file that it opened.
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
	enter_call(op);
	return 0;
}

/* Makes user space know the directory that a relative path starts from. Uses the scratch buffer. */
static __always_inline void read_start_dir(struct given_path *given, __u64 path, __s32 dir, __u64 now)
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

/* Reads a path argument when the call returns, because the kernel has just read it. Returns its bytes with the NUL. */
static __always_inline __u16 read_given(char *to, __u64 path)
{
	long bytes = path ? bpf_probe_read_user_str(to, GIVEN_BYTES, (const void *)path) : 0;

	if (path && bytes <= 0)
		count_lost(LOST_HEAD);
	return bytes > 0 ? bytes : 0;
}

/* The call returned, and its file is known only by name. */
static __always_inline void send_names(struct op *op, __s64 result, __u64 now)
{
	struct given_path from, to;
	struct file_name_event *event;
	union scratch *buffer;
	__u64 first, second;

	read_start_dir(&from, op->buffer, op->fd, now);
	read_start_dir(&to, op->count, op->to_fd, now);
	buffer = scratch();
	if (!buffer)
		return;
	event = &buffer->file_name;
	describe(&event->op, op, result, now, 0);
	first = read_given(event->given, op->buffer);
	from.length = first;
	event->from = from;
	/* bounded right before they are used: see send_off_cpu */
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

	if ((BPF_CORE_READ(inode, i_mode) & S_IFMT) != S_IFREG)
		return;
	identify(&op->file, inode);
	op->fd = fd;
	send_other(op, fd, now, path_of(BPF_CORE_READ(file, f_path.dentry), &op->file, now));
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

/*
 * Syncs of mapped files. The file is found by address, with a helper that Linux has since 5.17: a separate program, so
 * that older kernels lack only this one.
 */

struct mapping {
	struct op *op;
	__u64 address;
	bool found;
};

static long use_mapping(struct task_struct *task, struct vm_area_struct *area, struct mapping *mapping)
{
	struct file *file = BPF_CORE_READ(area, vm_file);
	struct inode *inode = BPF_CORE_READ(file, f_inode);
	struct op *op = mapping->op;

	if ((BPF_CORE_READ(inode, i_mode) & S_IFMT) != S_IFREG)
		return 0;
	op->offset = (BPF_CORE_READ(area, vm_pgoff) << settings.page_shift) + mapping->address -
		     BPF_CORE_READ(area, vm_start);
	op->dentry = BPF_CORE_READ(file, f_path.dentry);
	identify(&op->file, inode);
	mapping->found = true;
	return 0;
}

static __always_inline int begin_msync(__u64 address)
{
	struct mapping mapping = { .address = address };

	mapping.op = own_op(current_ids());
	if (!mapping.op)
		return 0;
	reset_op(mapping.op, OP_MSYNC);
	mapping.op->fd = -1;
	mapping.op->phase = PHASE_NONE;
	/* fails while another thread changes the mappings */
	if (bpf_find_vma(bpf_get_current_task_btf(), mapping.address, use_mapping, &mapping, 0))
		count_lost(LOST_MAPPING);
	if (!mapping.found)
		return 0;
	enter_call(mapping.op);
	return 0;
}
