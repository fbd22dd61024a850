//! One operation of the broker on a TCP connection, and trouble of its connections. Does not know requests.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::{Nanos, Pid, Tid};

/// A read from or a write to a connection, from entering the kernel to leaving it.
#[derive(Clone, Debug, PartialEq)]
pub struct SocketOp {
    /// Entry of the system call.
    pub start: Nanos,
    /// Its return.
    pub end: Nanos,
    /// What was done.
    pub op: SocketOpKind,
    /// The process.
    pub pid: Pid,
    /// The thread.
    pub tid: Tid,
    /// The thread's name as far as it is known.
    pub thread: Arc<str>,
    /// The broker's end.
    pub local: SocketAddr,
    /// The other end.
    pub remote: SocketAddr,
    /// Bytes done; none where the call failed.
    pub bytes: Option<u64>,
    /// The error (`errno`) of a call that failed.
    pub errno: Option<i32>,
    /// The TCP sequence number of the first byte: `copied_seq` of a read, `write_seq` of a write, at entry. The
    /// same numbers as in the packets of that direction.
    pub sequence: u32,
    /// The same at the return: the number after the last byte, and after the FIN where a read came upon that too.
    pub sequence_end: u32,
    /// The window that the other end offered when a write began (`snd_wnd`); 0 stops the connection.
    pub peer_window: Option<u32>,
}

impl SocketOp {
    /// How long it took.
    pub fn latency(&self) -> Nanos {
        self.end - self.start
    }
}

/// The operations on connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SocketOpKind {
    /// `read`, `readv`, `recvfrom`, `recvmsg`.
    Read,
    /// `write`, `writev`, `sendto`, `sendmsg`.
    Write,
    /// `sendfile` or `splice` to the connection; the file's side is a [`crate::FileOp`] of the same thread and
    /// time.
    Sendfile,
}

impl SocketOpKind {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::Read, Self::Write, Self::Sendfile];

    /// The name in tables and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Sendfile => "sendfile",
        }
    }

    /// The kind of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

/// Something that went wrong with a connection of the broker.
#[derive(Clone, Debug, PartialEq)]
pub struct TcpEvent {
    /// When it was seen.
    pub at: Nanos,
    /// What it was.
    pub kind: TcpEventKind,
    /// The broker's end, where it is one connection's.
    pub local: Option<SocketAddr>,
    /// The other end.
    pub remote: Option<SocketAddr>,
    /// How often since the last report: 1 for what is seen one by one.
    pub count: u64,
}

/// What can go wrong with connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TcpEventKind {
    /// A segment had to be sent again (`tcp:tcp_retransmit_skb`).
    Retransmit,
    /// The other end offered a window of 0 when the broker wanted to write; or the connection stood still for its
    /// window before the write for 200 ms, the least after which the kernel probes, and two round trips more.
    ZeroWindow,
    /// A connection was accepted without window scaling (SYN cookies, KAFKA-9648): its windows end at 64 KiB.
    NoWindowScaling,
    /// A connection found the accept queue full (`ListenOverflows` of the broker's network namespace).
    AcceptQueueOverflow,
}

impl TcpEventKind {
    /// Every kind.
    pub const ALL: [Self; 4] =
        [Self::Retransmit, Self::ZeroWindow, Self::NoWindowScaling, Self::AcceptQueueOverflow];

    /// The name in tables and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Retransmit => "retransmit",
            Self::ZeroWindow => "zero-window",
            Self::NoWindowScaling => "no-window-scaling",
            Self::AcceptQueueOverflow => "accept-queue-overflow",
        }
    }

    /// The kind of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}
