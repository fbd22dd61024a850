//! Topic ids from the log dirs: every partition's directory holds a `partition.metadata`.
//! Does not ask brokers.
//! Fuzzed by: segment.

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

/// How long a new partition's directory may lack the file with its topic's id.
/// A broker creates the directory first and the file later, within this time.
const SETTLED: Duration = Duration::from_secs(10);
/// Resolution of a directory's modification time.
/// A change this soon after another one may leave the time as it is.
const STAMP_TICK: Duration = Duration::from_millis(100);
/// How long directories are not listed again while their number is the same.
/// The same number of directories may be different ones.
const LIST_INTERVAL: Duration = Duration::from_secs(60);
/// Partitions remembered per log dir.
const MAX_PARTITIONS: usize = 1 << 20;

/// The names of all topic ids in these log dirs.
/// Directories that cannot be read are left out: one may vanish during the scan.
pub fn scan(log_dirs: &[PathBuf]) -> HashMap<TopicId, Arc<str>> {
    TopicIds::default().changes(log_dirs, &mut || ()).into_iter().collect()
}

/// The topic ids of a running broker, each read once.
/// Log dirs change every few seconds, because checkpoint files are replaced, but partitions rarely do.
#[derive(Debug, Default)]
pub struct TopicIds {
    log_dirs: HashMap<PathBuf, LogDir>,
}

/// What is known of a log dir.
#[derive(Debug, Default)]
struct LogDir {
    /// Its modification time; `None` if a later change may not show in it.
    changed: Option<SystemTime>,
    /// When it was listed, and its link count then: two plus one per subdirectory, or always one on some file systems.
    listed: Option<(Instant, u64)>,
    /// Directories by name and inode; for those whose id is still to be read, when they were first seen.
    directories: HashMap<(OsString, u64), Option<Instant>>,
    has_unread: bool,
}

/// Ids found in one poll.
#[derive(Debug, Default)]
struct NewIds {
    ids: Vec<(TopicId, Arc<str>)>,
    topics: HashSet<Arc<str>>,
}

impl TopicIds {
    /// The names of topic ids that are new since the last poll.
    /// Calls `pause` often, for callers that must not run for long.
    pub fn changes(&mut self, log_dirs: &[PathBuf], pause: &mut dyn FnMut()) -> Vec<(TopicId, Arc<str>)> {
        self.log_dirs.retain(|path, _| log_dirs.contains(path));
        let mut new = NewIds::default();
        for path in log_dirs {
            self.log_dirs.entry(path.clone()).or_default().poll(path, &mut new, pause);
        }
        new.ids
    }
}

impl LogDir {
    fn poll(&mut self, path: &Path, new: &mut NewIds, pause: &mut dyn FnMut()) {
        let metadata = fs::metadata(path).ok();
        let changed = metadata.as_ref().and_then(|metadata| metadata.modified().ok());
        if !self.has_unread
            && (changed.is_some() && changed == self.changed || self.has_same_count(metadata.as_ref()))
        {
            return;
        }
        self.changed = changed.filter(|at| at.elapsed().is_ok_and(|age| age > STAMP_TICK));
        let mut known = std::mem::take(&mut self.directories);
        self.has_unread = false;
        let directories = foreign::list(path).ok();
        let metadata = metadata.filter(|_| directories.is_some());
        self.listed = metadata.map(|metadata| (Instant::now(), metadata.nlink()));
        for key in directories.into_iter().flatten().take(MAX_PARTITIONS) {
            pause();
            let since = known.remove(&key).unwrap_or_else(|| Some(Instant::now()));
            let unread = since.filter(|since| !new.read(path, &key.0) && since.elapsed() < SETTLED);
            self.has_unread |= unread.is_some();
            self.directories.insert(key, unread);
        }
    }

    /// Whether the number of directories is as last listed, and that was recent: then only files have changed.
    fn has_same_count(&self, metadata: Option<&Metadata>) -> bool {
        let (Some(metadata), Some((at, links))) = (metadata, self.listed) else { return false };
        links > 1 && links == metadata.nlink() && at.elapsed() < LIST_INTERVAL
    }
}

impl NewIds {
    /// Reads a directory's id; returns whether it is done with the directory.
    fn read(&mut self, log_dir: &Path, name: &OsStr) -> bool {
        let Some(partition) = name.to_str().and_then(partition_of) else { return true };
        // All partitions of a topic share its id, but one that is being deleted may belong to an earlier topic.
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
    fn finds_ids_in_every_log_dir_and_skips_damaged_files() {
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

    /// Sets the directory's modification time back.
    /// The directory then looks as if nothing had changed in it since.
    fn age(log_dir: &Path, hours: u64) {
        let then = SystemTime::now() - Duration::from_secs(hours * 3_600);
        File::open(log_dir).unwrap().set_modified(then).unwrap();
    }

    #[test]
    fn rereads_only_new_partitions_of_twenty_thousand() {
        // In memory: on a disk this takes minutes.
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
        let mut poll = || {
            let mut listed = 0;
            let mut names: Vec<_> = ids.changes(&log_dirs, &mut || listed += 1);
            names.sort();
            (listed, names.iter().map(|(id, topic)| format!("{id} {topic}")).collect::<Vec<_>>())
        };
        assert_eq!(poll(), (20_000, vec![format!("{} topic", IDS[0])]));
        // A checkpoint is replaced, as every five seconds. If a partition were read again, its new content would show.
        fs::remove_file(dir.path().join("topic-7/partition.metadata")).unwrap();
        write_id(dir.path(), "topic-7", IDS[1]);
        fs::write(dir.path().join("replication-offset-checkpoint.tmp"), "0").unwrap();
        fs::rename(
            dir.path().join("replication-offset-checkpoint.tmp"),
            dir.path().join("replication-offset-checkpoint"),
        )
        .unwrap();
        assert_eq!(poll(), (0, Vec::new()), "no directory has come");
        age(dir.path(), 2);
        assert_eq!(poll(), (0, Vec::new()), "nothing has come");
        // The file with the id comes after the directory; a topic that is created again has another directory.
        fs::create_dir(dir.path().join("late-0")).unwrap();
        fs::rename(
            dir.path().join("topic-9"),
            dir.path().join("topic-9.0123456789abcdef0123456789abcdef-delete"),
        )
        .unwrap();
        make_partition(dir.path(), "topic-9", IDS[2]);
        age(dir.path(), 1);
        assert_eq!(poll().1, [format!("{} topic", IDS[2]), format!("{} topic", IDS[0])]);
        write_id(dir.path(), "late-0", IDS[1]);
        assert_eq!(poll().1, [format!("{} late", IDS[1])]);
        assert_eq!(poll(), (0, Vec::new()));
        fs::remove_dir_all(dir.path()).unwrap();
        assert_eq!((poll(), poll()), ((0, Vec::new()), (0, Vec::new())), "it may come back");
    }
}
