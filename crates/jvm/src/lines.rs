//! Reads lines of untrusted text, one at a time and in bounded memory. Does not know what they say.
//! Fuzzed by: dump.

use std::borrow::Cow;
use std::io::{self, BufRead, Read as _};

/// Limit of a line; the rest of it is skipped.
/// A thread's name may have 64 KiB in UTF-8, but a line need not have a gigabyte.
const MAX_BYTES: usize = 96 << 10;

/// The reason why a text could not be read further.
#[derive(Debug, thiserror::Error)]
pub enum TextError {
    /// Reading failed.
    #[error("line {line}: cannot read further: {source}")]
    Io {
        /// The line that could not be read, from 1.
        line: u64,
        /// The operating system's error.
        source: io::Error,
    },
    /// UTF-16, as `>` of an old PowerShell writes it.
    #[error("line 1: this is UTF-16: convert it (iconv -f UTF-16 -t UTF-8) and try again")]
    Utf16,
    /// A compressed file.
    #[error("line 1: this is gzip: unpack it and try again")]
    Gzip,
}

impl From<TextError> for io::Error {
    fn from(error: TextError) -> Self {
        match error {
            TextError::Io { source, .. } => source,
            refused => Self::new(io::ErrorKind::InvalidData, refused),
        }
    }
}

/// Reads lines that end in LF or CR LF.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    reader: R,
    line: Vec<u8>,
    /// The number of the last line read.
    pub(crate) number: u64,
}

/// One line, without its line end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line<'a> {
    /// Its number, from 1.
    pub(crate) number: u64,
    /// The line, as far as it is kept.
    pub(crate) bytes: &'a [u8],
    /// Whether the line's end was seen.
    /// If not, the text ends in the middle of the line, and a number there may lack digits.
    pub(crate) is_whole: bool,
}

impl<'a> Line<'a> {
    /// The line as text; invalid UTF-8 becomes U+FFFD.
    pub(crate) fn text(&self) -> Cow<'a, str> {
        String::from_utf8_lossy(self.bytes)
    }
}

impl<R: BufRead> Lines<R> {
    pub(crate) fn new(reader: R) -> Self {
        Self { reader, line: Vec::new(), number: 0 }
    }

    /// The next line; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Line<'_>>, TextError> {
        self.line.clear();
        let failed = |source| TextError::Io { line: self.number + 1, source };
        let most = MAX_BYTES as u64;
        let read = self.reader.by_ref().take(most).read_until(b'\n', &mut self.line).map_err(failed)? as u64;
        if read == 0 {
            return Ok(None);
        }
        let is_whole = if self.line.ends_with(b"\n") {
            self.line.pop();
            true
        } else {
            read == most && skip_line(&mut self.reader).map_err(failed)?
        };
        self.number += 1;
        if self.number == 1 {
            refuse(&self.line)?;
        }
        let bytes = self.line.strip_suffix(b"\r").unwrap_or(&self.line);
        Ok(Some(Line { number: self.number, bytes, is_whole }))
    }
}

/// Skips the rest of a line; returns whether it has an end.
fn skip_line(reader: &mut impl BufRead) -> io::Result<bool> {
    loop {
        let bytes = reader.fill_buf()?;
        let (end, is_last) = (bytes.iter().position(|&byte| byte == b'\n'), bytes.is_empty());
        let used = end.map_or(bytes.len(), |at| at + 1);
        reader.consume(used);
        if end.is_some() || is_last {
            return Ok(end.is_some());
        }
    }
}

/// Refuses a file that is not text, by its first bytes.
fn refuse(first: &[u8]) -> Result<(), TextError> {
    match first {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => Err(TextError::Utf16),
        [0x1f, 0x8b, ..] => Err(TextError::Gzip),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Read as _};

    use super::{Lines, MAX_BYTES};

    fn all(text: &[u8], buffer: usize) -> Vec<(u64, Vec<u8>, bool)> {
        let mut lines = Lines::new(BufReader::with_capacity(buffer, text));
        let mut all = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            all.push((line.number, line.bytes.to_vec(), line.is_whole));
        }
        all
    }

    #[test]
    fn lines_end_in_lf_or_crlf_and_the_last_one_may_have_no_end() {
        for buffer in [1, 2, 3, 64] {
            assert_eq!(
                all(b"one\r\n\ntwo\rx\nthr", buffer),
                [
                    (1, b"one".to_vec(), true),
                    (2, vec![], true),
                    (3, b"two\rx".to_vec(), true),
                    (4, b"thr".to_vec(), false)
                ]
            );
        }
        assert!(all(b"", 8).is_empty());
    }

    #[test]
    fn endless_line_takes_bounded_memory() {
        let endless = std::io::repeat(b'x').take(100 * MAX_BYTES as u64).chain(&b"\nnext\n"[..]);
        let mut lines = Lines::new(BufReader::new(endless));
        assert_eq!(lines.next().unwrap().unwrap().bytes.len(), MAX_BYTES);
        assert_eq!(lines.next().unwrap().unwrap().bytes, b"next");
        assert!(lines.line.capacity() <= 2 * MAX_BYTES);
    }

    #[test]
    fn long_last_line_without_an_end_is_not_whole() {
        let long = vec![b'x'; MAX_BYTES + 5];
        assert!(!all(&long, 64)[0].2);
        assert!(all(&[&long[..], b"\n"].concat(), 64)[0].2);
    }
}
