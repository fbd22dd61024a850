//! The packets in a block of the ring, as `include/uapi/linux/if_packet.h` lays them out. Trusts no number
//! in it further than the block's end.
//!
//! ```text
//! block:  version u32, private u32, status u32, packets u32, offset of the first u32, …
//! packet: offset of the next u32, seconds u32, nanoseconds u32, captured u32, original u32,
//!         status u32, offset of its bytes u16, …
//! ```

use crate::packet::{LinkType, Packet};

const PACKETS_AT: usize = 12;
const FIRST_AT: usize = 16;

/// The packets of a block that the kernel has handed over, in the order they passed.
pub(super) fn packets(block: &[u8]) -> impl Iterator<Item = Packet<'_>> {
    let mut left = word(block, PACKETS_AT).unwrap_or(0);
    let mut at = word(block, FIRST_AT).unwrap_or(0) as usize;
    std::iter::from_fn(move || {
        left = left.checked_sub(1)?;
        let frame = block.get(at..)?;
        let packet = packet(frame)?;
        at = at.checked_add(word(frame, 0)? as usize)?;
        Some(packet)
    })
}

fn packet(frame: &[u8]) -> Option<Packet<'_>> {
    let (seconds, nanos) = (word(frame, 4)?, word(frame, 8)?);
    let (captured, original_len) = (word(frame, 12)?, word(frame, 16)?);
    let from = u16::from_ne_bytes(*frame.get(24..)?.first_chunk()?);
    Some(Packet {
        time_ns: i64::from(seconds) * 1_000_000_000 + i64::from(nanos),
        link: LinkType::RawIp,
        original_len,
        bytes: frame.get(usize::from(from)..)?.get(..captured as usize)?,
    })
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::packets;

    fn frame(next: u32, data: &[u8]) -> Vec<u8> {
        let len = data.len() as u32;
        let mut frame: Vec<u8> =
            [next, 17, 5, len, len + 1, 1].into_iter().flat_map(u32::to_ne_bytes).collect();
        frame.extend(64u16.to_ne_bytes());
        frame.resize(64, 0);
        frame.extend(data);
        frame
    }

    fn block() -> Vec<u8> {
        let mut block: Vec<u8> = [1, 0, 1, 2, 48].into_iter().flat_map(u32::to_ne_bytes).collect();
        block.resize(48, 0);
        block.extend(frame(80, b"first"));
        block.resize(48 + 80, 0);
        block.extend(frame(0, b"second"));
        block
    }

    #[test]
    fn a_block_is_walked_packet_by_packet() {
        let block = block();
        let seen: Vec<_> = packets(&block).map(|p| (p.time_ns, p.original_len, p.bytes)).collect();
        assert_eq!(seen, [(17_000_000_005, 6, &b"first"[..]), (17_000_000_005, 7, b"second")]);
    }

    #[test]
    fn a_block_cut_or_lying_ends_early() {
        let whole = block();
        for len in 0..whole.len() {
            assert!(packets(&whole[..len]).count() < 2, "{len}");
        }
        let mut lying = whole;
        lying[12..16].fill(0xff);
        lying[48..52].fill(0);
        assert!(packets(&lying).take(1_000).count() <= 1_000);
        lying[48..52].fill(0xff);
        assert_eq!(packets(&lying).count(), 1);
    }
}
