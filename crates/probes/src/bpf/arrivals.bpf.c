// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Tells when the bytes of each read had been in the receive buffer of a broker's connection. For connections whose bytes
 * are encrypted: without packets, nothing else shows how long a request lay in the socket. A separate object, attached
 * only if it is needed. Filters by the listeners' ports, so that it follows a broker to its next process.
 */
#include "arrivals.h"
#include "ordered.h"

/* include/linux/socket.h */
#define MSG_PEEK 2

const volatile struct arrivals_records record_types = {};

struct arrivals_control control;

/* Reads that the ring buffer or the kernel had no memory for. */
__u64 lost_reads;

/* The reader comes by itself: it is never woken. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} ring SEC(".maps");

struct connection {
	/* index of the next arrival, modulo MAX_ARRIVALS */
	__u32 count;
	__u32 reserved;
	/* arrivals of unread data, and of some before */
	struct arrival arrivals[MAX_ARRIVALS];
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct connection);
} connections SEC(".maps");

static __always_inline bool is_listener(__u16 port)
{
	for (__u32 i = 0; i < MAX_PORTS; i++) {
		if (!control.ports[i])
			break;
		if (control.ports[i] == port)
			return true;
	}
	return false;
}

static __always_inline bool is_followed(struct sock *sock)
{
	__u16 family = sock->__sk_common.skc_family;

	return (family == AF_INET || family == AF_INET6) && sock->sk_protocol == IPPROTO_TCP &&
	       sock->sk_type == SOCK_STREAM && is_listener(bpf_ntohs(local_port_of(sock)));
}

static __always_inline void count_lost(void)
{
	__sync_fetch_and_add(&lost_reads, 1);
}

/*
 * Data arrived: in an interrupt, or in the thread that holds the socket's lock. If all arrivals are of unread data, the
 * newest is replaced, so the first one stays known.
 */
static __always_inline int data_came(struct sock *sock)
{
	struct tcp_sock *tcp = TYPED(struct tcp_sock, sock);
	struct connection *connection;
	struct arrival *arrival;
	__u32 place;

	if (!is_followed(sock))
		return 0;
	connection = bpf_sk_storage_get(&connections, sock, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	if (!connection)
		return 0;
	place = connection->count;
	arrival = &connection->arrivals[place & (MAX_ARRIVALS - 1)];
	if (arrival->ns && (__s32)(arrival->end - DIRECT(tcp, copied_seq)) > 0)
		arrival = &connection->arrivals[(place - 1) & (MAX_ARRIVALS - 1)];
	else
		connection->count = place + 1;
	/* a reader on another CPU finds both, or the old end: a time that is too late for it */
	*(volatile __u64 *)&arrival->ns = bpf_ktime_get_ns();
	STORE_IN_ORDER(&arrival->end, DIRECT(tcp, rcv_nxt));
	return 0;
}

/* Adds an arrival, unless all of its bytes were read before. It may be of bytes that are not read yet. */
static __always_inline void add_arrival(struct read_event *event, struct arrival *arrival)
{
	__u32 came = LOAD_IN_ORDER(&arrival->end);
	__u64 ns = *(volatile __u64 *)&arrival->ns;
	struct arrival *added = &event->arrivals[event->count & (MAX_ARRIVALS - 1)];

	if (!ns || (__s32)(came - event->sequence) <= 0)
		return;
	added->ns = ns;
	added->end = came;
	added->reserved = 0;
	event->count++;
}

static __always_inline int bytes_read(struct sock *sock, __u32 bytes)
{
	struct tcp_sock *tcp = TYPED(struct tcp_sock, sock);
	struct read_event event;
	struct connection *connection;
	__u32 size;

	connection = bpf_sk_storage_get(&connections, sock, NULL, 0);
	if (!connection)
		return 0;
	event.end_ns = bpf_ktime_get_ns();
	event.sequence = DIRECT(tcp, copied_seq) - bytes;
	event.bytes = bytes;
	event.count = 0;
	/* from the oldest on */
#pragma unroll
	for (__u32 i = 0; i < MAX_ARRIVALS; i++)
		add_arrival(&event, &connection->arrivals[(connection->count + i) & (MAX_ARRIVALS - 1)]);
	event.ends.local_port = local_port_of(sock);
	event.ends.remote_port = sock->__sk_common.skc_dport;
	read_addresses(event.ends.local, event.ends.remote, sock);
	size = event.count < MAX_ARRIVALS ? event.count : MAX_ARRIVALS;
	size = sizeof(event) - (MAX_ARRIVALS - size) * sizeof(event.arrivals[0]);
	if (bpf_ringbuf_output(&ring, &event, size, BPF_RB_NO_WAKEUP))
		count_lost();
	return 0;
}

/* Linux 6.3; fires for sockets of all protocols and processes, listeners included. */
SEC("tp_btf/sk_data_ready")
int BPF_PROG(arrivals_data_ready, struct sock *sock)
{
	return data_came(sock);
}

/* Linux 6.3; fires also for errors, other protocols and other processes. */
SEC("tp_btf/sock_recv_length")
int BPF_PROG(arrivals_receive, struct sock *sock, int result, int flags)
{
	if (result <= 0 || flags & MSG_PEEK || !is_followed(sock))
		return 0;
	return bytes_read(sock, result);
}

SEC("fentry/sock_def_readable")
int BPF_PROG(arrivals_sock_readable, struct sock *sock)
{
	return data_came(sock);
}

/* Before 5.19 an argument `nonblock` comes before the flags. */
SEC("fexit/tcp_recvmsg")
int BPF_PROG(arrivals_tcp_receive, struct sock *sock)
{
	__u64 flags = 0, result = 0;

	if (bpf_get_func_ret(ctx, &result) || (int)result <= 0)
		return 0;
	bpf_get_func_arg(ctx, bpf_get_func_arg_cnt(ctx) == 6 ? 4 : 3, &flags);
	if (flags & MSG_PEEK || !is_followed(sock))
		return 0;
	return bytes_read(sock, result);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
