//! Several capture files as one: their packets ordered by time, regardless of the files' names.
//! Does not look inside packets.
//!
//! A ring (`tcpdump -C -W`) is read file by file, oldest first. Files that overlap, as from two interfaces captured
//! side by side, are merged. Only files whose time has come are open, so a ring of thousands of files takes as much
//! memory as one. The order within a file is kept. The clocks of the capturing machines must agree.

use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::file::{Notes, PacketFile};
use crate::packet::Packet;

/// Files read side by side; each has a buffer of 256 KiB, or of the size of its largest packet.
const SIDE_BY_SIDE_LIMIT: usize = 64;

/// Captures being read, packet by packet.
pub struct Captures {
    open: Vec<PacketFile>,
    /// Captures whose time has not come, the earliest last.
    waiting: Vec<Waiting>,
    odd: Vec<(String, Notes)>,
    faults: Vec<Error>,
}

/// A capture that has been inspected and will be read later.
struct Waiting {
    path: PathBuf,
    /// When its first packet was captured; the minimum value if it has none.
    first_ns: i64,
    /// Kept open if it cannot be reopened.
    pipe: Option<PacketFile>,
}

impl Captures {
    /// Inspects the beginning of every file.
    ///
    /// # Errors
    /// Like [`PacketFile::open`] and [`PacketFile::next`], for the first file that cannot be read. An empty file is not
    /// an error if there are others.
    pub fn open(paths: &[PathBuf]) -> Result<Self, Error> {
        if let [path] = paths {
            return Ok(PacketFile::open(path)?.into());
        }
        // tcpdump buffers even a file's header for a while, so the newest file of a ring may be empty.
        let (empty, non_empty): (Vec<&PathBuf>, Vec<&PathBuf>) =
            paths.iter().partition(|path| is_empty(path));
        if let ([path, ..], []) = (empty.as_slice(), non_empty.as_slice()) {
            return Ok(PacketFile::open(path)?.into());
        }
        let mut waiting =
            non_empty.into_iter().map(|path| Waiting::survey(path)).collect::<Result<Vec<_>, _>>()?;
        waiting.sort_by_key(|file| file.first_ns);
        waiting.reverse();
        let nothing = Notes { is_empty: true, ..Notes::default() };
        let odd = empty.into_iter().map(|path| (path.display().to_string(), nothing)).collect();
        Ok(Self { open: Vec::new(), waiting, odd, faults: Vec::new() })
    }

    /// Returns the next packet, or `None` at the end of all files. Blocks while an input is an empty pipe.
    ///
    /// A file that cannot be read further ends: [`Self::faults`] says why, and the others are read on.
    #[allow(clippy::should_implement_trait)]
    #[inline]
    pub fn next(&mut self) -> Option<Packet<'_>> {
        // The only file: its next packet need not be peeked at for a comparison.
        let is_alone = self.open.len() == 1 && self.waiting.is_empty();
        let index = if is_alone { 0 } else { self.earliest()? };
        match self.open.get_mut(index)?.next() {
            Ok(packet) => packet,
            Err(error) => {
                self.faults.push(error);
                None
            }
        }
    }

    /// Files with anomalies so far, and the anomalies.
    pub fn notes(&self) -> impl Iterator<Item = (&str, Notes)> {
        let open = self.open.iter().map(|file| (file.name(), file.notes()));
        let closed = self.odd.iter().map(|(name, notes)| (name.as_str(), *notes));
        closed.chain(open).filter(|(_, notes)| *notes != Notes::default())
    }

    /// Why files could not be read to their end, in order of occurrence.
    pub fn faults(&self) -> &[Error] {
        &self.faults
    }

    /// Opens the files whose time has come; returns the open file with the earliest packet.
    fn earliest(&mut self) -> Option<usize> {
        loop {
            let earliest = self.earliest_open();
            let is_due = |file: &Waiting| earliest.is_none_or(|(_, time_ns)| file.first_ns <= time_ns);
            if !self.waiting.last().is_some_and(is_due) {
                return earliest.map(|(index, _)| index);
            }
            if let Some(file) = self.waiting.pop() {
                self.begin(file);
            }
        }
    }

    /// The already open file with the earliest packet, and the packet's time.
    /// On a tie, the file that was opened first.
    fn earliest_open(&mut self) -> Option<(usize, i64)> {
        let mut earliest: Option<(usize, i64)> = None;
        let mut index = 0;
        while let Some(file) = self.open.get_mut(index) {
            match file.next_time() {
                Ok(Some(time_ns)) => {
                    if earliest.is_none_or(|(_, before)| time_ns < before) {
                        earliest = Some((index, time_ns));
                    }
                    index += 1;
                }
                Ok(None) => self.end(index),
                Err(error) => {
                    self.faults.push(error);
                    self.end(index);
                }
            }
        }
        earliest
    }

    fn begin(&mut self, waiting: Waiting) {
        if self.open.len() == SIDE_BY_SIDE_LIMIT {
            let name = waiting.path.display().to_string();
            return self.faults.push(Error::TooManySideBySide { name, limit: SIDE_BY_SIDE_LIMIT });
        }
        match waiting.pipe.map_or_else(|| PacketFile::open(&waiting.path), Ok) {
            Ok(file) => self.open.push(file),
            Err(error) => self.faults.push(error),
        }
    }

    fn end(&mut self, index: usize) {
        let file = self.open.remove(index);
        if file.notes() != Notes::default() {
            self.odd.push((file.name().to_owned(), file.notes()));
        }
    }
}

impl From<PacketFile> for Captures {
    fn from(file: PacketFile) -> Self {
        Self { open: vec![file], waiting: Vec::new(), odd: Vec::new(), faults: Vec::new() }
    }
}

impl Waiting {
    fn survey(path: &Path) -> Result<Self, Error> {
        let mut file = PacketFile::open(path)?;
        let first_ns = file.next_time()?.unwrap_or(i64::MIN);
        let pipe = (!path.is_file()).then_some(file);
        Ok(Self { path: path.to_owned(), first_ns, pipe })
    }
}

fn is_empty(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.is_file() && found.len() == 0)
}

#[cfg(test)]
mod tests;
