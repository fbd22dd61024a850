//! Tracks whether both ends of a connection have exchanged anything. Does not put bytes in order.

use crate::link::{Flags, Segment, Side};

/// How far before the first segment captured an earlier one may start.
const MAX_DISTANCE_BYTES: u32 = 1 << 24;

/// What each side sent, until the other side acknowledges any of it.
/// A host that only pretends to be a client does not know the sequence numbers that the broker chose (RFC 6528), and
/// the broker acknowledges none of its bytes.
#[derive(Default)]
pub(crate) struct Acknowledgement {
    sent: (SequenceRange, SequenceRange),
    is_seen: bool,
}

/// Sequence numbers that one side sent: the first, and how many.
#[derive(Clone, Copy, Default)]
struct SequenceRange {
    first: u32,
    count: u32,
}

impl Acknowledgement {
    /// The state for ends that have already exchanged something.
    pub(crate) fn known() -> Self {
        Self { is_seen: true, ..Self::default() }
    }

    pub(crate) fn is_seen(&self) -> bool {
        self.is_seen
    }

    /// Records a packet.
    pub(crate) fn add(&mut self, side: Side, segment: &Segment<'_>) {
        if self.is_seen {
            return;
        }
        let (mine, theirs) = side.split((&mut self.sent.0, &mut self.sent.1));
        // A broker answers a forged SYN with a SYN, and anything else with a reset.
        let (syn, reset) = (segment.flags.has(Flags::SYN), segment.flags.has(Flags::RST));
        let acknowledged = segment.ack.wrapping_sub(theirs.first);
        self.is_seen =
            segment.flags.has(Flags::ACK) && !syn && !reset && (1..=theirs.count).contains(&acknowledged);
        let fin = segment.flags.has(Flags::FIN);
        let count = (segment.payload.len() as u32).saturating_add(segment.missing);
        mine.add(segment.seq, count.saturating_add(u32::from(syn) + u32::from(fin)));
    }
}

impl SequenceRange {
    fn add(&mut self, first: u32, count: u32) {
        if self.count == 0 {
            *self = Self { first, count };
            return;
        }
        let before = self.first.wrapping_sub(first);
        if before < MAX_DISTANCE_BYTES {
            (self.first, self.count) = (first, self.count.saturating_add(before));
        }
        let end = first.wrapping_add(count).wrapping_sub(self.first);
        if end < self.count.saturating_add(MAX_DISTANCE_BYTES) {
            self.count = self.count.max(end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Acknowledgement, Flags, Segment, Side};

    const CLIENT: Side = Side::First;
    const BROKER: Side = Side::Second;
    const SYN: Flags = Flags::SYN;
    const ACK: Flags = Flags::ACK;
    const SYN_ACK: Flags = Flags(Flags::SYN.0 | Flags::ACK.0);

    /// A packet's sender, flags, sequence and acknowledgement numbers, and payload.
    type TestPacket = (Side, Flags, u32, u32, &'static [u8]);

    /// The index of the packet after which both ends are known to have taken part.
    fn seen_after(packets: &[TestPacket]) -> Option<usize> {
        let ends = ("10.0.0.7:41234".parse().unwrap(), "10.0.0.1:9092".parse().unwrap());
        let mut acknowledgement = Acknowledgement::default();
        packets.iter().position(|&(side, flags, seq, ack, payload)| {
            let (src, dst) = side.split(ends);
            acknowledgement.add(side, &Segment { src, dst, seq, ack, flags, payload, missing: 0 });
            acknowledgement.is_seen()
        })
    }

    #[test]
    fn handshake_or_acknowledgement_confirms_both_ends() {
        let first = u32::MAX - 1;
        let opened = [(CLIENT, SYN, first, 0, &b""[..]), (BROKER, SYN_ACK, 70, u32::MAX, b"")];
        assert_eq!(seen_after(&[&opened[..], &[(CLIENT, ACK, u32::MAX, 71, b"")]].concat()), Some(2));
        let asked = (CLIENT, ACK, first, 70, &b"asked"[..]);
        assert_eq!(seen_after(&[asked, (BROKER, ACK, 70, 3, b"")]), Some(1), "in the middle");
        assert_eq!(seen_after(&[asked, (BROKER, ACK, 70, 1, b"")]), Some(1), "a part");
        let answer = (BROKER, ACK, 70, 3, &b"answer"[..]);
        assert_eq!(
            seen_after(&[answer, asked, (CLIENT, ACK, 3, 76, b"")]),
            Some(2),
            "the answer overtook it"
        );
    }

    #[test]
    fn forged_packets_do_not_confirm_both_ends() {
        let forged = [(CLIENT, SYN, 500, 0, &b"asked"[..]), (BROKER, SYN_ACK, 70, 501, b"")];
        assert_eq!(seen_after(&forged), None);
        for guess in [0, 70, 72, 0x8000_0000] {
            assert_eq!(seen_after(&[&forged[..], &[(CLIENT, ACK, 501, guess, b"more")]].concat()), None);
        }
        let reset = Flags(Flags::RST.0 | Flags::ACK.0);
        assert_eq!(seen_after(&[(CLIENT, ACK, 500, 1, b"asked"), (BROKER, reset, 0, 505, b"")]), None);
        let alone: Vec<TestPacket> = (0..100).map(|n| (CLIENT, ACK, n * 7, n * 9, &b"asked"[..])).collect();
        assert_eq!(seen_after(&alone), None);
    }
}
