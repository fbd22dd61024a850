//! What is seen of the target's TCP connections.

use std::net::SocketAddr;
use std::sync::Arc;

use model::{SocketOpKind, TcpEventKind};

/// A call that moved bytes of a TCP connection of the target, or failed to. One that moved nothing because it
/// would have had to wait, or because the stream had ended, is no event: see
/// [`crate::Probes::quiet_socket_calls`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketOp {
    /// Entry of the system call.
    pub start_ns: u64,
    /// Its return.
    pub end_ns: u64,
    /// What was done. The file's side of a `sendfile` is a [`crate::FileOp`] of the same thread and start.
    pub op: SocketOpKind,
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// The thread's name; the kernel keeps 15 bytes.
    pub comm: Arc<str>,
    /// The target's end of the connection.
    pub local: SocketAddr,
    /// The other end.
    pub remote: SocketAddr,
    /// Bytes, or a negative errno.
    pub result: i32,
    /// The TCP sequence number of the first byte: `copied_seq` of a read, `write_seq` of a write, at entry.
    pub sequence: u32,
    /// The same at the return. A FIN has a number too: a read that comes upon it counts it.
    pub sequence_end: u32,
    /// What the other end could take when a write began (`snd_wnd`); none for reads.
    pub peer_window: Option<u32>,
}

/// Something went wrong with a TCP connection of the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpEvent {
    /// When it was seen.
    pub at_ns: u64,
    /// What it was; never [`TcpEventKind::AcceptQueueOverflow`], which no probe sees.
    pub kind: TcpEventKind,
    /// The target's end of the connection.
    pub local: SocketAddr,
    /// The other end.
    pub remote: SocketAddr,
}
