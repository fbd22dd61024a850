/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Finds answers in the bytes that the target writes to a connection, in one call or several; adds finished requests to
 * their histograms; submits the slow ones.
 */
#ifndef BROKERSCOPE_ALWAYS_ON_ANSWERS_H
#define BROKERSCOPE_ALWAYS_ON_ANSWERS_H

#include "always_on_requests.h"

/* Holds a second's worth of slow requests. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1024 * 1024);
} ring SEC(".maps");

/* Heads of slow answers that take several calls, by connection number. */
struct answer_bytes {
	__u32 length;
	__u8 bytes[2 * ANSWER_BYTES];
};

BPF_MAP(answer_bytes, LRU_HASH, __u32, struct answer_bytes, 256);

/* Initial value of an entry. */
const volatile struct answer_bytes no_answer_bytes = {};

/* Slow requests submitted in the current second, and when it began. */
__u64 second_began_ns;
__u32 submitted;

static __always_inline bool is_slow(struct open_request *open, __u64 now)
{
	__u64 allowed = control.threshold_ns;

	if (open->max_wait_ms == NEVER_SLOW)
		return false;
	return now - open->arrival_ns >= allowed + (__u64)open->max_wait_ms * NS_PER_MS;
}

/* The limit need not be exact: two CPUs may begin a second at once. */
static __always_inline bool may_submit(__u64 now)
{
	if (now - second_began_ns >= NS_PER_SECOND) {
		second_began_ns = now;
		submitted = 0;
	}
	if (__sync_fetch_and_add(&submitted, 1) < settings.slow_per_second)
		return true;
	count(COUNT_OVER_LIMIT);
	return false;
}

/* Bytes of the answer that begins in this call. */
static __always_inline __u32 answer_bytes_here(struct open_request *open, struct walk *walk)
{
	__u32 here = walk->at + walk->left - walk->answer_at;

	here = smaller(here, open->answer_bytes);
	return smaller(here, ANSWER_BYTES);
}

/* The answer is already slow and will not be finished in this call: its first bytes can only be read now. */
static __noinline int keep_answer(struct connection *connection, struct open_request *open, struct walk *walk)
{
	__u32 number = connection->number, bytes = answer_bytes_here(open, walk);
	struct answer_bytes *kept;

	if (bpf_map_update_elem(&answer_bytes, &number, (void *)&no_answer_bytes, BPF_ANY))
		return 0;
	kept = bpf_map_lookup_elem(&answer_bytes, &number);
	if (kept)
		kept->length = copy_bytes(kept->bytes, &walk->buffers, walk->answer_at, bytes, ANSWER_BYTES);
	return 0;
}

static __always_inline void copy_answer(struct slow_request *slow, struct connection *connection,
					struct open_request *open, struct walk *walk)
{
	__u32 number = connection->number;
	struct answer_bytes *kept;

	slow->head_bytes = 0;
	if (walk->answer_at != NOT_HERE) {
		slow->head_bytes = copy_bytes(slow->answer, &walk->buffers, walk->answer_at,
					      answer_bytes_here(open, walk), ANSWER_BYTES);
		return;
	}
	kept = bpf_map_lookup_elem(&answer_bytes, &number);
	if (!kept)
		return;
	slow->head_bytes = kept->length;
	bpf_probe_read_kernel(slow->answer, ANSWER_BYTES, kept->bytes);
	bpf_map_delete_elem(&answer_bytes, &number);
}

