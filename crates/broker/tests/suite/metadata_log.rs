//! The metadata log of a KRaft broker.
//! It is built record by record after Kafka's schemas, and read while it grows.

use std::fs;
use std::path::{Path, PathBuf};

use broker::metadata_log::MetadataLog;
use proptest::prelude::*;

use crate::segments::made_batch;

const ORDERS: [u8; 16] = [7; 16];
const CLICKS: [u8; 16] = [9; 16];

fn uvarint(mut value: u64, to: &mut Vec<u8>) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

fn varint(value: i64, to: &mut Vec<u8>) {
    uvarint(((value << 1) ^ (value >> 63)) as u64, to);
}

/// A message's value: frame version, type, version.
fn value(kind: u8, version: u8, body: &[&[u8]]) -> Vec<u8> {
    [&[1, kind, version][..], &body.concat()].concat()
}

fn ids(replicas: &[i32]) -> Vec<u8> {
    let mut bytes = vec![replicas.len() as u8 + 1];
    bytes.extend(replicas.iter().flat_map(|id| id.to_be_bytes()));
    bytes
}

/// `TopicRecord.json`: name, id.
fn topic(name: &str, id: [u8; 16]) -> Vec<u8> {
    value(2, 0, &[&[name.len() as u8 + 1], name.as_bytes(), &id, &[0]])
}

/// `PartitionRecord.json`: partition, topic, replicas, in-sync, removing, adding, leader, epochs.
fn partition(topic: [u8; 16], number: i32, replicas: &[i32]) -> Vec<u8> {
    let (number, replicas) = (number.to_be_bytes(), ids(replicas));
    value(3, 1, &[&number, &topic, &replicas, &replicas, &[1, 1], &[0; 12], &[0]])
}

/// `PartitionChangeRecord.json`: partition, topic; tagged: in-sync 0, leader 1, replicas 2.
fn change(topic: [u8; 16], number: i32, replicas: Option<&[i32]>) -> Vec<u8> {
    let mut tagged = vec![2, 1, 4, 0, 0, 0, 1];
    let list = replicas.map_or(vec![0], ids);
    tagged.extend([2, list.len() as u8]);
    tagged.extend(list);
    value(5, 1, &[&number.to_be_bytes(), &topic, &tagged])
}

fn remove(topic: [u8; 16]) -> Vec<u8> {
    value(9, 0, &[&topic, &[0]])
}

/// A batch of magic 2 with these values.
fn batch(base_offset: i64, attributes: i16, values: &[Vec<u8>]) -> Vec<u8> {
    let mut records = Vec::new();
    for (number, value) in values.iter().enumerate() {
        let mut body = vec![0, 0];
        varint(number as i64, &mut body);
        varint(-1, &mut body);
        varint(value.len() as i64, &mut body);
        body.extend(value);
        varint(0, &mut body);
        varint(body.len() as i64, &mut records);
        records.extend(body);
    }
    made_batch(base_offset, attributes, 0, values.len() as i32, &records)
}

struct Log {
    dir: tempfile::TempDir,
}

impl Log {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("__cluster_metadata-0")).unwrap();
        Self { dir }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join("__cluster_metadata-0").join(name)
    }

    fn append(&self, name: &str, bytes: &[u8]) {
        let mut file = fs::read(self.file(name)).unwrap_or_default();
        file.extend(bytes);
        fs::write(self.file(name), file).unwrap();
    }

    fn changes(&self, log: &mut MetadataLog) -> Vec<(String, u32)> {
        let dirs = [self.dir.path().join("absent"), self.dir.path().to_owned()];
        let changes = log.changes(&dirs).into_iter();
        changes.map(|(partition, replicas)| (partition.to_string(), replicas)).collect()
    }
}

fn known(partition: &str, replicas: u32) -> (String, u32) {
    (partition.to_owned(), replicas)
}

const FIRST: &str = "00000000000000000000.log";

