//! Events of a part of a file, one after another, through a buffer that grows no larger than the largest event.
//! Does not know what is in an event.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use super::bytes::Bytes;
use super::{Error, ErrorKind};

/// How much is read at a time.
const READ_BYTES: usize = 256 << 10;

/// Events larger than this are passed over. Checkpoints are written in parts of at most a few megabytes.
pub(super) const MAX_EVENT_BYTES: u64 = 32 << 20;

/// No shorter event has a size and a type.
const MIN_EVENT_BYTES: u64 = 2;

/// Something that can be read at any place.
pub trait Source {
    /// Reads up to `into.len()` bytes from byte `at`; 0 at the end.
    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize>;

    /// How many bytes there are now.
    fn size_bytes(&self) -> io::Result<u64>;
}

/// The file's own position moves.
impl Source for File {
    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        let mut file = self;
        file.seek(SeekFrom::Start(at))?;
        file.read(into)
    }

    fn size_bytes(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }
}

impl Source for [u8] {
    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        let from = usize::try_from(at).unwrap_or(usize::MAX).min(self.len());
        self.get(from..).unwrap_or_default().read(into)
    }

    fn size_bytes(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }
}

/// An event's place and bytes.
pub(super) struct Framed<'a> {
    /// Its type's number.
    pub(super) type_id: u64,
    /// Where the next event begins.
    pub(super) next: u64,
    /// What follows its type; none where it is too large to be held.
    pub(super) body: Option<Bytes<'a>>,
}

/// A part of a file in memory.
#[derive(Default)]
pub(super) struct Window {
    bytes: Vec<u8>,
    at: u64,
}

impl Window {
    /// Forgets what was read, because the file may have changed.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
    }

    /// The event that begins at byte `at` and ends by `end`.
    pub(super) fn event<S: Source + ?Sized>(
        &mut self,
        source: &S,
        at: u64,
        end: u64,
    ) -> Result<Framed<'_>, Error> {
        let mut head =
            Bytes::new(self.bytes(source, at, MAX_HEAD_BYTES.min(end.saturating_sub(at)), end)?, at);
        let size = head.varint()?;
        let type_id = head.varint()?;
        let head_bytes = head.at() - at;
        let next = at.saturating_add(size);
        if size < MIN_EVENT_BYTES.max(head_bytes) {
            return Err(Error::new(ErrorKind::BadLength { length: size }, at));
        }
        if next > end {
            return Err(Error::new(ErrorKind::UnexpectedEnd, end));
        }
        if size > MAX_EVENT_BYTES {
            return Ok(Framed { type_id, next, body: None });
        }
        let mut body = Bytes::new(self.bytes(source, at, size, end)?, at);
        body.take(head_bytes as usize)?;
        Ok(Framed { type_id, next, body: Some(body) })
    }

    /// `length` bytes from byte `at`, fewer where the source ends before; what is read beside ends by `end`.
    fn bytes<S: Source + ?Sized>(
        &mut self,
        source: &S,
        at: u64,
        length: u64,
        end: u64,
    ) -> Result<&[u8], Error> {
        let held = self.at..self.at + self.bytes.len() as u64;
        if at < held.start || at + length > held.end {
            let wanted = length.max((READ_BYTES as u64).min(end.saturating_sub(at)));
            self.fill(source, at, wanted as usize)?;
        }
        let from = (at - self.at) as usize;
        let to = (from + length as usize).min(self.bytes.len());
        Ok(self.bytes.get(from..to).unwrap_or_default())
    }

    fn fill<S: Source + ?Sized>(&mut self, source: &S, at: u64, wanted: usize) -> Result<(), Error> {
        self.bytes.clear();
        self.bytes.shrink_to(wanted.max(READ_BYTES));
        self.at = at;
        while self.bytes.len() < wanted {
            let have = self.bytes.len();
            let step = READ_BYTES.min(wanted - have);
            self.bytes.resize(have + step, 0);
            let read = match source.read_at(self.bytes.get_mut(have..).unwrap_or_default(), at + have as u64)
            {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                    self.bytes.truncate(have);
                    continue;
                }
                read => read,
            };
            self.bytes.truncate(have + *read.as_ref().unwrap_or(&0));
            if read.map_err(|error| Error::io(&error, at))? == 0 {
                break;
            }
        }
        Ok(())
    }
}

/// Two integers of nine bytes.
const MAX_HEAD_BYTES: u64 = 18;
