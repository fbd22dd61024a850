//! Hand-made packets and capture files, for tests only.

pub(crate) mod conversation;
pub(crate) mod kafka;

use std::net::SocketAddr;

use crate::link::Flags;

/// A TCP segment to be wrapped in headers.
#[derive(Clone, Debug)]
pub(crate) struct TestSegment {
    pub(crate) src: SocketAddr,
    pub(crate) dst: SocketAddr,
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    pub(crate) flags: Flags,
    pub(crate) payload: Vec<u8>,
}

impl TestSegment {
    pub(crate) fn new(src: &str, dst: &str) -> Self {
        Self {
            src: src.parse().unwrap(),
            dst: dst.parse().unwrap(),
            seq: 1,
            ack: 1,
            flags: Flags::ACK,
            payload: Vec::new(),
        }
    }

    pub(crate) fn tcp(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(self.src.port().to_be_bytes());
        bytes.extend(self.dst.port().to_be_bytes());
        bytes.extend(self.seq.to_be_bytes());
        bytes.extend(self.ack.to_be_bytes());
        bytes.extend([0x50, self.flags.0, 0xff, 0xff, 0, 0, 0, 0]);
        bytes.extend(&self.payload);
        bytes
    }

    pub(crate) fn ip(&self) -> Vec<u8> {
        let tcp = self.tcp();
        let mut bytes = Vec::new();
        match (self.src, self.dst) {
            (SocketAddr::V4(src), SocketAddr::V4(dst)) => {
                bytes.extend([0x45, 0]);
                bytes.extend((20 + tcp.len() as u16).to_be_bytes());
                bytes.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
                bytes.extend(src.ip().octets());
                bytes.extend(dst.ip().octets());
            }
            (SocketAddr::V6(src), SocketAddr::V6(dst)) => {
                bytes.extend([0x60, 0, 0, 0]);
                bytes.extend((tcp.len() as u16).to_be_bytes());
                bytes.extend([6, 64]);
                bytes.extend(src.ip().octets());
                bytes.extend(dst.ip().octets());
            }
            _ => panic!("one address family, please"),
        }
        bytes.extend(tcp);
        bytes
    }

    pub(crate) fn ethernet(&self) -> Vec<u8> {
        let mut bytes = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        bytes.extend(if self.src.is_ipv4() { [0x08, 0x00] } else { [0x86, 0xdd] });
        bytes.extend(self.ip());
        bytes
    }
}

/// A little-endian pcap file with microseconds; packets as (time in ns, bytes).
pub(crate) fn pcap(link: u32, packets: &[(i64, Vec<u8>)]) -> Vec<u8> {
    pcap_of(0xa1b2_c3d4, 1_000, u32::to_le_bytes, link, packets)
}

/// A pcap file of any kind. The kind is a magic number, nanoseconds per fraction unit and a byte order.
pub(crate) fn pcap_of(
    magic: u32,
    unit_ns: i64,
    order: fn(u32) -> [u8; 4],
    link: u32,
    packets: &[(i64, Vec<u8>)],
) -> Vec<u8> {
    let mut file = Vec::new();
    file.extend(order(magic));
    // The two 16-bit version numbers are ignored.
    for number in [0, 0, 0, 262_144, link] {
        file.extend(order(number));
    }
    for (time_ns, bytes) in packets {
        file.extend(order((time_ns / 1_000_000_000) as u32));
        file.extend(order((time_ns % 1_000_000_000 / unit_ns) as u32));
        file.extend(order(bytes.len() as u32));
        file.extend(order(bytes.len() as u32));
        file.extend(bytes);
    }
    file
}

/// A pcapng block in either byte order.
pub(crate) fn block(order: fn(u32) -> [u8; 4], kind: u32, body: &[u8]) -> Vec<u8> {
    let padded = body.len().next_multiple_of(4);
    let len = order(12 + padded as u32);
    let mut block = Vec::new();
    block.extend(order(kind));
    block.extend(len);
    block.extend(body);
    block.resize(8 + padded, 0);
    block.extend(len);
    block
}
