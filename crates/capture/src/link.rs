//! Finds the TCP segment in a captured packet: link header, VLAN tags, IP, TCP.
//! Keeps no state: IP fragments are not reassembled.

use std::net::{IpAddr, SocketAddr};

use crate::packet::{LinkType, Packet};

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
/// 802.1Q, 802.1ad, and the older number that switches use.
const ETHERTYPES_VLAN: [u16; 3] = [0x8100, 0x88a8, 0x9100];
/// Maximum number of VLAN tags: the standard allows two; more come from some providers.
const VLAN_DEPTH: usize = 4;

/// One TCP segment, its payload borrowed from the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment<'a> {
    /// Its sender.
    pub src: SocketAddr,
    /// Its receiver.
    pub dst: SocketAddr,
    /// Sequence number of the first payload byte, or of the SYN.
    pub seq: u32,
    /// The sequence number that the sender expects next; meaningless without the ACK flag.
    pub ack: u32,
    /// SYN, ACK and the other flags.
    pub flags: Flags,
    /// The captured payload.
    pub payload: &'a [u8],
    /// Payload bytes after it that were cut off by a snap length.
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

    /// This side's member of the pair, and the other side's.
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
    /// The acknowledgement number is valid.
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

/// Why a packet has no usable segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoSegment {
    /// It is not TCP over IP, or its link type is unknown.
    NotTcp,
    /// It is one fragment of an IP packet.
    Fragment,
    /// Its headers are cut off or inconsistent.
    Malformed,
}

/// Finds the segment in a packet.
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
    // The packet's own length is wrong if the kernel passes on more than 64 KiB at once.
    let on_link = (packet.original_len as usize).max(bytes.len()).saturating_sub(header_len);
    let datagram = match protocol {
        ETHERTYPE_IPV4 => version_4(network, on_link)?,
        ETHERTYPE_IPV6 => version_6(network, on_link)?,
        _ => return Err(NoSegment::NotTcp),
    };
    tcp_segment(&datagram)
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

/// The address family has either byte order and differs between systems: `AF_INET` is 2 everywhere; `AF_INET6` is 24,
/// 28 or 30 on the BSDs and macOS, 10 on Linux.
fn protocol_of_family(bytes: &[u8]) -> Result<u16, NoSegment> {
    let family = bytes.first_chunk::<4>().ok_or(NoSegment::Malformed)?;
    let family = u32::from_le_bytes(*family).min(u32::from_be_bytes(*family));
    match family {
        2 => Ok(ETHERTYPE_IPV4),
        10 | 24 | 28 | 30 => Ok(ETHERTYPE_IPV6),
        _ => Err(NoSegment::NotTcp),
    }
}

/// Bytes of a header; a header that ends before them is malformed.
fn array<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], NoSegment> {
    bytes.get(at..).and_then(|rest| rest.first_chunk::<N>()).copied().ok_or(NoSegment::Malformed)
}

fn be16(bytes: &[u8], at: usize) -> Result<u16, NoSegment> {
    array(bytes, at).map(u16::from_be_bytes)
}

fn be32(bytes: &[u8], at: usize) -> Result<u32, NoSegment> {
    array(bytes, at).map(u32::from_be_bytes)
}

fn byte(bytes: &[u8], at: usize) -> Result<u8, NoSegment> {
    array(bytes, at).map(u8::from_be_bytes)
}

// IPv4 (RFC 791) and IPv6 (RFC 8200) headers, up to the start of TCP.

const PROTOCOL_TCP: u8 = 6;
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION: u8 = 60;
const MOBILITY: u8 = 135;
const IPV6_HEADER_BYTES: usize = 40;
/// More than any host passes on as one packet (`GSO_MAX_SIZE`: 512 KiB, include/linux/netdevice.h).
const OFFLOAD_LIMIT: usize = 1 << 20;

/// The payload of an IP packet: TCP's bytes and their original length.
struct Datagram<'a> {
    src: IpAddr,
    dst: IpAddr,
    /// TCP header and payload, as far as captured; without link padding.
    bytes: &'a [u8],
    /// Their length on the link.
    len: usize,
}

