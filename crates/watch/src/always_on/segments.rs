//! Finds partition files by device and inode, and reads written batches back.
//! The kernel records the device and inode. Only touches files that are looked up, which happens only for slow
//! requests.
//! Not fuzzed: segments are read by `broker`.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ahash::RandomState;
use broker::Segment;
use model::{BatchHead, FileKind, TopicPartition};

use crate::kernel::head_of;
use crate::mounts::{DeviceNumber, number};

/// Shortest time between two scans of the log dirs for an unknown file.
pub(super) const SCAN_INTERVAL: Duration = Duration::from_secs(1);
/// Minimum of bytes to read for a batch, even if less of its write was observed.
const MIN_READ_BYTES: u64 = 4 << 20;
/// Limit of files in memory.
const MAX_FILES: usize = 1 << 20;

/// The files of the partitions in a broker's log dirs.
pub(super) struct Segments {
    log_dirs: Vec<PathBuf>,
    files: HashMap<(DeviceNumber, u64), PartitionFile, RandomState>,
    scanned: Option<Instant>,
}

/// A partition's file: a segment, an index, a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PartitionFile {
    path: PathBuf,
    /// Path relative to its log dir.
    pub(super) name: Arc<str>,
    pub(super) kind: FileKind,
    pub(super) topic_partition: TopicPartition,
    /// Generation of the inode, which differs between files that had it.
    /// `None` until it is needed, and if the file system does not report it.
    generation: Option<u32>,
}

impl Segments {
    pub(super) fn new(log_dirs: &[PathBuf]) -> Self {
        Self { log_dirs: log_dirs.to_vec(), files: HashMap::default(), scanned: None }
    }

    /// Returns the file that has this inode now; with a generation, only if the inode was not reused since.
    pub(super) fn find(
        &mut self,
        device: DeviceNumber,
        inode: u64,
        generation: Option<u32>,
    ) -> Option<&PartitionFile> {
        let key = (device, inode);
        if !self.files.get(&key).is_some_and(|file| is_same(&file.path, key)) {
            self.files.remove(&key);
            self.scan();
        }
        let file = self.files.get_mut(&key)?;
        file.is_of(generation).then_some(&*file)
    }

    /// Scans the log dirs again, unless that was done a moment ago.
    fn scan(&mut self) {
        if self.scanned.is_some_and(|scanned| scanned.elapsed() < SCAN_INTERVAL) {
            return;
        }
        self.files.clear();
        for log_dir in &self.log_dirs {
            for directory in entries(log_dir) {
                let Some(name) = directory.file_name().and_then(|name| name.to_str()) else { continue };
                let Some(topic_partition) = broker::path::partition_of(name) else { continue };
                for path in entries(&directory) {
                    if self.files.len() < MAX_FILES
                        && let Some((key, file)) = partition_file(path, name, &topic_partition)
                    {
                        self.files.insert(key, file);
                    }
                }
            }
        }
        self.scanned = Some(Instant::now());
    }
}

impl PartitionFile {
    fn is_of(&mut self, generation: Option<u32>) -> bool {
        if generation.is_none() || self.generation == generation {
            return true;
        }
        // Not read yet, or from an earlier file at this path.
        let file = foreign::open(&self.path);
        self.generation = file.and_then(|file| probes::always_on::generation(&file)).ok();
        self.generation.is_none() || self.generation == generation
    }

    /// Reads the head of the batch at a write's position.
    /// `None` unless the batch is complete and its CRC matches.
    pub(super) fn batch_at(&self, position: u64, bytes: u64) -> Option<BatchHead> {
        let mut segment = Segment::open(&self.path).ok()?;
        segment.head_at(position, bytes.max(MIN_READ_BYTES)).map(|header| head_of(&header))
    }
}

/// The entries of a directory; none if it cannot be read.
fn entries(directory: &Path) -> impl Iterator<Item = PathBuf> {
    foreign::list(directory).into_iter().flatten().map(|(name, _)| directory.join(name))
}

