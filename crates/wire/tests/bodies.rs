//! Whole bodies against another implementation of the protocol, and by hand where it has none.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

#[path = "fixtures/kafka.rs"]
mod kafka;

use kafka_protocol::records::Compression;
use wire::Error;
use wire::metadata::MetadataResponse;
use wire::produce::{ProduceRequest, ProduceResponse, Topic};

fn every_prefix_is_an_error(bytes: &[u8], what: &str, parse: impl Fn(&[u8]) -> Result<(), Error>) {
    parse(bytes).unwrap();
    for end in 0..bytes.len() {
        assert!(parse(&bytes[..end]).is_err(), "{what}: {end} of {} bytes were accepted", bytes.len());
    }
    assert!(parse(&[bytes, &[0]].concat()).is_err(), "{what}: a byte too many was accepted");
}

fn parse_request(bytes: &[u8], version: i16) -> Result<(), Error> {
    ProduceRequest::parse(bytes, version)?.partitions().try_for_each(|partition| partition.map(|_| ()))
}

#[test]
fn produce_requests_of_versions_3_to_13() {
    for version in 3..=13 {
        let records = kafka::batch(Compression::None, &["a", "b"], 10);
        let parts = [("topicA", 2, Some(records.clone())), ("topic-é", 0, None)];
        let body = kafka::produce_body(version, &parts);
        let request = ProduceRequest::parse(&body, version).unwrap();
        assert_eq!(request.transactional_id, Some("tx-1"));
        assert_eq!((request.acks, request.timeout_ms), (-1, 1500));
        let partitions: Vec<_> = request.partitions().map(Result::unwrap).collect();
        assert_eq!(partitions.len(), 2);
        for (found, (topic, partition, records)) in partitions.iter().zip(&parts) {
            let topic = if version < 13 { Topic::Name(topic) } else { Topic::Id(kafka::TOPIC_ID) };
            assert_eq!((found.topic, found.partition), (topic, *partition), "v{version}");
            assert_eq!(found.records, records.as_deref(), "v{version}");
        }
        every_prefix_is_an_error(&body, &format!("v{version}"), |bytes| parse_request(bytes, version));
    }
}

#[test]
fn produce_requests_of_versions_0_to_2() {
    let body = kafka::old_produce_body("topicA", 2, b"records");
    for version in 0..=2 {
        let request = ProduceRequest::parse(&body, version).unwrap();
        assert_eq!((request.transactional_id, request.acks, request.timeout_ms), (None, 1, 1000));
        let partitions: Vec<_> = request.partitions().map(Result::unwrap).collect();
        assert_eq!(partitions.len(), 1);
        assert_eq!((partitions[0].topic, partitions[0].partition), (Topic::Name("topicA"), 2));
        assert_eq!(partitions[0].records, Some(&b"records"[..]));
        every_prefix_is_an_error(&body, &format!("v{version}"), |bytes| parse_request(bytes, version));
    }
    for version in [-1, 14, i16::MAX] {
        assert!(ProduceRequest::parse(&body, version).is_err());
        assert!(ProduceResponse::parse(&body, version).is_err());
    }
}

#[test]
fn produce_responses_of_versions_3_to_13() {
    for version in 3..=13 {
        let body = kafka::produce_response_body(version);
        let response = ProduceResponse::parse(&body, version).unwrap();
        assert_eq!(response.throttle_ms, Some(17));
        let partitions: Vec<_> = response.partitions().collect();
        let topic = if version < 13 { Topic::Name("topicA") } else { Topic::Id(kafka::TOPIC_ID) };
        let seen: Vec<_> =
            partitions.iter().map(|p| (p.topic, p.partition, p.error_code, p.base_offset)).collect();
        assert_eq!(seen, [(topic, 2, 0, 1234), (topic, 3, 87, -1)], "v{version}");
        assert_eq!(partitions[1].error_message, (version >= 8).then_some("refused"));
        every_prefix_is_an_error(&body, &format!("v{version}"), |b| {
            ProduceResponse::parse(b, version).map(|_| ())
        });
    }
}

#[test]
fn produce_responses_of_versions_0_to_2() {
    let base = [0, 0, 0, 1, 0, 1, b't', 0, 0, 0, 1, 0, 0, 0, 2, 0, 3, 0, 0, 0, 0, 0, 0, 4, 0xd2];
    for (version, more, throttle, append_time) in [
        (0, &[][..], None, -1),
        (1, &[0, 0, 0, 9], Some(9), -1),
        (2, &[0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 9], Some(9), 7),
    ] {
        let body = [&base[..], more].concat();
        let response = ProduceResponse::parse(&body, version).unwrap();
        assert_eq!(response.throttle_ms, throttle);
        let partitions: Vec<_> = response.partitions().collect();
        assert_eq!(partitions.len(), 1);
        let partition = partitions[0];
        assert_eq!((partition.topic, partition.partition), (Topic::Name("t"), 2));
        assert_eq!((partition.error_code, partition.base_offset), (3, 1234));
        assert_eq!(partition.log_append_time_ms, append_time);
        every_prefix_is_an_error(&body, &format!("v{version}"), |b| {
            ProduceResponse::parse(b, version).map(|_| ())
        });
    }
}

#[test]
fn metadata_responses_of_every_version() {
    for version in 0..=13 {
        let body = kafka::metadata_response_body(version);
        let response = MetadataResponse::parse(&body, version).unwrap();
        assert_eq!(response.controller_id, if version >= 1 { 1 } else { -1 });
        let topics: Vec<_> = response.topics().map(|t| (t.name, t.topic_id, t.partitions)).collect();
        let mut other = [0; 16];
        other[15] = 78;
        let ids = if version >= 10 { [kafka::TOPIC_ID, other] } else { [[0; 16]; 2] };
        assert_eq!(topics, [(Some("topicA"), ids[0], 2), (Some("topicB"), ids[1], 0)], "v{version}");
        every_prefix_is_an_error(&body, &format!("v{version}"), |b| {
            MetadataResponse::parse(b, version).map(|_| ())
        });
    }
    assert!(MetadataResponse::parse(&[], 14).is_err());
}

#[test]
fn a_metadata_topic_without_a_name() {
    // Version 12, flexible: throttle, no brokers, null cluster, controller -1, one topic whose id the broker
    // does not know.
    let mut body = vec![0, 0, 0, 0, 1, 0, 0xff, 0xff, 0xff, 0xff, 2, 0, 100, 0];
    body.extend_from_slice(&kafka::TOPIC_ID);
    body.extend_from_slice(&[0, 1, 0x80, 0, 0, 0, 0, 0]);
    let response = MetadataResponse::parse(&body, 12).unwrap();
    let topics: Vec<_> = response.topics().collect();
    assert_eq!((topics[0].error_code, topics[0].name, topics[0].topic_id), (100, None, kafka::TOPIC_ID));
}
