//! A borrowing reader of the format's integers and strings. Cannot run past its end. Does not know any event.
//!
//! Integers are written seven bits a byte, the lowest first, with the eighth bit set if another byte follows; the ninth
//! byte has eight bits (`jfrEncoders.hpp`). Shorter types are sign-extended first, so that truncating the integer to
//! the type's width restores the value. Headers, floats and doubles are big-endian.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use super::error::{Error, ErrorKind};

/// Reads from the front of a slice.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bytes<'a> {
    /// The bytes that have not been read yet.
    pub(super) rest: &'a [u8],
    /// The next byte's offset in the file.
    pub(super) at: u64,
}

impl<'a> Bytes<'a> {
    /// A reader of bytes that begin at offset `at` of the file.
    pub(super) fn new(bytes: &'a [u8], at: u64) -> Self {
        Self { rest: bytes, at }
    }

    pub(super) fn error(&self, kind: ErrorKind) -> Error {
        Error::new(kind, self.at)
    }

    pub(super) fn byte(&mut self) -> Result<u8, Error> {
        let (&first, rest) = self.rest.split_first().ok_or(Error::new(ErrorKind::UnexpectedEnd, self.at))?;
        self.rest = rest;
        self.at += 1;
        Ok(first)
    }

    pub(super) fn take(&mut self, length: usize) -> Result<&'a [u8], Error> {
        let (taken, rest) = self
            .rest
            .split_at_checked(length)
            .ok_or(Error::new(ErrorKind::UnexpectedEnd, self.at + self.rest.len() as u64))?;
        self.rest = rest;
        self.at += length as u64;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    pub(super) fn u16(&mut self) -> Result<u16, Error> {
        self.array().map(u16::from_be_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, Error> {
        self.array().map(u32::from_be_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, Error> {
        self.array().map(u64::from_be_bytes)
    }

    pub(super) fn varint(&mut self) -> Result<u64, Error> {
        let mut value = 0;
        for shift in (0..56).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Ok(value | u64::from(self.byte()?) << 56)
    }

    /// A number of elements that follow and take at least one byte each.
    pub(super) fn count(&mut self) -> Result<usize, Error> {
        let at = self.at;
        let length = self.varint()?;
        match usize::try_from(length) {
            Ok(count) if count <= self.rest.len() => Ok(count),
            _ => Err(Error::new(ErrorKind::BadLength(length), at)),
        }
    }

    pub(super) fn text(&mut self) -> Result<Text<'a>, Error> {
        let encoding = self.byte()?;
        Ok(match encoding {
            0 => Text::Null,
            1 => Text::Utf8(&[]),
            2 => Text::Pooled(self.varint()?),
            3 => Text::Utf8(self.counted()?),
            4 => Text::Chars(self.chars()?),
            5 => Text::Latin1(self.counted()?),
            _ => return Err(Error::new(ErrorKind::BadString(encoding), self.at - 1)),
        })
    }

    fn counted(&mut self) -> Result<&'a [u8], Error> {
        let count = self.count()?;
        self.take(count)
    }

    fn chars(&mut self) -> Result<&'a [u8], Error> {
        let count = self.count()?;
        let all = self.rest;
        for _ in 0..count {
            self.varint()?;
        }
        Ok(all.get(..all.len() - self.rest.len()).unwrap_or_default())
    }
}

/// A string as the format writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Text<'a> {
    /// No string.
    Null,
    /// The key of a string in the pool of strings.
    Pooled(u64),
    /// UTF-8, unless it is damaged.
    Utf8(&'a [u8]),
    /// UTF-16, with each unit as a compressed integer.
    Chars(&'a [u8]),
    /// One byte a character.
    Latin1(&'a [u8]),
}

impl Text<'_> {
    /// Appends the string, with control characters replaced. Appends no more than `limit` of its encoded bytes.
    pub(super) fn append_to(self, out: &mut String, limit: usize) {
        let printable = |c: char| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c };
        let cut = |bytes: &[u8]| bytes.get(..limit.min(bytes.len())).unwrap_or_default().to_vec();
        match self {
            Self::Null | Self::Pooled(_) => {}
            Self::Utf8(bytes) => out.extend(String::from_utf8_lossy(&cut(bytes)).chars().map(printable)),
            Self::Latin1(bytes) => out.extend(cut(bytes).into_iter().map(char::from).map(printable)),
            Self::Chars(bytes) => {
                let bytes = cut(bytes);
                let mut units = Bytes::new(&bytes, 0);
                let units = std::iter::from_fn(|| units.varint().ok().map(|unit| unit as u16));
                let chars = char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER));
                out.extend(chars.map(printable));
            }
        }
    }
}

// Reads the events of a part of a file, one after another, through a buffer that grows no larger than the largest
// event. Does not know what is in an event.

/// Bytes read at a time.
const READ_BYTES: usize = 256 << 10;

/// Events larger than this are skipped.
/// Checkpoints are written in parts of at most a few megabytes.
pub(super) const MAX_EVENT_BYTES: u64 = 16 << 20;

/// The minimum for a size and a type.
const MIN_EVENT_BYTES: u64 = 2;

