//! Files with an input in them, for code that opens its files itself: in memory where the host has a place for that.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// A directory that is gone when it is dropped.
pub(crate) fn directory() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a directory can be made")
}

/// Writes a file in it, and makes the directories that lead there.
pub(crate) fn write(directory: &TempDir, name: impl AsRef<Path>, bytes: &[u8]) -> PathBuf {
    let path = directory.path().join(name);
    fs::create_dir_all(path.parent().expect("it lies in a directory")).expect("a directory can be made");
    fs::write(&path, bytes).expect("the file can be written");
    path
}
