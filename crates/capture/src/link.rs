//! From a captured packet to the TCP segment in it: link header, VLAN tags, IP, TCP. Keeps no state:
//! IP fragments are not put together.

mod ip;
mod tcp;

use std::net::SocketAddr;

use crate::packet::{LinkType, Packet};

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
/// 802.1Q, 802.1ad, and the older number that switches use.
const ETHERTYPES_VLAN: [u16; 3] = [0x8100, 0x88a8, 0x9100];
/// Tags looked behind: two are the standard, more are somebody's provider.
const VLAN_DEPTH: usize = 4;

/// One TCP segment, its payload borrowed from the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment<'a> {
    /// Who sent it.
    pub src: SocketAddr,
    /// To whom.
    pub dst: SocketAddr,
    /// Sequence number of the first payload byte, or of the SYN.
    pub seq: u32,
    /// What the sender expects next from the other side; means nothing without the ACK flag.
    pub ack: u32,
    /// SYN, ACK and so on.
    pub flags: Flags,
    /// The payload that was captured.
    pub payload: &'a [u8],
    /// Payload bytes after it that a snap length cut off.
    pub missing: u32,
}

impl Segment<'_> {
    /// Whether it carries bytes of the stream, captured or cut off.
    pub fn has_payload(&self) -> bool {
        !self.payload.is_empty() || self.missing > 0
    }
}

/// Which end of a connection: an index into its pair of ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    First,
    Second,
}

impl Side {
    pub(crate) fn other(self) -> Self {
        if self == Self::First { Self::Second } else { Self::First }
    }

    /// The pair's own and other member, seen from this side.
    pub(crate) fn split<T>(self, (first, second): (T, T)) -> (T, T) {
        if self == Self::First { (first, second) } else { (second, first) }
    }
}

/// The flags of a TCP header (RFC 9293, section 3.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u8);

impl Flags {
    /// No more data from the sender.
    pub const FIN: Self = Self(0x01);
    /// Synchronise sequence numbers.
    pub const SYN: Self = Self(0x02);
    /// Reset the connection.
    pub const RST: Self = Self(0x04);
    /// The acknowledgement number counts.
    pub const ACK: Self = Self(0x10);

    /// Whether all of `flags` are set.
    pub fn has(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }
}

impl std::ops::BitOr for Flags {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Why a packet holds no segment to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoSegment {
    /// It is not TCP over IP, or its link type is not known.
    NotTcp,
    /// It is one fragment of an IP packet.
    Fragment,
    /// Its headers are cut off or contradict themselves.
    Malformed,
}

/// The segment in a packet.
///
/// # Errors
/// Why there is none.
pub fn segment<'a>(packet: &Packet<'a>) -> Result<Segment<'a>, NoSegment> {
    let bytes = packet.bytes;
    let (protocol, header_len) = match packet.link {
        LinkType::Ethernet => (be16(bytes, 12)?, 14),
        LinkType::LinuxSll => (be16(bytes, 14)?, 16),
        LinkType::LinuxSll2 => (be16(bytes, 0)?, 20),
        LinkType::RawIp => (protocol_of_version(bytes)?, 0),
        LinkType::Null | LinkType::Loop => (protocol_of_family(bytes)?, 4),
        LinkType::Other(_) => return Err(NoSegment::NotTcp),
    };
    let (protocol, header_len) = behind_vlan_tags(bytes, protocol, header_len)?;
    let network = bytes.get(header_len..).ok_or(NoSegment::Malformed)?;
    // What the packet's own length says is wrong where the kernel hands over more than 64 KiB at once.
    let on_link = (packet.original_len as usize).max(bytes.len()).saturating_sub(header_len);
    let datagram = match protocol {
        ETHERTYPE_IPV4 => ip::version_4(network, on_link)?,
        ETHERTYPE_IPV6 => ip::version_6(network, on_link)?,
        _ => return Err(NoSegment::NotTcp),
    };
    tcp::segment(&datagram)
}

fn behind_vlan_tags(bytes: &[u8], protocol: u16, header_len: usize) -> Result<(u16, usize), NoSegment> {
    let (mut protocol, mut header_len) = (protocol, header_len);
    for _ in 0..VLAN_DEPTH {
        if !ETHERTYPES_VLAN.contains(&protocol) {
            break;
        }
        protocol = be16(bytes, header_len + 2)?;
        header_len += 4;
    }
    Ok((protocol, header_len))
}

fn protocol_of_version(bytes: &[u8]) -> Result<u16, NoSegment> {
    match bytes.first().ok_or(NoSegment::Malformed)? >> 4 {
        4 => Ok(ETHERTYPE_IPV4),
        6 => Ok(ETHERTYPE_IPV6),
        _ => Err(NoSegment::NotTcp),
    }
}

/// The address family is written in either byte order and differs between systems: `AF_INET` is 2
/// everywhere; `AF_INET6` is 24, 28 or 30 on the BSDs and macOS, 10 on Linux.
fn protocol_of_family(bytes: &[u8]) -> Result<u16, NoSegment> {
    let family = bytes.first_chunk::<4>().ok_or(NoSegment::Malformed)?;
    let family = u32::from_le_bytes(*family).min(u32::from_be_bytes(*family));
    match family {
        2 => Ok(ETHERTYPE_IPV4),
        10 | 24 | 28 | 30 => Ok(ETHERTYPE_IPV6),
        _ => Err(NoSegment::NotTcp),
    }
}

/// A big-endian number in a header; a header that ends before it is malformed.
fn be16(bytes: &[u8], at: usize) -> Result<u16, NoSegment> {
    let number = bytes.get(at..).and_then(|rest| rest.first_chunk::<2>()).ok_or(NoSegment::Malformed)?;
    Ok(u16::from_be_bytes(*number))
}

fn be32(bytes: &[u8], at: usize) -> Result<u32, NoSegment> {
    let number = bytes.get(at..).and_then(|rest| rest.first_chunk::<4>()).ok_or(NoSegment::Malformed)?;
    Ok(u32::from_be_bytes(*number))
}

fn byte(bytes: &[u8], at: usize) -> Result<u8, NoSegment> {
    bytes.get(at).copied().ok_or(NoSegment::Malformed)
}

#[cfg(test)]
mod tests;
