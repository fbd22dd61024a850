//! Names for what the kernel numbers: block devices, and files below the broker's log dirs. Looks up each
//! device once.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::{Device, FileKind, TopicPartition};

/// Names of block devices, and the partitions of disks.
#[derive(Default)]
pub(crate) struct Devices {
    names: HashMap<(u32, u32), Arc<str>>,
    partitions: HashMap<(u32, u32), Vec<DiskPartition>>,
}

/// One partition of a disk.
struct DiskPartition {
    number: (u32, u32),
    /// In sectors of 512 bytes, as the kernel counts everywhere.
    sectors: std::ops::Range<u64>,
}

impl Devices {
    /// The device of that number, by the kernel's name where it has one.
    pub(crate) fn device(&mut self, (major, minor): (u32, u32)) -> Device {
        let name = self.names.entry((major, minor)).or_insert_with(|| name_of(major, minor));
        Device { major, minor, name: Arc::clone(name) }
    }

    /// The partition of a disk that holds a sector, or the disk itself: block requests name the disk, file
    /// systems the partition.
    pub(crate) fn holding(&mut self, disk: (u32, u32), sector: u64) -> Device {
        let partitions = self.partitions.entry(disk).or_insert_with(|| partitions_of(disk.0, disk.1));
        let found = partitions.iter().find(|partition| partition.sectors.contains(&sector));
        let number = found.map_or(disk, |partition| partition.number);
        self.device(number)
    }
}

/// `/sys/dev/block/7:0` is a link to `…/block/loop0`.
fn name_of(major: u32, minor: u32) -> Arc<str> {
    std::fs::read_link(format!("/sys/dev/block/{major}:{minor}"))
        .ok()
        .and_then(|target| target.file_name().map(|name| name.to_string_lossy().into()))
        .unwrap_or_default()
}

/// A disk's directory in sysfs holds one for each partition, with `dev`, `start` and `size` in it.
fn partitions_of(major: u32, minor: u32) -> Vec<DiskPartition> {
    let Ok(entries) = std::fs::read_dir(format!("/sys/dev/block/{major}:{minor}/")) else {
        return Vec::new();
    };
    entries.flatten().filter_map(|entry| partition_in(&entry.path())).collect()
}

fn partition_in(dir: &Path) -> Option<DiskPartition> {
    let read = |name: &str| std::fs::read_to_string(dir.join(name)).ok();
    read("partition")?;
    let dev = read("dev")?;
    let (major, minor) = dev.trim().split_once(':')?;
    let start: u64 = read("start")?.trim().parse().ok()?;
    let size: u64 = read("size")?.trim().parse().ok()?;
    Some(DiskPartition {
        number: (major.parse().ok()?, minor.parse().ok()?),
        sectors: start..start.saturating_add(size),
    })
}

/// A file as the broker means it.
pub(crate) struct NamedFile {
    pub(crate) file: Arc<str>,
    pub(crate) kind: FileKind,
    pub(crate) topic_partition: Option<TopicPartition>,
}

/// Names files below the log dirs; the names of the busiest are kept.
pub(crate) struct Files {
    log_dirs: Vec<PathBuf>,
    known: HashMap<Box<str>, (Arc<str>, FileKind, Option<TopicPartition>)>,
}

/// Segments come and go: past this many names, all are forgotten and learnt again.
const MOST_NAMES: usize = 16_384;

impl Files {
    pub(crate) fn new(log_dirs: Vec<PathBuf>) -> Self {
        Self { log_dirs, known: HashMap::new() }
    }

    /// The file whose path ends in `tail` (at most three components, as the kernel side sends it).
    pub(crate) fn name(&mut self, tail: &str) -> NamedFile {
        if !self.known.contains_key(tail) {
            if self.known.len() >= MOST_NAMES {
                self.known.clear();
            }
            let below = self.below_log_dir(tail);
            let (kind, topic_partition) = broker::path::classify(below);
            // Only a partition has segments: `server.log` is a log of another kind.
            let kind =
                if kind == FileKind::Log && topic_partition.is_none() { FileKind::Other } else { kind };
            self.known.insert(tail.into(), (below.into(), kind, topic_partition));
        }
        match self.known.get(tail) {
            Some((file, kind, topic_partition)) => {
                NamedFile { file: Arc::clone(file), kind: *kind, topic_partition: topic_partition.clone() }
            }
            None => NamedFile { file: tail.into(), kind: FileKind::Other, topic_partition: None },
        }
    }

    /// What follows the end of a log dir's path, or the whole tail.
    fn below_log_dir<'t>(&self, tail: &'t str) -> &'t str {
        let starts = std::iter::once(0).chain(tail.match_indices('/').map(|(at, _)| at + 1));
        let mut cuts: Vec<usize> = starts.skip(1).collect();
        cuts.reverse();
        cuts.into_iter()
            .find(|&cut| {
                let dir = tail.get(..cut).unwrap_or_default().trim_end_matches('/');
                self.log_dirs.iter().any(|log_dir| log_dir.ends_with(dir))
            })
            .and_then(|cut| tail.get(cut..))
            .unwrap_or(tail)
    }
}

#[cfg(test)]
mod tests {
    use super::{Files, partition_in};
    use model::FileKind;

    #[test]
    fn a_partition_is_read_from_its_directory_in_sysfs() {
        let dir = std::env::temp_dir().join(format!("brokerscope-partition-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        for (name, text) in [("partition", "1\n"), ("dev", "8:1\n"), ("start", "2048\n"), ("size", "1000\n")]
        {
            std::fs::write(dir.join(name), text).unwrap();
        }
        let partition = partition_in(&dir);
        std::fs::remove_dir_all(&dir).unwrap();
        let partition = partition.unwrap();
        assert_eq!(partition.number, (8, 1));
        assert_eq!(partition.sectors, 2048..3048);
    }

    #[test]
    fn a_path_is_named_from_its_log_dir_on() {
        let mut files = Files::new(vec!["/var/lib/kafka/data".into(), "/mnt/d2".into()]);
        for (tail, file, kind, partition) in [
            (
                "data/topicA-0/00000000000000000000.log",
                "topicA-0/00000000000000000000.log",
                FileKind::Log,
                Some("topicA-0"),
            ),
            ("lib/data/elsewhere", "lib/data/elsewhere", FileKind::Other, None),
            (
                "kafka/data/recovery-point-offset-checkpoint",
                "recovery-point-offset-checkpoint",
                FileKind::Checkpoint,
                None,
            ),
            ("var/log/server.log", "var/log/server.log", FileKind::Other, None),
        ] {
            let named = files.name(tail);
            assert_eq!(&*named.file, file);
            assert_eq!(named.topic_partition.map(|p| p.to_string()).as_deref(), partition);
            assert_eq!(named.kind, kind, "{tail}");
        }
    }
}
