//! Captures packets from a network interface live: an `AF_PACKET` ring (`TPACKET_V3`), filled by the kernel with
//! packets that pass a filter on the ports and read in place.
//!
//! Packets begin at their IP header on every interface, so that `any` can mix all kinds; the kernel has removed VLAN
//! tags. On a loopback interface every packet passes twice, outgoing and incoming; only the incoming copy is captured.
//! Linux only; needs `CAP_NET_RAW`.
//! Not fuzzed: the kernel writes the heads of packets; what is in them is read as that of files.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use crate::error::Error;
use crate::packet::{LinkType, Packet};
use ring::Ring;

mod filter;
mod ring;

/// What to capture, and the memory for it.
#[derive(Clone, Debug)]
pub struct LiveConfig {
    /// The interface's name, or `any` for all of them.
    pub interface: String,
    /// The broker's ports; packets from or to one of them are captured. If empty, all of TCP.
    pub ports: Vec<u16>,
    /// Bytes captured of a packet, from its IP header on.
    /// Segmentation offload delivers packets far larger than the MTU, and a Kafka frame may begin anywhere in one:
    /// truncated packets lose frames and partitions.
    pub snaplen: u32,
    /// Size of the ring in bytes; while it is full, the kernel drops packets and counts them.
    pub ring_bytes: usize,
}

impl Default for LiveConfig {
    fn default() -> Self {
        Self { interface: "any".to_owned(), ports: Vec::new(), snaplen: 262_144, ring_bytes: 64 << 20 }
    }
}

/// A running capture.
pub struct Live {
    ring: Ring,
    next_block: usize,
    drops: u64,
}

impl Live {
    /// Starts to capture: from here on, every matching packet is in the ring or counted as dropped.
    ///
    /// # Errors
    /// [`Error::NoInterface`], or [`Error::Live`] with the step that the kernel refused.
    pub fn open(config: &LiveConfig) -> Result<Self, Error> {
        let filter = filter::program(&config.ports, config.snaplen);
        let ring = Ring::open(&config.interface, &filter, config.ring_bytes)?;
        Ok(Self { ring, next_block: 0, drops: 0 })
    }

    /// Its socket and the number of blocks in its ring. With these, another process can take it over
    /// ([`Self::of_socket`]), even one that may not open a capture itself.
    pub fn socket(&self) -> (BorrowedFd<'_>, usize) {
        (self.ring.socket(), self.ring.blocks)
    }

    /// Takes over a capture that another process has opened and not read from.
    ///
    /// # Errors
    /// [`Error::Live`] if the kernel does not let this process map its ring.
    pub fn of_socket(interface: &str, socket: OwnedFd, blocks: usize) -> Result<Self, Error> {
        Ok(Self { ring: Ring::of_socket(interface, socket, blocks)?, next_block: 0, drops: 0 })
    }

    /// Passes the available packets to `out`, waiting at most `timeout` for the first; returns their number. A signal
    /// ends the wait early.
    ///
    /// The kernel delivers packets in blocks: a packet is available a few tens of milliseconds after it passed, with
    /// the time at which it passed. The flag passed to `out` says whether the ring is filling up: a quarter of it waits
    /// behind the packet's block.
    ///
    /// # Errors
    /// [`Error::Live`] if the kernel ends the capture, as when the interface goes down.
    pub fn next_packets(
        &mut self,
        timeout: Duration,
        out: &mut dyn FnMut(&Packet<'_>, bool),
    ) -> Result<usize, Error> {
        if self.ring.block(self.next_block).is_none() {
            self.ring.wait(timeout)?;
        }
        let mut packets = 0;
        // One round at most: a caller with other things to do must get its turn under any load.
        for _ in 0..self.ring.blocks {
            let Some(bytes) = self.ring.block(self.next_block) else { break };
            for packet in packets_of(bytes) {
                out(&packet, self.is_filling());
                packets += 1;
            }
            self.ring.release(self.next_block);
            self.next_block = (self.next_block + 1) % self.ring.blocks;
        }
        Ok(packets)
    }

    /// The kernel delivers blocks in turn: if one is ready, all before it are.
    fn is_filling(&self) -> bool {
        self.ring.is_ready((self.next_block + self.ring.blocks / 4) % self.ring.blocks)
    }

    /// Packets that the kernel dropped since the capture began. It drops packets when the ring is full.
    ///
    /// # Errors
    /// [`Error::Live`] if the kernel does not report it.
    pub fn drops(&mut self) -> Result<u64, Error> {
        // The kernel resets its count when it is read (net/packet/af_packet.c, PACKET_STATISTICS).
        self.drops += u64::from(self.ring.take_drops()?);
        Ok(self.drops)
    }
}

// Parses the packets in a block of the ring, laid out as in `include/uapi/linux/if_packet.h`. No number in it can lead
// beyond the block's end.
//
// ```text
// block:  version u32, private u32, status u32, packets u32, offset of the first u32, …
// packet: offset of the next u32, seconds u32, nanoseconds u32, captured u32, original u32,
//         status u32, offset of its bytes u16, …
// ```

const PACKETS_AT: usize = 12;
const FIRST_AT: usize = 16;

/// The packets in a block that the kernel has delivered. They come in the order in which they passed.
fn packets_of(block: &[u8]) -> impl Iterator<Item = Packet<'_>> {
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
mod block_tests {
    use super::packets_of as packets;

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
    fn iterates_over_the_packets_of_a_block() {
        let block = block();
        let seen: Vec<_> = packets(&block).map(|p| (p.time_ns, p.original_len, p.bytes)).collect();
        assert_eq!(seen, [(17_000_000_005, 6, &b"first"[..]), (17_000_000_005, 7, b"second")]);
    }

    #[test]
    fn truncated_or_corrupt_block_ends_early() {
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
