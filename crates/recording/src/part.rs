//! The files of a table: their names, and which of them exist. Does not read them.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::Error;

/// A part of a table, in a folder, by number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    folder: PathBuf,
    number: u32,
}

impl Part {
    /// The part with this number.
    pub(crate) fn new(folder: PathBuf, number: u32) -> Self {
        Self { folder, number }
    }

    /// Its number; a table's later parts have higher ones.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Its path while it is being written: an Arrow IPC stream.
    pub(crate) fn stream(&self) -> PathBuf {
        self.folder.join(format!("part-{:05}.arrows", self.number))
    }

    /// Its path once it is full.
    pub(crate) fn parquet(&self) -> PathBuf {
        self.folder.join(format!("part-{:05}.parquet", self.number))
    }

    /// The path of its Parquet until that is complete.
    pub(crate) fn temporary(&self) -> PathBuf {
        self.folder.join(format!("part-{:05}.parquet.tmp", self.number))
    }
}

/// The parts of a table in the order in which they were written; empty if there is no folder.
pub(crate) fn list(folder: &Path) -> Result<Vec<Part>, Error> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(Error::io("read", folder)(e)),
    };
    let mut parts = BTreeMap::new();
    for entry in entries {
        let entry = entry.map_err(Error::io("read", folder))?;
        if let Some(number) = entry.file_name().to_str().and_then(number_of) {
            parts.insert(number, Part::new(folder.to_owned(), number));
        }
    }
    Ok(parts.into_values().collect())
}

/// A part's number from its file's name.
/// Only names that [`Part`] itself writes count: a file with another spelling of its number would not be found.
pub(crate) fn number_of(name: &str) -> Option<u32> {
    let stem = name.strip_suffix(".parquet").or_else(|| name.strip_suffix(".arrows"))?;
    let digits = stem.strip_prefix("part-")?;
    let number = digits.parse().ok()?;
    (format!("{number:05}") == digits).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::number_of;

    #[test]
    fn parses_part_numbers_only_from_valid_file_names() {
        assert_eq!(number_of("part-00001.parquet"), Some(1));
        assert_eq!(number_of("part-123456.arrows"), Some(123_456));
        for other in ["part-1.parquet", "part-00001.parquet.tmp", "part-+0001.arrows", "part-.arrows", "x"] {
            assert_eq!(number_of(other), None, "{other}");
        }
    }
}
