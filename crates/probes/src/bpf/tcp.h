/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The target's TCP connections: their ends, and what goes wrong with them: segments sent again, peers that
 * close their window, connections without window scaling. A connection is the target's once one of its threads
 * has read from it or written to it. Does not know system calls.
 */

/* include/net/tcp_states.h */
enum { TCP_SYN_SENT = 2, TCP_SYN_RECV = 3 };

/* include/linux/tcp.h */
enum { TCP_CHRONO_RWND_LIMITED = 2 };

/*
 * Writing stands still for the peer's window at least this long before the kernel probes it (TCP_RTO_MIN,
 * include/net/tcp.h). Shorter waits are how a window works.
 */
#define STALL_US 200000

struct connection {
	struct endpoints ends;
	/* the last write found the peer's window closed */
	__u32 stalled;
	/* jiffies for which the peer's window was what the connection waited for, as the last write found them */
	__u32 limited;
};

/*
 * By the address of its struct sock, which another connection gets later: the ends tell them apart. Of a
 * connection forgotten for others, what was reported once may be so again.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct sock *);
	__type(value, struct connection);
} connections SEC(".maps");

static __always_inline bool same_ends(const struct endpoints *one, const struct endpoints *other)
{
	__u32 differ = (one->local_port ^ other->local_port) | (one->remote_port ^ other->remote_port);

#pragma unroll
	for (int i = 0; i < 4; i++)
		differ |= (one->local[i] ^ other->local[i]) | (one->remote[i] ^ other->remote[i]);
	return !differ;
}

/* An IPv4 address as an IPv6 one (RFC 4291, 2.5.5.2). */
static __always_inline void map_address(__u32 *to, __be32 address)
{
	to[0] = 0;
	to[1] = 0;
	to[2] = bpf_htonl(0xffff);
	to[3] = address;
}

/*
 * False where there is no connection yet. The local port is inet_sport: skc_num is 0 once the connection is
 * down (__inet_put_port, net/ipv4/inet_hashtables.c).
 */
static __always_inline bool read_ends(struct endpoints *ends, struct sock *sock)
{
	struct inet_sock *inet = TYPED(struct inet_sock, sock);
	__u8 state = DIRECT(sock, __sk_common.skc_state);

	ends->remote_port = DIRECT(sock, __sk_common.skc_dport);
	ends->local_port = DIRECT(inet, inet_sport);
	if (!ends->remote_port || state == TCP_SYN_SENT || state == TCP_SYN_RECV)
		return false;
	if (bpf_core_field_exists(sock->__sk_common.skc_v6_daddr) &&
	    DIRECT(sock, __sk_common.skc_family) == AF_INET6) {
#pragma unroll
		for (int i = 0; i < 4; i++) {
			ends->local[i] = DIRECT(sock, __sk_common.skc_v6_rcv_saddr.in6_u.u6_addr32[i]);
			ends->remote[i] = DIRECT(sock, __sk_common.skc_v6_daddr.in6_u.u6_addr32[i]);
		}
		return true;
	}
	map_address(ends->local, DIRECT(sock, __sk_common.skc_rcv_saddr));
	map_address(ends->remote, DIRECT(sock, __sk_common.skc_daddr));
	return true;
}

static __always_inline __u32 peer_window(struct sock *sock)
{
	struct tcp_sock *tcp = TYPED(struct tcp_sock, sock);

	return DIRECT(tcp, snd_wnd);
}

/* See TCP_CHRONO_RWND_LIMITED in include/linux/tcp.h, and tcpi_rwnd_limited. A wait that lasts is not in it yet. */
static __always_inline __u32 limited_by_window(struct sock *sock)
{
	struct tcp_sock *tcp = TYPED(struct tcp_sock, sock);

	return DIRECT(tcp, chrono_stat[TCP_CHRONO_RWND_LIMITED - 1]);
}

/*
 * Whether that many jiffies are a stall. Where the way is long, a window that is too small for it makes the
 * connection wait for a round trip at a time, which is none.
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

/* The connection's entry, made by the first call on it. */
static __always_inline struct connection *meet(struct sock *sock, const struct endpoints *ends)
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

/* A write found the window closed: reported once until a write begins with an open one. */
static __always_inline void find_closed(struct connection *connection)
{
	if (!connection->stalled)
		report_trouble(TCP_ZERO_WINDOW, &connection->ends);
	connection->stalled = 1;
}

/*
 * A write begins. It may find the window closed; or open again, and that the connection stood still meanwhile:
 * whoever waits until the socket takes more (epoll) is not told while the window is closed.
 */
static __always_inline void look_at_window(struct connection *connection, struct sock *sock, __u32 window)
{
	__u32 before = connection->limited;

	connection->limited = limited_by_window(sock);
	if (!window) {
		find_closed(connection);
		return;
	}
	if (!connection->stalled && connection->limited != before &&
	    is_stall(sock, connection->limited - before))
		report_trouble(TCP_ZERO_WINDOW, &connection->ends);
	connection->stalled = 0;
}

/* Mostly in a timer or an interrupt, so whose thread runs says nothing. */
SEC("tp_btf/tcp_retransmit_skb")
int BPF_PROG(tcp_retransmit_skb, struct sock *sock)
{
	struct endpoints ends = {};
	struct connection *known = bpf_map_lookup_elem(&connections, &sock);

	if (known && read_ends(&ends, TYPED(struct sock, sock)) && same_ends(&known->ends, &ends))
		report_trouble(TCP_RETRANSMIT, &ends);
	return 0;
}
