//! A hand-made TCP conversation, packet by packet, for tests only.

use model::Request;

use super::TestSegment;
use crate::analyzer::Analyzer;
use crate::link::Flags;
use crate::packet::{LinkType, Packet};

/// A client and a broker on one connection; their packets go to an analyzer or are dropped.
pub(crate) struct Conversation {
    pub(crate) client: TestSegment,
    pub(crate) broker: TestSegment,
    pub(crate) packets: Vec<(i64, Vec<u8>)>,
}

impl Conversation {
    pub(crate) fn new(client: &str, broker: &str) -> Self {
        let first = u32::MAX - 20;
        let client = TestSegment { seq: first, ..TestSegment::new(client, broker) };
        let broker = TestSegment { seq: 5_000, src: client.dst, dst: client.src, ..client.clone() };
        Self { client, broker, packets: Vec::new() }
    }

    pub(crate) fn standard() -> Self {
        Self::new("10.0.0.7:41234", "10.0.0.1:9092")
    }

    /// The three packets that open the connection.
    pub(crate) fn open(&mut self, time: i64) -> &mut Self {
        let syn = TestSegment { flags: Flags::SYN, ack: 0, ..self.client.clone() };
        self.client.seq = self.client.seq.wrapping_add(1);
        let syn_ack =
            TestSegment { flags: Flags::SYN | Flags::ACK, ack: self.client.seq, ..self.broker.clone() };
        self.broker.seq = self.broker.seq.wrapping_add(1);
        let ack = TestSegment { ack: self.broker.seq, ..self.client.clone() };
        for packet in [syn, syn_ack, ack] {
            self.packets.push((time, packet.ethernet()));
        }
        self
    }

    /// Sends bytes from the client, captured.
    pub(crate) fn ask(&mut self, time: i64, bytes: &[u8]) -> &mut Self {
        let packet = self.next_packet(true, bytes);
        self.packets.push((time, packet));
        self
    }

    /// Sends bytes from the broker, captured.
    pub(crate) fn answer(&mut self, time: i64, bytes: &[u8]) -> &mut Self {
        let packet = self.next_packet(false, bytes);
        self.packets.push((time, packet));
        self
    }

    /// Builds a packet and advances its sender's numbers; the caller decides whether it is captured.
    pub(crate) fn next_packet(&mut self, by_client: bool, bytes: &[u8]) -> Vec<u8> {
        let (from, to) =
            if by_client { (&mut self.client, &self.broker) } else { (&mut self.broker, &self.client) };
        let packet = TestSegment { ack: to.seq, payload: bytes.to_vec(), ..from.clone() };
        from.seq = from.seq.wrapping_add(bytes.len() as u32);
        packet.ethernet()
    }

    /// Sends a FIN from both sides.
    pub(crate) fn close(&mut self, time: i64) -> &mut Self {
        for by_client in [true, false] {
            let (from, to) =
                if by_client { (&mut self.client, &self.broker) } else { (&mut self.broker, &self.client) };
            let fin = TestSegment { flags: Flags::FIN | Flags::ACK, ack: to.seq, ..from.clone() };
            from.seq = from.seq.wrapping_add(1);
            self.packets.push((time, fin.ethernet()));
        }
        self
    }

    /// Passes the captured packets to an analyzer; returns the completed rows.
    pub(crate) fn analyze(&mut self, analyzer: &mut Analyzer) -> Vec<Request> {
        let mut rows = Vec::new();
        for (time_ns, bytes) in self.packets.drain(..) {
            let original_len = bytes.len() as u32;
            let packet = Packet { time_ns, link: LinkType::Ethernet, original_len, bytes: &bytes };
            analyzer.packet(&packet, &mut |row| rows.push(*row));
        }
        rows
    }
}