/// `on_link`: bytes of the packet from the IP header on, captured or not.
fn version_4(bytes: &[u8], on_link: usize) -> Result<Datagram<'_>, NoSegment> {
    let first = byte(bytes, 0)?;
    let header_len = usize::from(first & 0x0f) * 4;
    if first >> 4 != 4 || header_len < 20 {
        return Err(NoSegment::Malformed);
    }
    let fragment = be16(bytes, 6)?;
    if byte(bytes, 9)? != PROTOCOL_TCP {
        return Err(NoSegment::NotTcp);
    }
    if fragment & 0x3fff != 0 {
        return Err(NoSegment::Fragment);
    }
    let ends = (array::<4>(bytes, 12)?.into(), array::<4>(bytes, 16)?.into());
    // Zero if segmentation offload built more than 64 KiB (BIG TCP, Linux b1a78b9b9886).
    let total = match usize::from(be16(bytes, 2)?) {
        0 if on_link <= OFFLOAD_LIMIT => on_link,
        0 => return Err(NoSegment::Malformed),
        total => total,
    };
    datagram(ends, bytes, header_len, total)
}

/// Like [`version_4`]; extension headers are skipped.
fn version_6(bytes: &[u8], on_link: usize) -> Result<Datagram<'_>, NoSegment> {
    if byte(bytes, 0)? >> 4 != 6 {
        return Err(NoSegment::Malformed);
    }
    let ends = (array::<16>(bytes, 8)?.into(), array::<16>(bytes, 24)?.into());
    // Zero with a jumbo payload (RFC 2675), which Linux uses for more than 64 KiB at once.
    let total = match usize::from(be16(bytes, 4)?) {
        0 if on_link <= OFFLOAD_LIMIT => on_link,
        0 => return Err(NoSegment::Malformed),
        payload => payload + IPV6_HEADER_BYTES,
    };
    let (protocol, header_len) = behind_extensions(bytes)?;
    if protocol != PROTOCOL_TCP {
        return Err(NoSegment::NotTcp);
    }
    datagram(ends, bytes, header_len, total)
}

/// The protocol after the extension headers, and its offset.
/// Every header takes at least eight bytes, so the captured bytes bound the loop.
fn behind_extensions(bytes: &[u8]) -> Result<(u8, usize), NoSegment> {
    let mut next = byte(bytes, 6)?;
    let mut at = IPV6_HEADER_BYTES;
    loop {
        let len = match next {
            HOP_BY_HOP | ROUTING | DESTINATION | MOBILITY => (usize::from(byte(bytes, at + 1)?) + 1) * 8,
            AUTHENTICATION => (usize::from(byte(bytes, at + 1)?) + 2) * 4,
            FRAGMENT => {
                // An "atomic" fragment (RFC 6946) is a whole packet.
                if be16(bytes, at + 2)? & 0xfff9 != 0 {
                    return Err(NoSegment::Fragment);
                }
                8
            }
            protocol => return Ok((protocol, at)),
        };
        next = byte(bytes, at)?;
        at += len;
    }
}

/// The part of a packet of `total` bytes after a header of `header_len` bytes.
fn datagram(
    (src, dst): (IpAddr, IpAddr),
    bytes: &[u8],
    header_len: usize,
    total: usize,
) -> Result<Datagram<'_>, NoSegment> {
    let len = total.checked_sub(header_len).ok_or(NoSegment::Malformed)?;
    let rest = bytes.get(header_len..).ok_or(NoSegment::Malformed)?;
    Ok(Datagram { src, dst, bytes: rest.get(..len).unwrap_or(rest), len })
}

// The TCP header (RFC 9293, section 3.1).

const HEADER_BYTES: usize = 20;

/// The segment in a datagram.
/// If a snap length cut the TCP options, the whole payload is missing, but its position in the stream is still known.
fn tcp_segment<'a>(datagram: &Datagram<'a>) -> Result<Segment<'a>, NoSegment> {
    let bytes = datagram.bytes;
    let header_len = usize::from(byte(bytes, 12)? >> 4) * 4;
    let payload_len = datagram.len.checked_sub(header_len).ok_or(NoSegment::Malformed)?;
    if header_len < HEADER_BYTES {
        return Err(NoSegment::Malformed);
    }
    let payload = bytes.get(header_len..).unwrap_or_default();
    Ok(Segment {
        src: SocketAddr::new(datagram.src, be16(bytes, 0)?),
        dst: SocketAddr::new(datagram.dst, be16(bytes, 2)?),
        seq: be32(bytes, 4)?,
        ack: be32(bytes, 8)?,
        flags: Flags(byte(bytes, 13)?),
        payload,
        missing: u32::try_from(payload_len - payload.len()).map_err(|_| NoSegment::Malformed)?,
    })
}

#[cfg(test)]
mod tests;
