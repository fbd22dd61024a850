//! Capture files as lists of packets: read, changed, written. Only classic pcap of Ethernet with IPv4, as tcpdump
//! writes it on the loopback interface, and only for tests: anything else panics.

use std::path::Path;

/// A capture: its global header as it was, and its packets.
#[derive(Clone, Debug)]
pub struct CaptureFile {
    header: [u8; 24],
    /// The packets in the file's order.
    pub packets: Vec<Packet>,
}

/// One packet.
#[derive(Clone, Debug)]
pub struct Packet {
    /// The two words of its time, as in the file.
    pub time: [u8; 8],
    /// Its bytes on the wire.
    pub original_len: u32,
    /// The captured bytes, from the Ethernet header on.
    pub bytes: Vec<u8>,
}

/// The fields of a packet's TCP header, and the position of its data.
#[derive(Clone, Debug)]
pub struct Tcp {
    /// The sender, `address:port`.
    pub source: String,
    /// The receiver.
    pub destination: String,
    /// The first byte's sequence number.
    pub sequence: u32,
    /// Whether it opens a connection.
    pub syn: bool,
    /// The range of its data in the packet's bytes.
    pub data: std::ops::Range<usize>,
}

impl CaptureFile {
    /// Reads a file that tcpdump wrote on this machine.
    pub fn read(path: &Path) -> Self {
        let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let header: [u8; 24] = bytes[..24].try_into().unwrap();
        assert!(matches!(word(&header, 0), 0xa1b2_c3d4 | 0xa1b2_3c4d), "not a little-endian pcap");
        assert_eq!(word(&header, 20), 1, "not Ethernet");
        let mut packets = Vec::new();
        let mut at = 24;
        while at + 16 <= bytes.len() {
            let captured = word(&bytes, at + 8) as usize;
            let Some(data) = bytes.get(at + 16..at + 16 + captured) else { break };
            packets.push(Packet {
                time: bytes[at..at + 8].try_into().unwrap(),
                original_len: word(&bytes, at + 12),
                bytes: data.to_vec(),
            });
            at += 16 + captured;
        }
        Self { header, packets }
    }

    /// The same file with these packets.
    #[must_use]
    pub fn with(&self, packets: Vec<Packet>) -> Self {
        Self { header: self.header, packets }
    }

    /// The file's bytes.
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = self.header.to_vec();
        for packet in &self.packets {
            out.extend(packet.time);
            out.extend((packet.bytes.len() as u32).to_le_bytes());
            out.extend(packet.original_len.to_le_bytes());
            out.extend(&packet.bytes);
        }
        out
    }
}

impl Packet {
    /// Its time, for a file with nanoseconds.
    pub fn time_ns(&self) -> i64 {
        let [s0, s1, s2, s3, n0, n1, n2, n3] = self.time;
        let [seconds, nanos] = [[s0, s1, s2, s3], [n0, n1, n2, n3]].map(u32::from_le_bytes);
        i64::from(seconds) * 1_000_000_000 + i64::from(nanos)
    }

    /// Its TCP header; `None` for other protocols.
    pub fn tcp(&self) -> Option<Tcp> {
        let ip = self.bytes.get(14..)?;
        if self.bytes[12..14] != [8, 0] || ip[9] != 6 {
            return None;
        }
        let ip_header = usize::from(ip[0] & 15) * 4;
        let end = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
        // A segment that the kernel would split later has length 0: it reaches to the packet's end.
        let end = if end == 0 { ip.len() } else { end };
        let tcp = &ip[ip_header..];
        let data = ip_header + usize::from(tcp[12] >> 4) * 4;
        let address = |at: usize| format!("{}.{}.{}.{}", ip[at], ip[at + 1], ip[at + 2], ip[at + 3]);
        let port = |at: usize| u16::from_be_bytes([tcp[at], tcp[at + 1]]);
        Some(Tcp {
            source: format!("{}:{}", address(12), port(0)),
            destination: format!("{}:{}", address(16), port(2)),
            sequence: u32::from_be_bytes(tcp[4..8].try_into().unwrap()),
            syn: tcp[13] & 2 != 0,
            data: 14 + data..14 + end,
        })
    }

    /// The same data in packets of at most `most` bytes, as with a smaller MTU.
    pub fn in_pieces(&self, most: usize) -> Vec<Self> {
        let Some(tcp) = self.tcp().filter(|tcp| tcp.data.len() > most) else { return vec![self.clone()] };
        let ip_header = usize::from(self.bytes[14] & 15) * 4;
        let at_tcp = 14 + ip_header;
        let pieces = self.bytes[tcp.data.clone()].chunks(most).enumerate().map(|(i, data)| {
            let mut bytes = self.bytes[..tcp.data.start].to_vec();
            let sequence = tcp.sequence.wrapping_add((i * most) as u32);
            bytes[at_tcp + 4..at_tcp + 8].copy_from_slice(&sequence.to_be_bytes());
            bytes.extend(data);
            let length = (bytes.len() - 14) as u16;
            bytes[16..18].copy_from_slice(&length.to_be_bytes());
            if (i + 1) * most < tcp.data.len() {
                // FIN and PSH belong to the last packet.
                bytes[at_tcp + 13] &= !0b1001;
            }
            Self { time: self.time, original_len: bytes.len() as u32, bytes }
        });
        pieces.collect()
    }

    /// A packet of a connection on the loopback interface, with this time.
    pub fn on_loopback(time: [u8; 8], ends: [(u8, u16); 2], sequence: u32, flags: u8, data: &[u8]) -> Self {
        let [(from, from_port), (to, to_port)] = ends;
        let mut bytes = vec![0; 12];
        bytes.extend([8, 0, 0x45, 0]);
        bytes.extend((40 + data.len() as u16).to_be_bytes());
        bytes.extend([0, 0, 0x40, 0, 64, 6, 0, 0, 127, 0, 0, from, 127, 0, 0, to]);
        bytes.extend(from_port.to_be_bytes());
        bytes.extend(to_port.to_be_bytes());
        bytes.extend(sequence.to_be_bytes());
        bytes.extend([0, 0, 0, 1, 0x50, flags, 0x20, 0, 0, 0, 0, 0]);
        bytes.extend(data);
        Self { time, original_len: bytes.len() as u32, bytes }
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

#[cfg(test)]
mod tests {
    use super::{CaptureFile, Packet};
    use std::path::Path;

    #[test]
    fn written_capture_file_equals_the_original() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/sample.pcap");
        let file = CaptureFile::read(&path);
        assert_eq!(file.packets.len(), 112);
        assert_eq!(file.bytes(), std::fs::read(&path).unwrap());
    }

    #[test]
    fn parses_a_generated_loopback_packet() {
        let packet = Packet::on_loopback([0; 8], [(1, 40000), (2, 9092)], 77, 2, b"abc");
        let tcp = packet.tcp().unwrap();
        assert_eq!((tcp.source.as_str(), tcp.destination.as_str()), ("127.0.0.1:40000", "127.0.0.2:9092"));
        assert_eq!((tcp.sequence, tcp.syn, &packet.bytes[tcp.data]), (77, true, b"abc".as_slice()));
    }
}
