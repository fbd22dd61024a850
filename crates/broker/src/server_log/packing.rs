//! A log as rotation leaves it: plain, or compressed by gzip or zstd, told by its first bytes and unpacked as it is
//! read. Does not look at lines.

use std::io::{self, BufReader, Read};

use flate2::bufread::MultiGzDecoder;
use zstd::stream::read::Decoder as ZstdDecoder;

/// Read and searched at once: what fits into a processor's own cache.
const BLOCK_BYTES: usize = 256 << 10;
const PACKED_BYTES: usize = 64 << 10;
/// The largest window of a zstd frame, 128 MiB, which the `zstd` tool too refuses to go beyond unless told.
const ZSTD_WINDOW_LOG_LIMIT: u32 = 27;

/// Why a log could not be read to its end.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Reading failed, or it is damaged.
    #[error("cannot read on: {0}")]
    Io(#[from] io::Error),
    /// A compressed file that ends in the middle.
    #[error("its end is missing: it is compressed and was cut off; what is there was read")]
    CutOff,
    /// Compressed in a way that is not read.
    #[error("it is compressed with {0}, which is not read; pipe `{0} -dc` into `-`")]
    OtherPacking(&'static str),
    /// UTF-16.
    #[error("it is UTF-16: convert it (iconv -f UTF-16 -t UTF-8) and try again")]
    Utf16,
}

/// What a file begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packing {
    None,
    Gzip,
    Zstd,
}

impl Packing {
    pub(super) fn of(first: &[u8]) -> Result<Self, ReadError> {
        Ok(match first {
            [0x1f, 0x8b, ..] => Self::Gzip,
            // pzstd writes a skippable frame before each frame.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Self::Zstd,
            [0xfd, b'7', b'z', b'X', ..] => return Err(ReadError::OtherPacking("xz")),
            [b'B', b'Z', b'h', ..] => return Err(ReadError::OtherPacking("bzip2")),
            [0x04, 0x22, 0x4d, 0x18, ..] => return Err(ReadError::OtherPacking("lz4")),
            [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => return Err(ReadError::Utf16),
            _ => Self::None,
        })
    }
}

/// Reads a log to its end and hands on what is in it, unpacked, in blocks.
///
/// # Errors
/// `take`'s, and [`ReadError`] once everything before it was handed on.
pub fn read<E: From<ReadError>>(
    mut input: impl Read,
    mut take: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let mut first = Vec::with_capacity(4);
    input.by_ref().take(4).read_to_end(&mut first).map_err(ReadError::from)?;
    let packing = Packing::of(&first)?;
    let whole = first.as_slice().chain(input);
    match packing {
        Packing::None => blocks(whole, &mut take),
        Packing::Gzip => {
            blocks(MultiGzDecoder::new(BufReader::with_capacity(PACKED_BYTES, whole)), &mut take)
        }
        Packing::Zstd => {
            let mut decoder = ZstdDecoder::new(whole).map_err(ReadError::from)?;
            decoder.window_log_max(ZSTD_WINDOW_LOG_LIMIT).map_err(ReadError::from)?;
            blocks(decoder, &mut take)
        }
    }
}

fn blocks<E: From<ReadError>>(
    mut input: impl Read,
    take: &mut impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let mut block = vec![0; BLOCK_BYTES];
    loop {
        match input.read(&mut block) {
            Ok(0) => return Ok(()),
            Ok(length) => take(block.get(..length).unwrap_or_default())?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(ReadError::CutOff)?,
            Err(error) => Err(ReadError::Io(error))?,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::{ReadError, read};

    fn unpacked(bytes: &[u8]) -> (Vec<u8>, Result<(), ReadError>) {
        let mut text = Vec::new();
        let end = read(bytes, |block| {
            text.extend_from_slice(block);
            Ok(())
        });
        (text, end)
    }

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(text).unwrap();
        gzip.finish().unwrap()
    }

    #[test]
    fn a_log_is_the_same_however_it_is_packed() {
        let text = b"[2024-05-19 15:04:47,458] INFO x\n".repeat(20_000);
        let zstd = zstd::encode_all(&text[..], 1).unwrap();
        let two = [gzip(&text[..100]), gzip(&text[100..])].concat();
        for packed in [text.clone(), gzip(&text), two, zstd] {
            let (found, end) = unpacked(&packed);
            assert!(found == text && end.is_ok());
        }
        for short in [&b""[..], b"x", b"\x1f"] {
            assert_eq!(unpacked(short).0, short);
        }
    }

    #[test]
    fn what_is_there_of_a_cut_log_is_read() {
        let text: Vec<u8> = (0..200_000_u32).flat_map(u32::to_le_bytes).collect();
        for packed in [gzip(&text), zstd::encode_all(&text[..], 1).unwrap()] {
            let (found, end) = unpacked(&packed[..packed.len() / 2]);
            assert!(!found.is_empty() && text.starts_with(&found));
            assert!(matches!(end, Err(ReadError::CutOff)), "{end:?}");
        }
    }

    #[test]
    fn what_is_not_read_says_what_to_do() {
        for (first, said) in [
            (&b"\xfd7zXZ\0"[..], "pipe `xz -dc` into `-`"),
            (b"BZh91AY", "pipe `bzip2 -dc` into `-`"),
            (b"\x04\x22\x4d\x18", "pipe `lz4 -dc` into `-`"),
            (b"\xff\xfex\0", "iconv"),
        ] {
            assert!(unpacked(first).1.unwrap_err().to_string().contains(said));
        }
    }
}