/* Reports the oldest open request; wakes user space, which otherwise sleeps. */
__noinline int submit_slow(struct connection *connection, struct walk *walk)
{
	struct pt_regs *registers = (void *)bpf_task_pt_regs(current_task());
	struct slow_request *slow;
	struct open_request *open;

	if (!connection || !walk || !may_submit(walk->now))
		return 0;
	open = open_at(connection, 0);
	slow = bpf_ringbuf_reserve(&ring, sizeof(*slow), 0);
	if (!slow) {
		count(COUNT_RING_FULL);
		return 0;
	}
	slow->arrival_ns = open->arrival_ns;
	slow->complete_ns = open->complete_ns;
	slow->first_read_ns = open->first_read_ns;
	slow->last_read_ns = open->last_read_ns;
	slow->first_write_ns = open->first_write_ns;
	slow->last_write_ns = walk->now;
	slow->previous_ns = connection->answered_ns;
	slow->ends = connection->ends;
	slow->reader_tid = open->reader_tid;
	slow->tid = visible_tid_of(current_task());
	slow->api_key = open->api_key;
	slow->api_version = open->api_version;
	slow->correlation_id = open->correlation_id;
	slow->request_bytes = open->request_bytes;
	slow->answer_bytes = open->answer_bytes;
	slow->read_sequence = open->read_sequence;
	slow->write_sequence = open->write_sequence;
	slow->max_wait_ms = open->max_wait_ms;
	/* the descriptor is the first argument of all calls that write to a socket, including sendfile */
	slow->descriptor = registers->FIRST_ARGUMENT;
	slow->client_bytes = connection->client_bytes;
	__builtin_memcpy(slow->client, connection->client, MAX_CLIENT_ID);
	copy_answer(slow, connection, open, walk);
	bpf_ringbuf_submit(slow, BPF_RB_FORCE_WAKEUP);
	return 0;
}

/* The last byte of an answer was written; its request may never have been seen. */
static __always_inline void finish_answer(struct connection *connection, struct walk *walk)
{
	struct open_request *open = open_at(connection, 0);

	if (!connection->answering)
		return;
	connection->answering = 0;
	add_latency(open->histogram, walk->now - open->arrival_ns, open->answer_bytes);
	record_request(connection, open, REQUEST_ANSWERED, walk->now, walk->port);
	if (is_slow(open, walk->now))
		submit_slow(connection, walk);
	connection->answered_ns = walk->now;
	forget_oldest(connection);
}

/* Matches an answer to its open request; earlier ones get no answer. Returns false if no open request matches. */
static __noinline bool match_answer(struct connection *connection, struct walk *walk)
{
	struct head *head = &connection->answer_head;
	__s32 correlation_id = head_u32(head, SIZE_BYTES);
	struct open_request *open;
	__u32 before = 0;

	while (before < MAX_OPEN && before < connection->open_count &&
	       open_at(connection, before)->correlation_id != correlation_id)
		before++;
	if (before >= MAX_OPEN || before >= connection->open_count)
		return false;
	for (__u32 i = 0; i < MAX_OPEN && i < before; i++)
		close_oldest(connection, walk, 0);
	open = open_at(connection, 0);
	open->first_write_ns = connection->answer_ns;
	open->write_sequence = connection->answer_sequence;
	open->answer_bytes = head_u32(head, 0) + SIZE_BYTES;
	connection->answering = 1;
	return true;
}

/* The head of an answer is complete, and `left` bytes of the call follow it; returns false if it is no answer. */
static __noinline bool begin_answer(struct connection *connection, struct walk *walk, __u32 left)
{
	struct head *head = &connection->answer_head;
	struct open_request *open;
	__u32 size = head_u32(head, 0);

	if ((__s32)size < MIN_ANSWER) {
		count(COUNT_BAD_FRAME);
		return false;
	}
	connection->answer_left = size - MIN_ANSWER;
	if (!connection->open_count) {
		/* a surplus answer: followed by its length */
		count(COUNT_UNMATCHED);
		connection->answering = 0;
		return true;
	}
	if (!match_answer(connection, walk)) {
		count(COUNT_MISMATCHED);
		return false;
	}
	open = open_at(connection, 0);
	if (connection->answer_left > left && walk->answer_at != NOT_HERE && is_slow(open, walk->now))
		keep_answer(connection, open, walk);
	return true;
}

