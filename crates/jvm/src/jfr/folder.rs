//! The folder into which a JVM writes the chunks of its recordings, one file each. Opens them for [`super::Tail`], which may
//! read them in another process. Does not read them, or find the folder (`jcmd PID JFR.configure` prints it).

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// Limit of entries; a JVM keeps far fewer files, but the folder is another user's.
const MAX_FILES: usize = 10_000;
/// Limit of files that one call opens; the next call opens more.
const MAX_OPENED: usize = 64;

/// Follows a JVM's folder of chunks.
pub struct ChunkFolder {
    folder: PathBuf,
    /// The files that have been opened, as long as they exist.
    opened: HashSet<String>,
    was_listed: bool,
}

impl ChunkFolder {
    /// Follows this folder on this machine; a container's is below `/proc/PID/root`.
    pub fn of(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), opened: HashSet::new(), was_listed: false }
    }

    /// Opens the chunks that have not been opened before: their names and files.
    ///
    /// # Errors
    /// The folder cannot be listed.
    pub fn open_new(&mut self) -> io::Result<Vec<(String, File)>> {
        let names = match foreign::list(&self.folder) {
            // The JVM removes the folder when it ends.
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.was_listed => return Ok(Vec::new()),
            names => names?,
        };
        self.was_listed = true;
        let names = names.take(MAX_FILES).filter_map(|(name, _)| name.into_string().ok());
        let is_chunk = |name: &String| Path::new(name).extension() == Some(OsStr::new("jfr"));
        let names: HashSet<_> = names.filter(is_chunk).collect();
        self.opened.retain(|name| names.contains(name));
        let new = names.into_iter().filter(|name| !self.opened.contains(name));
        // A file may have been removed meanwhile.
        let new = new.filter_map(|name| Some((foreign::open(&self.folder.join(&name)).ok()?, name)));
        let new: Vec<_> = new.take(MAX_OPENED).map(|(file, name)| (name, file)).collect();
        self.opened.extend(new.iter().map(|(name, _)| name.clone()));
        Ok(new)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{ChunkFolder, MAX_OPENED};

    #[test]
    fn opens_each_chunk_once_and_at_most_so_many_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let mut chunks = ChunkFolder::of(folder.path());
        for number in 0..=MAX_OPENED {
            fs::write(folder.path().join(format!("{number}.jfr")), "").unwrap();
        }
        fs::write(folder.path().join("other"), "").unwrap();
        std::os::unix::fs::symlink("/proc/self/maps", folder.path().join("link.jfr")).unwrap();
        let mut names: Vec<_> = [MAX_OPENED, 1, 0]
            .into_iter()
            .flat_map(|expected| {
                let opened = chunks.open_new().unwrap();
                assert_eq!(opened.len(), expected);
                opened.into_iter().map(|(name, _)| name)
            })
            .collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), MAX_OPENED + 1);
        // A new file with the name of a removed one.
        fs::remove_file(folder.path().join("0.jfr")).unwrap();
        assert!(chunks.open_new().unwrap().is_empty());
        fs::write(folder.path().join("0.jfr"), "").unwrap();
        assert_eq!(chunks.open_new().unwrap().len(), 1);
    }

    #[test]
    fn folder_that_was_removed_has_no_new_chunks() {
        let folder = tempfile::tempdir().unwrap();
        let mut chunks = ChunkFolder::of(folder.path());
        chunks.open_new().unwrap();
        folder.close().unwrap();
        assert!(chunks.open_new().unwrap().is_empty());
        assert!(ChunkFolder::of(std::path::Path::new("/nonexistent")).open_new().is_err());
    }
}
