/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The target's TCP connections from its listeners, what is known of each, and the histograms. A connection's state is
 * stored with its socket, and goes with it: no other connection gets it.
 */
#ifndef BROKERSCOPE_ALWAYS_ON_CONNECTIONS_H
#define BROKERSCOPE_ALWAYS_ON_CONNECTIONS_H

#include "always_on_bytes.h"

/* include/linux/socket.h */
#define AF_INET 2

/* Requests of a connection that have been read and not answered: Kafka has one, and one more after each with acks=0. */
#define MAX_OPEN 4

struct open_request {
	/* its first byte was in the receive buffer; its last byte */
	__u64 arrival_ns;
	__u64 complete_ns;
	__u64 first_read_ns;
	__u64 last_read_ns;
	__u64 first_write_ns;
	__s32 correlation_id;
	__s16 api_key;
	__s16 api_version;
	__u32 request_bytes;
	__u32 answer_bytes;
	__u32 read_sequence;
	__u32 write_sequence;
	__u32 reader_tid;
	/* NEVER_SLOW, or for how long the request asks to be kept waiting */
	__u32 max_wait_ms;
	/* number of its histogram; NO_HISTOGRAM */
	__u32 histogram;
	__u32 reserved;
};

#define NEVER_SLOW 0xffffffff
#define NO_HISTOGRAM 0xffffffff

enum stream_state {
	/* nothing is known yet */
	STREAM_NEW,
	/* where frames begin is known */
	STREAM_FOLLOWED,
	/* it is not */
	STREAM_UNSYNCHRONISED,
	/* of a connection that the target opened: it never carries requests to it */
	STREAM_IGNORED,
};

/* Data that came: all bytes before a sequence number were there by then. */
struct arrival {
	__u64 ns;
	__u32 end;
	__u32 reserved;
};

/* Kept of each connection. A client mostly sends five requests at most before it waits for an answer. */
#define MAX_ARRIVALS 8

struct connection {
	/* what every call looks at, in one cache line */

	/* enum stream_state of requests and of answers */
	__u8 requests;
	__u8 answers;
	/* the frame that is being written is the answer to the oldest open request */
	__u8 answering;
	/* what its client calls itself has been read, or it has no name */
	__u8 knows_client;
	/* 0 until it has one */
	__u32 number;
	/* what is still to come of the frame whose head has come */
	__u32 request_left;
	__u32 answer_left;
	/* of an unsynchronised connection: what the last read, of just 4 bytes, had; 0 if the last was another */
	__u32 expected;
	/* open requests: the oldest, modulo MAX_OPEN, and how many */
	__u32 oldest;
	__u32 open_count;
	/* the last histogram used, by key; 0 if none */
	__u32 histogram_key;
	__u32 histogram;
	/* of the frames whose heads are coming */
	__u32 request_sequence;
	__u32 answer_sequence;
	__u32 reserved_word;
	__u64 request_ns;
	__u64 arrival_ns;
	/* the whole request was in the receive buffer by then; 0 while it is not known to be */
	__u64 complete_ns;
	__u64 answer_ns;
	/* the last answer was written; 0 */
	__u64 answered_ns;

	/* of the data that is not read yet, and of some before; the next place, modulo MAX_ARRIVALS */
	struct arrival arrivals[MAX_ARRIVALS];
	__u32 arrival_count;
	__u32 reserved_arrivals;
	struct head request_head;
	struct head answer_head;
	struct open_request open[MAX_OPEN];
	struct ends ends;
	/* as far as copies from user memory need, of which MAX_CLIENT_ID are used */
	__u8 client[2 * MAX_CLIENT_ID];
	__u32 client_bytes;
	__u32 reserved_end;
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct connection);
} connections SEC(".maps");

/* By connection number modulo MAX_ENDS. */
SHARED_ARRAY(all_ends, struct ends);

__u32 connection_count;

static __always_inline __u16 local_port_of(struct sock *sock)
{
	struct inet_sock *inet = TYPED(struct inet_sock, sock);

	return bpf_ntohs(DIRECT(inet, inet_sport));
}

