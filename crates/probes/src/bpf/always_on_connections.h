/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The target's TCP connections from its listeners, what is known of each, and the histograms. A connection's state is
 * stored with its socket and freed with it: no other connection inherits it.
 */
#ifndef BROKERSCOPE_ALWAYS_ON_CONNECTIONS_H
#define BROKERSCOPE_ALWAYS_ON_CONNECTIONS_H

#include "always_on_bytes.h"

/* Read but unanswered requests per connection: Kafka has one, plus one after each with acks=0. */
#define MAX_OPEN 4

struct open_request {
	/* when its first byte was in the receive buffer; when its last byte was */
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
	/* NEVER_SLOW, or how long the request asks to wait for data */
	__u32 max_wait_ms;
	/* number of its histogram, or NO_HISTOGRAM */
	__u32 histogram;
	__u32 reserved;
};

#define NEVER_SLOW 0xffffffff
#define NO_HISTOGRAM 0xffffffff

enum stream_state {
	/* nothing is known yet */
	STREAM_NEW,
	/* frame boundaries are known */
	STREAM_FOLLOWED,
	/* frame boundaries are unknown */
	STREAM_UNSYNCHRONISED,
	/* the target opened the connection: it never carries requests to the target */
	STREAM_IGNORED,
};

/* Received data: all bytes before a sequence number were there at that time. */
struct arrival {
	__u64 ns;
	__u32 end;
	__u32 reserved;
};

/* Arrivals kept per connection. A client usually sends at most five requests before it waits for an answer. */
#define MAX_ARRIVALS 8

struct connection {
	/* fields that every call reads: 56 bytes, in one cache line with the storage's own pointer before them */

	/* enum stream_state of requests and of answers */
	__u8 requests;
	__u8 answers;
	/* the frame being written is the answer to the oldest open request */
	__u8 answering;
	/* the client id has been read, or there is none */
	__u8 knows_client;
	/* bytes of the heads that are incomplete */
	__u8 request_have;
	__u8 answer_have;
	/* open requests: index of the oldest, modulo MAX_OPEN, and count */
	__u8 oldest;
	__u8 open_count;
	/* 0 until assigned */
	__u32 number;
	/* bytes still to come of the frame whose head is complete */
	__u32 request_left;
	__u32 answer_left;
	/* sequence number after the last bytes that were read; bytes of calls that were left out are not counted */
	__u32 read_to;
	/* the last histogram used, by key; 0 if none */
	__u32 histogram_key;
	__u32 histogram;
	/* index of the next arrival, modulo MAX_ARRIVALS */
	__u32 arrival_count;
	/* sizes are read by calls that are left out */
	__u32 leaves_out_sizes;
	/* when the last answer was written; 0 if none was */
	__u64 answered_ns;
	__u64 reserved;

	/* arrivals of unread data, and of some before */
	struct arrival arrivals[MAX_ARRIVALS];
	struct open_request open[MAX_OPEN];

	/* of frames that take several calls: their heads, and the sequence numbers and times of their first bytes */
	struct head request_head;
	struct head answer_head;
	__u32 request_sequence;
	__u32 answer_sequence;
	__u64 request_ns;
	__u64 arrival_ns;
	/* by when the whole request was in the receive buffer; 0 while unknown */
	__u64 complete_ns;
	__u64 answer_ns;

	struct ends ends;
	/* sized for copies from user memory; the first MAX_CLIENT_ID bytes are used */
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

/* Reads both ends; IPv4 addresses become IPv6 ones (RFC 4291, 2.5.5.2). */
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

/* Numbers a connection; user space finds its ends by that number. */
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
 * Data arrived on a connection of any process: in an interrupt, or in the thread that holds the socket's lock. If the
 * arrivals are full, the newest is replaced, so the first arrival stays known.
 */
static __always_inline int data_came(struct sock *sock)
{
	struct tcp_sock *tcp = TYPED(struct tcp_sock, sock);
	/* without configured listeners, only the first read shows whether the connection is the target's */
	__u64 flags = settings.port_count ? BPF_SK_STORAGE_GET_F_CREATE : 0;
	struct connection *connection;
	struct arrival *arrival;
	__u32 place;

	connection = bpf_sk_storage_get(&connections, sock, NULL, flags);
	if (!connection || connection->requests == STREAM_IGNORED)
		return 0;
	place = connection->arrival_count;
	/* no read has been seen: what came before has been read, unless the connection is new */
	if (connection->requests == STREAM_NEW)
		connection->read_to = DIRECT(tcp, copied_seq);
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
 * Bytes received on the connection before the last `bytes` that were read. The kernel changes both counters as segments
 * come; if that makes a new connection look like an old one, it is synchronised like one.
 */
static __always_inline __u32 bytes_before(struct sock *sock, __u32 bytes)
{
	struct tcp_sock *tcp = TYPED(struct tcp_sock, sock);
	__u32 first = DIRECT(tcp, rcv_nxt) - (__u32)DIRECT(tcp, bytes_received);

	return DIRECT(tcp, copied_seq) - bytes - first;
}

SHARED_ARRAY(histograms, struct histogram);

/* Numbers of the histograms by key. */
BPF_MAP(histogram_numbers, HASH, __u32, __u32, 4096);

__u32 histogram_count;

static __always_inline struct histogram *part_of_histogram(__u32 number, __u32 part)
{
	__u32 slot = number << settings.histogram_bits | part;

	return number < settings.histograms ? bpf_map_lookup_elem(&histograms, &slot) : NULL;
}

/* The part that this CPU counts in. */
static __always_inline struct histogram *histogram_at(__u32 number)
{
	return part_of_histogram(number, bpf_get_smp_processor_id() & ((1 << settings.histogram_bits) - 1));
}

/* Returns the number of a new histogram. If two CPUs make the same one at once, one number stays unused. */
static __noinline __u32 make_histogram(__u32 key)
{
	__u32 number = __sync_fetch_and_add(&histogram_count, 1);
	struct histogram *histogram = part_of_histogram(number, 0);
	__u32 *known;

	if (!histogram) {
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

static __noinline __u32 find_histogram(struct connection *connection, __u32 key)
{
	__u32 *known;

	known = bpf_map_lookup_elem(&histogram_numbers, &key);
	connection->histogram = known ? *known : make_histogram(key);
	/* a key is never 0, because no port is */
	connection->histogram_key = connection->histogram == NO_HISTOGRAM ? 0 : key;
	return connection->histogram;
}

/* A connection usually repeats requests of one API: its last histogram is cached. */
static __always_inline __u32 histogram_of(struct connection *connection, __s16 api_key, __u16 port)
{
	__u32 key = (__u32)(__u16)api_key << 16 | port;

	return connection->histogram_key == key ? connection->histogram : find_histogram(connection, key);
}

/* Index of the highest set bit; 0 for 0. */
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

/* One bucket each below SUB_BUCKETS nanoseconds; above, SUB_BUCKETS per power of two. histogram.rs has the inverse. */
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
