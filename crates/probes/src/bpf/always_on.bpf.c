// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Watches a broker for months: its requests from the bytes of its sockets, its writes to files and its threads' waits,
 * with a handful of programs that add to histograms and overwrite the oldest record. A separate object without
 * system-call hooks, packets or a constant reader: only slow requests wake user space.
 */
#include "always_on_answers.h"
#include "always_on_appends.h"
#include "always_on_waits.h"

/* include/linux/socket.h */
#define MSG_PEEK 2

/* Linux 6.3; fires for sockets of all protocols and processes, listeners included. */
SEC("tp_btf/sk_data_ready")
int BPF_PROG(always_on_data_ready, struct sock *sock)
{
	return is_followed(sock) ? data_came(sock) : 0;
}

/* Linux 6.3; fires also for errors, other protocols and other processes. */
SEC("tp_btf/sock_recv_length")
int BPF_PROG(always_on_receive, struct sock *sock, int result, int flags)
{
	if (!is_target() || result <= 0 || flags & MSG_PEEK || !is_followed(sock))
		return 0;
	return bytes_read(sock, result);
}

SEC("tp_btf/sock_send_length")
int BPF_PROG(always_on_send, struct sock *sock, int result, int flags)
{
	if (!is_target() || result <= 0 || !is_followed(sock))
		return 0;
	return bytes_written(sock, result);
}

SEC("fentry/sock_def_readable")
int BPF_PROG(always_on_sock_readable, struct sock *sock)
{
	return is_followed(sock) ? data_came(sock) : 0;
}

/* Before 5.19 an argument `nonblock` comes before the flags. */
SEC("fexit/tcp_recvmsg")
int BPF_PROG(always_on_tcp_receive, struct sock *sock)
{
	__u64 flags = 0, result = 0;

	if (!is_target() || bpf_get_func_ret(ctx, &result) || (int)result <= 0)
		return 0;
	bpf_get_func_arg(ctx, bpf_get_func_arg_cnt(ctx) == 6 ? 4 : 3, &flags);
	if (flags & MSG_PEEK || !is_followed(sock))
		return 0;
	return bytes_read(sock, result);
}

static __always_inline int sent(void *ctx, struct sock *sock)
{
	__u64 result = 0;

	if (!is_target() || bpf_get_func_ret(ctx, &result) || (int)result <= 0 || !is_followed(sock))
		return 0;
	return bytes_written(sock, result);
}

SEC("fexit/tcp_sendmsg")
int BPF_PROG(always_on_tcp_send, struct sock *sock)
{
	return sent(ctx, sock);
}

/* Used by sendfile until 6.5. */
SEC("fexit/tcp_sendpage")
int BPF_PROG(always_on_tcp_sendpage, struct sock *sock)
{
	return sent(ctx, sock);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
