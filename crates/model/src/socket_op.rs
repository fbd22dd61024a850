//! One operation of the broker on a TCP connection, and trouble of its connections. Does not know requests.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::{Nanos, Pid, Tid};

row! {
    socket_op_row =>
    /// A read from or a write to a connection, from entering the kernel to leaving it.
    #[derive(Clone, Debug, PartialEq)]
    pub struct SocketOp {
        /// Entry of the system call.
        start: Nanos as "start_ns",
        /// Its return.
        end: Nanos as "end_ns" => latency: Nanos as "latency_ns" "From start to end.",
        /// What was done.
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
        /// Bytes done; none where the call failed.
        bytes: Option<u64>,
        /// The error (`errno`) of a call that failed.
        errno: Option<i32>,
        /// The TCP sequence number of the first byte: `copied_seq` of a read, `write_seq` of a write, at entry. The
        /// same numbers as in the packets of that direction.
        sequence: u32,
        /// The same at the return: the number after the last byte, and after the FIN where a read came upon that too.
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
        /// What it was.
        kind: TcpEventKind,
        /// The broker's end, where it is one connection's.
        local: Option<SocketAddr>,
        /// The other end.
        remote: Option<SocketAddr>,
        /// How often since the last report: 1 for what is seen one by one.
        count: u64,
    }
}

named! {
    /// What can go wrong with connections.
    pub enum TcpEventKind {
        /// A segment had to be sent again (`tcp:tcp_retransmit_skb`).
        Retransmit = "retransmit",
        /// The other end offered a window of 0 when the broker wanted to write; or the connection stood still for its
        /// window before the write for 200 ms, the least after which the kernel probes, and two round trips more.
        ZeroWindow = "zero-window",
        /// A connection was accepted without window scaling (SYN cookies, KAFKA-9648): its windows end at 64 KiB.
        NoWindowScaling = "no-window-scaling",
        /// A connection found the accept queue full (`ListenOverflows` of the broker's network namespace).
        AcceptQueueOverflow = "accept-queue-overflow",
    }
}

lengths! {
    /// How long it took.
    SocketOp::latency;
}
