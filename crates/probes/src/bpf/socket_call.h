/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The system calls that take sockets alone, hooked as those of file_call.h are, which has the calls that take
 * files as well. Of recvmsg and sendmsg it is not known how many bytes are asked for.
 */

#define SOCKET_CALLS(CALL)                                                                                   \
	CALL(recvfrom, begin_socket_fd(OP_READ, A(0), A(2)))                                                 \
	CALL(recvmsg, begin_socket_fd(OP_READ, A(0), 0))                                                     \
	CALL(sendto, begin_socket_fd(OP_WRITE, A(0), A(2)))                                                  \
	CALL(sendmsg, begin_socket_fd(OP_WRITE, A(0), 0))

/* What is no socket, the kernel refuses. */
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

SOCKET_CALLS(TRACED_CALL)
SOCKET_CALLS(FUNCTION_CALL)
