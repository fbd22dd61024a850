//! LZ4 frames as Kafka's clients write them, checksums passed over.
//!
//! The frame format is lz4's own (`lz4_Frame_format.md`). Clients before KIP-57 wrote a wrong header
//! checksum for magic 0 and 1, and brokers ignore it there; it is ignored everywhere here, so that one way
//! reads both. Blocks that depend on the ones before are read too, which Kafka's own reader does not.

use lz4_flex::block::{DecompressError, decompress_into_with_dict};

use super::{corrupt, too_large};
use crate::Error;
use crate::reader::Reader;

const MAGIC: u32 = 0x184D_2204;
/// Frame descriptor flags.
const VERSION_MASK: u8 = 0xc0;
const VERSION_1: u8 = 0x40;
const BLOCK_CHECKSUMS: u8 = 0x10;
const CONTENT_SIZE: u8 = 0x08;
const CONTENT_CHECKSUM: u8 = 0x04;
const DICTIONARY_ID: u8 = 0x01;
/// Set in a block's size where the block is not compressed.
const STORED: u32 = 0x8000_0000;
/// What a block may refer back to.
const WINDOW_BYTES: usize = 64 << 10;
/// One length byte stands for at most 255 bytes.
const MAX_EXPANSION: usize = 255;
/// Most records shrink less.
const LIKELY_EXPANSION: usize = 6;

pub(super) fn decompress(compressed: &[u8], out: &mut Vec<u8>, limit: usize) -> Result<(), Error> {
    let mut reader = Reader::new(compressed);
    let frame = Frame::read(&mut reader)?;
    loop {
        let at = reader.at();
        let size = u32_le(&mut reader)?;
        if size == 0 {
            break;
        }
        let bytes = reader.take((size & !STORED) as usize)?;
        if bytes.len() > frame.max_block_bytes {
            return Err(corrupt(at));
        }
        if size & STORED == 0 {
            frame.block(bytes, at, out, limit)?;
        } else if bytes.len() > limit.saturating_sub(out.len()) {
            return Err(too_large(limit));
        } else {
            out.extend_from_slice(bytes);
        }
        if frame.flags & BLOCK_CHECKSUMS != 0 {
            reader.take(4)?;
        }
    }
    if frame.flags & CONTENT_CHECKSUM != 0 {
        reader.take(4)?;
    }
    Ok(())
}

struct Frame {
    flags: u8,
    max_block_bytes: usize,
}

impl Frame {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Error> {
        if u32_le(reader)? != MAGIC {
            return Err(corrupt(0));
        }
        let flags = reader.u8()?;
        let max_block_bytes = match (reader.u8()? >> 4) & 7 {
            4 => 64 << 10,
            5 => 256 << 10,
            6 => 1 << 20,
            7 => 4 << 20,
            _ => return Err(corrupt(5)),
        };
        if flags & VERSION_MASK != VERSION_1 || flags & DICTIONARY_ID != 0 {
            return Err(corrupt(4));
        }
        if flags & CONTENT_SIZE != 0 {
            reader.take(8)?;
        }
        reader.u8()?; // header checksum
        Ok(Self { flags, max_block_bytes })
    }

    /// Appends what one compressed block holds.
    fn block(&self, bytes: &[u8], at: usize, out: &mut Vec<u8>, limit: usize) -> Result<(), Error> {
        let most = self.max_block_bytes.min(bytes.len().saturating_mul(MAX_EXPANSION));
        let room = limit.saturating_sub(out.len());
        // Clients name blocks of 64 KiB and more however small their batches are: making that much room for
        // each costs more than reading it. What turns out not to be enough is read again with all of it.
        let likely = bytes.len().saturating_mul(LIKELY_EXPANSION);
        if likely < most.min(room) && block_into(bytes, likely, out).is_ok() {
            return Ok(());
        }
        block_into(bytes, most.min(room), out).map_err(|error| match error {
            DecompressError::OutputTooSmall { .. } if most > room => too_large(limit),
            _ => corrupt(at),
        })
    }
}

/// Appends a block of at most `room` bytes; what does not fit is an error, and nothing of it appended.
fn block_into(bytes: &[u8], room: usize, out: &mut Vec<u8>) -> Result<(), DecompressError> {
    let start = out.len();
    out.resize(start + room, 0);
    let (before, target) = out.split_at_mut(start);
    let window = before.get(start.saturating_sub(WINDOW_BYTES)..).unwrap_or_default();
    let written = decompress_into_with_dict(bytes, target, window);
    out.truncate(start + written.as_ref().copied().unwrap_or(0));
    written.map(|_| ())
}

fn u32_le(reader: &mut Reader<'_>) -> Result<u32, Error> {
    reader.u32().map(u32::swap_bytes)
}
