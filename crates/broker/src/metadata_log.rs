//! Replica counts of partitions, from a broker's copy of the cluster metadata.
//! Every KRaft broker keeps the newest snapshot and the segments of `__cluster_metadata-0`. Reads in steps: each poll
//! resumes where the last one ended and reads a bounded number of bytes. Does not know which of the log's last records
//! are committed.
//!
//! A record's value is a frame version, a type and its version, as unsigned varints, and a message in flexible encoding
//! (`MetadataRecordSerde`, `generator/message/*Record.json` of Apache Kafka 4.2). Fuzzed by: segment.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::TopicPartition;
use wire::reader::Reader;
use wire::{Error as WireError, ErrorKind};

use crate::Segment;
use crate::segment::{Batch, Damage, Reason};

/// The log's directory in a log dir.
const DIRECTORY: &str = "__cluster_metadata-0";
/// Bounds on the topics and partitions in memory.
const MAX_TOPICS: usize = 200_000;
const MAX_PARTITIONS: usize = 100_000;
/// The longest topic name that Kafka allows.
const MAX_NAME_BYTES: usize = 249;
/// Bytes read per poll.
/// The rest of the batch in which the bound is reached does not count.
const MAX_BYTES_PER_POLL: u64 = 64 << 20;

/// Record types.
const TOPIC: u32 = 2;
const PARTITION: u32 = 3;
const PARTITION_CHANGE: u32 = 5;
const REMOVE_TOPIC: u32 = 9;
/// The tag of the replicas in a change of a partition.
const REPLICAS_TAG: u32 = 2;

type TopicKey = [u8; 16];

/// A reader of one broker's metadata log.
#[derive(Debug, Default)]
pub struct MetadataLog {
    place: Option<Place>,
    replicas: Replicas,
}

/// Where reading resumes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    file: PathBuf,
    /// The offset at which a snapshot ends; `None` for a segment.
    snapshot_end: Option<i64>,
    /// Bytes read so far.
    position: u64,
    /// Records before this offset are known already.
    next_offset: i64,
}

impl MetadataLog {
    /// A log that has not been read yet.
    /// With a broker's id, only partitions with a replica on that broker are kept.
    pub fn new(node_id: Option<i32>) -> Self {
        Self { place: None, replicas: Replicas { node_id, ..Replicas::default() } }
    }

    /// Whether any of these log dirs has such a log.
    pub fn is_in(log_dirs: &[PathBuf]) -> bool {
        log_dirs.iter().any(|dir| dir.join(DIRECTORY).is_dir())
    }

    /// Partitions whose replica count is new or has changed since the last poll.
    /// Empty if the broker has no such log or it cannot be read.
    pub fn changes(&mut self, log_dirs: &[PathBuf]) -> Vec<(TopicPartition, u32)> {
        let directory = log_dirs.iter().map(|dir| dir.join(DIRECTORY)).find(|dir| dir.is_dir());
        let Some(directory) = directory else { return Vec::new() };
        let files = Files::list(&directory);
        if self.place.as_ref().is_some_and(|place| !place.is_there(&directory)) {
            // The file was removed or truncated before it was read to its end: start over from the newest snapshot.
            (self.place, self.replicas.topics) = (None, HashMap::new());
        }
        let mut left = MAX_BYTES_PER_POLL;
        while left > 0 {
            let Some(place) = self.place.take().or_else(|| files.begin()) else { break };
            let read = self.read(place, &mut left);
            let next = if left > 0 { files.after(&read) } else { None };
            self.place = Some(read);
            let Some(next) = next else { break };
            self.place = Some(next);
        }
        std::mem::take(&mut self.replicas.changed)
    }

    /// Reads on in a file; returns where it stopped.
    fn read(&mut self, mut place: Place, left: &mut u64) -> Place {
        let Ok(mut segment) = Segment::open(&place.file) else { return place };
        let size = segment.size_bytes();
        let mut scratch = Vec::new();
        for batch in segment.batches_in(place.position, size.saturating_sub(place.position)) {
            let (end, batch) = match batch {
                Ok(batch) => (batch.position + batch.bytes.len() as u64, Some(batch)),
                // The broker may still be writing this batch; do not search for another one inside it.
                Err(Damage { reason: Reason::Truncated { .. }, .. }) => break,
                Err(damage) => (damage.position + damage.bytes, None),
            };
            // Damage that reaches the end of the file may be a batch that is still being written, too.
            if batch.is_none() && end >= size {
                break;
            }
            *left = left.saturating_sub(end - place.position);
            place.position = end;
            if let Some(batch) =
                batch.filter(|batch| batch.crc_ok && batch.last_offset() >= place.next_offset)
            {
                self.replicas.batch(&batch, &mut scratch);
                if place.snapshot_end.is_none() {
                    place.next_offset = batch.last_offset().saturating_add(1);
                }
            }
            if *left == 0 {
                break;
            }
        }
        place
    }
}

impl Place {
    /// Whether the file still exists and still holds everything read so far.
    fn is_there(&self, directory: &Path) -> bool {
        let size = fs::metadata(&self.file).map(|file| file.len());
        self.file.starts_with(directory) && size.is_ok_and(|size| size >= self.position)
    }
}

/// The log's files: segments by their first offset, snapshots by their end offset.
#[derive(Debug, Default)]
struct Files {
    segments: Vec<(i64, PathBuf)>,
    snapshots: Vec<(i64, PathBuf)>,
}

