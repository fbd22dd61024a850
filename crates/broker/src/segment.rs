//! Reads the record batches of a segment, or of a range of it, damaged or not.
//! Does not read indexes and never changes anything.
//!
//! A segment is nothing but a sequence of batches. Where the bytes are not a batch (damage, or a range that starts
//! inside one), reading resumes at the next batch with a correct CRC, and the skipped bytes are reported.
//! Fuzzed by: segment.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use wire::batch::{HEAD_BYTES, LEADING_BYTES};
use wire::record::Records;
use wire::{BatchHeader, ErrorKind};

use crate::Error;

/// The largest batch that is read.
/// Kafka's `message.max.bytes` is 1 MiB unless raised, and a request, which contains the batch, is at most 100 MiB
/// (`socket.request.max.bytes`).
pub const MAX_BATCH_BYTES: u32 = 128 << 20;
/// The maximum decompressed size of a batch's records.
pub const MAX_RECORDS_BYTES: usize = 256 << 20;
/// A message id is printed, joined and stored: a longer one is cut.
const MAX_MESSAGE_ID_BYTES: usize = 256;

/// A segment file.
pub struct Segment {
    path: PathBuf,
    window: Window,
    /// Bytes over which searches may still compute CRCs that turn out wrong.
    search_bytes: u64,
}

impl Segment {
    /// Opens a segment. Bytes appended later are not read.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn open(path: &Path) -> Result<Self, Error> {
        let window = foreign::open_named(path).and_then(Window::on).map_err(Error::file(path))?;
        Ok(Self { path: path.to_owned(), window, search_bytes: MAX_CHECKED_BYTES })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its length in bytes when it was opened.
    pub fn size_bytes(&self) -> u64 {
        self.window.end
    }

    /// All its batches.
    pub fn batches(&mut self) -> Batches<'_> {
        self.batches_in(0, u64::MAX)
    }

    /// The header of the batch at a position.
    /// `None` unless the whole batch lies within `max_bytes` and its CRC is correct.
    pub fn head_at(&mut self, position: u64, max_bytes: u64) -> Option<BatchHeader> {
        let header = head_at(&mut self.window, position).ok()?;
        let is_match =
            u64::from(header.length_bytes) <= max_bytes && crc_ok(&mut self.window, position, &header);
        is_match.then_some(header)
    }

    /// The batches that start in the `bytes` bytes from `position` on.
    /// For example, those of one write. The last one may extend beyond the range. If no whole batch starts at
    /// `position` itself, the first item says so.
    pub fn batches_in(&mut self, position: u64, bytes: u64) -> Batches<'_> {
        let end = position.saturating_add(bytes);
        let Self { window, search_bytes, .. } = self;
        Batches { window, search_bytes, position, end, aligned: position == 0 }
    }
}

/// A batch of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Its position in the file.
    pub position: u64,
    /// Its header.
    pub header: BatchHeader,
    /// Whether its CRC is correct. If not, nothing in it can be relied on.
    pub crc_ok: bool,
    /// All of its bytes, including the header.
    pub bytes: Vec<u8>,
}

impl Batch {
    /// The offset of its last record.
    pub fn last_offset(&self) -> i64 {
        self.header.base_offset.saturating_add(i64::from(self.header.last_offset_delta))
    }

    /// Its records, decompressed into `scratch`.
    ///
    /// # Errors
    /// Like [`Records::open`].
    pub fn records<'b>(&'b self, scratch: &'b mut Vec<u8>) -> Result<Records<'b>, wire::Error> {
        Records::open(&self.bytes, MAX_RECORDS_BYTES, scratch)
    }

    /// Values of a record header as text, one for each record that has the header.
    ///
    /// # Errors
    /// Like [`wire::record::message_ids`].
    pub fn message_ids(&self, header_name: &[u8], scratch: &mut Vec<u8>) -> Result<Vec<String>, wire::Error> {
        let mut ids = Vec::new();
        wire::record::message_ids(&self.bytes, header_name, MAX_RECORDS_BYTES, scratch, |value| {
            ids.push(message_id(value));
        })?;
        Ok(ids)
    }
}

/// Converts a header's value to a message id: invalid UTF-8 is replaced, and the length is bounded.
pub fn message_id(value: &[u8]) -> String {
    String::from_utf8_lossy(value.get(..MAX_MESSAGE_ID_BYTES).unwrap_or(value)).into_owned()
}

