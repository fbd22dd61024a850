//! Cuts a text that comes in pieces into blocks of whole lines.
//! Uses bounded memory, and does not copy lines that are whole. Does not look at what lines say.

use std::fs::{File, Metadata};
use std::io::{self, BufReader, Read, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;
use memchr::{memchr, memchr_iter, memrchr};
use zstd::stream::read::Decoder as ZstdDecoder;

use super::Counts;

/// Bytes kept of a line. A line of the request log names every partition of the request.
pub(super) const LONGEST_LINE: usize = 1 << 20;

/// The start of a line that the pieces so far did not finish.
#[derive(Clone, Debug, Default)]
pub(super) struct Lines {
    carried: Vec<u8>,
    /// Whether a line has begun and not ended.
    open: bool,
    counts: Counts,
}

/// The position of a line in a block; it ends at the line end or at the end of the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) start: usize,
    pub(super) end: usize,
}

impl Span {
    /// The line around `at`; bytes before `from` are not searched.
    pub(super) fn around(block: &[u8], from: usize, at: usize) -> Self {
        let before = block.get(from..at).unwrap_or_default();
        let start = memrchr(b'\n', before).map_or(from, |end| from + end + 1);
        let after = block.get(at..).unwrap_or_default();
        let end = memchr(b'\n', after).map_or(block.len(), |end| at + end);
        Self { start, end }
    }

    /// The part that is kept.
    /// The last word of a line that is cut is dropped: a number there would lack digits.
    pub(super) fn retained(self, block: &[u8]) -> &[u8] {
        let end = self.end.min(self.start.saturating_add(LONGEST_LINE));
        let retained = block.get(self.start..end).unwrap_or_default();
        if end < self.end { without_last_word(retained) } else { retained }
    }
}

fn without_last_word(line: &[u8]) -> &[u8] {
    let end = line.iter().rposition(u8::is_ascii_whitespace).unwrap_or(0);
    line.get(..end).unwrap_or_default()
}

impl Lines {
    /// Takes the next piece and hands whole lines to `each`.
    /// All lines but the last have their line end.
    pub(super) fn feed<E>(
        &mut self,
        piece: &[u8],
        each: &mut impl FnMut(&[u8], &mut Counts) -> Result<(), E>,
    ) -> Result<(), E> {
        self.counts.bytes += piece.len() as u64;
        self.counts.lines += memchr_iter(b'\n', piece).count() as u64;
        let rest = if self.open { self.complete(piece, each)? } else { piece };
        let whole = memrchr(b'\n', rest).map_or(0, |end| end + 1);
        let (whole, tail) = rest.split_at_checked(whole).unwrap_or((rest, &[]));
        if !whole.is_empty() {
            each(whole, &mut self.counts)?;
        }
        self.carry(tail);
        Ok(())
    }

    /// Ends the text. The last word of an unterminated line is dropped: a number there may lack digits.
    pub(super) fn finish<E>(
        &mut self,
        each: &mut impl FnMut(&[u8], &mut Counts) -> Result<(), E>,
    ) -> Result<(), E> {
        if !self.open {
            return Ok(());
        }
        self.counts.lines += 1;
        if self.carried.len() <= LONGEST_LINE {
            let words = without_last_word(&self.carried).len();
            self.carried.truncate(words);
        }
        self.hand_over(each)
    }

    /// Completes the line that was begun if this piece holds its end; returns the bytes after it.
    fn complete<'p, E>(
        &mut self,
        piece: &'p [u8],
        each: &mut impl FnMut(&[u8], &mut Counts) -> Result<(), E>,
    ) -> Result<&'p [u8], E> {
        let Some(end) = memchr(b'\n', piece) else {
            self.carry(piece);
            return Ok(&[]);
        };
        let (line, rest) = piece.split_at_checked(end).unwrap_or((piece, &[]));
        self.carry(line);
        self.hand_over(each)?;
        Ok(rest.get(1..).unwrap_or_default())
    }

    fn hand_over<E>(&mut self, each: &mut impl FnMut(&[u8], &mut Counts) -> Result<(), E>) -> Result<(), E> {
        let result = each(&self.carried, &mut self.counts);
        self.carried.clear();
        self.open = false;
        result
    }

    fn carry(&mut self, part: &[u8]) {
        self.open |= !part.is_empty();
        // One byte more than is kept shows that the line was longer.
        let room = (LONGEST_LINE + 1).saturating_sub(self.carried.len());
        self.carried.extend_from_slice(part.get(..room).unwrap_or(part));
    }

    /// Counts so far.
    pub(super) fn counts(&self) -> Counts {
        self.counts
    }
}

