//! A moving window on a file: bounded reads anywhere, without asking the system for every few bytes.
//! Does not know what the file holds.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};

/// What is read ahead at least.
const STEP_BYTES: usize = 256 << 10;

/// A file and the piece of it that is in memory.
pub(crate) struct Window {
    file: File,
    end: u64,
    start: u64,
    bytes: Vec<u8>,
}

impl Window {
    /// A window on a file as long as it is now.
    pub(crate) fn on(file: File) -> io::Result<Self> {
        let end = file.metadata()?.len();
        Ok(Self { file, end, start: 0, bytes: Vec::new() })
    }

    /// The file's length when it was opened.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// The `count` bytes at `position`; fewer where the file ends.
    pub(crate) fn at(&mut self, position: u64, count: usize) -> io::Result<&[u8]> {
        let wanted = self.end.saturating_sub(position).min(count as u64);
        let held = self.start..self.start + self.bytes.len() as u64;
        if wanted > 0 && !(held.contains(&position) && position + wanted <= held.end) {
            self.load(position, wanted as usize)?;
        }
        let from = usize::try_from(position.saturating_sub(self.start)).unwrap_or(usize::MAX);
        let held = self.bytes.get(from..).unwrap_or_default();
        Ok(held.get(..wanted as usize).unwrap_or(held))
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
mod tests {
    use super::{STEP_BYTES, Window};
    use std::fs::{self, File};

    #[test]
    fn any_piece_of_the_file_is_there() {
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
    fn a_file_that_shrank_gives_what_it_still_has() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, [1; 100]).unwrap();
        let mut window = Window::on(File::open(&path).unwrap()).unwrap();
        File::options().write(true).open(&path).unwrap().set_len(10).unwrap();
        assert_eq!(window.at(4, 50).unwrap(), [1; 6]);
        assert_eq!(window.at(90, 5).unwrap(), [0; 0]);
    }
}
