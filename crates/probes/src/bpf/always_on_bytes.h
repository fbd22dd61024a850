/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Finds the bytes that the current thread's system call moved between user space and a socket, from the registers with
 * which it entered the kernel.
 */
#ifndef BROKERSCOPE_ALWAYS_ON_BYTES_H
#define BROKERSCOPE_ALWAYS_ON_BYTES_H

#include "always_on_state.h"

/* arch/x86/entry/syscalls/syscall_64.tbl, include/uapi/asm-generic/unistd.h */
#if defined(__TARGET_ARCH_arm64)
#define NR_READ 63
#define NR_WRITE 64
#define NR_READV 65
#define NR_WRITEV 66
#define NR_SENDTO 206
#define NR_RECVFROM 207
#define NR_SENDMSG 211
#define NR_RECVMSG 212
#else
#define NR_READ 0
#define NR_WRITE 1
#define NR_READV 19
#define NR_WRITEV 20
#define NR_SENDTO 44
#define NR_RECVFROM 45
#define NR_SENDMSG 46
#define NR_RECVMSG 47
#endif

/* Parts of a vectored call that are read. */
#define MAX_IOVECS 8

enum buffers {
	/* the bytes are not in user memory (sendfile), or their place is unknown (io_uring) */
	BUFFERS_NONE,
	BUFFERS_ONE,
	BUFFERS_VECTOR,
};

struct buffers_of_call {
	/* address of the buffer, or of the first iovec */
	__u64 address;
	/* requested bytes, or number of iovecs */
	__u64 size;
	/* enum buffers */
	__u32 kind;
	__u32 reserved;
};

/* User space's struct user_msghdr, for its iovecs (include/linux/socket.h). */
struct message_iovecs {
	__u64 iovecs;
	__u64 count;
};

#define MESSAGE_IOVECS_AT 16

static __always_inline void find_buffers(struct buffers_of_call *buffers)
{
	struct pt_regs *registers = (void *)bpf_task_pt_regs(current_task());
	struct message_iovecs message = {};

	buffers->address = registers->SECOND_ARGUMENT;
	buffers->size = registers->THIRD_ARGUMENT;
	buffers->kind = BUFFERS_NONE;
	switch ((__s32)registers->CALL_NUMBER) {
	case NR_READ:
	case NR_WRITE:
	case NR_RECVFROM:
	case NR_SENDTO:
		buffers->kind = BUFFERS_ONE;
		break;
	case NR_READV:
	case NR_WRITEV:
		buffers->kind = BUFFERS_VECTOR;
		break;
	case NR_RECVMSG:
	case NR_SENDMSG:
		if (bpf_probe_read_user(&message, sizeof(message),
					(void *)(buffers->address + MESSAGE_IOVECS_AT)))
			break;
		buffers->address = message.iovecs;
		buffers->size = message.count;
		buffers->kind = BUFFERS_VECTOR;
		break;
	}
}

/* Whether the call requested exactly this many bytes, in one buffer. */
static __always_inline bool asks_for(const struct buffers_of_call *buffers, __u32 bytes)
{
	return buffers->kind == BUFFERS_ONE && buffers->size == bytes;
}

/*
 * Copies bytes of a vectored call; returns how many. `limit` is a constant upper bound of `bytes`, and `to` has room
 * for twice as many, which shows the verifier that no part of a copy leaves it.
 */
static __always_inline __u32 copy_vector(__u8 *to, const struct buffers_of_call *buffers, __u64 at,
					 __u32 bytes, const __u32 limit)
{
	__u64 copied = 0;

	for (__u32 i = 0; i < MAX_IOVECS && i < buffers->size; i++) {
		struct iovec part = {};
		__u64 length;

		if (bpf_probe_read_user(&part, sizeof(part), (void *)(buffers->address + i * sizeof(part))))
			return copied;
		if (at >= part.iov_len) {
			at -= part.iov_len;
			continue;
		}
		length = part.iov_len - at;
		if (length > bytes - copied)
			length = bytes - copied;
		barrier_var(length);
		barrier_var(copied);
		if (length > limit || copied >= limit)
			return copied;
		if (bpf_probe_read_user(to + copied, length, (void *)((__u64)part.iov_base + at)))
			return copied;
		copied += length;
		at = 0;
		if (copied >= bytes)
			return copied;
	}
	return copied;
}

/* Copies bytes of the call from offset `at`, with the same bounds. */
static __always_inline __u32 copy_bytes(__u8 *to, const struct buffers_of_call *buffers, __u64 at,
					__u64 bytes, const __u32 limit)
{
	if (buffers->kind == BUFFERS_VECTOR)
		return copy_vector(to, buffers, at, bytes, limit);
	barrier_var(bytes);
	if (buffers->kind != BUFFERS_ONE || bytes > limit)
		return 0;
	return bpf_probe_read_user(to, bytes, (void *)(buffers->address + at)) ? 0 : bytes;
}

/* A frame's head, assembled from one call or several. */
#define MAX_HEAD 16

struct head {
	/* room for copy_bytes() from any offset below MAX_HEAD */
	__u8 bytes[3 * MAX_HEAD];
};

/* Takes more of a head of which `have` bytes are known; returns false if the bytes cannot be read. */
static __noinline bool take_head(struct head *head, __u64 have, const struct buffers_of_call *buffers,
				 __u64 at, __u32 bytes)
{
	barrier_var(have);
	return have < MAX_HEAD && copy_bytes(head->bytes + have, buffers, at, bytes, MAX_HEAD) == bytes;
}

static __always_inline __u32 head_u32(const struct head *head, __u32 at)
{
	return bpf_ntohl(*(const __be32 *)(head->bytes + at));
}

static __always_inline __u16 head_u16(const struct head *head, __u32 at)
{
	return bpf_ntohs(*(const __be16 *)(head->bytes + at));
}

#endif
