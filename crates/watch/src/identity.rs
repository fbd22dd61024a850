//! By what a broker is known again after its process has ended. Does not attach anything.
//!
//! Its log dirs are the broker: no two may share one (Kafka holds a lock in each). A directory is known by
//! device and inode, so that a container that mounts the same volume elsewhere is the same broker; where
//! the directory was made again, its path and the broker's id must both be the same.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use broker::Broker;

/// A broker across its processes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Identity {
    node_id: Option<i32>,
    dirs: Vec<Dir>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Dir {
    path: PathBuf,
    inode: Option<(u64, u64)>,
}

impl Identity {
    /// A broker's, while its process runs.
    pub(crate) fn of(node_id: Option<i32>, log_dirs: &[PathBuf]) -> Self {
        Self { node_id, dirs: log_dirs.iter().map(|path| Dir::at(path)).collect() }
    }

    /// Whether both are one broker.
    pub(crate) fn is(&self, other: &Self) -> bool {
        let same_id = self.node_id == other.node_id;
        self.dirs.iter().any(|ours| other.dirs.iter().any(|theirs| ours.is(theirs, same_id)))
    }

    /// The process that this broker is now, if it runs.
    pub(crate) fn find(&self) -> Option<Broker> {
        broker::find().into_iter().find(|broker| self.is(&Self::of(broker.node_id, &broker.log_dirs)))
    }
}

impl Dir {
    fn at(path: &Path) -> Self {
        let inode = std::fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
        Self { path: path.to_owned(), inode }
    }

    fn is(&self, other: &Self, same_id: bool) -> bool {
        match (self.inode, other.inode) {
            (Some(ours), Some(theirs)) if ours == theirs => true,
            _ => same_id && self.path == other.path,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::Identity;

    #[test]
    fn a_broker_is_known_by_its_log_dirs() {
        let root = std::env::temp_dir().join(format!("brokerscope-identity-{}", std::process::id()));
        let (data, other, link) = (root.join("data"), root.join("other"), root.join("link"));
        fs::create_dir_all(&data).unwrap();
        fs::create_dir_all(&other).unwrap();
        std::os::unix::fs::symlink(&data, &link).unwrap();
        let of = |id, dir: &PathBuf| Identity::of(Some(id), std::slice::from_ref(dir));
        let first = of(1, &data);
        assert!(first.is(&of(1, &data)));
        assert!(first.is(&of(2, &link)), "the same directory under another name");
        assert!(!first.is(&of(1, &other)), "another directory is another broker's");
        // Emptied and made again, with another inode.
        fs::rename(&data, root.join("moved")).unwrap();
        fs::create_dir_all(&data).unwrap();
        let remade = (of(1, &data), of(2, &data));
        fs::remove_dir_all(&root).unwrap();
        assert!(first.is(&remade.0));
        assert!(!first.is(&remade.1));
    }
}