/// A source that can be read at any offset.
pub trait Source {
    /// Reads up to `into.len()` bytes from offset `at`; returns 0 at the end.
    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize>;

    /// The current size in bytes.
    fn size_bytes(&self) -> io::Result<u64>;
}

/// Moves the file's own position.
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

/// An event's position and bytes.
pub(super) struct EventFrame<'a> {
    /// Its type's number.
    pub(super) type_id: u64,
    /// Offset of the next event.
    pub(super) next: u64,
    /// The bytes after its type; `None` if the event is too large to hold.
    pub(super) body: Option<Bytes<'a>>,
}

/// A part of a file in memory.
#[derive(Default)]
pub(super) struct Window {
    bytes: Vec<u8>,
    at: u64,
}

impl Window {
    /// Drops the bytes that were read, because the file may have changed.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
    }

    /// The event that begins at offset `at` and ends by `end`.
    pub(super) fn event<S: Source + ?Sized>(
        &mut self,
        source: &S,
        at: u64,
        end: u64,
    ) -> Result<EventFrame<'_>, Error> {
        let mut head =
            Bytes::new(self.bytes(source, at, MAX_HEAD_BYTES.min(end.saturating_sub(at)), end)?, at);
        let size = head.varint()?;
        let type_id = head.varint()?;
        let head_bytes = head.at - at;
        let next = at.saturating_add(size);
        if size < MIN_EVENT_BYTES.max(head_bytes) {
            return Err(Error::new(ErrorKind::BadLength(size), at));
        }
        if next > end {
            return Err(Error::new(ErrorKind::UnexpectedEnd, end));
        }
        if size > MAX_EVENT_BYTES {
            return Ok(EventFrame { type_id, next, body: None });
        }
        let mut body = Bytes::new(self.bytes(source, at, size, end)?, at);
        body.take(head_bytes as usize)?;
        Ok(EventFrame { type_id, next, body: Some(body) })
    }

    /// `length` bytes from offset `at`, or fewer if the source ends first; does not read ahead beyond `end`.
    fn bytes<S: Source + ?Sized>(
        &mut self,
        source: &S,
        at: u64,
        length: u64,
        end: u64,
    ) -> Result<&[u8], Error> {
        let held = self.at..self.at + self.bytes.len() as u64;
        if at < held.start || at + length > held.end {
            let to_read = length.max((READ_BYTES as u64).min(end.saturating_sub(at)));
            self.fill(source, at, to_read as usize)?;
        }
        let from = (at - self.at) as usize;
        let to = (from + length as usize).min(self.bytes.len());
        Ok(self.bytes.get(from..to).unwrap_or_default())
    }

    fn fill<S: Source + ?Sized>(&mut self, source: &S, at: u64, to_read: usize) -> Result<(), Error> {
        self.bytes.clear();
        self.bytes.shrink_to(to_read.max(READ_BYTES));
        self.at = at;
        while self.bytes.len() < to_read {
            let have = self.bytes.len();
            let step = READ_BYTES.min(to_read - have);
            self.bytes.resize(have + step, 0);
            let (_, free) = self.bytes.split_at_mut(have);
            let read = match source.read_at(free, at + have as u64) {
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

#[cfg(test)]
mod tests {
    use super::{Bytes, Text};

    #[test]
    fn reads_varints_of_one_to_nine_bytes() {
        for (bytes, value) in [
            (&[0][..], 0),
            (&[0x7f], 0x7f),
            (&[0x80, 0x01], 0x80),
            (&[0xac, 0xb9, 0xd5, 0x01], 3_497_132),
            (&[0x80, 0x80, 0x80, 0x00], 0),
            (&[0xff; 9], u64::MAX),
            (&[0xff, 0xff, 0xff, 0xff, 0x0f], 0xffff_ffff),
        ] {
            let mut reader = Bytes::new(bytes, 0);
            assert_eq!(reader.varint(), Ok(value), "{bytes:x?}");
            assert!(reader.rest.is_empty());
            for end in 0..bytes.len() {
                assert!(Bytes::new(&bytes[..end], 0).varint().is_err());
            }
        }
    }

    #[test]
    fn reads_every_string_encoding() {
        for (bytes, text) in [
            (&[0][..], ""),
            (&[1], ""),
            (&[3, 3, b'a', 0xc3, 0xa9], "aé"),
            (&[4, 3, b'a', 0x96, 0x9c, 0x01, 0x0a], "a世\u{fffd}"),
            (&[4, 2, 0xbd, 0xb0, 0x03, 0x80, 0xbc, 0x03], "😀"),
            (&[5, 2, b'a', 0xe9], "aé"),
            (&[3, 1, 0xff], "\u{fffd}"),
        ] {
            let mut out = String::new();
            Bytes::new(bytes, 0).text().unwrap().append_to(&mut out, 99);
            assert_eq!(out, text, "{bytes:x?}");
        }
        assert_eq!(Bytes::new(&[2, 9], 0).text(), Ok(Text::Pooled(9)));
        assert!(Bytes::new(&[6], 0).text().is_err());
        assert!(Bytes::new(&[3, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], 0).text().is_err());
    }
}
