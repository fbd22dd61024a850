//! Compressed captures: recognized by their first bytes, decompressed as they are read.
//! Memory is bounded by the window of the format, never by the file. Does not know capture formats.

use std::io::{self, BufReader, Read};

use flate2::read::MultiGzDecoder;
use lz4_flex::frame::FrameDecoder;
use zstd::stream::read::Decoder as ZstdDecoder;

/// The largest window of a zstd frame: 128 MiB, which is also the default limit of the `zstd` tool.
/// `zstd -19` needs 8 MiB.
const ZSTD_WINDOW_LOG_LIMIT: u32 = 27;

/// How a capture is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packing {
    /// RFC 1952, with one or several members.
    Gzip,
    /// RFC 8878, with one or several frames, including skippable ones.
    Zstd,
    /// LZ4, with one or several frames. See <https://github.com/lz4/lz4/blob/dev/doc/lz4_Frame_format.md>.
    Lz4,
}

impl Packing {
    /// The compression of a file with these first bytes.
    pub(super) fn of(magic: [u8; 4]) -> Option<Self> {
        match magic {
            [0x1f, 0x8b, ..] => Some(Self::Gzip),
            // pzstd writes a skippable frame before each frame.
            [0x28, 0xb5, 0x2f, 0xfd] | [0x50..=0x5f, 0x2a, 0x4d, 0x18] => Some(Self::Zstd),
            [0x04, 0x22, 0x4d, 0x18] => Some(Self::Lz4),
            _ => None,
        }
    }

    /// Decompresses `packed`. A stream that ends too early yields its content and then
    /// [`io::ErrorKind::UnexpectedEof`].
    ///
    /// # Errors
    /// If the decoder cannot be set up.
    pub(super) fn unpack(self, packed: Box<dyn Read + Send>) -> io::Result<Box<dyn Read + Send>> {
        Ok(match self {
            Self::Gzip => Box::new(MultiGzDecoder::new(packed)),
            Self::Zstd => {
                let mut decoder = ZstdDecoder::new(packed)?;
                decoder.window_log_max(ZSTD_WINDOW_LOG_LIMIT)?;
                Box::new(decoder)
            }
            Self::Lz4 => Box::new(Lz4Frames::new(packed)),
        })
    }
}

/// Why a file with these first bytes cannot be read. For formats in which people do store captures.
pub(super) fn cannot_unpack(magic: [u8; 4]) -> Option<&'static str> {
    match magic {
        [0xfd, b'7', b'z', b'X'] => {
            Some("it is compressed with xz, which is not supported; pipe `xz -dc` into `-`")
        }
        [b'B', b'Z', b'h', _] => {
            Some("it is compressed with bzip2, which is not supported; pipe `bzip2 -dc` into `-`")
        }
        [0x02, 0x21, 0x4c, 0x18] => {
            Some("it is in lz4's legacy format, which is not supported; pipe `lz4 -dc` into `-`")
        }
        [b'P', b'K', 3, 4] => Some("it is a zip archive, which is not supported; pipe `unzip -p` into `-`"),
        _ => None,
    }
}

/// A decoder's error, with a remedy if there is one.
pub(super) fn explain(error: &io::Error) -> String {
    let mut why = error.to_string();
    // The message of libzstd's ZSTD_error_frameParameter_windowTooLarge: the crate does not expose the number.
    if why.contains("requires too much memory") {
        why.push_str(" (its window is over 128 MiB); pipe `zstd -dc --long=31` into `-`");
    }
    why
}

// A sequence of lz4 frames. Adds to the library's decoder of one frame what a file needs: the next frame, and a
// distinction between a truncated stream and one that has ended.

/// Reads frames to the end of the input.
pub(super) struct Lz4Frames {
    /// `None` only during replacement.
    frame: Option<FrameDecoder<EndWatcher>>,
    /// Nothing has been read since a frame ended.
    between_frames: bool,
}

/// Records whether the end of the input was reached.
struct EndWatcher {
    packed: BufReader<Box<dyn Read + Send>>,
    ended: bool,
}

impl Read for EndWatcher {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.packed.read(into)?;
        self.ended |= read == 0 && !into.is_empty();
        Ok(read)
    }
}

impl Lz4Frames {
    pub(super) fn new(packed: Box<dyn Read + Send>) -> Self {
        let watched = EndWatcher { packed: BufReader::new(packed), ended: false };
        Self { frame: Some(FrameDecoder::new(watched)), between_frames: false }
    }

    /// Moves to the next frame with a new decoder.
    /// The library's decoder asserts that all frames it reads have the same block size.
    fn next_frame(&mut self) {
        self.frame = self.frame.take().map(|frame| FrameDecoder::new(frame.into_inner()));
        self.between_frames = true;
    }
}

impl Read for Lz4Frames {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while let Some(frame) = self.frame.as_mut() {
            let read = frame.read(into)?;
            if read > 0 || into.is_empty() {
                self.between_frames = false;
                return Ok(read);
            }
            // The decoder returns 0 at a frame's end mark, and also where the stream ends.
            match (frame.get_ref().ended, self.between_frames) {
                (false, _) => self.next_frame(),
                (true, true) => return Ok(0),
                (true, false) => return Err(io::ErrorKind::UnexpectedEof.into()),
            }
        }
        Ok(0)
    }
}
