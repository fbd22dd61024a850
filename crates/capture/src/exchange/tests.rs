//! Rows of requests other than Produce, and of headers that were cut off.

use model::Request;

use crate::analyzer::Analyzer;
use crate::config::Config;
use crate::packet::{LinkType, Packet};
use crate::tests::conversation::Conversation;
use crate::tests::kafka;

fn on_port() -> Analyzer {
    Analyzer::new(Config { ports: vec![9092], ..Config::default() })
}

/// Fetch version 7 in a session, of these partitions of the topic `t`.
fn fetch(correlation_id: i32, partitions: &[i32]) -> Vec<u8> {
    let mut tail = [-1i32, 500, 1, 1 << 20].map(i32::to_be_bytes).concat();
    tail.push(0);
    tail.extend([77i32, 4, 1].map(i32::to_be_bytes).concat());
    tail.extend([0, 1, b't']);
    tail.extend((partitions.len() as i32).to_be_bytes());
    for partition in partitions {
        tail.extend(partition.to_be_bytes());
        tail.extend([1234i64, 0].map(i64::to_be_bytes).concat());
        tail.extend((1i32 << 20).to_be_bytes());
    }
    tail.extend(0i32.to_be_bytes());
    kafka::request(1, 7, correlation_id, &tail)
}

/// The answer to [`fetch`]: partition, error code and records.
fn fetched(correlation_id: i32, partitions: &[(i32, i16, &[u8])]) -> Vec<u8> {
    let mut tail = 30i32.to_be_bytes().to_vec();
    tail.extend([0, 0, 0, 0, 0, 77, 0, 0, 0, 1, 0, 1, b't']);
    tail.extend((partitions.len() as i32).to_be_bytes());
    for (partition, error, records) in partitions {
        tail.extend(partition.to_be_bytes());
        tail.extend(error.to_be_bytes());
        tail.extend([0; 24]);
        tail.extend((-1i32).to_be_bytes());
        tail.extend((records.len() as i32).to_be_bytes());
        tail.extend(*records);
    }
    kafka::response(correlation_id, &tail)
}

/// Number, bytes, records and error code of each partition.
fn partitions(row: &Request) -> Vec<(i32, u32, Option<u32>, Option<i16>)> {
    row.partitions.iter().map(|p| (p.partition, p.bytes, p.records, p.error_code)).collect()
}

#[test]
fn fetch_row_has_bytes_and_records_per_partition() {
    let batch = kafka::batch(77, 3, &[0; 40]);
    let two = [&batch[..], &batch[..50]].concat();
    let mut talk = Conversation::standard();
    talk.open(0).ask(10, &fetch(1, &[2, 5]));
    // In another order, and with another partition of the session.
    talk.answer(20, &fetched(1, &[(5, 6, &[]), (2, 0, &two), (9, 0, &batch)]));
    talk.ask(30, &fetch(2, &[])).answer(40, &fetched(2, &[]));
    talk.ask(50, &fetch(3, &[4]));
    let mut analyzer = on_port();
    let mut rows = talk.analyze(&mut analyzer);
    analyzer.finish(&mut |row| rows.push(*row));
    let bytes = two.len() as u32;
    assert_eq!(
        partitions(&rows[0]),
        [(2, bytes, Some(3), Some(0)), (5, 0, Some(0), Some(6)), (9, batch.len() as u32, Some(3), Some(0))]
    );
    assert!(rows[0].partitions.iter().all(|p| p.topic.as_deref() == Some("t") && p.batches.is_empty()));
    assert_eq!((rows[0].api, rows[0].throttle_ms, rows[0].error.as_deref()), ("FETCH", Some(30), None));
    assert_eq!((rows[0].error_code, rows[0].min_bytes, rows[0].max_wait_ms), (Some(0), Some(1), Some(500)));
    // An earlier request of the session named partition 9, so its offset is unknown.
    let offsets: Vec<_> = rows[0].partitions.iter().map(|p| p.fetch_offset).collect();
    assert_eq!(offsets, [Some(1234), Some(1234), None]);
    assert_eq!((partitions(&rows[1]), rows[1].error.as_deref()), (vec![], None));
    assert_eq!((partitions(&rows[2]), rows[2].throttle_ms), (vec![(4, 0, None, None)], None));
}

#[test]
fn reads_throttle_time_error_group_and_transaction() {
    let mut talk = Conversation::standard();
    // FindCoordinator, versions 0 and 1.
    talk.open(0).ask(10, &kafka::small_request(1)).answer(20, &kafka::response(1, &[0, 0, 0, 7, 1, 2, 3]));
    let later = kafka::request(10, 1, 2, &[0, 1, b'x', 1]);
    talk.ask(30, &later).answer(40, &kafka::response(2, &[0, 0, 0, 7, 0, 15, 3]));
    let rows = talk.analyze(&mut on_port());
    assert_eq!(rows.iter().map(|row| row.throttle_ms).collect::<Vec<_>>(), [None, Some(7)]);
    assert_eq!(rows.iter().map(|row| row.error_code).collect::<Vec<_>>(), [Some(0), Some(15)]);
    let named = |row: &Request| (row.group_id.clone(), row.transactional_id.clone());
    assert_eq!(named(&rows[0]), (Some("some-group".into()), None));
    assert_eq!(named(&rows[1]), (None, Some("x".into())));
}

