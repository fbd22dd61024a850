//! The bytes of a capture, read in large pieces into one buffer and handed over from there, in order. Does not know capture
//! formats.

use std::fs::File;
use std::io::{self, Cursor, Read};

/// Bytes asked for at once.
const CHUNK_BYTES: usize = 256 << 10;
/// At first: of many files only the beginning is looked at.
const FIRST_BYTES: usize = 16 << 10;

pub(super) struct Source {
    reader: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Bytes passed over since the beginning.
    at: u64,
    ended: bool,
    cut: bool,
}

impl Source {
    pub(super) fn new(reader: Box<dyn Read + Send>) -> Self {
        Self { reader, buffer: Vec::new(), start: 0, end: 0, at: 0, ended: false, cut: false }
    }

    /// Everything that has not been passed over, as a stream.
    pub(super) fn into_reader(self) -> Box<dyn Read + Send> {
        let Self { mut buffer, start, end, reader, .. } = self;
        buffer.truncate(end);
        buffer.drain(..start);
        Box::new(Cursor::new(buffer).chain(reader))
    }

    /// How many bytes were passed over: where the next one is.
    pub(super) fn position(&self) -> u64 {
        self.at
    }

    /// Whether what was unpacked ended before its own end.
    pub(super) fn is_cut(&self) -> bool {
        self.cut
    }

    /// The next `n` bytes without passing over them; fewer only where the source ends. The caller
    /// bounds `n`.
    pub(super) fn peek(&mut self, n: usize) -> io::Result<&[u8]> {
        while self.end - self.start < n && !self.ended {
            self.fill(n)?;
        }
        let end = self.end.min(self.start.saturating_add(n));
        Ok(self.buffer.get(self.start..end).unwrap_or_default())
    }

    /// The next `n` bytes, passed over; fewer only where the source ends.
    pub(super) fn take(&mut self, n: usize) -> io::Result<&[u8]> {
        let len = self.peek(n)?.len();
        let from = self.start;
        self.start += len;
        self.at += len as u64;
        Ok(self.buffer.get(from..from + len).unwrap_or_default())
    }

    /// Hands over nothing any more.
    pub(super) fn end(&mut self) {
        self.start = self.end;
        self.ended = true;
    }

    fn fill(&mut self, n: usize) -> io::Result<()> {
        // A record's length is only believed as its bytes come.
        let held = self.end - self.start;
        let chunk = if self.buffer.is_empty() { FIRST_BYTES } else { CHUNK_BYTES };
        let wanted = n.min(held.saturating_mul(2)).max(chunk);
        if self.start + wanted > self.buffer.len() {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
            if self.buffer.len() < wanted {
                self.buffer.resize(wanted, 0);
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

/// A file with the length that it had when it was opened: what is appended is left for another time.
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
        // A ring's oldest file is cut when it is overwritten, and may be as long again soon.
        if self.read < self.length && (read == 0 || self.file.metadata()?.len() < self.length) {
            return Err(io::Error::other(
                "it was truncated while being read (is it in a ring of files that tcpdump overwrites?); copy it first",
            ));
        }
        Ok(read)
    }
}
