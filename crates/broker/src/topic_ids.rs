//! Topic ids as the log dirs know them: every partition's directory holds a `partition.metadata`.
//! Does not ask brokers. Fuzzed by: segment.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs::{self, Metadata};
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use model::TopicId;

use crate::path::partition_of;

/// The file has two short lines (`PartitionMetadataFile.java`).
const MAX_BYTES: u64 = 1024;

/// A broker makes a partition's directory first and the file with its topic's id in it then.
const SETTLED: Duration = Duration::from_secs(10);
/// What comes so soon after a directory was changed may leave its time of change as it is.
const STAMP_TICK: Duration = Duration::from_millis(100);
/// As many directories as before may be others: they are listed again after so long.
const LIST_INTERVAL: Duration = Duration::from_secs(60);
/// Partitions of a log dir that are remembered.
const MAX_PARTITIONS: usize = 1 << 20;

/// The names of all topic ids in these log dirs. What cannot be read is left out: a directory may well
/// vanish while it is looked at.
pub fn scan(log_dirs: &[PathBuf]) -> HashMap<TopicId, Arc<str>> {
    TopicIds::default().changes(log_dirs, &mut || ()).into_iter().collect()
}

/// The topic ids of a broker that runs, each read once: its log dirs change every few seconds, by files for which checkpoints are
/// put together, and hardly ever by partitions.
#[derive(Debug, Default)]
pub struct TopicIds {
    log_dirs: HashMap<PathBuf, LogDir>,
}

/// What is known of a log dir.
#[derive(Debug, Default)]
struct LogDir {
    /// When something was last made or removed in it; none where what came later may not show.
    changed: Option<SystemTime>,
    /// When it was listed, and its links then: one for each directory in it and two more, or one alone on some file systems.
    listed: Option<(Instant, u64)>,
    /// By name and inode, since when those are known whose id is still to be read.
    directories: HashMap<(OsString, u64), Option<Instant>>,
    has_unread: bool,
}

/// What is found in one look.
#[derive(Debug, Default)]
struct NewIds {
    ids: Vec<(TopicId, Arc<str>)>,
    topics: HashSet<Arc<str>>,
}

impl TopicIds {
    /// The names of topic ids that are new since the last look. `pause` is called often, for who must not run for long.
    pub fn changes(&mut self, log_dirs: &[PathBuf], pause: &mut dyn FnMut()) -> Vec<(TopicId, Arc<str>)> {
        self.log_dirs.retain(|path, _| log_dirs.contains(path));
        let mut new = NewIds::default();
        for path in log_dirs {
            self.log_dirs.entry(path.clone()).or_default().look(path, &mut new, pause);
        }
        new.ids
    }
}

impl LogDir {
    fn look(&mut self, path: &Path, new: &mut NewIds, pause: &mut dyn FnMut()) {
        let found = fs::metadata(path).ok();
        let changed = found.as_ref().and_then(|found| found.modified().ok());
        if !self.has_unread
            && (changed.is_some() && changed == self.changed || self.has_as_many(found.as_ref()))
        {
            return;
        }
        self.changed = changed.filter(|at| at.elapsed().is_ok_and(|age| age > STAMP_TICK));
        let mut known = std::mem::take(&mut self.directories);
        self.has_unread = false;
        let directories = foreign::list(path).ok();
        let found = found.filter(|_| directories.is_some());
        self.listed = found.map(|found| (Instant::now(), found.nlink()));
        for key in directories.into_iter().flatten().take(MAX_PARTITIONS) {
            pause();
            let since = known.remove(&key).unwrap_or_else(|| Some(Instant::now()));
            let unread = since.filter(|since| !new.read(path, &key.0) && since.elapsed() < SETTLED);
            self.has_unread |= unread.is_some();
            self.directories.insert(key, unread);
        }
    }

    /// Whether there are as many directories as when they were listed, which was lately: then only files have changed.
    fn has_as_many(&self, found: Option<&Metadata>) -> bool {
        let (Some(found), Some((at, links))) = (found, self.listed) else { return false };
        links > 1 && links == found.nlink() && at.elapsed() < LIST_INTERVAL
    }
}

impl NewIds {
    /// Reads a directory's id; whether there is nothing more to be read.
    fn read(&mut self, log_dir: &Path, name: &OsStr) -> bool {
        let Some(partition) = name.to_str().and_then(partition_of) else { return true };
        // All partitions of a topic have its id, but one being deleted may be of an earlier topic.
        let current = *name == *partition.to_string();
        if current && self.topics.contains(&partition.topic) {
            return true;
        }
        let Some(id) = read(&log_dir.join(name).join("partition.metadata")) else { return false };
        if current {
            self.topics.insert(Arc::clone(&partition.topic));
        }
        self.ids.push((id, partition.topic));
        true
    }
}

/// The topic id in a `partition.metadata`.
fn read(path: &Path) -> Option<TopicId> {
    let mut text = String::new();
    foreign::open(path).ok()?.take(MAX_BYTES).read_to_string(&mut text).ok()?;
    let id = text.lines().find_map(|line| line.strip_prefix("topic_id:"))?;
    TopicId::parse(id.trim()).filter(|id| *id != TopicId::ZERO)
}

#[cfg(test)]
mod tests {
    use super::{TopicIds, scan};
    use model::TopicId;
    use std::fs::{self, File};
    use std::path::Path;
    use std::time::{Duration, SystemTime};

