//! Decompresses the four codecs of record batches, with a bound on the output.
//! Knows nothing of records.
//!
//! Checksums inside the codecs' own framings are not verified if that takes more code than it is worth: the batch's CRC
//! covers the same bytes ([`crate::BatchHeader::crc_ok`]).
//!
//! LZ4 frames follow lz4's own `lz4_Frame_format.md`. Clients before KIP-57 wrote a wrong header checksum for magic 0
//! and 1, and brokers ignore it there; here it is ignored everywhere, so that the same code reads both. Blocks that
//! depend on earlier ones are supported too, unlike in Kafka's own reader.
//!
//! Snappy is one raw block, or blocks in the framing of xerial's snappy-java (`SnappyCodec.java`): the magic
//! `82 53 4e 41 50 50 59 00`, version and lowest compatible version as int32, then blocks, each an int32 of its length
//! and a raw block. snappy-java also accepts further headers between blocks, as in concatenated streams.

use std::io::Read;

use lz4_flex::block::{DecompressError, decompress_into_with_dict};

use crate::reader::Reader;
use crate::{Error, ErrorKind};

/// A record batch's codec, as in the low three bits of its attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Codec {
    /// Not compressed.
    None,
    /// gzip.
    Gzip,
    /// Snappy, raw or in xerial's framing.
    Snappy,
    /// LZ4 frames.
    Lz4,
    /// Zstandard (KIP-110).
    Zstd,
}

impl Codec {
    /// The codec with this number.
    pub fn from_number(number: u8) -> Option<Self> {
        [Self::None, Self::Gzip, Self::Snappy, Self::Lz4, Self::Zstd].get(usize::from(number)).copied()
    }

    /// Kafka's name for it, as in `compression.type`.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }
}

/// Decompresses `compressed` into `out`, up to `limit` bytes. Replaces the contents of `out`. `magic` is that of the
/// batch: zstd is refused below 2, as in Kafka (KIP-110).
///
/// # Errors
/// `DecompressedTooLarge` as soon as the output would exceed `limit` bytes; `BadCompression`, at the offset if it is
/// known; `UnknownCodec`. `out` then holds the output before the error.
pub fn decompress(
    codec: Codec,
    magic: i8,
    compressed: &[u8],
    out: &mut Vec<u8>,
    limit: usize,
) -> Result<(), Error> {
    out.clear();
    match codec {
        Codec::None if compressed.len() > limit => Err(too_large(limit)),
        Codec::None => {
            out.extend_from_slice(compressed);
            Ok(())
        }
        // java.util.zip.GZIPInputStream also reads several members in sequence.
        Codec::Gzip => read_bounded(flate2::read::MultiGzDecoder::new(compressed), out, limit),
        Codec::Snappy => snappy(compressed, out, limit),
        Codec::Lz4 => lz4(compressed, out, limit),
        Codec::Zstd if magic < 2 => Err(Error::new(ErrorKind::UnknownCodec(4), 0)),
        Codec::Zstd => zstd(compressed, out, limit),
    }
}

fn zstd(compressed: &[u8], out: &mut Vec<u8>, limit: usize) -> Result<(), Error> {
    let mut decoder = zstd::stream::read::Decoder::with_buffer(compressed).map_err(|_| corrupt(0))?;
    decoder.window_log_max(window_log_max(limit)).map_err(|_| corrupt(0))?;
    read_bounded(decoder, out, limit)
}

/// The largest window to allocate: a frame may ask for any, up to 2 GiB.
/// At least 8 MiB, which is enough for all levels up to 19; at most zstd's own default, 128 MiB.
fn window_log_max(limit: usize) -> u32 {
    limit.max(1).ilog2().saturating_add(1).clamp(23, 27)
}

/// Reads to the end, but at most `limit` bytes.
fn read_bounded(from: impl Read, out: &mut Vec<u8>, limit: usize) -> Result<(), Error> {
    from.take(limit as u64 + 1).read_to_end(out).map_err(|_| corrupt(0))?;
    if out.len() > limit { Err(too_large(limit)) } else { Ok(()) }
}

