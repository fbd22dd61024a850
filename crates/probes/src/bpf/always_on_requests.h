/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Finds Kafka's requests in the bytes of a connection. Requests and answers are frames of a size (4 bytes) and that
 * many bytes. A request's bytes begin with API key, version (2 bytes each) and correlation id (4); an answer's begin
 * with the correlation id. A request begins when its first byte is in the socket, and ends when the last byte of its
 * answer is.
 *
 * A broker answers a connection's requests in order, and reads none before it has answered the last (Selector.mute).
 * Requests with acks=0 have no answer: an answer to a later request closes them.
 */
#ifndef BROKERSCOPE_ALWAYS_ON_REQUESTS_H
#define BROKERSCOPE_ALWAYS_ON_REQUESTS_H

#include "always_on_connections.h"

/* clients/src/main/resources/common/message */
#define API_FETCH 1
#define API_CONTROLLED_SHUTDOWN 7
#define API_JOIN_GROUP 11
#define API_SYNC_GROUP 14
#define API_SHARE_FETCH 78
/* Far more than exist: a frame with a higher key or version is no request. */
#define MAX_API_KEY 255
#define MAX_API_VERSION 63
#define FIRST_FLEXIBLE_FETCH 12
#define FIRST_FETCH_WITHOUT_REPLICA 15

#define SIZE_BYTES 4
#define REQUEST_HEAD (SIZE_BYTES + 8)
#define ANSWER_HEAD (SIZE_BYTES + 4)
/* The smallest request has no client id (ControlledShutdown 0); the largest is below TLS's first bytes as a size. */
#define MIN_REQUEST 8
#define MAX_REQUEST (1 << 28)
#define MIN_ANSWER 4

/* At most this many steps through the frames of one call: one per head, one per body. */
#define MAX_STEPS 16

#define NS_PER_MS 1000000
#define NS_PER_SECOND 1000000000

/* The bytes that a call moved, and the position in them. */
struct walk {
	struct buffers_of_call buffers;
	__u64 now;
	/* bytes done, and bytes left */
	__u32 at;
	__u32 left;
	/* the sequence number of the call's first byte */
	__u32 sequence;
	/* offset of the answer in the call, or NOT_HERE */
	__u32 answer_at;
	__u16 port;
	__u16 reserved[3];
};

#define NOT_HERE 0xffffffff

static __always_inline __u32 smaller(__u32 one, __u32 other)
{
	return one < other ? one : other;
}

static __always_inline struct open_request *open_at(struct connection *connection, __u32 index)
{
	return &connection->open[(connection->oldest + index) & (MAX_OPEN - 1)];
}

static __always_inline void forget_oldest(struct connection *connection)
{
	connection->open_count--;
	/* usually none is left: the next one reuses the cached entry */
	connection->oldest = connection->open_count ? connection->oldest + 1 : 0;
}

static __always_inline __u32 microseconds(__u64 from, __u64 to)
{
	__u64 us = to > from ? (to - from) / 1000 : 0;

	return us < 0xffffffff ? us : 0xffffffff;
}

static __always_inline void record_request(struct connection *connection, struct open_request *open,
					   __u8 flags, __u64 now, __u16 port)
{
	__u32 slot = 0;
	__u64 number = 0;
	struct request_record *request = begin_record(now, &slot, &number);

	if (!request)
		return;
	request->kind = RECORD_REQUEST;
	request->flags = flags;
	request->api_version = open->api_version;
	request->tid = visible_tid();
	request->first_ns = open->arrival_ns;
	request->last_ns = now;
	request->complete_us = microseconds(open->arrival_ns, open->last_read_ns);
	request->answer_us = microseconds(open->arrival_ns, open->first_write_ns);
	request->connection = connection->number;
	request->correlation_id = open->correlation_id;
	request->request_bytes = open->request_bytes;
	request->answer_bytes = open->answer_bytes;
	request->api_key = open->api_key;
	request->local_port = port;
	request->reader_tid = open->reader_tid;
	set_stamp(&request->stamp, number + 1);
}

/*
 * The oldest request will not be seen answered. Not static, like other large functions here, so that the verifier
 * checks each once and not at every call.
 */
