//! A log while it is written: what is added to it, also after it was rotated (another file has its name) or truncated
//! (copied away and emptied). Asks the file system; waits for nothing.
//!
//! A file that was emptied and has grown beyond what was read of it before anybody looked cannot be told from one that
//! was only added to.

use std::fs::{File, Metadata};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use super::packing::{Packing, ReadError};

const BLOCK_BYTES: usize = 64 << 10;

/// What came of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// More of it.
    Data(&'a [u8]),
    /// The log starts over: a line that was begun does not go on.
    Restart,
}

/// A log that is followed.
#[derive(Debug)]
pub struct LogFollower {
    path: PathBuf,
    file: File,
    /// Which file it is; none where the system does not say.
    identity: Option<(u64, u64)>,
    read_bytes: u64,
    block: Vec<u8>,
}

impl LogFollower {
    /// Follows the log of this name, from its beginning.
    ///
    /// # Errors
    /// Where it cannot be opened, or is compressed: then nothing is added to it.
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        let mut file = File::open(path)?;
        let mut first = Vec::with_capacity(4);
        (&file).take(4).read_to_end(&mut first)?;
        if Packing::of(&first)? != Packing::None {
            let refused = "it is compressed, and nothing is added to such a file: leave --follow out";
            return Err(io::Error::other(refused).into());
        }
        file.seek(SeekFrom::Start(0))?;
        let identity = identity(&file.metadata()?);
        Ok(Self { path: path.to_owned(), file, identity, read_bytes: 0, block: vec![0; BLOCK_BYTES] })
    }

    /// Hands on what came since, a bounded part of it, and says whether anything came.
    ///
    /// # Errors
    /// `take`'s, and those of reading.
    pub fn poll<E: From<ReadError>>(
        &mut self,
        take: &mut impl FnMut(Piece<'_>) -> Result<(), E>,
    ) -> Result<bool, E> {
        if self.more(take)? {
            return Ok(true);
        }
        let found = std::fs::metadata(&self.path).ok();
        if found.as_ref().is_some_and(|found| identity(found) != self.identity) {
            // Between looking at its end and at its name, more may have been written.
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

    /// Goes on with the file that has the name now; it may be gone again.
    fn reopen<E: From<ReadError>>(
        &mut self,
        take: &mut impl FnMut(Piece<'_>) -> Result<(), E>,
    ) -> Result<bool, E> {
        let Ok(file) = File::open(&self.path) else { return Ok(false) };
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
mod tests {
    use std::fs;
    use std::io::Write as _;
    use std::path::Path;

    use super::{LogFollower, Piece};
    use crate::server_log::ReadError;

    /// What comes of a log, with `|` where it begins anew.
    fn comes(log: &mut LogFollower) -> String {
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

    #[test]
    fn a_log_is_followed_through_rotation_and_truncation() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("server.log");
        add(&path, "one\n");
        let mut log = LogFollower::open(&path).unwrap();
        assert_eq!(comes(&mut log), "one\n");
        add(&path, "tw");
        add(&path, "o\n");
        assert_eq!(comes(&mut log), "two\n");
        // Rotated, and the old file written to once more: whoever has it open may.
        let old = dir.path().join("server.log.1");
        fs::rename(&path, &old).unwrap();
        add(&old, "three\n");
        assert_eq!(comes(&mut log), "three\n");
        add(&old, "four\n");
        add(&path, "five\n");
        assert_eq!(comes(&mut log), "four\n|five\n");
        // Emptied.
        fs::write(&path, "6\n").unwrap();
        assert_eq!(comes(&mut log), "|6\n");
        fs::remove_file(&path).unwrap();
        assert_eq!(comes(&mut log), "");
        add(&path, "seven\n");
        assert_eq!(comes(&mut log), "|seven\n");
    }

    #[test]
    fn what_is_compressed_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("server.log.gz");
        fs::write(&path, b"\x1f\x8b\x08\0").unwrap();
        assert!(LogFollower::open(&path).unwrap_err().to_string().contains("leave --follow out"));
    }
}
