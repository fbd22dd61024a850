//! Answers to share groups (KIP-932), in pieces of any size. Compared with another implementation of the protocol.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

#[path = "fixtures/kafka.rs"]
mod kafka;

use kafka_protocol::messages::{ShareAcknowledgeResponse, ShareFetchResponse};
use kafka_protocol::messages::{share_acknowledge_response, share_fetch_response};
use kafka_protocol::protocol::{Encodable, StrBytes};
use wire::ApiKey;
use wire::stream::{Options, ResponseBody, ResponseFrame, ResponseStream, Start, TopicRef};

const TOPIC_ID: &str = "09090909-0909-0909-0909-090909090909";

fn encoded(body: &impl Encodable) -> Vec<u8> {
    let mut bytes = Vec::new();
    body.encode(&mut bytes, 1).unwrap();
    bytes
}

/// The decoded frame of such an answer, fed in pieces of this size.
fn read(api_key: ApiKey, version: i16, frame: &[u8], pieces: usize) -> ResponseFrame<u32> {
    let mut stream = ResponseStream::new(Options::default(), Start::Boundary);
    let mut seen = None;
    for mut rest in frame.chunks(pieces) {
        while !rest.is_empty() {
            let (used, frame) = stream.advance(rest, 0, &mut |_| Some((api_key, version)));
            seen = frame.cloned().or(seen);
            rest = &rest[used..];
        }
    }
    seen.unwrap()
}

fn fetched() -> Vec<u8> {
    let partition = |index: i32, error_code, acknowledge_error_code, records: Vec<u8>| {
        share_fetch_response::PartitionData::default()
            .with_partition_index(index)
            .with_error_code(error_code)
            .with_error_message(Some(StrBytes::from_static_str("why")))
            .with_acknowledge_error_code(acknowledge_error_code)
            .with_records(Some(records.into()))
            .with_acquired_records(vec![share_fetch_response::AcquiredRecords::default(); 3])
    };
    let topic = share_fetch_response::ShareFetchableTopicResponse::default()
        .with_topic_id(TOPIC_ID.parse().unwrap())
        .with_partitions(vec![
            partition(2, 0, 0, kafka::fetched_batches()),
            partition(3, 6, 121, Vec::new()),
            partition(4, 0, 121, Vec::new()),
        ]);
    encoded(
        &ShareFetchResponse::default()
            .with_throttle_time_ms(17)
            .with_error_code(0)
            .with_responses(vec![topic.clone(), topic])
            .with_node_endpoints(vec![share_fetch_response::NodeEndpoint::default(); 2]),
    )
}

fn acknowledged() -> Vec<u8> {
    let partition = |index: i32, error_code| {
        share_acknowledge_response::PartitionData::default()
            .with_partition_index(index)
            .with_error_code(error_code)
    };
    let topic = share_acknowledge_response::ShareAcknowledgeTopicResponse::default()
        .with_topic_id(TOPIC_ID.parse().unwrap())
        .with_partitions(vec![partition(2, 0), partition(3, 121)]);
    encoded(
        &ShareAcknowledgeResponse::default()
            .with_throttle_time_ms(17)
            .with_error_code(122)
            .with_responses(vec![topic]),
    )
}

#[test]
fn reads_share_fetch_responses() {
    let body = fetched();
    let bytes = kafka::response(78, 1, 7, &body);
    // Version 2 changed only the request.
    for (version, pieces) in [(1, 1), (1, 7), (1, 100_000), (2, 1448)] {
        let frame = read(ApiKey::SHARE_FETCH, version, &bytes, pieces);
        assert_eq!((frame.error, frame.throttle_ms, frame.error_code), (None, Some(17), Some(0)));
        let ResponseBody::Fetch(fetch) = &frame.body else { panic!("{frame:?}") };
        let seen: Vec<_> = fetch
            .partitions
            .iter()
            .map(|p| (p.partition, p.error_code, p.bytes as usize, p.records))
            .collect();
        let all = kafka::fetched_batches().len();
        // The fetch's own error takes precedence over that of acknowledging.
        let topic = [(2, 0, all, Some(3)), (3, 6, 0, Some(0)), (4, 121, 0, Some(0))];
        assert_eq!(seen, [topic, topic].concat());
        assert!(fetch.partitions.iter().all(|p| p.topic == TopicRef::Id([9; 16]) && p.error.is_none()));
        assert_eq!(fetch.partitions[0].batches.len(), 2);
    }
    let header = bytes.len() - body.len();
    for end in header..bytes.len() {
        let cut = read(ApiKey::SHARE_FETCH, 1, &kafka::sized(&bytes[4..end]), 100_000);
        assert!(cut.error.is_some(), "{end} of {} bytes were accepted", bytes.len());
    }
}

#[test]
fn reads_share_acknowledge_responses() {
    let body = acknowledged();
    // Version 2 has the lock duration of records, after the throttle time, the error and its message.
    let later = [&body[..7], &[0, 0, 0, 9], &body[7..]].concat();
    for (version, body) in [(1, body), (2, later)] {
        let bytes = kafka::response(79, version, 7, &body);
        for pieces in [1, 5, 100_000] {
            let frame = read(ApiKey::SHARE_ACKNOWLEDGE, version, &bytes, pieces);
            assert_eq!((frame.error, frame.throttle_ms, frame.error_code), (None, Some(17), Some(122)));
            let ResponseBody::Fetch(fetch) = &frame.body else { panic!("{frame:?}") };
            let seen: Vec<_> =
                fetch.partitions.iter().map(|p| (p.partition, p.error_code, p.bytes, p.records)).collect();
            assert_eq!(seen, [(2, 0, 0, None), (3, 121, 0, None)]);
        }
        for end in bytes.len() - body.len()..bytes.len() {
            let cut = read(ApiKey::SHARE_ACKNOWLEDGE, version, &kafka::sized(&bytes[4..end]), 100_000);
            assert!(cut.error.is_some(), "v{version}: {end} of {} bytes were accepted", bytes.len());
        }
    }
}

#[test]
fn refuses_the_early_access_version_of_share_fetch() {
    let bytes = kafka::response(78, 0, 7, &fetched());
    let frame = read(ApiKey::SHARE_FETCH, 0, &bytes, 100_000);
    assert!(frame.error.is_some());
    assert_eq!((frame.throttle_ms, frame.error_code), (None, None));
}