#[test]
fn reads_replica_counts_of_a_growing_log() {
    let (files, mut log) = (Log::new(), MetadataLog::new(Some(1)));
    assert_eq!(files.changes(&mut log), []);
    let elsewhere = partition(ORDERS, 2, &[2, 3]);
    files.append(FIRST, &batch(0, 0x20, &[vec![0, 0, 0, 0]]));
    files.append(FIRST, &batch(1, 0, &[topic("orders", ORDERS), partition(ORDERS, 0, &[1]), elsewhere]));
    let next = batch(4, 0, &[partition(ORDERS, 1, &[2, 1, 3]), value(99, 0, &[&[1, 2, 3]])]);
    files.append(FIRST, &next[..next.len() - 3]);
    assert_eq!(files.changes(&mut log), [known("orders-0", 1)]);
    assert_eq!(files.changes(&mut log), [], "what is being written is read when it is whole");
    files.append(FIRST, &next[next.len() - 3..]);
    assert_eq!(files.changes(&mut log), [known("orders-1", 3)]);
    // In the next segment, leaders and in-sync replicas change but replicas do not; later they do.
    let second = "00000000000000000006.log";
    files.append(second, &batch(6, 0, &[change(ORDERS, 1, None), change(ORDERS, 0, Some(&[1, 2]))]));
    assert_eq!(files.changes(&mut log), [known("orders-0", 2)]);
    files
        .append(second, &batch(8, 0, &[remove(ORDERS), topic("orders", CLICKS), partition(CLICKS, 0, &[1])]));
    assert_eq!(files.changes(&mut log), [known("orders-0", 1)]);
    assert_eq!(files.changes(&mut log), []);
}

/// The log is read whole in the end, wherever the first poll found it cut. A record's value contains bytes that look
/// like a batch with a far later offset.
#[test]
fn reads_a_partly_written_batch_once_it_is_complete() {
    let first = batch(0, 0, &[topic("orders", ORDERS), partition(ORDERS, 0, &[1])]);
    let within = batch(1 << 60, 0, &[partition(ORDERS, 0, &[4, 5, 6])]);
    let next = batch(2, 0, &[value(99, 0, &[&within]), partition(ORDERS, 1, &[2, 1, 3])]);
    for cut in 0..next.len() {
        let (files, mut log) = (Log::new(), MetadataLog::new(None));
        files.append(FIRST, &first);
        files.append(FIRST, &next[..cut]);
        assert_eq!(files.changes(&mut log), [known("orders-0", 1)], "cut behind {cut} bytes");
        files.append(FIRST, &next[cut..]);
        assert_eq!(files.changes(&mut log), [known("orders-1", 3)], "cut behind {cut} bytes");
    }
}

#[test]
fn snapshot_replaces_earlier_segments() {
    let (files, mut log) = (Log::new(), MetadataLog::new(None));
    files.append("00000000000000000009-0000000001.checkpoint", &batch(0, 0, &[topic("old", ORDERS)]));
    let snapshot = [topic("orders", ORDERS), partition(ORDERS, 0, &[1, 2])];
    files.append("00000000000000000020-0000000002.checkpoint", &batch(0, 0, &snapshot));
    files.append("00000000000000000031-0000000002.checkpoint.part", b"not whole");
    // The segment that holds the snapshot's end begins before it.
    files.append("00000000000000000010.log", &batch(10, 0, &vec![change(ORDERS, 0, Some(&[1])); 10]));
    files.append("00000000000000000010.log", &batch(20, 0, &[partition(ORDERS, 1, &[3])]));
    assert_eq!(files.changes(&mut log), [known("orders-0", 2), known("orders-1", 1)]);
    // Newer snapshots replace segments: then everything is read again, and only changes are returned.
    fs::remove_file(files.file("00000000000000000010.log")).unwrap();
    let snapshot = [topic("orders", ORDERS), partition(ORDERS, 0, &[1, 2]), partition(ORDERS, 1, &[3, 4])];
    files.append("00000000000000000040-0000000002.checkpoint", &batch(0, 0, &snapshot));
    files.append("00000000000000000040.log", &batch(40, 0, &[partition(ORDERS, 2, &[4])]));
    assert_eq!(files.changes(&mut log), [known("orders-1", 2), known("orders-2", 1)]);
}

#[test]
fn skips_a_damaged_batch_in_the_middle() {
    let (files, mut log) = (Log::new(), MetadataLog::new(None));
    let mut first = batch(0, 0, &[topic("orders", ORDERS), partition(ORDERS, 0, &[1])]);
    files.append(FIRST, &first);
    first[70] ^= 0x55;
    files.append(FIRST, &first);
    files.append(FIRST, &batch(4, 0, &[partition(ORDERS, 1, &[1, 2])]));
    assert_eq!(files.changes(&mut log), [known("orders-0", 1), known("orders-1", 2)]);
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300), kind in 0u8..12) {
        let (files, mut log) = (Log::new(), MetadataLog::new(Some(1)));
        files.append(FIRST, &batch(0, 0, &[topic("orders", ORDERS), value(kind, 0, &[&bytes]), bytes.clone()]));
        files.append(FIRST, &bytes);
        files.append("00000000000000000000-0000000000.checkpoint", &bytes);
        files.changes(&mut log);
        files.changes(&mut log);
        prop_assert!(Path::new(&files.file(FIRST)).exists());
    }
}