// A log as rotation leaves it: plain, or compressed with gzip or zstd, recognized by its first bytes and decompressed
// as it is read. Does not look at lines.

/// Bytes read and searched at once: small enough for a CPU core's own cache.
const BLOCK_BYTES: usize = 256 << 10;
const PACKED_BYTES: usize = 64 << 10;
/// The largest window of a zstd frame, 128 MiB.
/// This is also the default limit of the `zstd` tool.
const ZSTD_WINDOW_LOG_LIMIT: u32 = 27;

/// Why a log could not be read to its end.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Reading failed, or it is damaged.
    #[error("cannot read further: {0}")]
    Io(#[from] io::Error),
    /// A compressed file ends early.
    #[error("it is compressed and truncated: only the part before the cut was read")]
    CutOff,
    /// Compressed in an unsupported format.
    #[error("it is compressed with {0}, which is not supported; pipe `{0} -dc` into `-`")]
    OtherPacking(&'static str),
    /// UTF-16.
    #[error("it is UTF-16: convert it (iconv -f UTF-16 -t UTF-8) and try again")]
    Utf16,
}

/// A file's compression, by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packing {
    None,
    Gzip,
    Zstd,
}

impl Packing {
    pub(super) fn of(first: &[u8]) -> Result<Self, ReadError> {
        Ok(match first {
            [0x1f, 0x8b, ..] => Self::Gzip,
            // pzstd writes a skippable frame before each frame.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Self::Zstd,
            [0xfd, b'7', b'z', b'X', ..] => return Err(ReadError::OtherPacking("xz")),
            [b'B', b'Z', b'h', ..] => return Err(ReadError::OtherPacking("bzip2")),
            [0x04, 0x22, 0x4d, 0x18, ..] => return Err(ReadError::OtherPacking("lz4")),
            [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => return Err(ReadError::Utf16),
            _ => Self::None,
        })
    }
}

/// Reads a log to its end and hands its decompressed content to `take`, in blocks.
///
/// # Errors
/// Errors of `take`, and [`ReadError`] after everything before the error was handed over.
pub fn read<E: From<ReadError>>(
    mut input: impl Read,
    mut take: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let mut first = Vec::with_capacity(4);
    input.by_ref().take(4).read_to_end(&mut first).map_err(ReadError::from)?;
    let packing = Packing::of(&first)?;
    let whole = first.as_slice().chain(input);
    match packing {
        Packing::None => blocks(whole, &mut take),
        Packing::Gzip => {
            blocks(MultiGzDecoder::new(BufReader::with_capacity(PACKED_BYTES, whole)), &mut take)
        }
        Packing::Zstd => {
            let mut decoder = ZstdDecoder::new(whole).map_err(ReadError::from)?;
            decoder.window_log_max(ZSTD_WINDOW_LOG_LIMIT).map_err(ReadError::from)?;
            blocks(decoder, &mut take)
        }
    }
}

fn blocks<E: From<ReadError>>(
    mut input: impl Read,
    take: &mut impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let mut block = vec![0; BLOCK_BYTES];
    loop {
        match input.read(&mut block) {
            Ok(0) => return Ok(()),
            Ok(length) => take(block.get(..length).unwrap_or_default())?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(ReadError::CutOff)?,
            Err(error) => Err(ReadError::Io(error))?,
        }
    }
}

// Follows a log while it is written, also after it is rotated (another file has its name) or truncated (copied away and
// emptied). Polls the file system; does not wait.
//
// If a file was emptied and grew beyond the position read before the next poll, this looks as if it had only been
// appended to.

const FOLLOW_BYTES: usize = 64 << 10;

/// A change of a followed log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// More of the log.
    Data(&'a [u8]),
    /// The log starts over: an unfinished line will not be continued.
    Restart,
}

/// A log that is followed.
#[derive(Debug)]
pub struct LogFollower {
    path: PathBuf,
    file: File,
    /// Identifies the file; `None` if the system does not.
    identity: Option<(u64, u64)>,
    read_bytes: u64,
    block: Vec<u8>,
}

impl LogFollower {
    /// Follows the log with this name, from its beginning.
    ///
    /// # Errors
    /// If it cannot be opened, or is compressed: nothing is appended to a compressed log.
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        let mut file = foreign::open_named(path)?;
        let mut first = Vec::with_capacity(4);
        (&file).take(4).read_to_end(&mut first)?;
        if Packing::of(&first)? != Packing::None {
            let message = "it is compressed, so it cannot be followed: leave out --follow";
            return Err(io::Error::other(message).into());
        }
        file.seek(SeekFrom::Start(0))?;
        let identity = identity(&file.metadata()?);
        Ok(Self { path: path.to_owned(), file, identity, read_bytes: 0, block: vec![0; FOLLOW_BYTES] })
    }

