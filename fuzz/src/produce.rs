//! Bodies of Produce requests and responses of every version: parsed as a whole and from a stream, which must agree.
//!
//! Input: a byte whose lowest bit selects a response and whose other bits are the version; then the body.

use wire::api::{Number, Values};
use wire::stream::{RequestBody, ResponseBody, TopicRef};
use wire::{ApiKey, Error};

use crate::Target;
use crate::bodies;

/// The target.
pub const TARGET: Target = Target { name: "produce", check, spare_bytes: 4 << 20 };

fn check(data: &[u8]) {
    let Some((&choice, body)) = data.split_first() else { return };
    let max_version = ApiKey::PRODUCE.max_version().expect("Produce is known");
    let version = i16::from(choice >> 1) % (max_version + 2) - 1;
    let is_response = choice & 1 != 0;
    let read = if is_response { read_response } else { read_request };
    let whole = read(body, version);
    if version < 0 {
        assert!(whole.is_err());
        return;
    }
    let streamed = if is_response { stream_response(body, version) } else { stream_request(body, version) };
    match whole {
        Ok(partitions) => {
            assert!(partitions.len() <= body.len());
            assert_eq!(streamed, Some(partitions), "as a whole and from a stream");
            bodies::check_prefixes(body, |bytes| read(bytes, version).map(drop));
        }
        Err(error) => assert_eq!(streamed, None, "as a whole: {error}"),
    }
}

/// A partition's topic and number, and its records' size or its base offset.
type Partition = (TopicRef, i32, i64);

/// The topic and number of a row.
pub(crate) fn topic_and_partition(row: &Values<'_>) -> (TopicRef, i32) {
    let id = || TopicRef::Id(row.topic_id.expect("a topic without a name has an id"));
    let topic = row.topic_name.map_or_else(id, |name| TopicRef::Name(name.to_owned()));
    (topic, row.int(Number::Partition).expect("every row has a partition"))
}

fn read_request(body: &[u8], version: i16) -> Result<Vec<Partition>, Error> {
    let mut partitions = Vec::new();
    ApiKey::PRODUCE.read_request(body, version, |row| {
        let (topic, partition) = topic_and_partition(row);
        partitions.push((topic, partition, row.records.map_or(0, <[u8]>::len) as i64));
    })?;
    Ok(partitions)
}

fn read_response(body: &[u8], version: i16) -> Result<Vec<Partition>, Error> {
    let mut partitions = Vec::new();
    ApiKey::PRODUCE.read_response(body, version, |row| {
        let (topic, partition) = topic_and_partition(row);
        partitions.push((topic, partition, row.number(Number::BaseOffset).expect("every version has it")));
    })?;
    Ok(partitions)
}

/// The partitions, unless the frame has an error.
fn stream_request(body: &[u8], version: i16) -> Option<Vec<Partition>> {
    let frame = bodies::request(ApiKey::PRODUCE, version, body);
    let RequestBody::Produce(produce) = frame.body else { return None };
    if frame.error.is_some() {
        return None;
    }
    Some(produce.partitions.into_iter().map(|p| (p.topic, p.partition, i64::from(p.bytes))).collect())
}

fn stream_response(body: &[u8], version: i16) -> Option<Vec<Partition>> {
    let frame = bodies::response(ApiKey::PRODUCE, version, body, |_| Vec::new());
    let ResponseBody::Produce(partitions) = frame.body else { return None };
    assert_eq!(frame.error, None, "a response is read as a whole");
    Some(partitions.into_iter().map(|p| (p.topic, p.partition, p.base_offset)).collect())
}