static __always_inline bool is_listener(__u16 port)
{
	for (__u32 i = 0; i < MAX_PORTS; i++) {
		if (i >= settings.port_count)
			break;
		if (settings.ports[i] == port)
			return true;
	}
	return !settings.port_count;
}

static __always_inline bool is_followed(struct sock *sock)
{
	__u16 family = sock->__sk_common.skc_family;

	return (family == AF_INET || family == AF_INET6) && sock->sk_protocol == IPPROTO_TCP &&
	       sock->sk_type == SOCK_STREAM && is_listener(local_port_of(sock));
}

/* An IPv4 address as an IPv6 one (RFC 4291, 2.5.5.2). */
static __always_inline void read_ends(struct ends *ends, struct sock *sock)
{
	struct inet_sock *inet = TYPED(struct inet_sock, sock);

	ends->local_port = DIRECT(inet, inet_sport);
	ends->remote_port = sock->__sk_common.skc_dport;
	if (sock->__sk_common.skc_family == AF_INET6 &&
	    bpf_core_field_exists(sock->__sk_common.skc_v6_daddr)) {
		BPF_CORE_READ_INTO(&ends->local, sock, __sk_common.skc_v6_rcv_saddr.in6_u.u6_addr32);
		BPF_CORE_READ_INTO(&ends->remote, sock, __sk_common.skc_v6_daddr.in6_u.u6_addr32);
		return;
	}
	ends->local[0] = 0;
	ends->local[1] = 0;
	ends->local[2] = bpf_htonl(0xffff);
	ends->local[3] = sock->__sk_common.skc_rcv_saddr;
	ends->remote[0] = 0;
	ends->remote[1] = 0;
	ends->remote[2] = bpf_htonl(0xffff);
	ends->remote[3] = sock->__sk_common.skc_daddr;
}

/* Gives a connection its number, under which user space finds its ends. */
static __noinline int name_connection(struct connection *connection, struct sock *sock)
{
	__u32 number = __sync_fetch_and_add(&connection_count, 1) + 1;
	__u32 slot = number & (MAX_ENDS - 1);
	struct ends *ends = bpf_map_lookup_elem(&all_ends, &slot);

	read_ends(&connection->ends, sock);
	connection->number = number;
	connection->ends.number = number;
	if (!ends)
		return 0;
	set_stamp(&ends->stamp, 0);
	*ends = connection->ends;
	set_stamp(&ends->stamp, number);
	return 0;
}

