//! Where files are, as the kernel's side said. Bounded: what was not asked for in a long time is forgotten.

use std::collections::HashMap;
use std::sync::Arc;

use ahash::RandomState;

use crate::event::FilePath;

/// A file for as long as it exists: device, inode, generation.
pub(super) type FileKey = (u32, u64, u32);

/// Where a file was at some time.
#[derive(Clone)]
pub(super) struct Place {
    pub(super) at_ns: u64,
    pub(super) path: FilePath,
    pub(super) fs: Arc<str>,
}

/// The places of files: at most two of these halves are kept.
const HALF: usize = 16_384;

/// Files by number. A file that is neither told of nor asked for while as many others are is forgotten.
#[derive(Default)]
pub(super) struct Paths {
    recent: HashMap<FileKey, Place, RandomState>,
    older: HashMap<FileKey, Place, RandomState>,
}

impl Paths {
    /// A file is here now.
    pub(super) fn learn(&mut self, file: FileKey, place: Place) {
        if self.recent.len() >= HALF && !self.recent.contains_key(&file) {
            self.older = std::mem::take(&mut self.recent);
        }
        self.recent.insert(file, place);
    }

    /// Where the file was at that time or later; none where that was not told, however well an earlier
    /// place is known.
    pub(super) fn since(&mut self, file: FileKey, at_ns: u64) -> Option<&Place> {
        if at_ns == 0 {
            return None;
        }
        if !self.recent.contains_key(&file) {
            let place = self.older.remove(&file)?;
            self.learn(file, place);
        }
        self.recent.get(&file).filter(|place| place.at_ns >= at_ns)
    }
}

/// The path of NUL-terminated names, the innermost first.
pub(super) fn join_names(bytes: &[u8]) -> String {
    let names = bytes.split(|&byte| byte == 0).filter(|name| !name.is_empty());
    let names: Vec<_> = names.map(String::from_utf8_lossy).rev().collect();
    names.join("/")
}

#[cfg(test)]
mod tests {
    use super::{FilePath, HALF, Paths, Place, join_names};

    fn place(at_ns: u64, path: &str) -> Place {
        Place { at_ns, path: FilePath { path: path.into(), whole: true }, fs: "ext4".into() }
    }

    fn name(paths: &mut Paths, inode: u64, at_ns: u64) -> Option<String> {
        paths.since((1, inode, 0), at_ns).map(|place| place.path.path.to_string())
    }

    #[test]
    fn names_come_innermost_first_and_are_joined_outermost_first() {
        assert_eq!(join_names(b"0000.log\0topicA-0\0data\0"), "data/topicA-0/0000.log");
        assert_eq!(join_names(b""), "");
        assert_eq!(join_names(b"\xff.log\0d\0"), "d/\u{fffd}.log");
    }

    #[test]
    fn an_older_place_than_asked_for_is_none() {
        let mut paths = Paths::default();
        paths.learn((1, 7, 0), place(10, "a"));
        assert_eq!(name(&mut paths, 7, 10).as_deref(), Some("a"));
        assert_eq!(name(&mut paths, 7, 11), None, "told of again at 11, and that was lost");
        assert_eq!(name(&mut paths, 7, 0), None, "never told");
        paths.learn((1, 7, 0), place(12, "b"));
        assert_eq!(name(&mut paths, 7, 11).as_deref(), Some("b"));
        assert_eq!(paths.since((1, 7, 1), 10).map(|place| place.at_ns), None, "another file's number");
    }

    #[test]
    fn what_is_in_use_is_kept_and_the_rest_forgotten() {
        let mut paths = Paths::default();
        paths.learn((1, 0, 0), place(1, "used"));
        paths.learn((1, 1, 0), place(1, "unused"));
        for inode in 2..3 * HALF as u64 {
            paths.learn((1, inode, 0), place(1, "other"));
            assert!(name(&mut paths, 0, 1).is_some(), "{inode}");
        }
        assert_eq!(name(&mut paths, 1, 1), None);
        assert!(paths.recent.len() <= HALF && paths.older.len() <= HALF);
    }
}
