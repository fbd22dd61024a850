//! TCP over IPv4 over Ethernet in a pcap file with nanoseconds. Written as `tcpdump -w` writes it at an MTU of 1500.

use std::io::{self, Write};
use std::net::Ipv4Addr;

/// Payload of a segment with the timestamps option, as on Linux.
pub(crate) const SEGMENT_BYTES: usize = 1_448;
/// 10 Gbit/s.
const NANOS_PER_BYTE_X10: u64 = 8;
const ACK: u8 = 0x10;
pub(crate) const SYN: u8 = 0x02;

/// One end of a connection: its address and the next byte it sends.
pub(crate) struct End {
    pub(crate) address: Ipv4Addr,
    pub(crate) port: u16,
    pub(crate) next: u32,
}

impl PacketWriter<Vec<u8>> {
    /// Takes the bytes written since the last call.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }
}

/// A capture being written.
pub(crate) struct PacketWriter<W> {
    out: W,
    now_ns: u64,
    pub(crate) bytes: u64,
    pub(crate) packets: u64,
}

impl<W: Write> PacketWriter<W> {
    pub(crate) fn new(mut out: W) -> io::Result<Self> {
        // Nanosecond magic, version 2.4, snap length 262144, Ethernet.
        for number in [0xa1b2_3c4d_u32, 0x0004_0002, 0, 0, 262_144, 1] {
            out.write_all(&number.to_le_bytes())?;
        }
        Ok(Self { out, now_ns: 1_760_000_000_000_000_000, bytes: 24, packets: 0 })
    }

    /// Advances the time.
    pub(crate) fn wait(&mut self, nanos: u64) {
        self.now_ns += nanos;
    }

    /// Writes a segment and advances its sender's sequence number.
    pub(crate) fn send(&mut self, from: &mut End, to: &End, flags: u8, payload: &[u8]) -> io::Result<()> {
        let mut headers = Vec::with_capacity(82);
        let length = 66 + payload.len() as u32;
        let (seconds, nanos) = (self.now_ns / 1_000_000_000, self.now_ns % 1_000_000_000);
        for number in [seconds as u32, nanos as u32, length, length] {
            headers.extend(number.to_le_bytes());
        }
        headers.extend([2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0]);
        headers.extend([0x45, 0]);
        headers.extend((52 + payload.len() as u16).to_be_bytes());
        headers.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
        headers.extend(from.address.octets());
        headers.extend(to.address.octets());
        headers.extend(from.port.to_be_bytes());
        headers.extend(to.port.to_be_bytes());
        headers.extend(from.next.to_be_bytes());
        headers.extend(if flags == SYN { 0 } else { to.next }.to_be_bytes());
        headers.extend([0x80, flags | if flags == SYN { 0 } else { ACK }, 0xff, 0xff, 0, 0, 0, 0]);
        headers.extend([1, 1, 8, 10]);
        headers.extend(((self.now_ns / 1_000_000) as u32).to_be_bytes());
        headers.extend(((self.now_ns / 1_000_000) as u32 - 1).to_be_bytes());
        self.out.write_all(&headers)?;
        self.out.write_all(payload)?;
        from.next = from.next.wrapping_add(payload.len() as u32 + u32::from(flags & SYN != 0));
        self.now_ns += u64::from(length) * NANOS_PER_BYTE_X10 / 10;
        self.bytes += 16 + u64::from(length);
        self.packets += 1;
        Ok(())
    }

    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.out.flush()
    }
}