    #[test]
    fn ids_are_found_in_every_log_dir_and_damage_is_passed_over() {
        let dir = tempfile::tempdir().unwrap();
        let plant = |path: &str, text: &str| {
            fs::create_dir_all(dir.path().join(path)).unwrap();
            fs::write(dir.path().join(path).join("partition.metadata"), text).unwrap();
        };
        plant("d1/topicA-0", "version: 0\ntopic_id: kVlDlUqkQS62BvMvKT5UZA");
        plant("d1/topicA-1", "version: 0\ntopic_id: kVlDlUqkQS62BvMvKT5UZA\n");
        plant(
            "d1/topicA-0.0123456789abcdef0123456789abcdef-delete",
            "version: 0\ntopic_id: flE-6I70RCyT2gK2Qc3YBw",
        );
        plant("d2/with-dash-3", "version: 0\r\ntopic_id: doew7UVWQt6_oNQTfnRDeQ\r\n");
        plant("d2/zero-0", "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA");
        plant("d2/broken-0", "version: 0\ntopic_id: \u{0}");
        plant("d2/no_partition", "version: 0\ntopic_id: 7XWCdjQqTIyy9OgycPxg2A");
        fs::create_dir_all(dir.path().join("d2/empty-0")).unwrap();
        let names = scan(&["d1", "d2", "absent"].map(|name| dir.path().join(name)));
        let name = |id: &str| names.get(&TopicId::parse(id).unwrap()).map(|name| &**name);
        assert_eq!(name("kVlDlUqkQS62BvMvKT5UZA"), Some("topicA"));
        assert_eq!(name("flE-6I70RCyT2gK2Qc3YBw"), Some("topicA"));
        assert_eq!(name("doew7UVWQt6_oNQTfnRDeQ"), Some("with-dash"));
        assert_eq!(names.len(), 3);
    }

    const IDS: [&str; 3] = ["kVlDlUqkQS62BvMvKT5UZA", "flE-6I70RCyT2gK2Qc3YBw", "doew7UVWQt6_oNQTfnRDeQ"];

    fn make_partition(log_dir: &Path, name: &str, id: &str) {
        fs::create_dir(log_dir.join(name)).unwrap();
        write_id(log_dir, name, id);
    }

    fn write_id(log_dir: &Path, name: &str, id: &str) {
        fs::write(log_dir.join(name).join("partition.metadata"), format!("version: 0\ntopic_id: {id}"))
            .unwrap();
    }

    /// As if nothing had come or gone since.
    fn age(log_dir: &Path, hours: u64) {
        let then = SystemTime::now() - Duration::from_secs(hours * 3_600);
        File::open(log_dir).unwrap().set_modified(then).unwrap();
    }

    #[test]
    fn of_twenty_thousand_partitions_only_new_ones_are_read_again() {
        // In memory: a disk takes minutes.
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let log_dirs = [dir.path().to_owned()];
        make_partition(dir.path(), "topic-0", IDS[0]);
        for number in 1..20_000 {
            let partition = dir.path().join(format!("topic-{number}"));
            fs::create_dir(&partition).unwrap();
            fs::hard_link(
                dir.path().join("topic-0/partition.metadata"),
                partition.join("partition.metadata"),
            )
            .unwrap();
        }
        let mut ids = TopicIds::default();
        let mut look = || {
            let mut listed = 0;
            let mut names: Vec<_> = ids.changes(&log_dirs, &mut || listed += 1);
            names.sort();
            (listed, names.iter().map(|(id, topic)| format!("{id} {topic}")).collect::<Vec<_>>())
        };
        assert_eq!(look(), (20_000, vec![format!("{} topic", IDS[0])]));
        // A checkpoint, as every five seconds. What would be read of a partition now is something else.
        fs::remove_file(dir.path().join("topic-7/partition.metadata")).unwrap();
        write_id(dir.path(), "topic-7", IDS[1]);
        fs::write(dir.path().join("replication-offset-checkpoint.tmp"), "0").unwrap();
        fs::rename(
            dir.path().join("replication-offset-checkpoint.tmp"),
            dir.path().join("replication-offset-checkpoint"),
        )
        .unwrap();
        assert_eq!(look(), (0, Vec::new()), "no directory has come");
        age(dir.path(), 2);
        assert_eq!(look(), (0, Vec::new()), "nothing has come");
        // The file with the id comes after the directory; a topic that is made again has another directory.
        fs::create_dir(dir.path().join("late-0")).unwrap();
        fs::rename(
            dir.path().join("topic-9"),
            dir.path().join("topic-9.0123456789abcdef0123456789abcdef-delete"),
        )
        .unwrap();
        make_partition(dir.path(), "topic-9", IDS[2]);
        age(dir.path(), 1);
        assert_eq!(look().1, [format!("{} topic", IDS[2]), format!("{} topic", IDS[0])]);
        write_id(dir.path(), "late-0", IDS[1]);
        assert_eq!(look().1, [format!("{} late", IDS[1])]);
        assert_eq!(look(), (0, Vec::new()));
        fs::remove_dir_all(dir.path()).unwrap();
        assert_eq!((look(), look()), ((0, Vec::new()), (0, Vec::new())), "it may come back");
    }
}