__noinline int close_oldest(struct connection *connection, struct walk *walk, __u8 flags)
{
	struct histogram *histogram;
	struct open_request *open;

	if (!connection || !walk)
		return 0;
	open = open_at(connection, 0);
	histogram = histogram_at(open->histogram);
	if (histogram && flags & REQUEST_GIVEN_UP)
		__sync_fetch_and_add(&histogram->given_up, 1);
	else if (histogram)
		__sync_fetch_and_add(&histogram->unanswered, 1);
	if (flags & REQUEST_GIVEN_UP)
		count(COUNT_GIVEN_UP);
	record_request(connection, open, flags, walk->now, walk->port);
	forget_oldest(connection);
	connection->answering = 0;
	return 0;
}

/* Where answers begin is unknown until the next request: by then all before it have been answered. */
static __noinline int lose_answers(struct connection *connection, struct walk *walk)
{
	for (__u32 i = 0; i < MAX_OPEN && connection->open_count; i++)
		close_oldest(connection, walk, REQUEST_GIVEN_UP);
	connection->answers = STREAM_UNSYNCHRONISED;
	connection->answer_head.have = 0;
	connection->answer_left = 0;
	return 0;
}

static __noinline int lose_requests(struct connection *connection, struct walk *walk)
{
	count(COUNT_BAD_FRAME);
	lose_answers(connection, walk);
	connection->requests = STREAM_UNSYNCHRONISED;
	connection->request_head.have = 0;
	connection->request_left = 0;
	connection->expected = 0;
	return 0;
}

/*
 * How long a Fetch asks to wait for data: after the client id, whose length is known only if all of it is in this call.
 */
static __noinline __u32 fetch_max_wait(struct connection *connection, struct walk *walk, __u32 at,
				       __u32 bytes)
{
	__s16 version = head_u16(&connection->request_head, SIZE_BYTES + 2);
	__u8 field[2 * MAX_HEAD] = {};
	__u16 id_bytes;

	if (bytes < 2 || copy_bytes(field, &walk->buffers, at, 2, MAX_HEAD) != 2)
		goto unknown;
	id_bytes = field[0] << 8 | field[1];
	at += 2;
	bytes -= 2;
	/* a client id of length -1 is absent */
	if (id_bytes != 0xffff) {
		if (bytes < id_bytes)
			goto unknown;
		at += id_bytes;
		bytes -= id_bytes;
	}
	/* flexible headers end with tagged fields: their count is 0, because none are defined */
	if (bytes < 9 || copy_bytes(field, &walk->buffers, at, 9, MAX_HEAD) != 9)
		goto unknown;
	if (version < FIRST_FLEXIBLE_FETCH)
		return bpf_ntohl(*(__be32 *)(field + 4));
	if (field[0])
		goto unknown;
	if (version < FIRST_FETCH_WITHOUT_REPLICA)
		return (__u32)field[5] << 24 | field[6] << 16 | field[7] << 8 | field[8];
	return (__u32)field[1] << 24 | field[2] << 16 | field[3] << 8 | field[4];
unknown:
	count(COUNT_NO_MAX_WAIT);
	return NEVER_SLOW;
}

/*
 * Reads the client id, which follows the correlation id, from the connection's first request that has it in the same
 * call as its head. A client keeps its name as long as it keeps a connection.
 */
static __noinline int read_client_id(struct connection *connection, struct walk *walk, __u32 at, __u32 bytes)
{
	__u8 field[2 * MAX_HEAD] = {};
	__u32 length;

	if (bytes < 2 || copy_bytes(field, &walk->buffers, at, 2, MAX_HEAD) != 2)
		return 0;
	length = field[0] << 8 | field[1];
	if (length == 0xffff) {
		connection->knows_client = 1;
		return 0;
	}
	if (length > bytes - 2)
		return 0;
	length = smaller(length, MAX_CLIENT_ID);
	if (copy_bytes(connection->client, &walk->buffers, at + 2, length, MAX_CLIENT_ID) != length)
		return 0;
	connection->client_bytes = length;
	connection->knows_client = 1;
	return 0;
}

