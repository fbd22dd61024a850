//! IPv4 (RFC 791) and IPv6 (RFC 8200) headers, as far as TCP's beginning.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{NoSegment, be16, byte};

const PROTOCOL_TCP: u8 = 6;
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION: u8 = 60;
const MOBILITY: u8 = 135;
const IPV6_HEADER_BYTES: usize = 40;
/// More than any host hands over as one packet (`GSO_MAX_SIZE`: 512 KiB, include/linux/netdevice.h).
const OFFLOAD_LIMIT: usize = 1 << 20;

/// What IP carried: TCP's bytes and how many of them there were.
pub(super) struct Datagram<'a> {
    pub(super) src: IpAddr,
    pub(super) dst: IpAddr,
    /// TCP header and payload, as far as captured; link padding is cut off.
    pub(super) bytes: &'a [u8],
    /// Their length on the link.
    pub(super) len: usize,
}

/// `on_link`: bytes of the packet from the IP header on, captured or not.
pub(super) fn version_4(bytes: &[u8], on_link: usize) -> Result<Datagram<'_>, NoSegment> {
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
    let src = address::<4>(bytes, 12)?;
    let dst = address::<4>(bytes, 16)?;
    // Zero where segmentation offload built more than 64 KiB (BIG TCP, Linux b1a78b9b9886).
    let total = match usize::from(be16(bytes, 2)?) {
        0 if on_link <= OFFLOAD_LIMIT => on_link,
        0 => return Err(NoSegment::Malformed),
        total => total,
    };
    let len = total.checked_sub(header_len).ok_or(NoSegment::Malformed)?;
    let rest = bytes.get(header_len..).ok_or(NoSegment::Malformed)?;
    Ok(Datagram {
        src: Ipv4Addr::from(src).into(),
        dst: Ipv4Addr::from(dst).into(),
        bytes: cut(rest, len),
        len,
    })
}

/// As [`version_4`]; extension headers are passed over.
pub(super) fn version_6(bytes: &[u8], on_link: usize) -> Result<Datagram<'_>, NoSegment> {
    if byte(bytes, 0)? >> 4 != 6 {
        return Err(NoSegment::Malformed);
    }
    let src = address::<16>(bytes, 8)?;
    let dst = address::<16>(bytes, 24)?;
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
    let len = total.checked_sub(header_len).ok_or(NoSegment::Malformed)?;
    let rest = bytes.get(header_len..).ok_or(NoSegment::Malformed)?;
    Ok(Datagram {
        src: Ipv6Addr::from(src).into(),
        dst: Ipv6Addr::from(dst).into(),
        bytes: cut(rest, len),
        len,
    })
}

/// The protocol behind the extension headers and where it begins. Every header takes at least eight
/// bytes, so the captured bytes bound the walk.
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

fn address<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], NoSegment> {
    bytes.get(at..).and_then(|rest| rest.first_chunk::<N>()).copied().ok_or(NoSegment::Malformed)
}

fn cut(bytes: &[u8], len: usize) -> &[u8] {
    bytes.get(..len).unwrap_or(bytes)
}
