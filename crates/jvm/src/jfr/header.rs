//! The 68 bytes that a chunk begins with. Does not read anything else of it.
//!
//! ```text
//!  0  FLR\0                      40  nanoseconds it covers so far
//!  4  major, minor: 2 bytes each 48  ticks when it began
//!  8  size in bytes              56  ticks a second
//! 16  place of last checkpoint   64  generation: 0 finished, 255 this header is being written, else being recorded
//! 24  place of metadata          65  nothing
//! 32  UTC nanoseconds when it    66  flags: 1 integers are compressed, 2 the recording's last chunk
//!     began
//! ```
//! (`jfrChunk.cpp`, `jfrChunkWriter.cpp`; in JDK 11 bytes 64 to 67 are flags alone, so its chunks are finished.)
//! A JVM updates sizes and places after each flush, about once a second, writing 255 into the generation before and
//! another number after: what was read is whole where the generation is the same before and after, and not 255.

use super::bytes::Bytes;
use super::{Error, ErrorKind};

/// The letters that a chunk begins with.
const MAGIC: &[u8] = b"FLR\0";

/// How long the header is.
pub(super) const SIZE_BYTES: u64 = 68;

/// The generation of a chunk of which nothing more is written.
const FINISHED: u8 = 0;

/// The generation of a header that is being written.
const UPDATING: u8 = 255;

/// A chunk's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// How much of the chunk has been written whole, this header included; 0 where nothing has.
    pub size_bytes: u64,
    /// Where its metadata event is, from its beginning; 0 where none has been written.
    pub metadata_at: u64,
    /// UTC nanoseconds since 1970 at `start_ticks`.
    pub start_ns: i64,
    /// How long it covers, by the same clock.
    pub duration_ns: u64,
    /// The JVM's own clock when it began.
    pub start_ticks: u64,
    /// That clock's frequency.
    pub ticks_per_second: u64,
    /// Changes with each update.
    pub(super) generation: u8,
}

impl Header {
    /// Reads a header that begins at byte `at` of a file.
    ///
    /// # Errors
    /// Where there is none, or one that this crate does not read.
    pub fn parse(bytes: &[u8], at: u64) -> Result<Self, Error> {
        let mut bytes = Bytes::new(bytes, at);
        if bytes.take(MAGIC.len()).map_err(|_| Error::new(ErrorKind::UnexpectedEnd, at))? != MAGIC {
            return Err(Error::new(ErrorKind::NotAChunk, at));
        }
        let major = bytes.u16()?;
        if !(1..=2).contains(&major) {
            return Err(Error::new(ErrorKind::UnknownVersion { major }, at + 4));
        }
        bytes.u16()?;
        let size_bytes = bytes.u64()?;
        let _checkpoint_at = bytes.u64()?;
        let metadata_at = bytes.u64()?;
        let start_ns = bytes.u64()? as i64;
        let duration_ns = bytes.u64()?;
        let start_ticks = bytes.u64()?;
        let ticks_per_second = bytes.u64()?;
        let last = bytes.u32()?;
        if last & 1 == 0 {
            return Err(Error::new(ErrorKind::Uncompressed, at + 64));
        }
        let generation = (last >> 24) as u8;
        Ok(Self { size_bytes, metadata_at, start_ns, duration_ns, start_ticks, ticks_per_second, generation })
    }

    /// Whether nothing more will be written to the chunk.
    pub fn is_finished(&self) -> bool {
        self.generation == FINISHED
    }

    /// Whether the JVM is writing the header at this moment.
    pub(super) fn is_updating(&self) -> bool {
        self.generation == UPDATING
    }

    /// A tick of the JVM's clock as UTC nanoseconds, by this header alone, as the JDK's own reader says it.
    pub fn utc_ns(&self, ticks: u64) -> i64 {
        self.start_ns.saturating_add(self.length_ns(ticks.wrapping_sub(self.start_ticks) as i64))
    }

    /// A number of ticks in nanoseconds.
    pub fn length_ns(&self, ticks: i64) -> i64 {
        const SECOND_NS: u64 = 1_000_000_000;
        match self.ticks_per_second {
            0 | SECOND_NS => ticks,
            frequency => {
                let ns = i128::from(ticks) * i128::from(SECOND_NS) / i128::from(frequency);
                i64::try_from(ns).unwrap_or(if ns < 0 { i64::MIN } else { i64::MAX })
            }
        }
    }
}
