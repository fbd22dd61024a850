//! The four codecs of record batches, with a bound on what comes out. Knows nothing of records.
//!
//! Checksums inside the codecs' own framings are not verified where that takes more code than it is worth:
//! the batch's CRC covers the same bytes ([`crate::BatchHeader::crc_ok`]).

mod lz4;
mod snappy;

use std::io::Read;

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
    /// The codec of that number.
    pub fn from_number(number: u8) -> Option<Self> {
        [Self::None, Self::Gzip, Self::Snappy, Self::Lz4, Self::Zstd].get(usize::from(number)).copied()
    }

    /// Kafka's name of it, as in `compression.type`.
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

/// Replaces what is in `out` by what `compressed` holds, at most `limit` bytes of it. `magic` is that of the
/// batch: zstd is refused below 2, as Kafka does (KIP-110).
///
/// # Errors
/// `DecompressedTooLarge` as soon as more than `limit` bytes would come out; `BadCompression`, at the offset
/// as far as it is known; `UnknownCodec`. `out` then holds what came out before.
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
        // java.util.zip.GZIPInputStream reads several members one after the other as well.
        Codec::Gzip => read_bounded(flate2::read::MultiGzDecoder::new(compressed), out, limit),
        Codec::Snappy => snappy::decompress(compressed, out, limit),
        Codec::Lz4 => lz4::decompress(compressed, out, limit),
        Codec::Zstd if magic < 2 => Err(Error::new(ErrorKind::UnknownCodec { codec: 4 }, 0)),
        Codec::Zstd => zstd(compressed, out, limit),
    }
}

fn zstd(compressed: &[u8], out: &mut Vec<u8>, limit: usize) -> Result<(), Error> {
    let mut decoder = zstd::stream::read::Decoder::with_buffer(compressed).map_err(|_| corrupt(0))?;
    decoder.window_log_max(window_log_max(limit)).map_err(|_| corrupt(0))?;
    read_bounded(decoder, out, limit)
}

/// The largest window worth its memory: a frame may ask for any, up to 2 GiB. At least 8 MiB, which every
/// level up to 19 stays within; at most zstd's own default, 128 MiB.
fn window_log_max(limit: usize) -> u32 {
    limit.max(1).ilog2().saturating_add(1).clamp(23, 27)
}

/// Reads to the end, but no more than `limit` bytes.
fn read_bounded(from: impl Read, out: &mut Vec<u8>, limit: usize) -> Result<(), Error> {
    from.take(limit as u64 + 1).read_to_end(out).map_err(|_| corrupt(0))?;
    if out.len() > limit { Err(too_large(limit)) } else { Ok(()) }
}

fn corrupt(at: usize) -> Error {
    Error::new(ErrorKind::BadCompression, at)
}

fn too_large(limit: usize) -> Error {
    Error::new(ErrorKind::DecompressedTooLarge { limit }, 0)
}
