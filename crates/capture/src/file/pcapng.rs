//! The block format: sections, interfaces, packets
//! (<https://datatracker.ietf.org/doc/html/draft-ietf-opsawg-pcapng>).
//!
//! ```text
//! block:     type u32, total length u32, body, total length u32
//! section:   byte-order magic u32, major u16, minor u16, section length i64, options
//! interface: link type u16, reserved u16, snap length u32, options (9: resolution, 14: offset)
//! enhanced:  interface u32, time u32 × 2, captured u32, original u32, the packet, options
//! simple:    original u32, the packet
//! obsolete:  interface u16, drops u16, time u32 × 2, captured u32, original u32, the packet, options
//! ```
//! Blocks of other types are skipped.

use std::io;

use super::source::Source;
use super::{Notes, PacketPlace, RECORD_LIMIT, Record, number};
use crate::packet::LinkType;

/// The type of a section header block: the same in both byte orders.
pub(super) const BLOCK_SECTION: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
const BLOCK_INTERFACE: u32 = 1;
const BLOCK_OBSOLETE_PACKET: u32 = 2;
const BLOCK_SIMPLE_PACKET: u32 = 3;
const BLOCK_ENHANCED_PACKET: u32 = 6;
const OPTION_END: u16 = 0;
const OPTION_RESOLUTION: u16 = 9;
const OPTION_OFFSET: u16 = 14;
const BODY: usize = 8;
/// Maximum number of interfaces of a section; later ones are ignored.
const INTERFACES_LIMIT: usize = 65_536;

/// The section being read: its byte order and interfaces.
#[derive(Debug, Default)]
pub(super) struct Section {
    big_endian: bool,
    interfaces: Vec<Interface>,
    /// Simple packets have no time: they get the previous packet's.
    last_ns: i64,
}

#[derive(Clone, Copy, Debug)]
struct Interface {
    link: LinkType,
    snap_length: u32,
    resolution: Resolution,
    offset_s: i64,
}

impl Section {
    pub(super) fn record(&mut self, source: &mut Source, notes: &mut Notes) -> io::Result<Record> {
        let head = source.peek(12)?;
        let Some(kind) = head.first_chunk::<4>().copied().filter(|_| head.len() == 12) else {
            return Ok(if head.is_empty() { Record::End } else { Record::Cut });
        };
        let new_section = kind == BLOCK_SECTION;
        if new_section {
            match head.get(8..12) {
                Some([0x1a, 0x2b, 0x3c, 0x4d]) => self.big_endian = true,
                Some([0x4d, 0x3c, 0x2b, 0x1a]) => self.big_endian = false,
                _ => return Ok(Record::Damaged("a section begins without a byte-order mark")),
            }
            self.interfaces.clear();
        }
        let Some(len) = self.u32(head, 4).map(|len| len as usize) else { return Ok(Record::Cut) };
        if len > RECORD_LIMIT || len % 4 != 0 || len < 12 {
            return Ok(Record::Damaged("invalid block length"));
        }
        let block = source.peek(len)?;
        if block.len() < len {
            return Ok(Record::Cut);
        }
        if new_section {
            return Ok(Record::Skip(len));
        }
        Ok(self.block(block, notes))
    }

    fn block(&mut self, block: &[u8], notes: &mut Notes) -> Record {
        let found = match self.u32(block, 0) {
            Some(BLOCK_INTERFACE) => {
                self.add_interface(block);
                return Record::Skip(block.len());
            }
            Some(BLOCK_ENHANCED_PACKET) => {
                let interface = self.u32(block, BODY).map(|id| id as usize);
                self.timed_packet(block, interface)
            }
            Some(BLOCK_OBSOLETE_PACKET) => {
                let interface = self.u16(block, BODY).map(usize::from);
                self.timed_packet(block, interface)
            }
            Some(BLOCK_SIMPLE_PACKET) => self.simple_packet(block),
            _ => return Record::Skip(block.len()),
        };
        found.map_or_else(
            || {
                notes.damaged_records += 1;
                Record::Skip(block.len())
            },
            Record::Packet,
        )
    }

    /// An enhanced or obsolete packet block: both have the same fields at the same offsets, except for the width of the
    /// interface.
    fn timed_packet(&mut self, block: &[u8], interface: Option<usize>) -> Option<PacketPlace> {
        let interface = *self.interfaces.get(interface?)?;
        let time = (u64::from(self.u32(block, BODY + 4)?) << 32) | u64::from(self.u32(block, BODY + 8)?);
        let len = self.u32(block, BODY + 12)? as usize;
        let original_len = self.u32(block, BODY + 16)?;
        let at = BODY + 20;
        if len > block.len().checked_sub(at + 4)? {
            return None;
        }
        let time_ns =
            interface.resolution.nanos(time).saturating_add(interface.offset_s.saturating_mul(1_000_000_000));
        self.last_ns = time_ns;
        Some(PacketPlace { time_ns, link: interface.link, original_len, record_len: block.len(), at, len })
    }

