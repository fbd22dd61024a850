//! Files with an input, for code that opens files itself: in memory if the host has a place for that.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// Creates a directory that is removed when dropped.
pub(crate) fn directory() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a directory can be made")
}

/// Writes a file in it, and creates the directories on its path.
pub(crate) fn write(directory: &TempDir, name: impl AsRef<Path>, bytes: &[u8]) -> PathBuf {
    let path = directory.path().join(name);
    fs::create_dir_all(path.parent().expect("it lies in a directory")).expect("a directory can be made");
    fs::write(&path, bytes).expect("the file can be written");
    path
}
