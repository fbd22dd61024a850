//! The TCP header (RFC 9293, section 3.1).

use std::net::SocketAddr;

use super::ip::Datagram;
use super::{Flags, NoSegment, Segment, be16, be32, byte};

const HEADER_BYTES: usize = 20;

/// The segment in a datagram. A snap length may have cut its options: its payload is then missing
/// whole, and its place in the stream is still known.
pub(super) fn segment<'a>(datagram: &Datagram<'a>) -> Result<Segment<'a>, NoSegment> {
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