    fn simple_packet(&self, block: &[u8]) -> Option<PacketPlace> {
        let interface = self.interfaces.first()?;
        let original_len = self.u32(block, BODY)?;
        let at = BODY + 4;
        let snapped =
            if interface.snap_length == 0 { original_len } else { original_len.min(interface.snap_length) };
        let len = (snapped as usize).min(block.len().checked_sub(at + 4)?);
        Some(PacketPlace {
            time_ns: self.last_ns,
            link: interface.link,
            original_len,
            record_len: block.len(),
            at,
            len,
        })
    }

    fn add_interface(&mut self, block: &[u8]) {
        let (Some(link), Some(snap_length)) = (self.u16(block, BODY), self.u32(block, BODY + 4)) else {
            return;
        };
        if self.interfaces.len() == INTERFACES_LIMIT {
            return;
        }
        let mut interface = Interface {
            link: LinkType::from_number(link),
            snap_length,
            resolution: Resolution::MICROS,
            offset_s: 0,
        };
        self.read_options(block, &mut interface);
        self.interfaces.push(interface);
    }

    fn read_options(&self, block: &[u8], interface: &mut Interface) {
        let mut at = BODY + 8;
        while let (Some(code), Some(len)) = (self.u16(block, at), self.u16(block, at + 2)) {
            let value = block.get(at + 4..).and_then(|rest| rest.get(..usize::from(len))).unwrap_or_default();
            match (code, value) {
                (OPTION_END, _) => return,
                (OPTION_RESOLUTION, &[resolution, ..]) => interface.resolution = Resolution::new(resolution),
                (OPTION_OFFSET, value) => {
                    let offset = number(value, 0, self.big_endian).map(i64::from_le_bytes);
                    interface.offset_s = offset.unwrap_or(interface.offset_s);
                }
                _ => {}
            }
            at += 4 + usize::from(len).next_multiple_of(4);
        }
    }

    fn u32(&self, bytes: &[u8], at: usize) -> Option<u32> {
        number(bytes, at, self.big_endian).map(u32::from_le_bytes)
    }

    fn u16(&self, bytes: &[u8], at: usize) -> Option<u16> {
        number(bytes, at, self.big_endian).map(u16::from_le_bytes)
    }
}

/// The length of a clock tick of an interface: nanoseconds = ticks × `multiply` ÷ `divide`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Resolution {
    multiply: u128,
    divide: u128,
}

impl Resolution {
    /// The default if an interface does not specify one.
    const MICROS: Self = Self { multiply: 1_000, divide: 1 };

    /// `if_tsresol`: a negative power of ten, or of two if the top bit is set.
    fn new(option: u8) -> Self {
        const NANOS: u128 = 1_000_000_000;
        let exponent = u32::from(option & 0x7f);
        let per_second =
            if option & 0x80 == 0 { 10u128.checked_pow(exponent) } else { 1u128.checked_shl(exponent) };
        match per_second {
            Some(per_second) if per_second <= NANOS && NANOS % per_second == 0 => {
                Self { multiply: NANOS / per_second, divide: 1 }
            }
            Some(per_second) => Self { multiply: NANOS, divide: per_second },
            None => Self { multiply: 0, divide: 1 },
        }
    }

    fn nanos(self, ticks: u64) -> i64 {
        let scaled = u128::from(ticks) * self.multiply;
        let nanos = if self.divide == 1 { scaled } else { scaled / self.divide };
        i64::try_from(nanos).unwrap_or(i64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::Resolution;

    #[test]
    fn converts_every_resolution_to_nanoseconds() {
        for (option, ticks, nanos) in [
            (0, 7, 7_000_000_000),
            (3, 7, 7_000_000),
            (6, 7, 7_000),
            (9, 7, 7),
            (12, 7_000, 7),
            (0x80, 3, 3_000_000_000),
            (0x80 | 9, 512, 1_000_000_000),
            (0x80 | 0x14, 1 << 19, 500_000_000),
            (0x80 | 127, u64::MAX, 0),
            (127, u64::MAX, 0),
            (0, u64::MAX, i64::MAX),
        ] {
            assert_eq!(Resolution::new(option).nanos(ticks), nanos, "resolution {option:#x}");
        }
    }
}