fn corrupt(at: usize) -> Error {
    Error::new(ErrorKind::BadCompression, at)
}

fn too_large(limit: usize) -> Error {
    Error::new(ErrorKind::DecompressedTooLarge(limit), 0)
}

const LZ4_MAGIC: u32 = 0x184D_2204;
/// Frame descriptor flags.
const VERSION_MASK: u8 = 0xc0;
const VERSION_1: u8 = 0x40;
const BLOCK_CHECKSUMS: u8 = 0x10;
const CONTENT_SIZE: u8 = 0x08;
const CONTENT_CHECKSUM: u8 = 0x04;
const DICTIONARY_ID: u8 = 0x01;
/// Set in a block's size if the block is not compressed.
const STORED: u32 = 0x8000_0000;
/// How far back a block may refer.
const WINDOW_BYTES: usize = 64 << 10;
/// Each length byte produces at most 255 bytes.
const MAX_LZ4_EXPANSION: usize = 255;
/// Most records compress less than this.
const LIKELY_EXPANSION: usize = 6;

fn lz4(compressed: &[u8], out: &mut Vec<u8>, limit: usize) -> Result<(), Error> {
    let mut reader = Reader::new(compressed);
    let frame = Lz4Frame::read(&mut reader)?;
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

struct Lz4Frame {
    flags: u8,
    max_block_bytes: usize,
}

impl Lz4Frame {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Error> {
        if u32_le(reader)? != LZ4_MAGIC {
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

    /// Appends the decompressed block.
    fn block(&self, bytes: &[u8], at: usize, out: &mut Vec<u8>, limit: usize) -> Result<(), Error> {
        let most = self.max_block_bytes.min(bytes.len().saturating_mul(MAX_LZ4_EXPANSION));
        let room = limit.saturating_sub(out.len());
        // Clients declare blocks of 64 KiB and more however small their batches are: allocating that much for each
        // costs more than reading it. If the first guess is too small, the block is read again with the full size.
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

/// Appends a block of at most `room` bytes; a block that does not fit is an error and appends nothing.
fn block_into(bytes: &[u8], room: usize, out: &mut Vec<u8>) -> Result<(), DecompressError> {
    let start = out.len();
    out.resize(start + room, 0);
    let (before, target) = out.split_at_mut(start);
    let (_, window) = before.split_at(start.saturating_sub(WINDOW_BYTES));
    let written = decompress_into_with_dict(bytes, target, window);
    out.truncate(start + written.as_ref().copied().unwrap_or(0));
    written.map(|_| ())
}

fn u32_le(reader: &mut Reader<'_>) -> Result<u32, Error> {
    reader.u32().map(u32::swap_bytes)
}

const XERIAL_MAGIC: &[u8; 8] = b"\x82SNAPPY\0";
const XERIAL_HEADER_BYTES: usize = 16;
/// An element of the raw format expands three bytes to 64 at most.
const MAX_SNAPPY_EXPANSION: usize = 22;

fn snappy(compressed: &[u8], out: &mut Vec<u8>, limit: usize) -> Result<(), Error> {
    if !compressed.starts_with(XERIAL_MAGIC) {
        return snappy_block(compressed, 0, out, limit);
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
        snappy_block(bytes, at, out, limit)?;
    }
    Ok(())
}

/// Appends the contents of a raw block.
fn snappy_block(bytes: &[u8], at: usize, out: &mut Vec<u8>, limit: usize) -> Result<(), Error> {
    let length = snap::raw::decompress_len(bytes).map_err(|_| corrupt(at))?;
    let start = out.len();
    if length > limit.saturating_sub(start) {
        return Err(too_large(limit));
    }
    if length > bytes.len().saturating_mul(MAX_SNAPPY_EXPANSION) {
        return Err(corrupt(at));
    }
    out.resize(start + length, 0);
    let (_, target) = out.split_at_mut(start);
    let written = snap::raw::Decoder::new().decompress(bytes, target).map_err(|_| corrupt(at))?;
    out.truncate(start + written);
    Ok(())
}