impl Files {
    fn list(directory: &Path) -> Self {
        let mut files = Self::default();
        for (name, _) in foreign::list(directory).into_iter().flatten() {
            let (path, name) = (directory.join(&name), name.to_str().unwrap_or_default());
            let offset = |digits: &str| digits.parse::<i64>().ok().filter(|offset| *offset >= 0);
            // `OFFSET.log`, and `OFFSET-EPOCH.checkpoint` (`Snapshots.java`).
            if let Some(offset) = name.strip_suffix(".log").and_then(offset) {
                files.segments.push((offset, path));
            } else if let Some(offset) =
                name.strip_suffix(".checkpoint").and_then(|name| offset(name.split_once('-')?.0))
            {
                files.snapshots.push((offset, path));
            }
        }
        files.segments.sort_unstable();
        files.snapshots.sort_unstable();
        files
    }

    /// The newest snapshot, or the first segment if there is no snapshot.
    fn begin(&self) -> Option<Place> {
        if let Some((end, file)) = self.snapshots.last() {
            return Some(Place { file: file.clone(), snapshot_end: Some(*end), position: 0, next_offset: 0 });
        }
        self.segments.first().map(|(first, file)| Place::of_segment(file, *first))
    }

    /// Where the log continues: after a snapshot, in the segment that holds the snapshot's end; after a segment, in the
    /// next segment, if there is one.
    fn after(&self, place: &Place) -> Option<Place> {
        if let Some(end) = place.snapshot_end {
            let has_end = self.segments.iter().rev().find(|(first, _)| *first <= end);
            return has_end.map(|(_, file)| Place::of_segment(file, end));
        }
        let (_, current) = self.segments.iter().find(|(_, file)| *file == place.file)?;
        let (first, file) = self.segments.iter().find(|(_, file)| file > current)?;
        Some(Place::of_segment(file, place.next_offset.max(*first)))
    }
}

impl Place {
    fn of_segment(file: &Path, next_offset: i64) -> Self {
        Self { file: file.to_owned(), snapshot_end: None, position: 0, next_offset }
    }
}

/// Topics and partitions, as the records read so far describe them.
#[derive(Debug, Default)]
struct Replicas {
    node_id: Option<i32>,
    topics: HashMap<TopicKey, Arc<str>>,
    partitions: HashMap<TopicPartition, u32>,
    changed: Vec<(TopicPartition, u32)>,
}

impl Replicas {
    fn batch(&mut self, batch: &Batch, scratch: &mut Vec<u8>) {
        if batch.header.is_control() {
            return;
        }
        let Ok(records) = batch.records(scratch) else { return };
        for record in records {
            let Ok(record) = record else { return };
            // Another version may lay a record out differently: records that cannot be read are ignored.
            let _ = record.value.map_or(Ok(()), |value| self.record(value));
        }
    }

    fn record(&mut self, value: &[u8]) -> Result<(), WireError> {
        let mut reader = Reader::new(value);
        let frame = reader.uvarint()?;
        let (kind, _version) = (reader.uvarint()?, reader.uvarint()?);
        match kind {
            _ if frame != 1 => {}
            TOPIC => {
                let name = reader.string(true)?;
                self.topic(reader.uuid()?, name);
            }
            PARTITION => {
                let (partition, topic) = (reader.i32()?, reader.uuid()?);
                let replicas = replicas(&mut reader, self.node_id)?;
                self.partition(topic, partition, replicas);
            }
            PARTITION_CHANGE => {
                let (partition, topic) = (reader.i32()?, reader.uuid()?);
                if let Some(replicas) = changed_replicas(&mut reader, self.node_id)? {
                    self.partition(topic, partition, replicas);
                }
            }
            REMOVE_TOPIC => {
                let topic = self.topics.remove(&reader.uuid()?);
                self.partitions.retain(|partition, _| Some(&partition.topic) != topic.as_ref());
            }
            _ => {}
        }
        Ok(())
    }

    fn topic(&mut self, id: TopicKey, name: &str) {
        if self.topics.len() < MAX_TOPICS && name.len() <= MAX_NAME_BYTES {
            self.topics.insert(id, name.into());
        }
    }

    fn partition(&mut self, topic: TopicKey, partition: i32, (replicas, is_ours): (u32, bool)) {
        let Some(topic) = self.topics.get(&topic) else { return };
        let key = TopicPartition { topic: Arc::clone(topic), partition };
        let is_full = self.partitions.len() >= MAX_PARTITIONS && !self.partitions.contains_key(&key);
        if !is_ours || is_full {
            return;
        }
        if self.partitions.insert(key.clone(), replicas) != Some(replicas) {
            self.changed.push((key, replicas));
        }
    }
}

/// Length of a list of replicas, and whether this broker is one of them.
fn replicas(reader: &mut Reader<'_>, node_id: Option<i32>) -> Result<(u32, bool), WireError> {
    let count = reader.array_length(true)?;
    let mut is_ours = node_id.is_none();
    for _ in 0..count {
        is_ours |= Some(reader.i32()?) == node_id;
    }
    Ok((count, is_ours))
}

/// The replicas in a change's tagged fields; `None` if the change leaves them as they are.
fn changed_replicas(reader: &mut Reader<'_>, node_id: Option<i32>) -> Result<Option<(u32, bool)>, WireError> {
    for _ in 0..reader.uvarint()? {
        let (tag, size) = (reader.uvarint()?, reader.uvarint()?);
        let size = usize::try_from(size).map_err(|_| reader.error(ErrorKind::BadValue))?;
        let field = reader.take(size)?;
        // Null, encoded as 0, means the same as an absent field.
        if tag == REPLICAS_TAG && field.first().is_some_and(|length| *length != 0) {
            return replicas(&mut Reader::new(field), node_id).map(Some);
        }
    }
    Ok(None)
}