/* A request's head is complete, up to the correlation id; the call's bytes after it are `bytes` at `at`. */
__noinline int open_request(struct connection *connection, struct walk *walk, __u32 at, __u32 bytes)
{
	struct histogram *histogram;
	struct open_request *open;
	__s16 api_key, api_version;
	struct head *head;
	__u32 size;

	if (!connection || !walk)
		return 0;
	head = &connection->request_head;
	size = head_u32(head, 0);
	api_key = head_u16(head, SIZE_BYTES);
	api_version = head_u16(head, SIZE_BYTES + 2);
	if (connection->open_count >= MAX_OPEN)
		close_oldest(connection, walk, connection->answering ? REQUEST_GIVEN_UP : 0);
	open = open_at(connection, connection->open_count);
	open->arrival_ns = connection->arrival_ns;
	open->complete_ns = walk->now;
	open->first_read_ns = connection->request_ns;
	open->last_read_ns = size > MIN_REQUEST ? 0 : walk->now;
	open->first_write_ns = 0;
	open->correlation_id = head_u32(head, SIZE_BYTES + 4);
	open->api_key = api_key;
	open->api_version = api_version;
	open->request_bytes = size + SIZE_BYTES;
	open->answer_bytes = 0;
	open->read_sequence = connection->request_sequence;
	open->write_sequence = 0;
	open->reader_tid = visible_tid();
	open->max_wait_ms = 0;
	if (api_key == API_FETCH)
		open->max_wait_ms = fetch_max_wait(connection, walk, at, bytes);
	else if (api_key == API_JOIN_GROUP || api_key == API_SYNC_GROUP || api_key == API_SHARE_FETCH)
		open->max_wait_ms = NEVER_SLOW;
	/* ControlledShutdown 0 has no client id */
	if (!connection->knows_client && (api_key != API_CONTROLLED_SHUTDOWN || api_version))
		read_client_id(connection, walk, at, bytes);
	open->histogram = histogram_of(connection, api_key, walk->port);
	histogram = histogram_at(open->histogram);
	connection->open_count++;
	if (!histogram) {
		count(COUNT_NO_HISTOGRAM);
		return 0;
	}
	__sync_fetch_and_add(&histogram->requests, 1);
	__sync_fetch_and_add(&histogram->request_bytes, open->request_bytes);
	return 0;
}

static __always_inline bool is_request(const struct head *head)
{
	__u32 size = head_u32(head, 0);

	return size >= MIN_REQUEST && size <= MAX_REQUEST && head_u16(head, SIZE_BYTES) <= MAX_API_KEY &&
	       head_u16(head, SIZE_BYTES + 2) <= MAX_API_VERSION;
}

/* By when all bytes before a sequence number had arrived; `now` if unknown. */
static __always_inline __u64 came_by(const struct connection *connection, __u32 end, __u64 now)
{
	__u64 by = now;

	for (__u32 i = 0; i < MAX_ARRIVALS; i++) {
		/* read before the time, which is written after it */
		__u32 came = *(volatile __u32 *)&connection->arrivals[i].end;
		__u64 ns = *(volatile __u64 *)&connection->arrivals[i].ns;

		if (ns && ns < by && (__s32)(came - end) >= 0)
			by = ns;
	}
	return by;
}

/* A request's first byte, with this sequence number, is read. */
static __noinline int begin_request(struct connection *connection, struct walk *walk, __u32 sequence)
{
	connection->request_sequence = sequence;
	connection->request_ns = walk->now;
	connection->complete_ns = 0;
	connection->arrival_ns = came_by(connection, sequence + 1, walk->now);
	return 0;
}

/* The last byte of the newest request has been read. */
static __always_inline void complete_request(struct connection *connection, __u64 now)
{
	struct open_request *open;

	if (!connection->open_count)
		return;
	open = open_at(connection, connection->open_count - 1);
	open->last_read_ns = now;
	open->complete_ns = connection->complete_ns;
	if (!open->complete_ns)
		open->complete_ns = came_by(connection, open->read_sequence + open->request_bytes, now);
}

/* Takes one step through bytes that were read; returns how many it took, 0 if they are not a request's. */
__noinline __u32 step_requests(struct connection *connection, struct walk *walk)
{
	struct head *head;
	__u32 take;

	if (!connection || !walk)
		return 0;
	head = &connection->request_head;
	if (connection->request_left) {
		take = smaller(walk->left, connection->request_left);
		connection->request_left -= take;
		if (!connection->request_left)
			complete_request(connection, walk->now);
		return take;
	}
	if (!head->have)
		begin_request(connection, walk, walk->sequence + walk->at);
	if (head->have >= REQUEST_HEAD)
		return 0;
	/* the bytes after the size belong to this request: a call that has only those is not examined further */
	take = smaller(walk->left, REQUEST_HEAD - head->have);
	if (!take_head(head, &walk->buffers, walk->at, take))
		return 0;
	if (head->have < REQUEST_HEAD)
		return take;
	if (!is_request(head))
		return 0;
	open_request(connection, walk, walk->at + take, walk->left - take);
	connection->request_left = head_u32(head, 0) - MIN_REQUEST;
	head->have = 0;
	/* all answers to earlier requests have been written */
	if (connection->answers != STREAM_FOLLOWED) {
		connection->answers = STREAM_FOLLOWED;
		connection->answering = 0;
	}
	return take;
}

