//! The names of topic ids in a broker's log dirs, read again where partitions may have come: a broker may have thousands. Does
//! not read the files themselves.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use model::TopicId;

/// A broker makes a partition's directory first and the file with its topic's id in it then.
const SETTLED: Duration = Duration::from_secs(10);

/// What the log dirs were when they were last read.
#[derive(Default)]
pub(crate) struct TopicNames {
    read: Vec<(PathBuf, Option<SystemTime>)>,
}

impl TopicNames {
    /// The names of all ids, unless nothing can have changed since they were last asked for.
    pub(crate) fn changes(&mut self, log_dirs: &[PathBuf]) -> Option<HashMap<TopicId, Arc<str>>> {
        let stands: Vec<_> = log_dirs.iter().map(|dir| (dir.clone(), changed(dir))).collect();
        let is_old = |at: SystemTime| at.elapsed().is_ok_and(|age| age > SETTLED);
        let is_settled = stands.iter().all(|(_, at)| at.is_some_and(is_old));
        if is_settled && stands == self.read {
            return None;
        }
        self.read = stands;
        Some(broker::topic_ids::scan(log_dirs))
    }
}

/// When something was last made or removed in a directory.
fn changed(directory: &Path) -> Option<SystemTime> {
    fs::metadata(directory).ok()?.modified().ok()
}

#[cfg(test)]
mod tests {
    use super::TopicNames;
    use std::fs::{self, File};
    use std::path::Path;
    use std::time::{Duration, SystemTime};

    fn plant(dir: &Path, partition: &str) {
        fs::create_dir(dir.join(partition)).unwrap();
        let text = "version: 0\ntopic_id: kVlDlUqkQS62BvMvKT5UZA\n";
        fs::write(dir.join(partition).join("partition.metadata"), text).unwrap();
    }

    /// As if nothing had come or gone for so long.
    fn age(dir: &Path, hours: u64) {
        let then = SystemTime::now() - Duration::from_secs(hours * 3_600);
        File::open(dir).unwrap().set_modified(then).unwrap();
    }

    #[test]
    fn names_are_read_again_only_where_a_partition_may_have_come() {
        let dir = tempfile::tempdir().unwrap();
        let dirs = [dir.path().to_owned()];
        let mut names = TopicNames::default();
        let mut news = || names.changes(&dirs).map(|names| names.len());
        age(dir.path(), 2);
        assert_eq!((news(), news()), (Some(0), None));
        plant(dir.path(), "topic-0");
        assert_eq!(
            (news(), news()),
            (Some(1), Some(1)),
            "its file may have been written after the first look"
        );
        age(dir.path(), 1);
        assert_eq!((news(), news()), (Some(1), None));
        fs::remove_dir_all(dir.path()).unwrap();
        assert_eq!((news(), news()), (Some(0), Some(0)), "it may come back");
    }
}