/// A file in a partition's directory, with its device and inode.
fn partition_file(
    path: PathBuf,
    directory: &str,
    topic_partition: &TopicPartition,
) -> Option<((DeviceNumber, u64), PartitionFile)> {
    let name = format!("{directory}/{}", path.file_name()?.to_str()?);
    let found = fs::symlink_metadata(&path).ok().filter(fs::Metadata::is_file)?;
    let kind = broker::path::classify(&name).0;
    let topic_partition = topic_partition.clone();
    let file = PartitionFile { path, name: name.into(), kind, topic_partition, generation: None };
    Some(((number(found.dev()), found.ino()), file))
}

/// Whether the file at a path has this device and inode.
fn is_same(path: &Path, (device, inode): (DeviceNumber, u64)) -> bool {
    fs::symlink_metadata(path)
        .is_ok_and(|found| found.is_file() && found.ino() == inode && number(found.dev()) == device)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::unix::fs::MetadataExt as _;

    use super::{Segments, number};

    /// A batch of one record, as a broker writes it.
    fn batch(base_offset: i64) -> Vec<u8> {
        let mut bytes = base_offset.to_be_bytes().to_vec();
        let body: &[&[u8]] = &[
            &0_i16.to_be_bytes(),
            &0_i32.to_be_bytes(),
            &[0; 16],
            &(-1_i64).to_be_bytes(),
            &(-1_i16).to_be_bytes(),
            &(-1_i32).to_be_bytes(),
            &1_i32.to_be_bytes(),
            &[14, 0, 0, 0, 1, 2, b'v', 0],
        ];
        let body = body.concat();
        bytes.extend((body.len() as i32 + 9).to_be_bytes());
        bytes.extend(0_i32.to_be_bytes());
        bytes.push(2);
        bytes.extend(crc32c(&body).to_be_bytes());
        bytes.extend(body);
        bytes
    }

    /// CRC-32C, bit by bit.
    fn crc32c(bytes: &[u8]) -> u32 {
        !bytes.iter().fold(!0, |crc, byte| {
            (0..8)
                .fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0x82f6_3b78 & (crc & 1).wrapping_neg()))
        })
    }

    #[test]
    fn reads_a_batch_by_inode_and_position_if_its_crc_matches() {
        let dir = tempfile::tempdir().unwrap();
        let partition = dir.path().join("topic-3");
        fs::create_dir(&partition).unwrap();
        let path = partition.join("00000000000000000000.log");
        let (first, second) = (batch(7), batch(8));
        fs::write(&path, [first.clone(), second.clone()].concat()).unwrap();
        let found = fs::metadata(&path).unwrap();
        let mut segments = Segments::new(&[dir.path().to_owned()]);
        let segment = segments.find(number(found.dev()), found.ino(), None).unwrap().clone();
        assert_eq!(
            (&*segment.name, segment.topic_partition.partition),
            ("topic-3/00000000000000000000.log", 3)
        );
        if let Ok(generation) = probes::always_on::generation(&File::open(&path).unwrap()) {
            let find = |segments: &mut Segments, generation| {
                segments.find(number(found.dev()), found.ino(), Some(generation)).is_some()
            };
            assert!(!find(&mut segments, generation ^ 1), "another file had the inode before");
            assert!(find(&mut segments, generation));
        }
        let head = segment.batch_at(first.len() as u64, second.len() as u64).unwrap();
        assert_eq!((head.base_offset, head.records), (8, 1));
        assert_eq!(segment.batch_at(1, 60), None, "no batch begins there");
        let mut damaged = first;
        *damaged.last_mut().unwrap() ^= 1;
        fs::write(&path, damaged).unwrap();
        assert_eq!(segment.batch_at(0, 60), None, "its CRC is wrong");
        fs::remove_file(&path).unwrap();
        assert_eq!(segments.find(number(found.dev()), found.ino(), None), None, "it is gone");
    }
}
