//! The classic format: one header, then packets
//! (<https://datatracker.ietf.org/doc/html/draft-ietf-opsawg-pcap>).
//!
//! ```text
//! file:   magic u32, major u16, minor u16, zone u32, accuracy u32, snap length u32, link type u32
//! record: seconds u32, fraction u32, captured u32, original u32, the packet
//! ```

use std::io;

use super::source::Source;
use super::{PacketPlace, RECORD_LIMIT, Record, number};
use crate::packet::LinkType;

pub(super) const HEADER_BYTES: usize = 24;
const RECORD_HEADER_BYTES: usize = 16;
const MAGIC_MICROS: u32 = 0xa1b2_c3d4;
const MAGIC_NANOS: u32 = 0xa1b2_3c4d;

/// The byte order and time unit of a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    swapped: bool,
    fraction_ns: i64,
    link: LinkType,
}

impl Layout {
    /// Parses the file header; `header` may be too short.
    pub(super) fn parse(magic: [u8; 4], header: &[u8]) -> Result<Self, &'static str> {
        let (swapped, fraction_ns) = match (u32::from_le_bytes(magic), u32::from_be_bytes(magic)) {
            (MAGIC_MICROS, _) => (false, 1_000),
            (MAGIC_NANOS, _) => (false, 1),
            (_, MAGIC_MICROS) => (true, 1_000),
            (_, MAGIC_NANOS) => (true, 1),
            _ => return Err("unknown magic number"),
        };
        let link = field(header, 20, swapped).ok_or("its header is cut short")?;
        // The upper half of the field is the length of frame check sequences; IP's own length makes them harmless.
        Ok(Self { swapped, fraction_ns, link: LinkType::from_number(link as u16) })
    }

    pub(super) fn record(&self, source: &mut Source) -> io::Result<Record> {
        let header = source.peek(RECORD_HEADER_BYTES)?;
        let field = |at| field(header, at, self.swapped);
        let (Some(seconds), Some(fraction), Some(len), Some(original_len)) =
            (field(0), field(4), field(8), field(12))
        else {
            return Ok(if header.is_empty() { Record::End } else { Record::Cut });
        };
        let len = len as usize;
        if len > RECORD_LIMIT {
            return Ok(Record::Damaged("invalid packet length"));
        }
        let record_len = RECORD_HEADER_BYTES + len;
        if source.peek(record_len)?.len() < record_len {
            return Ok(Record::Cut);
        }
        Ok(Record::Packet(PacketPlace {
            time_ns: i64::from(seconds) * 1_000_000_000 + i64::from(fraction) * self.fraction_ns,
            link: self.link,
            original_len,
            record_len,
            at: RECORD_HEADER_BYTES,
            len,
        }))
    }
}

fn field(bytes: &[u8], at: usize, swapped: bool) -> Option<u32> {
    number(bytes, at, swapped).map(u32::from_le_bytes)
}
