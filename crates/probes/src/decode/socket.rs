//! Operations on connections, and trouble of theirs.

use std::net::{Ipv6Addr, SocketAddr};

use model::{SocketOpKind, TcpEventKind};

use super::{Decoder, Record, whole};
use crate::bpf::types;
use crate::event::{SocketOp, TcpEvent};

const _: () = {
    assert!(size_of::<types::socket_event>() == 104);
    assert!(size_of::<types::tcp_trouble_event>() == 56);
};

// SAFETY: generated from the C structures in events.h, which hold integers and arrays only.
unsafe impl Record for types::socket_event {}
// SAFETY: as above.
unsafe impl Record for types::tcp_trouble_event {}

impl Decoder {
    pub(super) fn socket_op(&mut self, bytes: &[u8]) -> Option<SocketOp> {
        let record: types::socket_event = whole(bytes)?;
        let op = operation(record.op)?;
        let (local, remote) = ends(&record.ends);
        Some(SocketOp {
            start_ns: record.start_ns,
            end_ns: record.end_ns,
            op,
            pid: record.pid,
            tid: record.tid,
            comm: self.text(&record.comm),
            local,
            remote,
            result: record.result,
            sequence: record.sequence,
            sequence_end: record.sequence_end,
            peer_window: (op != SocketOpKind::Read).then_some(record.peer_window),
        })
    }
}

/// What went wrong with a connection.
pub(super) fn tcp_trouble(bytes: &[u8]) -> Option<TcpEvent> {
    let record: types::tcp_trouble_event = whole(bytes)?;
    let (local, remote) = ends(&record.ends);
    Some(TcpEvent { at_ns: record.at_ns, kind: trouble(record.trouble)?, local, remote })
}

/// Those of `enum file_op` that sockets have.
fn operation(number: u8) -> Option<SocketOpKind> {
    match number {
        1 => Some(SocketOpKind::Write),
        2 => Some(SocketOpKind::Read),
        3 | 4 => Some(SocketOpKind::Sendfile),
        _ => None,
    }
}

/// `enum tcp_trouble`.
fn trouble(number: u32) -> Option<TcpEventKind> {
    match number {
        1 => Some(TcpEventKind::Retransmit),
        2 => Some(TcpEventKind::ZeroWindow),
        3 => Some(TcpEventKind::NoWindowScaling),
        _ => None,
    }
}

fn ends(ends: &types::endpoints) -> (SocketAddr, SocketAddr) {
    (end(ends.local, ends.local_port), end(ends.remote, ends.remote_port))
}

/// Words and port as they are in packets. An IPv4 address comes mapped, as it is on a socket that takes both
/// families (a JVM's), and is given as what the packets have.
fn end(words: [u32; 4], port: u16) -> SocketAddr {
    let mut bytes = [0; 16];
    bytes.chunks_exact_mut(4).zip(words).for_each(|(to, word)| to.copy_from_slice(&word.to_ne_bytes()));
    SocketAddr::new(Ipv6Addr::from(bytes).to_canonical(), u16::from_be(port))
}

#[cfg(test)]
mod tests;