/* Takes one step through written bytes; returns how many it took, 0 if they are not an answer's. */
__noinline __u32 step_answers(struct connection *connection, struct walk *walk)
{
	__u32 take, have;

	if (!connection || !walk)
		return 0;
	if (!connection->answer_left) {
		have = connection->answer_have;
		if (!have) {
			connection->answer_ns = walk->now;
			connection->answer_sequence = walk->sequence + walk->at;
			walk->answer_at = walk->at;
		}
		if (have >= ANSWER_HEAD)
			return 0;
		take = smaller(walk->left, ANSWER_HEAD - have);
		if (!take_head(&connection->answer_head, have, &walk->buffers, walk->at, take)) {
			count(COUNT_BAD_FRAME);
			return 0;
		}
		connection->answer_have = have + take;
		if (have + take < ANSWER_HEAD)
			return take;
		if (!begin_answer(connection, walk, walk->left - take))
			return 0;
		connection->answer_have = 0;
	} else {
		take = smaller(walk->left, connection->answer_left);
		connection->answer_left -= take;
	}
	if (!connection->answer_left)
		finish_answer(connection, walk);
	return take;
}

/*
 * The usual case: this call writes the whole answer to the oldest open request, from one buffer. Returns false, and
 * changes nothing, if it is another case.
 */
static __always_inline bool take_answer(struct connection *connection, struct walk *walk)
{
	__u64 address = walk->buffers.address;
	struct open_request *open;
	struct iovec first = {};
	__be32 head[2];

	if (connection->answer_left || connection->answer_have || !connection->open_count ||
	    walk->left < ANSWER_HEAD || walk->buffers.kind == BUFFERS_NONE)
		return false;
	if (walk->buffers.kind == BUFFERS_VECTOR) {
		if (bpf_probe_read_user(&first, sizeof(first), (void *)address) ||
		    first.iov_len < ANSWER_HEAD)
			return false;
		address = (__u64)first.iov_base;
	}
	open = open_at(connection, 0);
	if (bpf_probe_read_user(head, sizeof(head), (void *)address) ||
	    bpf_ntohl(head[0]) + SIZE_BYTES != walk->left || bpf_ntohl(head[1]) != open->correlation_id)
		return false;
	open->first_write_ns = walk->now;
	open->write_sequence = walk->sequence;
	open->answer_bytes = walk->left;
	connection->answering = 1;
	walk->answer_at = 0;
	finish_answer(connection, walk);
	return true;
}

/* Without configured listeners: a connection to which the target writes first is one that it opened. */
static __always_inline void tell_direction(struct connection *connection, struct sock *sock)
{
	struct tcp_sock *tcp = TYPED(struct tcp_sock, sock);

	if (!settings.port_count && connection->requests == STREAM_NEW)
		connection->requests = DIRECT(tcp, bytes_received) ? STREAM_UNSYNCHRONISED : STREAM_IGNORED;
}

static __always_inline int bytes_written(struct sock *sock, __s32 bytes)
{
	struct connection *connection = connection_of(sock);
	struct tcp_sock *tcp = TYPED(struct tcp_sock, sock);
	struct walk walk = { .left = bytes, .answer_at = NOT_HERE };

	if (!connection)
		return 0;
	tell_direction(connection, sock);
	if (connection->answers != STREAM_FOLLOWED)
		return 0;
	/* more of a large answer */
	if (connection->answer_left > (__u32)bytes) {
		connection->answer_left -= bytes;
		return 0;
	}
	walk.now = bpf_ktime_get_ns();
	if (connection->request_left == SIZE_BYTES &&
	    DIRECT(tcp, copied_seq) - connection->read_to == SIZE_BYTES) {
		connection->read_to += SIZE_BYTES;
		take_last_bytes(connection, connection->read_to, walk.now);
	}
	walk.port = local_port_of(sock);
	walk.sequence = DIRECT(tcp, write_seq) - bytes;
	find_buffers(&walk.buffers);
	if (take_answer(connection, &walk))
		return 0;
	if (!walk_frames(connection, &walk, step_answers))
		lose_answers(connection, &walk);
	return 0;
}

#endif
