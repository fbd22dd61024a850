//! Compressed captures: recognised by their first bytes, unpacked as they are read. Memory is bounded by
//! what a format's window may take, never by the file. Does not know capture formats.

use std::io::{self, BufReader, Read};

use flate2::read::MultiGzDecoder;
use lz4_flex::frame::FrameDecoder;
use zstd::stream::read::Decoder as ZstdDecoder;

/// The largest window of a zstd frame: 128 MiB, which the `zstd` tool too refuses to go beyond unless told.
/// What `zstd -19` writes needs 8 MiB.
const ZSTD_WINDOW_LOG_LIMIT: u32 = 27;

/// How a capture is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packing {
    /// RFC 1952, of several members too.
    Gzip,
    /// RFC 8878, of several frames too, skippable ones among them.
    Zstd,
    /// <https://github.com/lz4/lz4/blob/dev/doc/lz4_Frame_format.md>, of several frames too.
    Lz4,
}

impl Packing {
    /// What a file that begins so is compressed with.
    pub(super) fn of(magic: [u8; 4]) -> Option<Self> {
        match magic {
            [0x1f, 0x8b, ..] => Some(Self::Gzip),
            // pzstd writes a skippable frame before each frame.
            [0x28, 0xb5, 0x2f, 0xfd] | [0x50..=0x5f, 0x2a, 0x4d, 0x18] => Some(Self::Zstd),
            [0x04, 0x22, 0x4d, 0x18] => Some(Self::Lz4),
            _ => None,
        }
    }

    /// What `packed` holds. Of a stream that ends too early, what there is and then
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

/// Why a file that begins so cannot be read although people do store captures like that.
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

/// What a decoder's error says, and what to do where something can be done.
pub(super) fn explain(error: &io::Error) -> String {
    let mut why = error.to_string();
    // The words of libzstd's error ZSTD_error_frameParameter_windowTooLarge: the crate passes on no number.
    if why.contains("requires too much memory") {
        why.push_str(" (its window is over 128 MiB); pipe `zstd -dc --long=31` into `-`");
    }
    why
}

// lz4 frames one after the other. Adds to the library's decoder of one frame what a file needs: the next
// frame, and telling a cut stream from one that has ended.

/// Reads frames to the end of what holds them.
pub(super) struct Lz4Frames {
    /// None only while it is replaced.
    frame: Option<FrameDecoder<EndWatcher>>,
    /// Nothing was read since a frame ended.
    between_frames: bool,
}

/// Remembers whether its end was met.
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

    /// Goes on to the next frame, with a new decoder: the library's asserts that all frames it meets
    /// have blocks of one size.
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
            // The decoder says "nothing more" at a frame's end mark, and also where the stream ends.
            match (frame.get_ref().ended, self.between_frames) {
                (false, _) => self.next_frame(),
                (true, true) => return Ok(0),
                (true, false) => return Err(io::ErrorKind::UnexpectedEof.into()),
            }
        }
        Ok(0)
    }
}
