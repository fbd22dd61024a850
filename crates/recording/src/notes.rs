//! What a reader should know about a recording beside its events: parts cut short, rows left out.
//! Does not print.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::cells::BadRow;

/// Notes, each once however often the recording is read.
#[derive(Default)]
pub(crate) struct Notes {
    dir: PathBuf,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    lines: Vec<String>,
    bad_rows: BTreeMap<(PathBuf, BadRow), u64>,
}

impl Notes {
    /// No notes yet, on the recording at `dir`.
    pub(crate) fn on(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), kept: Mutex::default() }
    }

    /// Notes a line, unless it was noted before.
    pub(crate) fn line(&self, line: String) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if !kept.lines.contains(&line) {
            kept.lines.push(line);
        }
    }

    /// Notes how many rows of a part have had this fault so far in one pass over it.
    pub(crate) fn bad_rows(&self, part: &Path, fault: BadRow, so_far: u64) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let count = kept.bad_rows.entry((part.to_owned(), fault)).or_default();
        *count = so_far.max(*count);
    }

    /// All notes, one line each.
    pub(crate) fn all(&self) -> Vec<String> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let rows = kept.bad_rows.iter().map(|((part, fault), count)| {
            let rows = if *count == 1 { "row" } else { "rows" };
            format!("{}: {count} {rows} left out ({}: {})", self.shown(part), fault.column, fault.why)
        });
        kept.lines.iter().cloned().chain(rows).collect()
    }

    /// A part's path as notes show it: below the recording's directory.
    pub(crate) fn shown(&self, part: &Path) -> String {
        part.strip_prefix(&self.dir).unwrap_or(part).display().to_string()
    }
}