/*
 * An unsynchronised connection. A broker reads a request's size with a read of 4 bytes, then requests exactly that many
 * (NetworkReceive.readFrom): if these agree, a request begins there.
 */
static __always_inline bool synchronise(struct connection *connection, struct walk *walk)
{
	struct head *head = &connection->request_head;

	if (connection->expected && asks_for(&walk->buffers, connection->expected)) {
		connection->requests = STREAM_FOLLOWED;
		connection->answers = STREAM_UNSYNCHRONISED;
		return true;
	}
	connection->expected = 0;
	head->have = 0;
	if (settings.port_count && asks_for(&walk->buffers, SIZE_BYTES) && walk->left == SIZE_BYTES &&
	    take_head(head, &walk->buffers, 0, SIZE_BYTES)) {
		connection->expected = head_u32(head, 0);
		begin_request(connection, walk, walk->sequence);
		if (connection->expected >= MIN_REQUEST && connection->expected <= MAX_REQUEST)
			return false;
		connection->expected = 0;
	}
	count(COUNT_UNSYNCHRONISED);
	return false;
}

/* One step through a call's bytes: returns how many it took, 0 if they are not a frame's. */
typedef __u32 (*step_fn)(struct connection *connection, struct walk *walk);

/* Whether all bytes of a call belonged to frames. */
static __always_inline bool walk_frames(struct connection *connection, struct walk *walk, step_fn step)
{
	for (int i = 0; i < MAX_STEPS; i++) {
		__u32 took = step(connection, walk);

		if (!took)
			return false;
		walk->at += took;
		walk->left -= took;
		if (!walk->left)
			return true;
	}
	return false;
}

/* Notes since when the rest of a request is in the receive buffer: the thread reads it as soon as it has a CPU. */
static __always_inline void look_for_rest(struct connection *connection, struct sock *sock, __u64 now)
{
	struct tcp_sock *tcp = TYPED(struct tcp_sock, sock);
	struct head *head = &connection->request_head;
	__u32 left = connection->request_left;

	if (connection->complete_ns)
		return;
	if (!left && head->have >= SIZE_BYTES)
		left = head_u32(head, 0) + SIZE_BYTES - head->have;
	if (left && DIRECT(tcp, rcv_nxt) - DIRECT(tcp, copied_seq) >= left)
		connection->complete_ns = came_by(connection, DIRECT(tcp, copied_seq) + left, now);
}

static __always_inline int bytes_read(struct sock *sock, __s32 bytes)
{
	struct connection *connection = connection_of(sock);
	struct tcp_sock *tcp = TYPED(struct tcp_sock, sock);
	struct walk walk = { .left = bytes, .answer_at = NOT_HERE };

	if (!connection || connection->requests == STREAM_IGNORED)
		return 0;
	/* more of a large request */
	if (connection->request_left > (__u32)bytes) {
		connection->request_left -= bytes;
		if (!connection->complete_ns)
			look_for_rest(connection, sock, bpf_ktime_get_ns());
		return 0;
	}
	walk.now = bpf_ktime_get_ns();
	walk.port = local_port_of(sock);
	walk.sequence = DIRECT(tcp, copied_seq) - bytes;
	find_buffers(&walk.buffers);
	if (connection->requests == STREAM_NEW)
		connection->requests = bytes_before(sock, bytes) ? STREAM_UNSYNCHRONISED : STREAM_FOLLOWED;
	if (connection->requests == STREAM_UNSYNCHRONISED && !synchronise(connection, &walk))
		return 0;
	if (!walk_frames(connection, &walk, step_requests))
		lose_requests(connection, &walk);
	else
		look_for_rest(connection, sock, walk.now);
	return 0;
}

#endif
