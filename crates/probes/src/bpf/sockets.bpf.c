// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* TCP connections of the target, and the calls on them. */
#pragma once
#include "off_cpu.h"
#include "state.h"

/*
 * The target's TCP connections: their ends, and their troubles: retransmitted segments, peers that close their window,
 * connections without window scaling. A connection is the target's once one of its threads has read from it or written
 * to it. Does not know system calls.
 */

/* include/net/tcp_states.h */
enum { TCP_SYN_SENT = 2, TCP_SYN_RECV = 3 };

/* include/linux/tcp.h */
enum { TCP_CHRONO_RWND_LIMITED = 2 };

/*
 * A write is blocked by the peer's window at least this long before the kernel probes it (TCP_RTO_MIN,
 * include/net/tcp.h). Shorter waits are normal flow control.
 */
#define STALL_US 200000

struct connection {
	struct endpoints ends;
	/* the last write found the peer's window closed */
	__u32 stalled;
	/* jiffies for which the peer's window limited the connection, as of the last write */
	__u32 limited;
};

/*
 * By the address of its struct sock, which a later connection may reuse: the ends tell them apart. After an eviction,
 * trouble that was reported once may be reported again.
 */
BPF_MAP(connections, LRU_HASH, struct sock *, struct connection, 16384);

static __always_inline bool same_ends(const struct endpoints *one, const struct endpoints *other)
{
	__u32 differ = (one->local_port ^ other->local_port) | (one->remote_port ^ other->remote_port);

#pragma unroll
	for (int i = 0; i < 4; i++)
		differ |= (one->local[i] ^ other->local[i]) | (one->remote[i] ^ other->remote[i]);
	return !differ;
}

/* Returns false if there is no connection yet. */
static __always_inline bool read_ends(struct endpoints *ends, struct sock *sock)
{
	__u8 state = DIRECT(sock, __sk_common.skc_state);

	ends->remote_port = DIRECT(sock, __sk_common.skc_dport);
	ends->local_port = local_port_of(sock);
	if (!ends->remote_port || state == TCP_SYN_SENT || state == TCP_SYN_RECV)
		return false;
	read_addresses(ends->local, ends->remote, sock);
	return true;
}

static __always_inline __u32 peer_window(struct sock *sock)
{
	struct tcp_sock *tcp = TYPED(struct tcp_sock, sock);

	return DIRECT(tcp, snd_wnd);
}

/* See TCP_CHRONO_RWND_LIMITED in include/linux/tcp.h, and tcpi_rwnd_limited. An ongoing wait is not included yet. */
static __always_inline __u32 limited_by_window(struct sock *sock)
{
	struct tcp_sock *tcp = TYPED(struct tcp_sock, sock);

	return DIRECT(tcp, chrono_stat[TCP_CHRONO_RWND_LIMITED - 1]);
}

/*
 * Whether that many jiffies are a stall. On a long path, a window that is too small makes the connection wait for a
 * round trip at a time, which is no stall.
 */
static __always_inline bool is_stall(struct sock *sock, __u32 jiffies)
{
	struct tcp_sock *tcp = TYPED(struct tcp_sock, sock);
	__u64 two_round_trips_us = DIRECT(tcp, srtt_us) >> 2;

	return (__u64)jiffies * settings.jiffy_us >= STALL_US + two_round_trips_us;
}

static __always_inline bool scales_windows(struct sock *sock)
{
	struct tcp_sock *tcp = (void *)sock;

	return BPF_CORE_READ_BITFIELD_PROBED(tcp, rx_opt.wscale_ok);
}

static __always_inline void report_trouble(__u32 trouble, const struct endpoints *ends)
{
	struct tcp_trouble_event event = { .kind = EVENT_TCP_TROUBLE, .trouble = trouble };

	event.at_ns = bpf_ktime_get_ns();
	event.ends = *ends;
	emit(&event, sizeof(event));
}

/* The connection's entry, created by the first call on it. */
static __always_inline struct connection *connection_of(struct sock *sock, const struct endpoints *ends)
{
	struct connection *known = bpf_map_lookup_elem(&connections, &sock);
	struct connection fresh = {};

	if (known && same_ends(&known->ends, ends))
		return known;
	fresh.ends = *ends;
	fresh.limited = limited_by_window(sock);
	bpf_map_update_elem(&connections, &sock, &fresh, BPF_ANY);
	if (!scales_windows(sock))
		report_trouble(TCP_NO_WINDOW_SCALING, ends);
	return bpf_map_lookup_elem(&connections, &sock);
}

/* A write found the window closed: reported once until a write finds it open. */
static __always_inline void report_zero_window(struct connection *connection)
{
	if (!connection->stalled)
		report_trouble(TCP_ZERO_WINDOW, &connection->ends);
	connection->stalled = 1;
}

/*
 * A write begins. It may find the window closed; or open again after a stall: a thread that waits until the socket
 * takes more (epoll) is not woken while the window is closed.
 */
static __always_inline void check_window(struct connection *connection, struct sock *sock, __u32 window)
{
	__u32 before = connection->limited;

	connection->limited = limited_by_window(sock);
	if (!window) {
		report_zero_window(connection);
		return;
	}
	if (!connection->stalled && connection->limited != before &&
	    is_stall(sock, connection->limited - before))
		report_trouble(TCP_ZERO_WINDOW, &connection->ends);
	connection->stalled = 0;
}