/// Bytes of a segment that are not a batch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no valid record batch at byte {position} ({reason}): skipped {bytes} bytes")]
pub struct Damage {
    /// Where they start.
    pub position: u64,
    /// Number of bytes skipped.
    pub bytes: u64,
    /// Why they are not a batch.
    pub reason: Reason,
}

/// Why there is no batch at a position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// The header is invalid.
    #[error("{0}")]
    Head(wire::Error),
    /// In a range that may start inside a batch: the bytes look like a batch, but the CRC is wrong.
    #[error("the CRC is wrong")]
    Crc,
    /// The header's length exceeds the rest of the file.
    #[error("the batch is truncated, {missing} bytes are missing")]
    Truncated {
        /// Missing bytes.
        missing: u64,
    },
    /// The header's length exceeds the largest batch that is read.
    #[error("invalid batch size of {bytes} bytes")]
    TooLarge {
        /// The length in the header.
        bytes: u32,
    },
    /// The file could not be read.
    #[error("cannot read: {0}")]
    Read(String),
}

/// Iterates over batches and the damaged bytes between them.
pub struct Batches<'s> {
    window: &'s mut Window,
    search_bytes: &'s mut u64,
    position: u64,
    /// Batches that start here or later are not returned.
    end: u64,
    /// Whether a batch must start at `position`.
    /// If so, one with a wrong CRC is a damaged batch; if not, it may not be a batch at all.
    aligned: bool,
}

impl Iterator for Batches<'_> {
    type Item = Result<Batch, Damage>;

    fn next(&mut self) -> Option<Self::Item> {
        let position = self.position;
        let end = self.end.min(self.window.end);
        if position >= end {
            return None;
        }
        let reason = match self.batch_at(position) {
            Ok(batch) if batch.crc_ok || self.aligned => {
                self.position = position.saturating_add(batch.bytes.len() as u64);
                self.aligned = true;
                return Some(Ok(batch));
            }
            Ok(_) => Reason::Crc,
            Err(reason) => reason,
        };
        if is_blank(self.window, position) {
            // `log.preallocate` makes segments end in zeros.
            self.position = end;
            return None;
        }
        self.position = next_batch(self.window, position, end, self.search_bytes).unwrap_or(end);
        self.aligned = true;
        Some(Err(Damage { position, bytes: self.position - position, reason }))
    }
}

impl Batches<'_> {
    fn batch_at(&mut self, position: u64) -> Result<Batch, Reason> {
        let header = head_at(self.window, position)?;
        let bytes = read(self.window, position, header.length_bytes as usize)?;
        if bytes.len() < header.length_bytes as usize {
            return Err(Reason::Truncated { missing: u64::from(header.length_bytes) - bytes.len() as u64 });
        }
        Ok(Batch { position, header, crc_ok: header.crc_ok(bytes), bytes: bytes.to_vec() })
    }
}

/// The header at a position, if the file is long enough for its batch.
fn head_at(window: &mut Window, position: u64) -> Result<BatchHeader, Reason> {
    let left = window.end.saturating_sub(position);
    let head = read(window, position, HEAD_BYTES)?;
    let header = BatchHeader::parse(head).map_err(|error| match error.kind {
        ErrorKind::UnexpectedEnd { .. } => truncated(head).unwrap_or(Reason::Head(error)),
        _ => Reason::Head(error),
    })?;
    let bytes = header.length_bytes;
    if bytes > MAX_BATCH_BYTES {
        return Err(Reason::TooLarge { bytes });
    }
    if u64::from(bytes) > left {
        return Err(Reason::Truncated { missing: u64::from(bytes) - left });
    }
    Ok(header)
}

/// If a file ends within a header: how much of the batch is missing, provided that the length is there.
fn truncated(head: &[u8]) -> Option<Reason> {
    let length: [u8; 4] = head.get(8..LEADING_BYTES)?.try_into().ok()?;
    let whole = u64::try_from(i32::from_be_bytes(length)).ok()? + LEADING_BYTES as u64;
    let missing = whole.checked_sub(head.len() as u64).filter(|missing| *missing > 0)?;
    Some(Reason::Truncated { missing })
}

