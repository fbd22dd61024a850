//! Whole bodies, compared with another implementation of the protocol. Written by hand where that has none.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

#[path = "fixtures/kafka.rs"]
mod kafka;

use kafka_protocol::records::Compression;
use wire::api::{Number, Values};
use wire::{ApiKey, Error};

fn every_prefix_is_an_error(bytes: &[u8], what: &str, parse: impl Fn(&[u8]) -> Result<(), Error>) {
    parse(bytes).unwrap();
    for end in 0..bytes.len() {
        assert!(parse(&bytes[..end]).is_err(), "{what}: {end} of {} bytes were accepted", bytes.len());
    }
    assert!(parse(&[bytes, &[0]].concat()).is_err(), "{what}: a byte too many was accepted");
}

/// The values of a whole body, and those at the end of each row.
type Body<'a> = (Values<'a>, Vec<Values<'a>>);

fn request(api_key: ApiKey, bytes: &[u8], version: i16) -> Result<Body<'_>, Error> {
    let mut rows = Vec::new();
    Ok((api_key.read_request(bytes, version, |row| rows.push(*row))?, rows))
}

fn response(api_key: ApiKey, bytes: &[u8], version: i16) -> Result<Body<'_>, Error> {
    let mut rows = Vec::new();
    Ok((api_key.read_response(bytes, version, |row| rows.push(*row))?, rows))
}

fn topic(version: i16, name: &str) -> (Option<&str>, Option<[u8; 16]>) {
    if version < 13 { (Some(name), None) } else { (None, Some(kafka::TOPIC_ID)) }
}

#[test]
fn reads_produce_requests_of_versions_3_to_13() {
    for version in 3..=13 {
        let records = kafka::batch(Compression::None, &["a", "b"], 10);
        let parts = [("topicA", 2, Some(records.clone())), ("topic-é", 0, None)];
        let body = kafka::produce_body(version, &parts);
        let (values, partitions) = request(ApiKey::PRODUCE, &body, version).unwrap();
        assert_eq!(values.transactional_id(), Some("tx-1"));
        assert_eq!((values.int(Number::Acks), values.int(Number::TimeoutMs)), (Some(-1), Some(1500)));
        assert_eq!(partitions.len(), 2);
        for (found, (name, partition, records)) in partitions.iter().zip(&parts) {
            assert_eq!((found.topic_name, found.topic_id), topic(version, name), "v{version}");
            assert_eq!(found.int(Number::Partition), Some(*partition), "v{version}");
            assert_eq!(found.records, records.as_deref(), "v{version}");
        }
        every_prefix_is_an_error(&body, &format!("v{version}"), |bytes| {
            request(ApiKey::PRODUCE, bytes, version).map(|_| ())
        });
    }
}

#[test]
fn reads_produce_requests_of_versions_0_to_2() {
    let body = kafka::old_produce_body("topicA", 2, b"records");
    for version in 0..=2 {
        let (values, partitions) = request(ApiKey::PRODUCE, &body, version).unwrap();
        assert_eq!(values.transactional_id(), None);
        assert_eq!((values.int(Number::Acks), values.int(Number::TimeoutMs)), (Some(1), Some(1000)));
        assert_eq!(partitions.len(), 1);
        let partition = partitions[0].int(Number::Partition);
        assert_eq!((partitions[0].topic_name, partition), (Some("topicA"), Some(2)));
        assert_eq!(partitions[0].records, Some(&b"records"[..]));
        every_prefix_is_an_error(&body, &format!("v{version}"), |bytes| {
            request(ApiKey::PRODUCE, bytes, version).map(|_| ())
        });
    }
    for version in [-1, 14, i16::MAX] {
        assert!(request(ApiKey::PRODUCE, &body, version).is_err());
        assert!(response(ApiKey::PRODUCE, &body, version).is_err());
    }
}

