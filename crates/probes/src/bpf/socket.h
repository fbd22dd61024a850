/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Calls on the target's TCP connections: what file_call.h hands over when a descriptor is no file, and the
 * connection's side of a sendfile or splice. Each is reported with both ends and the sequence numbers before and
 * after, which are those of the packets. Other sockets are not followed.
 *
 * A call that moved nothing (a selector's empty read, a write into a full buffer, the end of a stream) is
 * counted in `quiet` and not reported.
 */

/* include/uapi/asm-generic/errno-base.h */
#define EAGAIN 11

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} quiet SEC(".maps");

static __always_inline void count_quiet(void)
{
	__u32 zero = 0;
	__u64 *count = bpf_map_lookup_elem(&quiet, &zero);

	if (count)
		__sync_fetch_and_add(count, 1);
}

static __always_inline bool is_sending(__u8 kind)
{
	return kind != OP_READ;
}

static __always_inline bool moves_bytes_of_sockets(__u8 kind)
{
	return kind == OP_READ || kind == OP_WRITE || kind == OP_SENDFILE || kind == OP_SPLICE;
}

/* The TCP socket of a file that is a socket; NULL where it is another. */
static __always_inline struct sock *tcp_of(struct file *file)
{
	struct socket *socket = TYPED(struct socket, DIRECT(file, private_data));
	struct sock *sock = TYPED(struct sock, DIRECT(socket, sk));

	/* a raw socket may have the same protocol; a failed read leaves 0, which is neither */
	if (DIRECT(sock, sk_protocol) != IPPROTO_TCP || DIRECT(sock, sk_type) != SOCK_STREAM)
		return NULL;
	return sock;
}

/* The number of the next byte to read or to write. */
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
	connection = meet(sock, &side->ends);
	if (connection && sending)
		look_at_window(connection, sock, side->peer_window);
}

static __always_inline void describe_side(struct socket_event *event, struct op *op, __u32 result)
{
	struct socket_side *side = &op->socket;

	event->kind = EVENT_SOCKET;
	event->tid = shown_current();
	event->pid = shown_current_process();
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

/* It returned. Closed by another thread meanwhile, the socket may be another connection's by now. */
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
		connection = meet(sock, &side->ends);
		if (connection)
			find_closed(connection);
	}
	if (result == 0 || result == -EAGAIN) {
		count_quiet();
		return;
	}
	/* no call moves more than MAX_RW_COUNT (include/linux/fs.h), which 31 bits hold */
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
	struct sock *sock = settings.sockets && moves_bytes_of_sockets(kind) ? tcp_of(file) : NULL;
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

/* A call that begin_socket put into PHASE_SOCKET returned. */
static __always_inline int end_socket(__u32 tid, struct op *op, __s64 result)
{
	op->phase = PHASE_NONE;
	end_side(op, result);
	return 0;
}

/* A sendfile or splice whose file is followed as `op` also writes to this descriptor. */
static __always_inline void begin_socket_side(struct op *op, __u32 fd)
{
	begin_side(op, settings.sockets ? tcp_of(open_file(fd)) : NULL);
}

/* It returned, and its file's side has been reported. */
static __always_inline void end_socket_side(__u32 tid, struct op *op, __s64 result)
{
	end_side(op, result);
}
