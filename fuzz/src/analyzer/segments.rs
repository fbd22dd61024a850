//! Builds packets from segments described in a few bytes. A mutation then changes what happens to a connection and not
//! just a checksum. Does not analyze them.

use capture::LinkType;
use capture::link::Flags;

use crate::packets::PacketCopy;

/// The port of every connection's broker.
pub(super) const BROKER_PORT: u16 = 9092;
const CONNECTIONS: usize = 4;
const HEAD_BYTES: usize = 40;

/// Bits of a description's first byte; the lowest three are SYN, FIN and RST as in TCP.
const NO_ACK: u8 = 0x08;
/// Retransmitted: this many bytes back.
const BACK: u8 = 0x10;
/// This many bytes before it are not captured.
const AHEAD: u8 = 0x20;
/// Only this many of its bytes are captured.
const CUT: u8 = 0x40;
/// Captured after the next one.
const LATE: u8 = 0x80;
/// A bit of the second byte: the broker sends.
const FROM_BROKER: u8 = 1;

/// The packets described.
pub(super) fn packets(mut bytes: &[u8]) -> Vec<PacketCopy> {
    let mut next_seq = [[u32::MAX - 300, 5_000]; CONNECTIONS];
    let mut packets: Vec<PacketCopy> = Vec::new();
    let mut late = None;
    while let Some((&[flags, place, away, len], rest)) = bytes.split_first_chunk::<4>() {
        let (payload, rest) = rest.split_at(usize::from(len).min(rest.len()));
        bytes = rest;
        let connection = usize::from(place >> 1) % CONNECTIONS;
        let from = usize::from(place & FROM_BROKER);
        let time_ns = packets.len() as i64 * 1_000_000 + i64::from(place >> 4) * 10_000_000_000;
        let sent = TestSegment { connection, from, flags, away, payload };
        let packet =
            (time_ns, LinkType::RawIp, HEAD_BYTES as u32 + payload.len() as u32, sent.packet(&mut next_seq));
        let before = if flags & LATE == 0 { late.take() } else { late.replace(packet.clone()) };
        if flags & LATE == 0 {
            packets.push(packet);
        }
        packets.extend(before);
    }
    packets.extend(late);
    packets
}

struct TestSegment<'a> {
    connection: usize,
    from: usize,
    flags: u8,
    away: u8,
    payload: &'a [u8],
}

impl TestSegment<'_> {
    /// The captured part of the packet; advances its sender's sequence number.
    fn packet(&self, next_seq: &mut [[u32; 2]; CONNECTIONS]) -> Vec<u8> {
        let numbers = &mut next_seq[self.connection];
        let away = u32::from(self.away);
        if self.flags & AHEAD != 0 {
            numbers[self.from] = numbers[self.from].wrapping_add(away);
        }
        let back = if self.flags & BACK == 0 { 0 } else { away };
        let seq = numbers[self.from].wrapping_sub(back);
        let mut packet = self.headers(seq, numbers[1 - self.from]);
        packet.extend(self.payload);
        if self.flags & BACK == 0 {
            let phantom = self.flags & (Flags::SYN.0 | Flags::FIN.0) != 0;
            let taken = self.payload.len() as u32 + u32::from(phantom);
            numbers[self.from] = numbers[self.from].wrapping_add(taken);
        }
        if self.flags & CUT != 0 {
            packet.truncate(HEAD_BYTES + usize::from(self.away));
        }
        packet
    }

    fn headers(&self, seq: u32, ack: u32) -> Vec<u8> {
        let ports = [40_000 + self.connection as u16, BROKER_PORT];
        let hosts = [[10, 0, 0, 7], [10, 0, 0, 1]];
        let to = 1 - self.from;
        let flags = self.flags & 0x07 | if self.flags & NO_ACK == 0 { Flags::ACK.0 } else { 0 };
        let mut packet = vec![0x45, 0];
        packet.extend(((HEAD_BYTES + self.payload.len()) as u16).to_be_bytes());
        packet.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
        packet.extend([hosts[self.from], hosts[to]].concat());
        packet.extend(ports[self.from].to_be_bytes());
        packet.extend(ports[to].to_be_bytes());
        packet.extend(seq.to_be_bytes());
        packet.extend(ack.to_be_bytes());
        packet.extend([0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
        packet
    }
}
