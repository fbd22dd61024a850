//! Several capture files as one: their packets in the order of their times, regardless of their names.
//! Does not look inside packets.
//!
//! A ring (`tcpdump -C -W`) is read file after file, beginning with the oldest; files that overlap, as of two
//! interfaces captured side by side, are merged. Only files whose time has come are open: a ring of
//! thousands of files costs as much memory as one. The order within a file is left as it is. The clocks of the
//! machines that captured must agree.

use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::file::{Notes, PacketFile};
use crate::packet::Packet;

/// Files read side by side; each has a buffer of 256 KiB, or of its largest packet.
const SIDE_BY_SIDE_LIMIT: usize = 64;

/// Captures being read, packet by packet.
pub struct Captures {
    open: Vec<PacketFile>,
    /// Those whose time has not come, the earliest last.
    waiting: Vec<Waiting>,
    odd: Vec<(String, Notes)>,
    faults: Vec<Error>,
}

/// A capture that was looked at and is to be read later.
struct Waiting {
    path: PathBuf,
    /// When its first packet was captured; the smallest number if it has none.
    first_ns: i64,
    /// Kept open if it cannot be opened again.
    pipe: Option<PacketFile>,
}

impl Captures {
    /// Looks at the beginning of every file.
    ///
    /// # Errors
    /// As [`PacketFile::open`] and [`PacketFile::next`], of the first file that cannot be read. An empty file
    /// is none of these where there are others.
    pub fn open(paths: &[PathBuf]) -> Result<Self, Error> {
        if let [path] = paths {
            return Ok(PacketFile::open(path)?.into());
        }
        // tcpdump keeps even a file's header back for a while: the newest file of a ring may be empty.
        let (empty, begun): (Vec<&PathBuf>, Vec<&PathBuf>) = paths.iter().partition(|path| is_empty(path));
        if let ([path, ..], []) = (empty.as_slice(), begun.as_slice()) {
            return Ok(PacketFile::open(path)?.into());
        }
        let mut waiting =
            begun.into_iter().map(|path| Waiting::survey(path)).collect::<Result<Vec<_>, _>>()?;
        waiting.sort_by_key(|file| file.first_ns);
        waiting.reverse();
        let nothing = Notes { is_empty: true, ..Notes::default() };
        let odd = empty.into_iter().map(|path| (path.display().to_string(), nothing)).collect();
        Ok(Self { open: Vec::new(), waiting, odd, faults: Vec::new() })
    }

    /// The next packet, or nothing at the end of all files. Blocks where an input is a pipe with nothing in it.
    ///
    /// A file that cannot be read on has ended: [`Self::faults`] says why, and the others are read further.
    #[allow(clippy::should_implement_trait)]
    #[inline]
    pub fn next(&mut self) -> Option<Packet<'_>> {
        // Nothing to compare with: the packet need not be looked at ahead.
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

    /// The files about which something was odd so far, and what.
    pub fn notes(&self) -> impl Iterator<Item = (&str, Notes)> {
        let open = self.open.iter().map(|file| (file.name(), file.notes()));
        let ended = self.odd.iter().map(|(name, notes)| (name.as_str(), *notes));
        ended.chain(open).filter(|(_, notes)| *notes != Notes::default())
    }

    /// Why files could not be read to their end, in the order in which that was met.
    pub fn faults(&self) -> &[Error] {
        &self.faults
    }

    /// The open file with the earliest packet, after those were opened whose time has come.
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

    /// The same of those that are open already, and its packet's time. Where times are equal, the file that
    /// was opened first.
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
