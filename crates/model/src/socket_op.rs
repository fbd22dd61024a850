//! One operation of the broker on a TCP connection, and trouble of its connections. Does not know requests.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::{Nanos, Pid, Tid};

row! {
    socket_op_row =>
    /// A read from or a write to a connection, from entry into the kernel to return.
    #[derive(Clone, Debug, PartialEq)]
    pub struct SocketOp {
        /// Entry of the system call.
        start: Nanos as "start_ns",
        /// Its return.
        end: Nanos as "end_ns" => latency: Nanos as "latency_ns" "From start to end.",
        /// The operation.
        op: SocketOpKind,
        /// The process.
        pid: Pid,
        /// The thread.
        tid: Tid,
        /// The thread's name as far as it is known.
        thread: Arc<str>,
        /// The broker's end.
        local: SocketAddr,
        /// The other end.
        remote: SocketAddr,
        /// Bytes transferred; none if the call failed.
        bytes: Option<u64>,
        /// The error (`errno`) of a call that failed.
        errno: Option<i32>,
        /// The TCP sequence number of the first byte: `copied_seq` of a read, `write_seq` of a write, at entry. The
        /// packets of that direction have the same numbers.
        sequence: u32,
        /// The sequence number at the return: after the last byte, and after the FIN if a read reached that too.
        sequence_end: u32,
        /// The window that the other end offered when a write began (`snd_wnd`); 0 stops the connection.
        peer_window: Option<u32>,
    }
}

named! {
    /// The operations on connections.
    pub enum SocketOpKind {
        /// `read`, `readv`, `recvfrom`, `recvmsg`.
        Read = "read",
        /// `write`, `writev`, `sendto`, `sendmsg`.
        Write = "write",
        /// `sendfile` or `splice` to the connection; the file's side is a [`crate::FileOp`] of the same thread and
        /// time.
        Sendfile = "sendfile",
    }
}

row! {
    tcp_event_row =>
    /// Something that went wrong with a connection of the broker.
    #[derive(Clone, Debug, PartialEq)]
    pub struct TcpEvent {
        /// When it was seen.
        at: Nanos as "at_ns",
        /// The kind of event.
        kind: TcpEventKind,
        /// The broker's end, if the event is of one connection.
        local: Option<SocketAddr>,
        /// The other end.
        remote: Option<SocketAddr>,
        /// How often since the last report; 1 for events that are reported one by one.
        count: u64,
    }
}

named! {
    /// Kinds of trouble with connections.
    pub enum TcpEventKind {
        /// A segment had to be sent again (`tcp:tcp_retransmit_skb`).
        Retransmit = "retransmit",
        /// The other end offered a window of 0 when the broker wanted to write; or before the write, the window had
        /// blocked the connection for 200 ms, the minimum before the kernel probes, plus two round trips.
        ZeroWindow = "zero-window",
        /// A connection was accepted without window scaling (SYN cookies, KAFKA-9648): its windows are limited to 64
        /// KiB.
        NoWindowScaling = "no-window-scaling",
        /// A connection found the accept queue full. Counted by `ListenOverflows` of the broker's network namespace.
        AcceptQueueOverflow = "accept-queue-overflow",
    }
}

lengths! {
    /// How long it took.
    SocketOp::latency;
}
