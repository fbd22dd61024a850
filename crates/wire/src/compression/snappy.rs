//! Snappy as Kafka's clients write it: one raw block, or blocks in the framing of xerial's snappy-java.
//!
//! xerial (`SnappyCodec.java`): the magic `82 53 4e 41 50 50 59 00`, version and lowest compatible version
//! as int32, then blocks, each an int32 of its length and a raw block. snappy-java reads further such
//! headers in between, as concatenated streams have them.

use super::{corrupt, too_large};
use crate::Error;
use crate::reader::Reader;

const XERIAL_MAGIC: &[u8; 8] = b"\x82SNAPPY\0";
const XERIAL_HEADER_BYTES: usize = 16;
/// No element of the raw format makes more than 64 bytes out of three.
const MAX_EXPANSION: usize = 22;

pub(super) fn decompress(compressed: &[u8], out: &mut Vec<u8>, limit: usize) -> Result<(), Error> {
    if !compressed.starts_with(XERIAL_MAGIC) {
        return block(compressed, 0, out, limit);
    }
    let mut reader = Reader::new(compressed);
    while !reader.is_empty() {
        if reader.rest().starts_with(XERIAL_MAGIC) {
            reader.take(XERIAL_HEADER_BYTES)?;
            continue;
        }
        let at = reader.at();
        let length = reader.i32()?;
        let bytes = reader.take(usize::try_from(length).map_err(|_| corrupt(at))?)?;
        block(bytes, at, out, limit)?;
    }
    Ok(())
}

/// Appends what one raw block holds.
fn block(bytes: &[u8], at: usize, out: &mut Vec<u8>, limit: usize) -> Result<(), Error> {
    let length = snap::raw::decompress_len(bytes).map_err(|_| corrupt(at))?;
    let start = out.len();
    if length > limit.saturating_sub(start) {
        return Err(too_large(limit));
    }
    if length > bytes.len().saturating_mul(MAX_EXPANSION) {
        return Err(corrupt(at));
    }
    out.resize(start + length, 0);
    let target = out.get_mut(start..).unwrap_or_default();
    let written = snap::raw::Decoder::new().decompress(bytes, target).map_err(|_| corrupt(at))?;
    out.truncate(start + written);
    Ok(())
}
