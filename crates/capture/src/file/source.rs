//! The bytes of a capture, in order. They are read in large pieces into one buffer and returned from there. Does not
//! know capture formats.

use std::fs::File;
use std::io::{self, Cursor, Read};

/// Bytes per read.
const CHUNK_BYTES: usize = 256 << 10;
/// Bytes of the first read: of many files, only the beginning is inspected.
const FIRST_BYTES: usize = 16 << 10;

pub(super) struct Source {
    reader: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Bytes consumed since the beginning.
    at: u64,
    ended: bool,
    cut: bool,
}

impl Source {
    pub(super) fn new(reader: Box<dyn Read + Send>) -> Self {
        Self { reader, buffer: Vec::new(), start: 0, end: 0, at: 0, ended: false, cut: false }
    }

    /// Everything not yet consumed, as a stream.
    pub(super) fn into_reader(self) -> Box<dyn Read + Send> {
        let Self { mut buffer, start, end, reader, .. } = self;
        buffer.truncate(end);
        buffer.drain(..start);
        Box::new(Cursor::new(buffer).chain(reader))
    }

    /// Bytes consumed, which is the position of the next byte.
    pub(super) fn position(&self) -> u64 {
        self.at
    }

    /// Whether a compressed input ended early.
    pub(super) fn is_cut(&self) -> bool {
        self.cut
    }

    /// Returns the next `n` bytes without consuming them; fewer only at the end of the source.
    /// The caller bounds `n`.
    pub(super) fn peek(&mut self, n: usize) -> io::Result<&[u8]> {
        while self.end - self.start < n && !self.ended {
            self.fill(n)?;
        }
        let end = self.end.min(self.start.saturating_add(n));
        Ok(self.buffer.get(self.start..end).unwrap_or_default())
    }

    /// Consumes and returns the next `n` bytes; fewer only at the end of the source.
    pub(super) fn take(&mut self, n: usize) -> io::Result<&[u8]> {
        let len = self.peek(n)?.len();
        let from = self.start;
        self.start += len;
        self.at += len as u64;
        Ok(self.buffer.get(from..from + len).unwrap_or_default())
    }

    /// Returns no more bytes from here on.
    pub(super) fn end(&mut self) {
        self.start = self.end;
        self.ended = true;
    }

    fn fill(&mut self, n: usize) -> io::Result<()> {
        // The buffer grows only as a record's bytes arrive, not by the length it claims.
        let held = self.end - self.start;
        let chunk = if self.buffer.is_empty() { FIRST_BYTES } else { CHUNK_BYTES };
        let size = n.min(held.saturating_mul(2)).max(chunk);
        if self.start + size > self.buffer.len() {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
            if self.buffer.len() < size {
                self.buffer.resize(size, 0);
            }
        }
        let free = self.buffer.get_mut(self.end..).unwrap_or_default();
        match self.reader.read(free) {
            Ok(0) => self.ended = true,
            Ok(read) => self.end += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                self.ended = true;
                self.cut = true;
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

/// A file with the length that it had when it was opened: bytes appended later are not read.
pub(super) struct FileReader {
    file: File,
    length: u64,
    read: u64,
}

impl FileReader {
    pub(super) fn new(file: File, length: u64) -> Self {
        Self { file, length, read: 0 }
    }
}

impl Read for FileReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = (&self.file).take(self.length - self.read).read(into)?;
        self.read += read as u64;
        // A ring's oldest file is truncated when it is overwritten, and may soon be as long as before.
        if self.read < self.length && (read == 0 || self.file.metadata()?.len() < self.length) {
            return Err(io::Error::other(
                "it was truncated while being read (is it in a ring of files that tcpdump overwrites?); copy it first",
            ));
        }
        Ok(read)
    }
}