/* Usually runs in a timer or an interrupt, so the current thread means nothing. */
SEC("tp_btf/tcp_retransmit_skb")
int BPF_PROG(tcp_retransmit_skb, struct sock *sock)
{
	struct endpoints ends = {};
	struct connection *known = bpf_map_lookup_elem(&connections, &sock);

	if (known && read_ends(&ends, TYPED(struct sock, sock)) && same_ends(&known->ends, &ends))
		report_trouble(TCP_RETRANSMIT, &ends);
	return 0;
}

/*
 * Calls on the target's TCP connections: those that calls.bpf.c hands over when a descriptor is no file, and the
 * connection's side of a sendfile or splice. Each is reported with both ends and the sequence numbers before and after,
 * which are those of the packets. Other sockets are not followed.
 *
 * A call that moved nothing (a selector's empty read, a write into a full buffer, the end of a stream) is counted in
 * empty_socket_calls and not reported.
 */

/* include/uapi/asm-generic/errno-base.h */
#define EAGAIN 11

BPF_MAP(empty_socket_calls, PERCPU_ARRAY, __u32, __u64, 1);

static __always_inline void count_empty_call(void)
{
	__u32 zero = 0;
	__u64 *count = bpf_map_lookup_elem(&empty_socket_calls, &zero);

	if (count)
		__sync_fetch_and_add(count, 1);
}

static __always_inline bool is_sending(__u8 kind)
{
	return kind != OP_READ;
}

static __always_inline bool is_socket_io(__u8 kind)
{
	return kind == OP_READ || kind == OP_WRITE || kind == OP_SENDFILE || kind == OP_SPLICE;
}

/* The TCP socket of a file; NULL if the file is no TCP socket. */
static __always_inline struct sock *tcp_of(struct file *file)
{
	struct socket *socket = TYPED(struct socket, DIRECT(file, private_data));
	struct sock *sock = TYPED(struct sock, DIRECT(socket, sk));

	/* a raw socket may have the same protocol; a failed read leaves 0, which is neither */
	if (DIRECT(sock, sk_protocol) != IPPROTO_TCP || DIRECT(sock, sk_type) != SOCK_STREAM)
		return NULL;
	return sock;
}

/* Sequence number of the next byte to read or to write. */
static __always_inline __u32 next_sequence(struct sock *sock, bool sending)
{
	struct tcp_sock *tcp = TYPED(struct tcp_sock, sock);

	return sending ? DIRECT(tcp, write_seq) : DIRECT(tcp, copied_seq);
}

/* The thread enters a call that moves bytes of this connection. */
static __always_inline void begin_side(struct op *op, struct sock *sock)
{
	struct socket_side *side = &op->socket;
	bool sending = is_sending(op->kind);
	struct connection *connection;

	side->sock = NULL;
	if (!sock || !read_ends(&side->ends, sock))
		return;
	side->sock = sock;
	side->peer_window = sending ? peer_window(sock) : 0;
	side->sequence = next_sequence(sock, sending);
	connection = connection_of(sock, &side->ends);
	if (connection && sending)
		check_window(connection, sock, side->peer_window);
}

static __always_inline void describe_side(struct socket_event *event, struct op *op, __u32 result)
{
	struct socket_side *side = &op->socket;

	event->kind = EVENT_SOCKET;
	event->tid = visible_tid();
	event->pid = visible_current_pid();
	event->start_ns = op->start_ns;
	event->result = result;
	event->op = op->kind;
	event->sequence = side->sequence;
	event->sequence_end = side->sequence + ((__s32)result > 0 ? result : 0);
	event->peer_window = side->peer_window;
	event->ends = side->ends;
	__builtin_memset(event->reserved, 0, sizeof(event->reserved));
	bpf_get_current_comm(event->comm, sizeof(event->comm));
}

/* The call returned. If another thread closed the socket meanwhile, it may belong to another connection by now. */
static __always_inline void end_side(struct op *op, __s64 result)
{
	__u64 now = bpf_ktime_get_ns();
	struct socket_side *side = &op->socket;
	struct sock *sock = TYPED(struct sock, side->sock);
	struct socket_event *event;
	bool sending = is_sending(op->kind);
	struct connection *connection;
	bool is_same;

	if (!side->sock)
		return;
	side->sock = NULL;
	is_same = DIRECT(sock, __sk_common.skc_dport) == side->ends.remote_port;
	if (is_same && sending && result < (__s64)op->count && peer_window(sock) == 0) {
		connection = connection_of(sock, &side->ends);
		if (connection)
			report_zero_window(connection);
	}
	if (result == 0 || result == -EAGAIN) {
		count_empty_call();
		return;
	}
	/* no call moves more than MAX_RW_COUNT (include/linux/fs.h), which fits in 31 bits */
	event = reserve(sizeof(*event));
	if (!event)
		return;
	describe_side(event, op, result);
	event->end_ns = now;
	if (is_same)
		event->sequence_end = next_sequence(sock, sending);
	submit(event);
}

/* The thread enters a call on a socket: `kind` is the call's enum file_op. */
static __always_inline int begin_socket(__u32 tid, struct file *file, __u8 kind, __u32 fd, __u64 count)
{
	struct sock *sock = settings.sockets && is_socket_io(kind) ? tcp_of(file) : NULL;
	struct op *op;

	if (!sock) {
		forget_op(tid);
		return 0;
	}
	op = own_op(tid);
	if (!op)
		return 0;
	reset_op(op, kind);
	op->count = count;
	begin_side(op, sock);
	op->phase = PHASE_SOCKET;
	op->start_ns = bpf_ktime_get_ns();
	return 0;
}

/* A sendfile or splice that is followed as `op` for its file also writes to this descriptor. */
static __always_inline void begin_socket_side(struct op *op, __u32 fd)
{
	begin_side(op, settings.sockets ? tcp_of(open_file(fd)) : NULL);
}
