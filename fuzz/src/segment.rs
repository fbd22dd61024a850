//! Files that a broker's user may put into a log dir: segments, the cluster's metadata log, topic ids.
//!
//! Input: a selector byte (0 a segment, 1 records of the metadata log, 2 a partition's metadata). For a segment, two
//! bytes with the start of a part; for the log, values, each preceded by its length in a byte; then the rest.

use broker::metadata_log::MetadataLog;
use broker::segment::{Batch, Damage};
use broker::{Segment, topic_ids};
use model::{TopicId, TopicPartition};
use wire::BatchHeader;

use crate::{Target, files};

/// The target. The window for reading a segment takes 256 KiB.
pub const TARGET: Target = Target { name: "segment", check, spare_bytes: 2 << 20 };

const LOG: &str = "__cluster_metadata-0/00000000000000000000.log";
const RECORDS_OF_A_BATCH: usize = 3;
/// Kafka's longest topic name.
const MAX_NAME_BYTES: usize = 249;

fn check(data: &[u8]) {
    match data {
        [0, high, low, segment @ ..] => check_segment(segment, u16::from_be_bytes([*high, *low]).into()),
        [1, records @ ..] => check_metadata_log(&metadata_log(records)),
        [2, text @ ..] => check_topic_id(text),
        _ => {}
    }
}

/// Checks that batches and damage follow each other without a gap. They go up to the zeros at the end. A part must
/// start where it should.
fn check_segment(bytes: &[u8], from: u64) {
    let directory = files::directory();
    let path = files::write(&directory, "00000000000000000000.log", bytes);
    let mut segment = Segment::open(&path).expect("it is a file");
    assert_eq!(segment.size_bytes(), bytes.len() as u64);
    let all: Vec<_> = segment.batches().collect();
    let end = check_items(&all, bytes, 0);
    assert!(bytes[end..].iter().all(|byte| *byte == 0), "bytes from {end} on are neither a batch nor damage");
    let from = from.min(bytes.len() as u64);
    let part: Vec<_> = segment.batches_in(from, 64).collect();
    check_items(&part, bytes, from as usize);
    for batch in all.iter().chain(&part).flatten() {
        assert_eq!(segment.head_at(batch.position, u64::MAX), batch.crc_ok.then_some(batch.header));
    }
    for item in part {
        let begins = item.map_or_else(|damage| damage.position, |batch| batch.position);
        assert!((from..from + 64).contains(&begins), "{begins} is not in the part from {from} on");
    }
}

/// Checks the items; returns the end of the last one.
fn check_items(items: &[Result<Batch, Damage>], bytes: &[u8], from: usize) -> usize {
    let (mut at, mut was_damaged) = (from, false);
    for item in items {
        let (position, length) = match item {
            Ok(batch) => {
                assert_eq!(BatchHeader::parse(&bytes[at..]), Ok(batch.header));
                assert!(bytes[at..].starts_with(&batch.bytes), "other bytes than there are at {at}");
                assert_eq!(batch.crc_ok, batch.header.crc_ok(&batch.bytes));
                assert!(batch.crc_ok || !was_damaged, "the batch that was found at {at} is damaged");
                (batch.position, batch.bytes.len())
            }
            Err(damage) => (damage.position, damage.bytes as usize),
        };
        assert_eq!(position, at as u64);
        assert!(length > 0, "nothing at {at}");
        (at, was_damaged) = (at + length, item.is_err());
    }
    at
}

/// Checks that the changes do not depend on the log's length at each poll.
fn check_metadata_log(log: &[u8]) {
    let directory = files::directory();
    let log_dirs = [directory.path().to_owned()];
    for node_id in [None, Some(1)] {
        let mut followed = MetadataLog::new(node_id);
        let mut changes: Vec<(TopicPartition, u32)> = Vec::new();
        for end in [log.len() / 3, log.len() / 3 * 2, log.len()] {
            files::write(&directory, LOG, &log[..end]);
            changes.extend(followed.changes(&log_dirs));
        }
        assert_eq!(changes, MetadataLog::new(node_id).changes(&log_dirs));
        assert!(followed.changes(&log_dirs).is_empty(), "something changed without a record");
        assert!(changes.iter().all(|(partition, _)| partition.topic.len() <= MAX_NAME_BYTES));
    }
}

/// Batches of records with these values and correct CRCs.
fn metadata_log(mut values: &[u8]) -> Vec<u8> {
    let mut records = Vec::new();
    while let Some((&length, rest)) = values.split_first() {
        let (value, rest) = rest.split_at(rest.len().min(length.into()));
        records.push(value);
        values = rest;
    }
    let batches = records.chunks(RECORDS_OF_A_BATCH).enumerate();
    batches.flat_map(|(nth, records)| batch((nth * RECORDS_OF_A_BATCH) as i64, records)).collect()
}

/// A batch of magic 2, as a broker writes it.
fn batch(base_offset: i64, values: &[&[u8]]) -> Vec<u8> {
    let count = values.len() as i32;
    let mut body =
        [&[0, 0][..], &(count - 1).to_be_bytes(), &[0; 16], &[0xff; 14], &count.to_be_bytes()].concat();
    for (nth, value) in values.iter().enumerate() {
        // Attributes, time, offset, no key, value, no headers.
        let record = [&[0, 0][..], &varint(nth), &[1], &varint(value.len()), value, &[0]].concat();
        body.extend([varint(record.len()), record].concat());
    }
    let head =
        [&base_offset.to_be_bytes()[..], &(body.len() as i32 + 9).to_be_bytes(), &[0, 0, 0, 0, 2]].concat();
    [head, crc32c::crc32c(&body).to_be_bytes().to_vec(), body].concat()
}

/// A zigzag varint of one or two bytes.
fn varint(length: usize) -> Vec<u8> {
    match length * 2 {
        short @ 0..0x80 => vec![short as u8],
        long => vec![long as u8 | 0x80, (long >> 7) as u8],
    }
}

/// Checks that a partition has one topic, with an id that is not zero.
fn check_topic_id(text: &[u8]) {
    let directory = files::directory();
    files::write(&directory, "topic-0/partition.metadata", text);
    let ids = topic_ids::scan(&[directory.path().to_owned()]);
    assert!(
        ids.len() <= 1 && ids.iter().all(|(id, name)| *id != TopicId::ZERO && &**name == "topic"),
        "{ids:?}"
    );
}