fn read(window: &mut Window, position: u64, count: usize) -> Result<&[u8], Reason> {
    window.at(position, count).map_err(|error| Reason::Read(error.to_string()))
}

// Finds the next batch in unknown bytes. Returns its position, not the batch.

/// Only a correct CRC makes a position a batch.
/// If crafted bytes looked like headers of large batches everywhere, checking them would read the file over and over.
/// So the search ends after this many bytes of failed checks, and no more batches of this segment are looked for.
const MAX_CHECKED_BYTES: u64 = 512 << 20;
const SEARCH_BYTES: usize = 64 << 10;
/// Bytes of a header that show whether reading on is worthwhile: up to the magic, in every format.
const PREFIX_BYTES: usize = 17;

/// Position of the next whole batch with a correct CRC.
/// It lies after `position` and before `end`.
fn next_batch(window: &mut Window, position: u64, end: u64, search_bytes: &mut u64) -> Option<u64> {
    let mut candidate = next_candidate(window, position.checked_add(1)?, end)?;
    loop {
        if *search_bytes == 0 {
            return None;
        }
        if let Some(header) = head_at(window, candidate).ok().filter(is_plausible) {
            if crc_ok(window, candidate, &header) {
                return Some(candidate);
            }
            *search_bytes = search_bytes.saturating_sub(header.length_bytes.into());
        }
        candidate = next_candidate(window, candidate.checked_add(1)?, end)?;
    }
}

/// The next position at or after `from` whose bytes could start a header: offset and length not negative, the length
/// plausible, the magic known.
fn next_candidate(window: &mut Window, from: u64, end: u64) -> Option<u64> {
    let mut from = from;
    while from < end {
        let bytes = window.at(from, SEARCH_BYTES + PREFIX_BYTES - 1).ok()?;
        let mut starts = bytes.windows(PREFIX_BYTES);
        let count = starts.len() as u64;
        if count == 0 {
            return None;
        }
        if let Some(i) = starts.position(may_begin) {
            return Some(from + i as u64).filter(|at| *at < end);
        }
        from += count;
    }
    None
}

fn may_begin(prefix: &[u8]) -> bool {
    let (Some(offset), Some(length), Some(magic)) = (prefix.first(), prefix.get(8..12), prefix.get(16))
    else {
        return false;
    };
    let length = length.iter().fold(0_u32, |length, &byte| (length << 8) | u32::from(byte));
    *offset < 0x80 && *magic <= 2 && (14..=MAX_BATCH_BYTES).contains(&length)
}

/// Whether a producer or broker could have written this header.
fn is_plausible(header: &BatchHeader) -> bool {
    let counts =
        header.magic < 2 || header.records_count > 0 && header.last_offset_delta >= 0 || header.is_control();
    counts && header.base_offset >= 0 && header.codec().is_ok()
}

fn crc_ok(window: &mut Window, position: u64, header: &BatchHeader) -> bool {
    window.at(position, header.length_bytes as usize).is_ok_and(|bytes| header.crc_ok(bytes))
}

/// Whether the rest of the file is all zeros.
pub(crate) fn is_blank(window: &mut Window, position: u64) -> bool {
    let mut position = position;
    loop {
        match window.at(position, SEARCH_BYTES) {
            Ok([]) => return true,
            Ok(bytes) if bytes.iter().all(|&byte| byte == 0) => position += bytes.len() as u64,
            _ => return false,
        }
    }
}

// A moving window on a file: bounded reads at any position, without a system call for every few bytes. Does not know
// what the file holds.

/// Minimum read-ahead.
const STEP_BYTES: usize = 256 << 10;

/// A file and the piece of it that is in memory.
pub(crate) struct Window {
    file: File,
    /// The file's length when it was opened.
    pub(crate) end: u64,
    start: u64,
    bytes: Vec<u8>,
}

impl Window {
    /// A window on a file, with the file's current length as its end.
    pub(crate) fn on(file: File) -> io::Result<Self> {
        let end = file.metadata()?.len();
        Ok(Self { file, end, start: 0, bytes: Vec::new() })
    }