    /// Follows the log with this name, from its end. The first line may be incomplete.
    ///
    /// # Errors
    /// Like [`Self::open`].
    pub fn open_at_end(path: &Path) -> Result<Self, ReadError> {
        let mut log = Self::open(path)?;
        log.read_bytes = log.file.seek(SeekFrom::End(0))?;
        Ok(log)
    }

    /// Hands a bounded part of what was appended to `take`; returns whether there was any.
    ///
    /// # Errors
    /// Errors of `take`, and of reading.
    pub fn poll<E: From<ReadError>>(
        &mut self,
        take: &mut impl FnMut(Piece<'_>) -> Result<(), E>,
    ) -> Result<bool, E> {
        if self.more(take)? {
            return Ok(true);
        }
        let found = foreign::named(&self.path).ok();
        if found.as_ref().is_some_and(|found| identity(found) != self.identity) {
            // More may have been written between reading to the end and checking the name.
            while self.more(take)? {}
            return self.reopen(take);
        }
        let length = self.file.metadata().map_err(ReadError::from)?.len();
        if length < self.read_bytes {
            self.file.seek(SeekFrom::Start(0)).map_err(ReadError::from)?;
            self.read_bytes = 0;
            take(Piece::Restart)?;
            return Ok(true);
        }
        Ok(false)
    }

    fn more<E: From<ReadError>>(
        &mut self,
        take: &mut impl FnMut(Piece<'_>) -> Result<(), E>,
    ) -> Result<bool, E> {
        let length = match self.file.read(&mut self.block) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(true),
            read => read.map_err(ReadError::from)?,
        };
        self.read_bytes += length as u64;
        let more = self.block.get(..length).filter(|more| !more.is_empty());
        more.map_or(Ok(()), |more| take(Piece::Data(more)))?;
        Ok(length > 0)
    }

    /// Continues with the file that has the name now; that may have been removed again.
    fn reopen<E: From<ReadError>>(
        &mut self,
        take: &mut impl FnMut(Piece<'_>) -> Result<(), E>,
    ) -> Result<bool, E> {
        let Ok(file) = foreign::open_named(&self.path) else { return Ok(false) };
        self.identity = identity(&file.metadata().map_err(ReadError::from)?);
        self.file = file;
        self.read_bytes = 0;
        take(Piece::Restart)?;
        Ok(true)
    }
}

#[cfg(unix)]
#[expect(clippy::unnecessary_wraps, reason = "other systems do not say")]
fn identity(file: &Metadata) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt as _;
    Some((file.dev(), file.ino()))
}

#[cfg(not(unix))]
fn identity(_: &Metadata) -> Option<(u64, u64)> {
    None
}

#[cfg(test)]
mod packing_tests {
    use std::io::Write as _;

    use super::{ReadError, read};

    fn unpacked(bytes: &[u8]) -> (Vec<u8>, Result<(), ReadError>) {
        let mut text = Vec::new();
        let end = read(bytes, |block| {
            text.extend_from_slice(block);
            Ok(())
        });
        (text, end)
    }

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(text).unwrap();
        gzip.finish().unwrap()
    }

    #[test]
    fn plain_gzip_and_zstd_logs_unpack_to_the_same_text() {
        let text = b"[2024-05-19 15:04:47,458] INFO x\n".repeat(20_000);
        let zstd = zstd::encode_all(&text[..], 1).unwrap();
        let two = [gzip(&text[..100]), gzip(&text[100..])].concat();
        for packed in [text.clone(), gzip(&text), two, zstd] {
            let (found, end) = unpacked(&packed);
            assert!(found == text && end.is_ok());
        }
        for short in [&b""[..], b"x", b"\x1f"] {
            assert_eq!(unpacked(short).0, short);
        }
    }

