//! The bytes of a capture, from a mapped file or a stream, handed over in order without copying what
//! is already in memory. Does not know capture formats.

use std::fs::File;
use std::io::{self, Cursor, Read};

use memmap2::{Mmap, MmapOptions};

/// Bytes mapped at once: bounds the resident memory of a reader for files of any size.
const WINDOW_BYTES: usize = 8 << 20;
/// Bytes asked of a stream at once.
const CHUNK_BYTES: usize = 256 << 10;

pub(super) enum Source {
    Mapped(MappedFile),
    Streamed(StreamBuffer),
}

pub(super) struct MappedFile {
    file: File,
    file_len: u64,
    window: Option<Mmap>,
    window_start: u64,
    at: u64,
}

pub(super) struct StreamBuffer {
    reader: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Bytes passed over since the stream's beginning.
    at: u64,
    ended: bool,
    cut: bool,
}

impl Source {
    pub(super) fn mapped(file: File, file_len: u64) -> Self {
        Self::Mapped(MappedFile { file, file_len, window: None, window_start: 0, at: 0 })
    }

    pub(super) fn streamed(reader: Box<dyn Read + Send>) -> Self {
        Self::Streamed(StreamBuffer {
            reader,
            buffer: Vec::new(),
            start: 0,
            end: 0,
            at: 0,
            ended: false,
            cut: false,
        })
    }

    /// Everything that has not been passed over, as a stream.
    pub(super) fn into_reader(self) -> Box<dyn Read + Send> {
        match self {
            // The file's own position never moved: maps have none.
            Self::Mapped(mapped) => Box::new(mapped.file),
            Self::Streamed(StreamBuffer { mut buffer, start, end, reader, .. }) => {
                buffer.truncate(end);
                buffer.drain(..start);
                Box::new(Cursor::new(buffer).chain(reader))
            }
        }
    }

    /// How many bytes were passed over: where the next one is.
    pub(super) fn position(&self) -> u64 {
        match self {
            Self::Mapped(mapped) => mapped.at,
            Self::Streamed(streamed) => streamed.at,
        }
    }

    /// Whether what was unpacked ended before its own end.
    pub(super) fn is_cut(&self) -> bool {
        matches!(self, Self::Streamed(StreamBuffer { cut: true, .. }))
    }

    /// The next `n` bytes without passing over them; fewer only where the source ends. The caller
    /// bounds `n`.
    pub(super) fn peek(&mut self, n: usize) -> io::Result<&[u8]> {
        match self {
            Self::Mapped(mapped) => mapped.peek(n),
            Self::Streamed(streamed) => streamed.peek(n),
        }
    }

    /// The next `n` bytes, passed over; fewer only where the source ends.
    pub(super) fn take(&mut self, n: usize) -> io::Result<&[u8]> {
        match self {
            Self::Mapped(mapped) => mapped.take(n),
            Self::Streamed(streamed) => streamed.take(n),
        }
    }

    /// Hands over nothing any more.
    pub(super) fn end(&mut self) {
        match self {
            Self::Mapped(mapped) => mapped.at = mapped.file_len,
            Self::Streamed(streamed) => {
                streamed.start = streamed.end;
                streamed.ended = true;
            }
        }
    }
}

#[cfg(test)]
impl Source {
    /// Passes over the mapped window without looking at it.
    pub(super) fn pass_window(&mut self) {
        if let Self::Mapped(mapped) = self {
            mapped.at = mapped.window_start + mapped.window.as_ref().map_or(0, |window| window.len()) as u64;
        }
    }
}

impl MappedFile {
    fn peek(&mut self, n: usize) -> io::Result<&[u8]> {
        let left = self.file_len - self.at;
        let n = usize::try_from(left).unwrap_or(usize::MAX).min(n);
        if n == 0 {
            return Ok(&[]);
        }
        let mapped_len = self.window.as_ref().map_or(0, |window| window.len());
        let from = (self.at - self.window_start) as usize;
        if from.saturating_add(n) > mapped_len {
            return self.remap(n, left);
        }
        Ok(self.window.as_deref().and_then(|window| window.get(from..from + n)).unwrap_or_default())
    }

    /// Moves the window so that it begins at the reader's place. Every reader but the first asks for
    /// far less than a window, so this happens once a window.
    #[cold]
    fn remap(&mut self, n: usize, left: u64) -> io::Result<&[u8]> {
        self.check_length()?;
        let len = usize::try_from(left).unwrap_or(usize::MAX).min(WINDOW_BYTES.max(n));
        self.window = None;
        self.window_start = self.at;
        let window = self.window.insert(map_window(&self.file, self.at, len)?);
        Ok(window.get(..n).unwrap_or_default())
    }

    /// A page behind a file's end must not be touched: one that was cut after it was opened, as a ring's
    /// oldest file is when it is overwritten, is not read on.
    fn check_length(&self) -> io::Result<()> {
        if self.file.metadata()?.len() < self.file_len {
            return Err(io::Error::other(
                "it was truncated while being read (is it in a ring of files that tcpdump overwrites?); copy it first",
            ));
        }
        Ok(())
    }

    fn take(&mut self, n: usize) -> io::Result<&[u8]> {
        let before = self.at;
        let len = self.peek(n)?.len();
        self.at += len as u64;
        let from = (before - self.window_start) as usize;
        Ok(self.window.as_deref().and_then(|window| window.get(from..from + len)).unwrap_or_default())
    }
}

impl StreamBuffer {
    fn peek(&mut self, n: usize) -> io::Result<&[u8]> {
        while self.end - self.start < n && !self.ended {
            self.fill(n)?;
        }
        let end = self.end.min(self.start.saturating_add(n));
        Ok(self.buffer.get(self.start..end).unwrap_or_default())
    }

    fn fill(&mut self, n: usize) -> io::Result<()> {
        // A record's length is only believed as its bytes come.
        let held = self.end - self.start;
        let wanted = n.min(held.saturating_mul(2)).max(CHUNK_BYTES);
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

    fn take(&mut self, n: usize) -> io::Result<&[u8]> {
        let len = self.peek(n)?.len();
        let from = self.start;
        self.start += len;
        self.at += len as u64;
        Ok(self.buffer.get(from..from + len).unwrap_or_default())
    }
}

// A window of a regular file mapped read-only. The only `unsafe` of the file reader.

/// Maps `len` bytes of `file` from `offset` (which need not be aligned).
///
/// # Errors
/// The system's, if it will not map the file.
#[expect(unsafe_code, reason = "maps a file")]
fn map_window(file: &File, offset: u64, len: usize) -> io::Result<Mmap> {
    // SAFETY: the map is private to the reader and read-only, and its bytes are only ever read as
    // plain bytes. Another process that writes into the file can change what is read, which every
    // parser here bears: each length is read once and checked against the window. The
    // caller asks for the file's length before each window; one that is truncated while its window is read
    // raises SIGBUS, which ends the program without corrupting anything.
    let map = unsafe { MmapOptions::new().offset(offset).len(len).map(file)? };
    #[cfg(unix)]
    map.advise(memmap2::Advice::Sequential)?;
    Ok(map)
}