    /// The `count` bytes at `position`; fewer where the file ends.
    pub(crate) fn at(&mut self, position: u64, count: usize) -> io::Result<&[u8]> {
        let available = self.end.saturating_sub(position).min(count as u64);
        let held = self.start..self.start + self.bytes.len() as u64;
        if available > 0 && !(held.contains(&position) && position + available <= held.end) {
            self.load(position, available as usize)?;
        }
        let from = usize::try_from(position.saturating_sub(self.start)).unwrap_or(usize::MAX);
        let held = self.bytes.get(from..).unwrap_or_default();
        Ok(held.get(..available as usize).unwrap_or(held))
    }

    fn load(&mut self, position: u64, count: usize) -> io::Result<()> {
        self.bytes.clear();
        self.start = position;
        self.bytes.shrink_to(count.max(STEP_BYTES));
        self.file.seek(SeekFrom::Start(position))?;
        let count = count.max(STEP_BYTES) as u64;
        self.file.by_ref().take(count).read_to_end(&mut self.bytes)?;
        Ok(())
    }
}

#[cfg(test)]
mod search_tests {
    use super::Segment;
    use std::fs;

    /// A header that claims this length and has a wrong CRC.
    /// It is followed by `nothing` bytes of filler.
    fn false_header(length: i32, nothing: usize) -> Vec<u8> {
        let mut head = vec![0; 61];
        head[8..12].copy_from_slice(&(length - 12).to_be_bytes());
        head[16] = 2;
        head[57..61].copy_from_slice(&1_i32.to_be_bytes());
        [head, vec![b'x'; nothing]].concat()
    }

    /// A batch of one record, as a broker writes it.
    fn batch() -> Vec<u8> {
        let mut bytes = false_header(69, 0);
        bytes.extend([14, 0, 0, 0, 1, 2, b'v', 0]);
        let crc = crc32c::crc32c(&bytes[21..]);
        bytes[17..21].copy_from_slice(&crc.to_be_bytes());
        bytes
    }

    #[test]
    fn search_bytes_are_bounded_over_all_searches() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("00000000000000000000.log");
        let lies = [b"no batch".to_vec(), false_header(10_000, 100), batch()].concat().repeat(20);
        fs::write(&path, [lies, vec![b'x'; 10_000]].concat()).unwrap();
        let good = |search_bytes| {
            let mut segment = Segment::open(&path).unwrap();
            segment.search_bytes = search_bytes;
            segment.batches().filter(|batch| batch.as_ref().is_ok_and(|batch| batch.crc_ok)).count()
        };
        assert_eq!(good(1 << 20), 20);
        assert_eq!(good(50_000), 4, "five searches");
    }

    #[test]
    fn batch_is_read_only_from_its_first_byte() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("00000000000000000000.log");
        fs::write(&path, [false_header(69, 8), batch(), batch()].concat()).unwrap();
        let mut segment = Segment::open(&path).unwrap();
        let found = [(0, 69), (1, 999), (69, 68), (69, 69), (138, 999), (200, 999)]
            .map(|(position, bytes)| segment.head_at(position, bytes).is_some());
        assert_eq!(found, [false, false, false, true, true, false]);
    }
}

#[cfg(test)]
mod window_tests {
    use super::{STEP_BYTES, Window};
    use std::fs::{self, File};

    #[test]
    fn window_reads_any_range_of_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let content: Vec<u8> = (0..3 * STEP_BYTES + 7).map(|n| (n % 251) as u8).collect();
        fs::write(&path, &content).unwrap();
        let mut window = Window::on(File::open(&path).unwrap()).unwrap();
        let end = content.len();
        for (position, count) in [
            (0, 10),
            (5, 0),
            (STEP_BYTES - 3, 10),
            (2, 4),
            (STEP_BYTES, 2 * STEP_BYTES),
            (end - 3, 100),
            (end, 1),
            (end + 9, 5),
            (0, end + 1),
        ] {
            let expected = &content[position.min(end)..(position + count).min(end)];
            assert_eq!(window.at(position as u64, count).unwrap(), expected, "{position} {count}");
        }
    }

    #[test]
    fn window_reads_what_remains_of_a_truncated_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, [1; 100]).unwrap();
        let mut window = Window::on(File::open(&path).unwrap()).unwrap();
        File::options().write(true).open(&path).unwrap().set_len(10).unwrap();
        assert_eq!(window.at(4, 50).unwrap(), [1; 6]);
        assert_eq!(window.at(90, 5).unwrap(), [0; 0]);
    }
}
