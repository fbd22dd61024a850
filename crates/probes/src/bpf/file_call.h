/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The system calls on files, as they enter the kernel and return. What is done then is in file_op.h and
 * file_name.h, whichever way the arguments came (system_call.h).
 */

/* More of them are taken for endless: what they ask for only tells reading from reading ahead. */
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

/* Bytes to or from one buffer, or several. */
static __always_inline int begin_io(__u8 op, __u32 fd, __u64 buffer, __u64 count, bool vectored, __s64 offset)
{
	struct asked asked = { op, vectored, op == OP_READ, fd, buffer, count, offset };

	if (vectored && asked.reads)
		asked.count = bytes_of_iovecs(buffer, count);

	return begin(&asked);
}

/* Anything else on one descriptor. */
static __always_inline int begin_fd(__u8 op, __u32 fd, __s64 offset)
{
	struct asked asked = { .op = op, .fd = fd, .offset = offset };

	return begin(&asked);
}

/* An offset that the caller keeps: none means the file's position. */
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

/* Any of them returned. */
static __always_inline int end_call(__s64 result)
{
	__u32 tid = current_ids();
	struct op *op = last_op_of(tid);

	if (!op)
		return 0;
	if (op->phase == PHASE_SOCKET)
		return end_socket(tid, op, result);
	if (op->phase != PHASE_INSIDE)
		return 0;
	if (op->named)
		end_name(op, result);
	else
		end_file(op, result);
	if (op->kind == OP_SENDFILE || op->kind == OP_SPLICE)
		end_socket_side(tid, op, result);
	op->off_ns = 0;
	op->phase = PHASE_AFTER;
	return 0;
}

/*
 * Every call with what it begins: A(n) is its n-th argument. In pwritev2 and preadv2 an offset of -1 means
 * the file's position; on 64 bits the low word holds all of the offset.
 */
#define FILE_CALLS(CALL)                                                                                     \
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
	CALL(openat2, begin_name(OP_OPEN, A(0), A(1), 0, 0, 0))

FILE_CALLS(TRACED_CALL)
FILE_CALLS(FUNCTION_CALL)

/* The return of any of them, by its tracepoint. */
SEC("tracepoint/syscalls/sys_exit_write")
int call_exit(struct syscall_exit *ctx)
{
	return is_target(current_ids()) ? end_call(ctx->ret) : 0;
}
