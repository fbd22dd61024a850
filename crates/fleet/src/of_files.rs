//! Counts of a broker's file operations: sums by kind of file and by file. Holds a bounded number of files.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use model::row_summary::FileOpColumns;
use model::{FileKind, FileOpKind};

use crate::parts::Amounts;

/// Files counted one by one; the others count only by kind.
const MAX_FILES: usize = 50_000;
/// A broker has one log dir or a few dozen.
const MAX_DEVICES: usize = 256;

/// Adds up operations on files.
#[derive(Default)]
pub struct FileStats {
    pub(crate) kinds: BTreeMap<&'static str, FileIo>,
    files: HashMap<Arc<str>, (FileKind, FileIo)>,
    devices: BTreeSet<Arc<str>>,
    pub(crate) longest_write_ns: Option<u64>,
    pub(crate) longest_writes: Amounts,
    /// Whether a recorder left out operations on purpose: then only slow ones are complete.
    pub partial: bool,
    /// Whether a recorder did not watch reads.
    pub lacks_reads: bool,
    /// Whether one did not watch which reads came from a device.
    pub lacks_disk_reads: bool,
}

/// I/O of a file or of a kind.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FileIo {
    pub(crate) reads: u64,
    pub(crate) disk_reads: u64,
    pub(crate) disk_bytes: u64,
    pub(crate) writes: u64,
    pub(crate) written_bytes: u64,
    pub(crate) write_ns: u64,
}

impl FileIo {
    fn op(&mut self, op: &FileOpColumns) {
        match op.op {
            FileOpKind::Read | FileOpKind::Sendfile => self.reads += 1,
            FileOpKind::Write => {
                self.writes += 1;
                self.written_bytes = self.written_bytes.saturating_add(op.bytes.unwrap_or(0));
                self.write_ns = self.write_ns.saturating_add(write_ns(op));
            }
            _ => {}
        }
        let from_disk = op.disk_bytes.unwrap_or(0).saturating_add(op.readahead_bytes.unwrap_or(0));
        self.disk_reads += u64::from(from_disk > 0);
        self.disk_bytes = self.disk_bytes.saturating_add(from_disk);
    }
}

fn write_ns(op: &FileOpColumns) -> u64 {
    op.latency().as_length_ns()
}

impl FileStats {
    /// Counts an operation.
    pub fn file_op(&mut self, op: &FileOpColumns) {
        self.kinds.entry(op.kind.as_str()).or_default().op(op);
        if let Some((_, moved)) = self.files.get_mut(&op.file) {
            moved.op(op);
        } else if self.files.len() < MAX_FILES {
            let (_, moved) = self.files.entry(Arc::clone(&op.file)).or_insert((op.kind, FileIo::default()));
            moved.op(op);
        }
        if op.op == FileOpKind::Write {
            self.write(op);
        }
        if !self.devices.contains(&op.device) && self.devices.len() < MAX_DEVICES {
            self.devices.insert(Arc::clone(&op.device));
        }
    }

    fn write(&mut self, op: &FileOpColumns) {
        let took = write_ns(op);
        if self.longest_write_ns.is_none_or(|longest| longest < took) {
            self.longest_write_ns = Some(took);
            // The longest write has a single part, which is all of it.
            let kind = Arc::from(op.kind.as_str());
            self.longest_writes = Amounts::default();
            self.longest_writes.part(&kind, took);
            self.longest_writes.item(&kind, || Arc::clone(&op.file), took);
        }
    }

    /// Whether files of this device were used.
    pub(crate) fn holds(&self, device: &str) -> bool {
        self.devices.contains(device)
    }

    /// A sum over all kinds.
    pub(crate) fn sum(&self, of: impl Fn(&FileIo) -> u64) -> u64 {
        self.kinds.values().map(of).fold(0, u64::saturating_add)
    }

    /// A value of each kind and of its files.
    pub(crate) fn amounts(&self, of: impl Fn(&FileIo) -> u64) -> Amounts {
        let mut amounts = Amounts::default();
        for (kind, moved) in &self.kinds {
            amounts.part(&Arc::from(*kind), of(moved));
        }
        let mut files = self.files.iter().collect::<Vec<_>>();
        // Sorted, so that equal values come in the same order in every run.
        files.sort_unstable_by_key(|(file, _)| *file);
        for (file, (kind, moved)) in files {
            amounts.item(&Arc::from(kind.as_str()), || Arc::clone(file), of(moved));
        }
        amounts
    }
}
