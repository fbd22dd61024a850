/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Calls on the target's sockets: what file_call.h hands over when a descriptor is no file. They are not
 * followed.
 */

/* The thread enters a call on a socket: `op` is OP_READ or OP_WRITE. */
static __always_inline int begin_socket(__u32 tid, struct file *file, __u8 kind, __u32 fd, __u64 count)
{
	forget_op(tid);
	return 0;
}

/* A call that begin_socket put into PHASE_SOCKET returned. */
static __always_inline int end_socket(__u32 tid, struct op *op, __s64 result)
{
	op->phase = PHASE_NONE;
	return 0;
}

/* A sendfile or splice whose file is followed as `op` also writes to this descriptor. */
static __always_inline void begin_socket_side(struct op *op, __u32 fd)
{
}

/* It returned, and its file's side has been reported. */
static __always_inline void end_socket_side(__u32 tid, struct op *op, __s64 result)
{
}