#[test]
fn reads_produce_responses_of_versions_3_to_13() {
    for version in 3..=13 {
        let body = kafka::produce_response_body(version);
        let (values, partitions) = response(ApiKey::PRODUCE, &body, version).unwrap();
        assert_eq!(values.int(Number::ThrottleMs), Some(17));
        let seen: Vec<_> = partitions
            .iter()
            .map(|p| {
                let numbers = [Number::Partition, Number::PartitionError, Number::BaseOffset];
                ((p.topic_name, p.topic_id), numbers.map(|number| p.number(number).unwrap()))
            })
            .collect();
        let topic = topic(version, "topicA");
        assert_eq!(seen, [(topic, [2, 0, 1234]), (topic, [3, 87, -1])], "v{version}");
        every_prefix_is_an_error(&body, &format!("v{version}"), |b| {
            response(ApiKey::PRODUCE, b, version).map(|_| ())
        });
    }
}

#[test]
fn reads_produce_responses_of_versions_0_to_2() {
    let base = [0, 0, 0, 1, 0, 1, b't', 0, 0, 0, 1, 0, 0, 0, 2, 0, 3, 0, 0, 0, 0, 0, 0, 4, 0xd2];
    for (version, more, throttle, append_time) in [
        (0, &[][..], None, None),
        (1, &[0, 0, 0, 9], Some(9), None),
        (2, &[0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 9], Some(9), Some(7)),
    ] {
        let body = [&base[..], more].concat();
        let (values, partitions) = response(ApiKey::PRODUCE, &body, version).unwrap();
        assert_eq!(values.int(Number::ThrottleMs), throttle);
        assert_eq!(partitions.len(), 1);
        let partition = partitions[0];
        assert_eq!((partition.topic_name, partition.int(Number::Partition)), (Some("t"), Some(2)));
        assert_eq!(partition.short(Number::PartitionError), Some(3));
        assert_eq!(partition.number(Number::BaseOffset), Some(1234));
        assert_eq!(partition.number(Number::LogAppendTimeMs), append_time);
        every_prefix_is_an_error(&body, &format!("v{version}"), |b| {
            response(ApiKey::PRODUCE, b, version).map(|_| ())
        });
    }
}

#[test]
fn reads_metadata_responses_of_every_version() {
    for version in 0..=13 {
        let body = kafka::metadata_response_body(version);
        let (_, rows) = response(ApiKey::METADATA, &body, version).unwrap();
        let (partitions, topics): (Vec<Values<'_>>, Vec<Values<'_>>) =
            rows.iter().partition(|row| row.replicas.is_some());
        let partitions: Vec<_> = partitions.iter().map(|p| (p.topic_name, p.replicas)).collect();
        assert_eq!(partitions, [(Some("topicA"), Some(2)); 2], "v{version}");
        let topics: Vec<_> = topics.iter().map(|t| (t.topic_name, t.topic_id)).collect();
        let mut other = [0; 16];
        other[15] = 78;
        let ids = if version >= 10 { [Some(kafka::TOPIC_ID), Some(other)] } else { [None; 2] };
        assert_eq!(topics, [(Some("topicA"), ids[0]), (Some("topicB"), ids[1])], "v{version}");
        every_prefix_is_an_error(&body, &format!("v{version}"), |b| {
            response(ApiKey::METADATA, b, version).map(|_| ())
        });
    }
    assert!(response(ApiKey::METADATA, &[], 14).is_err());
}

#[test]
fn reads_a_metadata_topic_without_a_name() {
    // Version 12, flexible: throttle, no brokers, null cluster, controller -1, one topic with an id that the broker
    // does not know.
    let mut body = vec![0, 0, 0, 0, 1, 0, 0xff, 0xff, 0xff, 0xff, 2, 0, 100, 0];
    body.extend_from_slice(&kafka::TOPIC_ID);
    body.extend_from_slice(&[0, 1, 0x80, 0, 0, 0, 0, 0]);
    let (_, topics) = response(ApiKey::METADATA, &body, 12).unwrap();
    let topic = topics[0];
    assert_eq!(topic.short(Number::PartitionError), Some(100));
    assert_eq!((topic.topic_name, topic.topic_id), (None, Some(kafka::TOPIC_ID)));
}