static __always_inline struct connection *connection_of(struct sock *sock)
{
	struct connection *connection;

	connection = bpf_sk_storage_get(&connections, sock, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	if (!connection) {
		count(COUNT_NO_CONNECTION);
		return NULL;
	}
	if (!connection->number)
		name_connection(connection, sock);
	return connection;
}

/*
 * Data has come on a connection: in an interrupt, or in the thread that holds the socket's lock, of whichever process. Where there
 * is more than fits, the newest gives way: when the first came stays known.
 */
static __always_inline int data_came(struct sock *sock)
{
	struct tcp_sock *tcp = TYPED(struct tcp_sock, sock);
	/* without listeners it is known at the first read only whether the connection is the target's */
	__u64 flags = settings.port_count ? BPF_SK_STORAGE_GET_F_CREATE : 0;
	struct connection *connection;
	struct arrival *arrival;
	__u32 place;

	connection = bpf_sk_storage_get(&connections, sock, NULL, flags);
	if (!connection || connection->requests == STREAM_IGNORED)
		return 0;
	place = connection->arrival_count;
	arrival = &connection->arrivals[place & (MAX_ARRIVALS - 1)];
	if (arrival->ns && (__s32)(arrival->end - DIRECT(tcp, copied_seq)) > 0)
		arrival = &connection->arrivals[(place - 1) & (MAX_ARRIVALS - 1)];
	else
		connection->arrival_count = place + 1;
	set_stamp(&arrival->ns, 0);
	arrival->end = DIRECT(tcp, rcv_nxt);
	set_stamp(&arrival->ns, bpf_ktime_get_ns());
	return 0;
}

/*
 * Bytes that were received on the connection before the last `bytes` that were read. The kernel changes both counters as
 * segments come; where that makes a new connection look like an old one, it is synchronised like one.
 */
static __always_inline __u32 bytes_before(struct sock *sock, __u32 bytes)
{
	struct tcp_sock *tcp = TYPED(struct tcp_sock, sock);
	__u32 first = DIRECT(tcp, rcv_nxt) - (__u32)DIRECT(tcp, bytes_received);

	return DIRECT(tcp, copied_seq) - bytes - first;
}

SHARED_ARRAY(histograms, struct histogram);

/* Their numbers by key. */
BPF_MAP(histogram_numbers, HASH, __u32, __u32, 4096);

__u32 histogram_count;

static __always_inline struct histogram *histogram_at(__u32 number)
{
	return bpf_map_lookup_elem(&histograms, &number);
}

/* The number of a new one. Of two CPUs that make the same at once, one's number stays unused. */
static __noinline __u32 make_histogram(__u32 key)
{
	__u32 number = __sync_fetch_and_add(&histogram_count, 1);
	struct histogram *histogram = histogram_at(number);
	__u32 *known;

	if (!histogram || number >= settings.histograms) {
		__sync_fetch_and_add(&histogram_count, -1);
		return NO_HISTOGRAM;
	}
	if (!bpf_map_update_elem(&histogram_numbers, &key, &number, BPF_NOEXIST)) {
		histogram->key = (__u64)key + 1;
		return number;
	}
	known = bpf_map_lookup_elem(&histogram_numbers, &key);
	return known ? *known : NO_HISTOGRAM;
}

/* A connection mostly has requests of one API after the other: the last one's is kept. */
static __always_inline __u32 histogram_of(struct connection *connection, __s16 api_key, __u16 port)
{
	__u32 key = (__u32)(__u16)api_key << 16 | port;
	__u32 *known;

	if (connection->histogram_key == key)
		return connection->histogram;
	known = bpf_map_lookup_elem(&histogram_numbers, &key);
	connection->histogram = known ? *known : make_histogram(key);
	/* a key is never 0, as a port is none */
	connection->histogram_key = connection->histogram == NO_HISTOGRAM ? 0 : key;
	return connection->histogram;
}

/* The place of the highest bit that is set; 0 of 0. */
static __always_inline __u32 log2_of(__u64 value)
{
	__u32 log = 0, shift;

	shift = (value > 0xffffffff) << 5;
	value >>= shift;
	log |= shift;
	shift = (value > 0xffff) << 4;
	value >>= shift;
	log |= shift;
	shift = (value > 0xff) << 3;
	value >>= shift;
	log |= shift;
	shift = (value > 0xf) << 2;
	value >>= shift;
	log |= shift;
	shift = (value > 0x3) << 1;
	value >>= shift;
	log |= shift;
	return log | (value >> 1);
}

/* Below SUB_BUCKETS nanoseconds one bucket each, above as many for each power of two. histogram.rs has the inverse. */
static __always_inline __u32 bucket_of(__u64 latency_ns)
{
	__u32 shift, bucket;

	if (latency_ns < SUB_BUCKETS)
		return latency_ns;
	if (latency_ns >> MAX_LATENCY_BITS)
		return BUCKETS - 1;
	shift = log2_of(latency_ns) - SUB_BUCKET_BITS;
	bucket = (shift << SUB_BUCKET_BITS) + (latency_ns >> shift);
	return bucket < BUCKETS ? bucket : BUCKETS - 1;
}

static __always_inline void add_latency(__u32 number, __u64 latency_ns, __u32 answer_bytes)
{
	struct histogram *histogram = histogram_at(number);
	__u64 bucket = bucket_of(latency_ns);

	if (!histogram)
		return;
	__sync_fetch_and_add(&histogram->answer_bytes, answer_bytes);
	__sync_fetch_and_add(&histogram->total_ns, latency_ns);
	barrier_var(bucket);
	if (bucket < BUCKETS)
		__sync_fetch_and_add(&histogram->buckets[bucket], 1);
}

#endif
