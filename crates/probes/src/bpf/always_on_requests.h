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

/*
 * The bytes that a call moved, and the position in them. Functions that compare its fields are global, inline, or
 * called by global ones only. Of any other, the verifier before 6.8 may skip a path because it has checked one with
 * other constants on the caller's stack (41f6f64e6999), and then removes that path's instructions.
 */
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
	request->tid = visible_tid_of(current_task());
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
	connection->answer_have = 0;
	connection->answer_left = 0;
	return 0;
}

static __noinline int lose_requests(struct connection *connection, struct walk *walk)
{
	count(COUNT_BAD_FRAME);
	lose_answers(connection, walk);
	connection->requests = STREAM_UNSYNCHRONISED;
	connection->request_have = 0;
	connection->request_left = 0;
	return 0;
}

/*
 * How long a Fetch asks to wait for data: after the client id, whose length is known only if all of it is in this call.
 */
__noinline __u32 fetch_max_wait(__s16 version, struct walk *walk, __u32 at, __u32 bytes)
{
	__u8 field[2 * MAX_HEAD] = {};
	__u16 id_bytes;

	if (!walk || bytes < 2 || copy_bytes(field, &walk->buffers, at, 2, MAX_HEAD) != 2)
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
__noinline int read_client_id(struct connection *connection, struct walk *walk, __u32 at, __u32 bytes)
{
	__u8 field[2 * MAX_HEAD] = {};
	__u32 length;

	if (!connection || !walk || bytes < 2 || copy_bytes(field, &walk->buffers, at, 2, MAX_HEAD) != 2)
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

/* A request's size, and the fields that all headers begin with. */
struct request_head {
	__u32 size;
	__s16 api_key;
	__s16 api_version;
	__s32 correlation_id;
};

static __always_inline bool is_request(const struct request_head *head)
{
	return head->size >= MIN_REQUEST && head->size <= MAX_REQUEST &&
	       (__u16)head->api_key <= MAX_API_KEY && (__u16)head->api_version <= MAX_API_VERSION;
}

/* A request's first byte: its sequence number, when it had arrived, and when it was read. */
struct request_start {
	__u32 sequence;
	__u64 arrival_ns;
	__u64 read_ns;
};

/* A request's head is complete; the call's bytes after it are `bytes` at `at`. */
static __always_inline struct open_request *open_request(struct connection *connection, struct walk *walk,
							 const struct request_head *head,
							 const struct request_start *start, __u32 at,
							 __u32 bytes)
{
	struct histogram *histogram;
	struct open_request *open;

	if (connection->open_count >= MAX_OPEN)
		close_oldest(connection, walk, connection->answering ? REQUEST_GIVEN_UP : 0);
	open = open_at(connection, connection->open_count);
	open->arrival_ns = start->arrival_ns;
	open->complete_ns = walk->now;
	open->first_read_ns = start->read_ns;
	open->last_read_ns = head->size > MIN_REQUEST ? 0 : walk->now;
	open->first_write_ns = 0;
	open->correlation_id = head->correlation_id;
	open->api_key = head->api_key;
	open->api_version = head->api_version;
	open->request_bytes = head->size + SIZE_BYTES;
	open->answer_bytes = 0;
	open->read_sequence = start->sequence;
	open->write_sequence = 0;
	open->reader_tid = visible_tid_of(current_task());
	open->max_wait_ms = 0;
	if (head->api_key == API_FETCH)
		open->max_wait_ms = fetch_max_wait(head->api_version, walk, at, bytes);
	else if (head->api_key == API_JOIN_GROUP || head->api_key == API_SYNC_GROUP ||
		 head->api_key == API_SHARE_FETCH)
		open->max_wait_ms = NEVER_SLOW;
	/* ControlledShutdown 0 has no client id */
	if (!connection->knows_client && (head->api_key != API_CONTROLLED_SHUTDOWN || head->api_version))
		read_client_id(connection, walk, at, bytes);
	open->histogram = histogram_of(connection, head->api_key, walk->port);
	connection->open_count++;
	/* all answers to earlier requests have been written */
	if (connection->answers != STREAM_FOLLOWED) {
		connection->answers = STREAM_FOLLOWED;
		connection->answering = 0;
	}
	histogram = histogram_at(open->histogram);
	if (histogram) {
		__sync_fetch_and_add(&histogram->requests, 1);
		__sync_fetch_and_add(&histogram->request_bytes, open->request_bytes);
	} else {
		count(COUNT_NO_HISTOGRAM);
	}
	return open;
}

/* By when all bytes before a sequence number had arrived; `now` if unknown. The newest arrival has the highest end. */
static __always_inline __u64 came_by(struct connection *connection, __u32 end, __u64 now)
{
	__u32 newest = connection->arrival_count - 1;
	__u64 by = now;

#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < MAX_ARRIVALS; i++) {
		struct arrival *arrival = &connection->arrivals[(newest - i) & (MAX_ARRIVALS - 1)];
		/* before the time, which is written after it */
		__u32 came = LOAD_IN_ORDER(&arrival->end);
		__u64 ns = *(volatile __u64 *)&arrival->ns;

		if ((__s32)(came - end) < 0)
			break;
		if (ns && ns < by)
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

/* Opens the request whose head is complete, `taken` bytes of it in this call; returns false if it is no request's. */
static __always_inline bool end_head(struct connection *connection, struct walk *walk, __u32 taken)
{
	const struct head *bytes = &connection->request_head;
	const struct request_head head = { .size = head_u32(bytes, 0),
					   .api_key = head_u16(bytes, SIZE_BYTES),
					   .api_version = head_u16(bytes, SIZE_BYTES + 2),
					   .correlation_id = head_u32(bytes, SIZE_BYTES + 4) };
	const struct request_start start = { .sequence = connection->request_sequence,
					     .arrival_ns = connection->arrival_ns,
					     .read_ns = connection->request_ns };

	if (!is_request(&head))
		return false;
	open_request(connection, walk, &head, &start, walk->at + taken, walk->left - taken);
	connection->request_left = head.size - MIN_REQUEST;
	connection->request_have = 0;
	return true;
}

/* Takes one step through bytes that were read; returns how many it took, 0 if they are not a request's. */
__noinline __u32 step_requests(struct connection *connection, struct walk *walk)
{
	__u32 take, have;

	if (!connection || !walk)
		return 0;
	if (connection->request_left) {
		take = smaller(walk->left, connection->request_left);
		connection->request_left -= take;
		if (!connection->request_left)
			complete_request(connection, walk->now);
		return take;
	}
	have = connection->request_have;
	if (!have)
		begin_request(connection, walk, walk->sequence + walk->at);
	if (have >= REQUEST_HEAD)
		return 0;
	/* the bytes after the size belong to this request: a call that has only those is not examined further */
	take = smaller(walk->left, REQUEST_HEAD - have);
	if (!take_head(&connection->request_head, have, &walk->buffers, walk->at, take))
		return 0;
	connection->request_have = have + take;
	if (have + take == REQUEST_HEAD && !end_head(connection, walk, take))
		return 0;
	return take;
}

/*
 * A broker reads a request's size by a call for exactly these 4 bytes, and then asks for exactly that many
 * (NetworkReceive.readFrom). A call of the first kind is left out, before its connection is looked up: the sequence
 * numbers of the next one show it, and that one's length is the size. So a request begins there, also on a connection whose
 * frames were unknown.
 */
static __always_inline bool is_left_out(const struct buffers_of_call *buffers, __u32 bytes)
{
	return bytes == SIZE_BYTES && asks_for(buffers, SIZE_BYTES);
}

/* A request begins whose size a call that was left out has read; returns false if this call does not show it. */
static __always_inline bool take_size(struct connection *connection, struct walk *walk)
{
	__u64 size = walk->buffers.size;

	if (walk->buffers.kind != BUFFERS_ONE || size < MIN_REQUEST || size > MAX_REQUEST)
		return false;
	begin_request(connection, walk, walk->sequence - SIZE_BYTES);
	*(__be32 *)connection->request_head.bytes = bpf_htonl(size);
	connection->request_have = SIZE_BYTES;
	connection->leaves_out_sizes = true;
	return true;
}

/* The last bytes of a request, up to this sequence number, were read by a call that was left out. */
static __noinline int take_last_bytes(struct connection *connection, __u32 end, __u64 now)
{
	connection->request_left = 0;
	complete_request(connection, came_by(connection, end, now));
	return 0;
}

/*
 * Takes the bytes of calls that were left out before this one, which may be the last of a request, the size of another,
 * or both. Returns false if frames are unknown after them.
 */
__noinline bool take_left_out(struct connection *connection, struct walk *walk, __u32 bytes)
{
	bool is_known;

	if (!connection || !walk)
		return false;
	is_known = connection->requests == STREAM_FOLLOWED;
	if (connection->request_left == SIZE_BYTES && bytes >= SIZE_BYTES) {
		bytes -= SIZE_BYTES;
		take_last_bytes(connection, walk->sequence - bytes, walk->now);
		if (!bytes)
			return true;
	}
	if (bytes == SIZE_BYTES && !connection->request_left && !connection->request_have &&
	    (is_known || settings.port_count) && take_size(connection, walk)) {
		connection->requests = STREAM_FOLLOWED;
		if (!is_known)
			connection->answers = STREAM_UNSYNCHRONISED;
		return true;
	}
	if (is_known)
		lose_requests(connection, walk);
	else
		count(COUNT_UNSYNCHRONISED);
	return false;
}

/* Whether a request begins here whose size was not left out, as all sizes before it were: then that one was wrong. */
static __always_inline bool lacks_size(const struct connection *connection, const struct walk *walk)
{
	return connection->leaves_out_sizes && !connection->request_left && !connection->request_have &&
	       walk->buffers.size > SIZE_BYTES;
}

/*
 * The usual case: a call that was left out has read the size of a request, and this one reads the rest. Returns false,
 * and changes nothing, if it is another case.
 */
static __always_inline bool take_request(struct connection *connection, struct walk *walk)
{
	struct request_head head = { .size = walk->left };
	struct request_start start = { .sequence = walk->sequence - SIZE_BYTES, .read_ns = walk->now };
	struct open_request *open;
	struct {
		__be16 api_key;
		__be16 api_version;
		__be32 correlation_id;
	} fields;

	if (connection->requests != STREAM_FOLLOWED || connection->request_left || connection->request_have ||
	    walk->left < sizeof(fields) || !asks_for(&walk->buffers, walk->left) ||
	    bpf_probe_read_user(&fields, sizeof(fields), (void *)walk->buffers.address))
		return false;
	head.api_key = bpf_ntohs(fields.api_key);
	head.api_version = bpf_ntohs(fields.api_version);
	head.correlation_id = bpf_ntohl(fields.correlation_id);
	if (!is_request(&head))
		return false;
	start.arrival_ns = came_by(connection, start.sequence + 1, walk->now);
	open = open_request(connection, walk, &head, &start, sizeof(fields), walk->left - sizeof(fields));
	open->last_read_ns = walk->now;
	open->complete_ns = came_by(connection, walk->sequence + walk->left, walk->now);
	connection->leaves_out_sizes = true;
	return true;
}

/* The first bytes that are seen of a connection, and how many came before them. */
static __always_inline void begin_stream(struct connection *connection, const struct walk *walk, __u32 before)
{
	connection->requests = STREAM_UNSYNCHRONISED;
	if (before != 0 && before != SIZE_BYTES)
		return;
	connection->requests = STREAM_FOLLOWED;
	connection->read_to = walk->sequence - before;
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
	__u32 left = connection->request_left;

	if (connection->complete_ns)
		return;
	if (!left && connection->request_have >= SIZE_BYTES)
		left = head_u32(&connection->request_head, 0) + SIZE_BYTES - connection->request_have;
	if (left && DIRECT(tcp, rcv_nxt) - DIRECT(tcp, copied_seq) >= left)
		connection->complete_ns = came_by(connection, DIRECT(tcp, copied_seq) + left, now);
}

static __always_inline int bytes_read(struct sock *sock, __s32 bytes)
{
	struct tcp_sock *tcp = TYPED(struct tcp_sock, sock);
	struct walk walk = { .left = bytes, .answer_at = NOT_HERE };
	struct connection *connection;
	__u32 left_out;

	find_buffers(&walk.buffers);
	if (is_left_out(&walk.buffers, bytes))
		return 0;
	connection = connection_of(sock);
	if (!connection || connection->requests == STREAM_IGNORED)
		return 0;
	walk.sequence = DIRECT(tcp, copied_seq) - bytes;
	if (connection->requests == STREAM_NEW)
		begin_stream(connection, &walk, bytes_before(sock, bytes));
	left_out = walk.sequence - connection->read_to;
	connection->read_to = walk.sequence + bytes;
	/* more of a large request */
	if (!left_out && connection->request_left > (__u32)bytes) {
		connection->request_left -= bytes;
		if (!connection->complete_ns)
			look_for_rest(connection, sock, bpf_ktime_get_ns());
		return 0;
	}
	walk.now = bpf_ktime_get_ns();
	walk.port = local_port_of(sock);
	if (left_out == SIZE_BYTES && take_request(connection, &walk))
		return 0;
	if ((left_out || connection->requests != STREAM_FOLLOWED) &&
	    !take_left_out(connection, &walk, left_out))
		return 0;
	if (lacks_size(connection, &walk) || !walk_frames(connection, &walk, step_requests))
		lose_requests(connection, &walk);
	else
		look_for_rest(connection, sock, walk.now);
	return 0;
}

#endif