    #[test]
    fn truncated_archive_is_read_up_to_the_cut() {
        let text: Vec<u8> = (0..200_000_u32).flat_map(u32::to_le_bytes).collect();
        for packed in [gzip(&text), zstd::encode_all(&text[..], 1).unwrap()] {
            let (found, end) = unpacked(&packed[..packed.len() / 2]);
            assert!(!found.is_empty() && text.starts_with(&found));
            assert!(matches!(end, Err(ReadError::CutOff)), "{end:?}");
        }
    }

    #[test]
    fn unsupported_format_error_names_a_command() {
        for (first, message) in [
            (&b"\xfd7zXZ\0"[..], "pipe `xz -dc` into `-`"),
            (b"BZh91AY", "pipe `bzip2 -dc` into `-`"),
            (b"\x04\x22\x4d\x18", "pipe `lz4 -dc` into `-`"),
            (b"\xff\xfex\0", "iconv"),
        ] {
            assert!(unpacked(first).1.unwrap_err().to_string().contains(message));
        }
    }
}

#[cfg(test)]
mod follow_tests {
    use std::fs;
    use std::io::Write as _;
    use std::path::Path;

    use super::{LogFollower, Piece};
    use crate::server_log::ReadError;

    /// What a poll of the log returns, with `|` where the log starts over.
    fn poll_all(log: &mut LogFollower) -> String {
        let mut text = String::new();
        let mut take = |piece: Piece<'_>| {
            match piece {
                Piece::Data(more) => text.push_str(std::str::from_utf8(more).unwrap()),
                Piece::Restart => text.push('|'),
            }
            Ok::<_, ReadError>(())
        };
        while log.poll(&mut take).unwrap() {}
        text
    }

    fn add(path: &Path, text: &str) {
        let mut file = fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    /// Through a link that resolves to a different file for this process.
    #[test]
    fn follows_a_log_inside_its_container() {
        let dir = tempfile::tempdir().unwrap();
        let (root, outside) = (dir.path().join("proc/7/root"), dir.path().join("server.log"));
        let inside = root.join(outside.strip_prefix("/").unwrap());
        fs::create_dir_all(inside.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(&outside, root.join("link")).unwrap();
        add(&outside, "outside\n");
        add(&inside, "one\n");
        let mut log = LogFollower::open(&root.join("link")).unwrap();
        assert_eq!(poll_all(&mut log), "one\n");
        assert_eq!(poll_all(&mut log), "");
    }

    #[test]
    fn follows_a_log_from_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("server.log");
        add(&path, "one\n");
        let mut log = LogFollower::open_at_end(&path).unwrap();
        assert_eq!(poll_all(&mut log), "");
        add(&path, "two\n");
        assert_eq!(poll_all(&mut log), "two\n");
        fs::write(&path, "new\n").unwrap();
        assert_eq!(poll_all(&mut log), "|new\n");
    }

    #[test]
    fn follows_a_log_through_rotation_and_truncation() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("server.log");
        add(&path, "one\n");
        let mut log = LogFollower::open(&path).unwrap();
        assert_eq!(poll_all(&mut log), "one\n");
        add(&path, "tw");
        add(&path, "o\n");
        assert_eq!(poll_all(&mut log), "two\n");
        // Rotated, then the old file is written to once more by a process that has it open.
        let old = dir.path().join("server.log.1");
        fs::rename(&path, &old).unwrap();
        add(&old, "three\n");
        assert_eq!(poll_all(&mut log), "three\n");
        add(&old, "four\n");
        add(&path, "five\n");
        assert_eq!(poll_all(&mut log), "four\n|five\n");
        // Emptied.
        fs::write(&path, "6\n").unwrap();
        assert_eq!(poll_all(&mut log), "|6\n");
        fs::remove_file(&path).unwrap();
        assert_eq!(poll_all(&mut log), "");
        add(&path, "seven\n");
        assert_eq!(poll_all(&mut log), "|seven\n");
    }

    #[test]
    fn refuses_to_follow_a_compressed_log() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("server.log.gz");
        fs::write(&path, b"\x1f\x8b\x08\0").unwrap();
        assert!(LogFollower::open(&path).unwrap_err().to_string().contains("leave out --follow"));
    }
}
