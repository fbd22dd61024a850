// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The system calls on files and sockets: one table, two ways to hook each call. */
#include "files.bpf.c"
#include "sockets.bpf.c"
#include "state.h"

/*
 * Two ways to get a system call's arguments and result; the table CALLS says what is done with them. User space loads
 * one or the other.
 *
 * FUNCTION_CALL hooks the call's own function (fentry, fexit): only threads that make that call pay, in any process,
 * and calls of other processes return after comparing the process id.
 *
 * TRACED_CALL hooks the call's classic tracepoint, for kernels that allow nothing else. Any system-call tracepoint puts
 * all threads of the host on the tracing entry path (SYSCALL_WORK_SYSCALL_TRACEPOINT, kernel/tracepoint.c), which then
 * tests one bit per call (kernel/trace/trace_syscalls.c). The generic sys_enter/sys_exit tracepoints would in addition
 * run a BPF program for every system call of every process.
 */

/* In a table: the call's n-th argument. */
#define A(n) (args[n])

#define TRACED_CALL(name, begins)                                                                            \
	SEC("tracepoint/syscalls/sys_enter_" #name)                                                          \
	int name##_enter(struct syscall_enter *ctx)                                                          \
	{                                                                                                    \
		const __u64 *args = ctx->args;                                                               \
                                                                                                             \
		return is_target(current_ids()) ? begins : 0;                                                \
	}

/* In the order of the call's parameters (arch/x86/entry/calling.h, arch/arm64/kernel/syscall.c). */
#if defined(__TARGET_ARCH_arm64)
#define SYSTEM_CALL "__arm64_sys_"
#define ARGUMENTS_OF(from) from->regs[0], from->regs[1], from->regs[2], from->regs[3], from->regs[4]
#else
#define SYSTEM_CALL "__x64_sys_"
#define ARGUMENTS_OF(from) from->di, from->si, from->dx, from->r10, from->r8
#endif

#define FUNCTION_CALL(name, begins)                                                                          \
	SEC("fentry/" SYSTEM_CALL #name)                                                                     \
	int BPF_PROG(name##_called, const struct pt_regs *registers)                                         \
	{                                                                                                    \
		if (!is_target(current_ids()))                                                               \
			return 0;                                                                            \
		const __u64 args[] = { ARGUMENTS_OF(registers) };                                            \
		return begins;                                                                               \
	}                                                                                                    \
	SEC("fexit/" SYSTEM_CALL #name)                                                                      \
	int BPF_PROG(name##_returned, const struct pt_regs *registers, long result)                          \
	{                                                                                                    \
		return is_target(current_ids()) ? end_call(result) : 0;                                      \
	}

/* Begins any call on a descriptor. */
static __always_inline int begin(const struct io_args *args)
{
	__u32 tid = current_ids();
	struct file *file = open_file(args->fd);
	struct inode *inode = DIRECT(file, f_inode);
	__u16 mode = DIRECT(inode, i_mode);

	/* pipes and the like end here; a failed read leaves 0, which is no type */
	if (is_followed_type(mode, args->op))
		begin_file(tid, file, inode, args);
	else if ((mode & S_IFMT) == S_IFSOCK)
		begin_socket(tid, file, args->op, args->fd, args->count);
	else
		forget_op(tid);
	return 0;
}

/* Begins a call that moves bytes between two descriptors: from a file, or with splice to one. */
static __always_inline int begin_transfer(__u8 kind, __u32 from_fd, __s64 from, __u32 to_fd, __s64 to,
					  __u64 count)
{
	struct io_args args = { .op = kind, .reads = true, .fd = from_fd, .count = count, .offset = from };
	__u32 tid = current_ids();
	struct file *file = open_file(from_fd);
	struct inode *inode = DIRECT(file, f_inode);
	struct op *op;

	if (is_followed_type(DIRECT(inode, i_mode), kind)) {
		op = begin_file(tid, file, inode, &args);
		if (op)
			begin_socket_side(op, to_fd);
		return 0;
	}
	args.reads = false;
	args.fd = to_fd;
	args.offset = to;
	return begin(&args);
}

/*
 * System calls at entry and at return. files.bpf.c and sockets.bpf.c handle them, however the arguments were obtained.
 */

/* Longer vectors count as endless: the requested size only separates reads from readahead. */
#define COUNTED_IOVECS 8
#define ENDLESS (1ULL << 62)

static __always_inline __u64 bytes_of_iovecs(__u64 iovecs, __u64 count)
{
	struct iovec parts[COUNTED_IOVECS] = {};
	__u64 bytes = 0;

	if (count > COUNTED_IOVECS ||
	    bpf_probe_read_user(parts, count * sizeof(parts[0]), (const void *)iovecs))
		return ENDLESS;
#pragma unroll
	for (int i = 0; i < COUNTED_IOVECS; i++)
		bytes += parts[i].iov_len;
	return bytes;
}

/* Begins I/O on one buffer, or several. */
static __always_inline int begin_io(__u8 op, __u32 fd, __u64 buffer, __u64 count, bool vectored, __s64 offset)
{
	struct io_args args = { op, vectored, op == OP_READ, fd, buffer, count, offset };

	if (vectored && args.reads)
		args.count = bytes_of_iovecs(buffer, count);

	return begin(&args);
}

/* Begins any other call on one descriptor. */
static __always_inline int begin_fd(__u8 op, __u32 fd, __s64 offset)
{
	struct io_args args = { .op = op, .fd = fd, .offset = offset };

	return begin(&args);
}

/* Reads an offset that the caller keeps; without one, the file's position counts. */
static __always_inline __s64 offset_at(__u64 pointer)
{
	__s64 offset = AT_POSITION;

	if (pointer)
		bpf_probe_read_user(&offset, sizeof(offset), (const void *)pointer);
	return offset;
}

/* rmdir by another name */
static __always_inline int begin_unlinkat(__s32 dir, __u64 path, __u64 flags)
{
	if (flags & AT_REMOVEDIR) {
		forget_op(current_ids());
		return 0;
	}
	return begin_name(OP_UNLINK, dir, path, 0, 0, 0);
}

/* The kernel refuses descriptors that are no sockets. */
static __always_inline int begin_socket_fd(__u8 kind, __u32 fd, __u64 count)
{
	__u32 tid = current_ids();
	struct file *file = open_file(fd);
	struct inode *inode = DIRECT(file, f_inode);

	if ((DIRECT(inode, i_mode) & S_IFMT) == S_IFSOCK)
		return begin_socket(tid, file, kind, fd, count);
	forget_op(tid);
	return 0;
}

/* Any of these calls returned. */
static __always_inline int end_call(__s64 result)
{
	struct op *op = last_op_of(current_ids());

	if (!op)
		return 0;
	if (op->phase == PHASE_SOCKET) {
		op->phase = PHASE_NONE;
		end_side(op, result);
	}
	if (op->phase != PHASE_INSIDE)
		return 0;
	settle_switches(op);
	if (op->named)
		end_name(op, result);
	else
		end_file(op, result);
	if (op->kind == OP_SENDFILE || op->kind == OP_SPLICE)
		end_side(op, result);
	op->phase = PHASE_AFTER;
	return 0;
}

/*
 * Every call with what it begins: A(n) is its n-th argument. In pwritev2 and preadv2 an offset of -1 means the file's
 * position; on 64 bits the low word holds the whole offset. The requested bytes of recvmsg and sendmsg are unknown.
 */
#define CALLS(CALL)                                                                                          \
	CALL(write, begin_io(OP_WRITE, A(0), A(1), A(2), false, AT_POSITION))                                \
	CALL(pwrite64, begin_io(OP_WRITE, A(0), A(1), A(2), false, A(3)))                                    \
	CALL(writev, begin_io(OP_WRITE, A(0), A(1), A(2), true, AT_POSITION))                                \
	CALL(pwritev, begin_io(OP_WRITE, A(0), A(1), A(2), true, A(3)))                                      \
	CALL(pwritev2, begin_io(OP_WRITE, A(0), A(1), A(2), true, A(3)))                                     \
	CALL(read, begin_io(OP_READ, A(0), A(1), A(2), false, AT_POSITION))                                  \
	CALL(pread64, begin_io(OP_READ, A(0), A(1), A(2), false, A(3)))                                      \
	CALL(readv, begin_io(OP_READ, A(0), A(1), A(2), true, AT_POSITION))                                  \
	CALL(preadv, begin_io(OP_READ, A(0), A(1), A(2), true, A(3)))                                        \
	CALL(preadv2, begin_io(OP_READ, A(0), A(1), A(2), true, A(3)))                                       \
	CALL(sendfile64, begin_transfer(OP_SENDFILE, A(1), offset_at(A(2)), A(0), AT_POSITION, A(3)))        \
	CALL(splice, begin_transfer(OP_SPLICE, A(0), offset_at(A(1)), A(2), offset_at(A(3)), A(4)))          \
	CALL(copy_file_range, begin_transfer(OP_COPY, A(0), offset_at(A(1)), A(2), offset_at(A(3)), A(4)))   \
	CALL(fsync, begin_fd(OP_FSYNC, A(0), 0))                                                             \
	CALL(fdatasync, begin_fd(OP_FDATASYNC, A(0), 0))                                                     \
	CALL(ftruncate, begin_fd(OP_TRUNCATE, A(0), A(1)))                                                   \
	CALL(fallocate, begin_fd(OP_ALLOCATE, A(0), A(2)))                                                   \
	CALL(truncate, begin_name(OP_TRUNCATE, AT_FDCWD, A(0), 0, 0, A(1)))                                  \
	CALL(rename, begin_name(OP_RENAME, AT_FDCWD, A(0), AT_FDCWD, A(1), 0))                               \
	CALL(renameat, begin_name(OP_RENAME, A(0), A(1), A(2), A(3), 0))                                     \
	CALL(renameat2, begin_name(OP_RENAME, A(0), A(1), A(2), A(3), A(4)))                                 \
	CALL(unlink, begin_name(OP_UNLINK, AT_FDCWD, A(0), 0, 0, 0))                                         \
	CALL(unlinkat, begin_unlinkat(A(0), A(1), A(2)))                                                     \
	CALL(open, begin_name(OP_OPEN, AT_FDCWD, A(0), 0, 0, 0))                                             \
	CALL(creat, begin_name(OP_OPEN, AT_FDCWD, A(0), 0, 0, 0))                                            \
	CALL(openat, begin_name(OP_OPEN, A(0), A(1), 0, 0, 0))                                               \
	CALL(openat2, begin_name(OP_OPEN, A(0), A(1), 0, 0, 0))                                              \
	CALL(msync, begin_msync(A(0)))                                                                       \
	CALL(recvfrom, begin_socket_fd(OP_READ, A(0), A(2)))                                                 \
	CALL(recvmsg, begin_socket_fd(OP_READ, A(0), 0))                                                     \
	CALL(sendto, begin_socket_fd(OP_WRITE, A(0), A(2)))                                                  \
	CALL(sendmsg, begin_socket_fd(OP_WRITE, A(0), 0))

CALLS(TRACED_CALL)
CALLS(FUNCTION_CALL)

/* The return of any of these calls, by its tracepoint. */
SEC("tracepoint/syscalls/sys_exit_write")
int call_exit(struct syscall_exit *ctx)
{
	return is_target(current_ids()) ? end_call(ctx->ret) : 0;
}
