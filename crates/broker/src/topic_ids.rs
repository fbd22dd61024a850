//! Topic ids as the log dirs know them: every partition's directory holds a `partition.metadata`.
//! Does not ask brokers.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::{TopicId, TopicPartition};

use crate::path::partition_of;

/// The file has two short lines (`PartitionMetadataFile.java`).
const MAX_BYTES: u64 = 1024;

/// The names of all topic ids in these log dirs. What cannot be read is left out: a directory may well
/// vanish while it is looked at.
pub fn scan(log_dirs: &[PathBuf]) -> HashMap<TopicId, Arc<str>> {
    let mut names = HashMap::new();
    let mut known = HashSet::new();
    for log_dir in log_dirs {
        for (directory, partition) in partitions(log_dir) {
            // All partitions of a topic have its id, but one being deleted may be of an earlier topic.
            let current = directory.ends_with(partition.to_string());
            if current && known.contains(&partition.topic) {
                continue;
            }
            let Some(id) = read(&directory.join("partition.metadata")) else { continue };
            if current {
                known.insert(Arc::clone(&partition.topic));
            }
            names.insert(id, partition.topic);
        }
    }
    names
}

fn partitions(log_dir: &Path) -> impl Iterator<Item = (PathBuf, TopicPartition)> {
    let entries = fs::read_dir(log_dir).into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        let partition = partition_of(entry.file_name().to_str()?)?;
        Some((entry.path(), partition))
    })
}

/// The topic id in a `partition.metadata`.
fn read(path: &Path) -> Option<TopicId> {
    let mut text = String::new();
    File::open(path).ok()?.take(MAX_BYTES).read_to_string(&mut text).ok()?;
    let id = text.lines().find_map(|line| line.strip_prefix("topic_id:"))?;
    TopicId::parse(id.trim()).filter(|id| *id != TopicId::ZERO)
}

#[cfg(test)]
mod tests {
    use super::scan;
    use model::TopicId;
    use std::fs;

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
}