#[test]
fn first_request_in_an_unknown_version_has_a_row() {
    let mut talk = Conversation::standard();
    // ApiVersions 5, which the broker refuses in version 0 (KIP-511), and once more in version 4.
    let future = kafka::request(18, 5, 1, &[0, 4, b'k', b'g', b'o', 2, b'1', 1, 2, 3, 4]);
    talk.open(0).ask(10, &future).answer(35, &kafka::response(1, &[0, 35, 0, 0, 0, 1, 0, 18, 0, 0, 0, 4]));
    let known = kafka::request(18, 4, 2, &[0, 4, b'k', b'g', b'o', 2, b'1', 0]);
    talk.ask(40, &known).answer(47, &kafka::response(2, &[0, 0, 2, 0, 18, 0, 0, 0, 4, 0, 0, 0, 0, 7, 0]));
    let mut analyzer = on_port();
    let rows = talk.analyze(&mut analyzer);
    let seen: Vec<_> = rows.iter().map(|row| (row.api, row.api_version, row.correlation_id)).collect();
    assert_eq!(seen, [("API_VERSIONS", 5, 1), ("API_VERSIONS", 4, 2)]);
    assert!(rows.iter().all(|row| row.client_id == rows[1].client_id && row.client_id.is_some()));
    let answers: Vec<_> = rows.iter().map(|row| (row.latency().map(|n| n.0), row.error_code)).collect();
    assert_eq!(answers, [(Some(25), Some(35)), (Some(7), Some(0))]);
    let errors: Vec<_> = rows.iter().map(|row| row.error.as_deref()).collect();
    assert_eq!(errors, [Some("unknown API version 5 at byte 6"), None]);
    assert_eq!((rows[0].throttle_ms, rows[1].throttle_ms), (None, Some(7)));
    assert_eq!((analyzer.counters().resyncs, analyzer.counters().undecodable_frames), (0, 0));
}

#[test]
fn metadata_reports_each_replica_count_change_once() {
    // Version 1: brokers, controller, topics with partitions: error, number, leader, replicas, in-sync replicas.
    let answer = |id: i32, replicas: &[i32]| {
        let ids = |ids: &[i32]| {
            let all = [ids.len() as i32].into_iter().chain(ids.iter().copied());
            all.flat_map(i32::to_be_bytes).collect::<Vec<_>>()
        };
        let partition = |number: i32, replicas: &[i32]| {
            [&[0, 0][..], &number.to_be_bytes(), &[0, 0, 0, 1], &ids(replicas), &ids(&[1])].concat()
        };
        let topic = |name: u8, partitions: &[Vec<u8>]| {
            let count = (partitions.len() as i32).to_be_bytes();
            [&[0, 0, 0, 1, name, 0][..], &count, &partitions.concat()].concat()
        };
        let partitions = [partition(0, replicas), partition(1, &[1, 2, 3]), partition(2, &[])];
        let topics = [topic(b't', &partitions), topic(b'u', &[])].concat();
        kafka::response(id, &[&[0; 4][..], &[0, 0, 0, 1], &[0, 0, 0, 2], &topics].concat())
    };
    let mut talk = Conversation::standard();
    talk.open(0);
    for (id, replicas) in [(1, &[1][..]), (2, &[2]), (3, &[1, 2])] {
        let time = i64::from(id) * 100;
        talk.ask(time, &kafka::request(3, 1, id, &[0xff; 4])).answer(time + 1, &answer(id, replicas));
    }
    let mut analyzer = on_port();
    assert!(talk.analyze(&mut analyzer).iter().all(|row| row.error.is_none()));
    let changes: Vec<_> = analyzer.take_replicas().iter().map(|(t, p, n)| (t.to_string(), *p, *n)).collect();
    let known = |partition, replicas| ("t".to_owned(), partition, replicas);
    assert_eq!(changes, [known(0, 1), known(1, 3), known(0, 2)]);
    assert!(analyzer.take_replicas().is_empty());
}

#[test]
fn truncated_client_id_loses_no_row() {
    let mut talk = Conversation::standard();
    talk.open(0);
    for id in 1..=3 {
        let time = i64::from(id) * 100;
        talk.ask(time, &kafka::small_request(id)).answer(time + 7, &kafka::response(id, &[1; 60]));
    }
    let headers = 14 + 20 + 20;
    for payload in 12..=19 {
        let (mut analyzer, mut rows) = (on_port(), Vec::new());
        for (time_ns, bytes) in &talk.packets {
            let captured = &bytes[..bytes.len().min(headers + payload)];
            let original_len = bytes.len() as u32;
            let packet =
                Packet { time_ns: *time_ns, link: LinkType::Ethernet, original_len, bytes: captured };
            analyzer.packet(&packet, &mut |row| rows.push(*row));
        }
        let seen: Vec<_> = rows.iter().map(|row| (row.correlation_id, row.latency().map(|n| n.0))).collect();
        assert_eq!(seen, [(1, Some(7)), (2, Some(7)), (3, Some(7))], "{payload} bytes a packet");
        for row in &rows {
            assert_eq!(
                (row.api, row.client_id.as_deref(), row.request_bytes),
                ("FIND_COORDINATOR", None, 28)
            );
            assert!(row.error.as_deref().is_some_and(|error| error.contains("header")), "{row:?}");
        }
        assert_eq!((analyzer.counters().other_connections, analyzer.counters().resyncs), (0, 0));
    }
}

#[test]
fn model_api_keys_match_the_wire() {
    for &(key, name) in model::api_key::NAMES {
        assert_eq!((wire::ApiKey(key).name(), model::api_key::name(key)), (name, name));
    }
}
