//! Packets from a network interface as they pass: an `AF_PACKET` ring (`TPACKET_V3`) that the kernel fills
//! with what a filter on the ports lets through, walked in place.
//!
//! Packets begin at their IP header, whatever the interface, so that `any` mixes all kinds; the kernel
//! has taken VLAN tags off. On a loopback interface every packet passes twice, on its way out and in:
//! only the second is seen. Linux only; needs `CAP_NET_RAW`.

mod block;
mod filter;
mod ring;

use std::time::Duration;

use crate::error::Error;
use crate::packet::Packet;
use ring::Ring;

/// What to capture and how much memory that may take.
#[derive(Clone, Debug)]
pub struct LiveConfig {
    /// The interface's name, or `any` for all of them.
    pub interface: String,
    /// The broker's ports; a packet from or to one of them is seen. None: all of TCP.
    pub ports: Vec<u16>,
    /// Bytes kept of a packet, from its IP header on. Segmentation offload hands over packets far larger than
    /// the MTU, and a Kafka frame may begin anywhere in one: of cut packets, frames and partitions are lost.
    pub snaplen: u32,
    /// Bytes of the ring; the kernel drops packets, and counts them, while it is full.
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
    /// Begins to capture: every wanted packet from here on is in the ring or counted as dropped.
    ///
    /// # Errors
    /// [`Error::NoInterface`], or [`Error::Live`] with the step the kernel refused.
    pub fn open(config: &LiveConfig) -> Result<Self, Error> {
        let filter = filter::program(&config.ports, config.snaplen);
        let ring = Ring::open(&config.interface, &filter, config.ring_bytes)?;
        Ok(Self { ring, next_block: 0, drops: 0 })
    }

    /// Hands over the packets there are, waiting at most `timeout` for the first; returns how many. A
    /// signal ends the wait early.
    ///
    /// The kernel hands packets over in blocks: a packet appears here a few tens of milliseconds after it
    /// passed, with the time at which it passed.
    ///
    /// # Errors
    /// [`Error::Live`] if the kernel ends the capture, as when the interface goes down.
    pub fn next_packets(
        &mut self,
        timeout: Duration,
        out: &mut dyn FnMut(&Packet<'_>),
    ) -> Result<usize, Error> {
        if self.ring.block(self.next_block).is_none() {
            self.ring.wait(timeout)?;
        }
        let mut packets = 0;
        // One round at most: a caller with other things to do must get its turn under any load.
        for _ in 0..self.ring.blocks() {
            let Some(bytes) = self.ring.block(self.next_block) else { break };
            for packet in block::packets(bytes) {
                out(&packet);
                packets += 1;
            }
            self.ring.release(self.next_block);
            self.next_block = (self.next_block + 1) % self.ring.blocks();
        }
        Ok(packets)
    }

    /// Packets the kernel dropped since the capture began because the ring was full.
    ///
    /// # Errors
    /// [`Error::Live`] if the kernel does not say.
    pub fn drops(&mut self) -> Result<u64, Error> {
        // The kernel forgets its count as it tells it (net/packet/af_packet.c, PACKET_STATISTICS).
        self.drops += u64::from(self.ring.take_drops()?);
        Ok(self.drops)
    }
}
