//! Notes on a recording besides its events: parts cut short, rows left out. Does not print.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::cells::BadRow;

/// Notes, each kept once, no matter how often the recording is read.
#[derive(Default)]
pub(crate) struct Notes {
    dir: PathBuf,
    noted: Mutex<Lines>,
}

#[derive(Default)]
struct Lines {
    lines: Vec<String>,
    bad_rows: BTreeMap<(PathBuf, BadRow), u64>,
}

impl Notes {
    /// Creates an empty list of notes on the recording at `dir`.
    pub(crate) fn on(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), noted: Mutex::default() }
    }

    /// Notes a line, unless it was noted before.
    pub(crate) fn line(&self, line: String) {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        if !noted.lines.contains(&line) {
            noted.lines.push(line);
        }
    }

    /// Notes how many rows of a part have had this fault so far in one pass over it.
    pub(crate) fn bad_rows(&self, part: &Path, fault: BadRow, so_far: u64) {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        let count = noted.bad_rows.entry((part.to_owned(), fault)).or_default();
        *count = so_far.max(*count);
    }

    /// All notes, one line each.
    pub(crate) fn all(&self) -> Vec<String> {
        let noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        let rows = noted.bad_rows.iter().map(|((part, fault), count)| {
            let rows = if *count == 1 { "row" } else { "rows" };
            format!("{}: {count} {rows} left out ({}: {})", self.display_path(part), fault.column, fault.why)
        });
        noted.lines.iter().cloned().chain(rows).collect()
    }

    /// A part's path as notes print it: relative to the recording's directory.
    pub(crate) fn display_path(&self, part: &Path) -> String {
        part.strip_prefix(&self.dir).unwrap_or(part).display().to_string()
    }
}

/// Runs a third-party decoder on untrusted bytes and turns its panic into an error.
/// The caller then drops the decoder.
pub(crate) fn catch_panics<T>(decode: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(decode)).map_err(|_| "its decoder panicked".to_owned())
}
