//! Whole conversations, packet by packet, with the expected rows and counters.

mod order;
mod sequences;
mod sides;

use std::collections::HashMap;
use std::sync::Arc;

use model::{Nanos, Request, TlsCount, TopicId};
use proptest::prelude::*;

use super::Analyzer;
use crate::config::{Config, Limits};
use crate::packet::{LinkType, Packet};
use crate::tests::conversation::Conversation;
use crate::tests::kafka;

fn on_port() -> Analyzer {
    Analyzer::new(Config { ports: vec![9092], ..Config::default() })
}

fn anywhere() -> Analyzer {
    Analyzer::new(Config::default())
}

fn finish(analyzer: &mut Analyzer) -> Vec<Request> {
    let mut rows = Vec::new();
    analyzer.finish(&mut |row| rows.push(*row));
    rows
}

fn error(row: &Request) -> &str {
    row.error.as_deref().unwrap_or_default()
}

/// Correlation id, latency and head-of-line time.
fn timing(row: &Request) -> (i32, Option<i64>, Option<i64>) {
    (row.correlation_id, row.latency().map(|n| n.0), row.head_of_line.map(|n| n.0))
}

#[test]
fn pipelined_requests_pair_in_order_with_head_of_line_times() {
    let mut talk = Conversation::standard();
    talk.open(1);
    talk.ask(100, &[kafka::small_request(1), kafka::small_request(2)].concat());
    talk.ask(150, &kafka::small_request(3));
    talk.answer(200, &kafka::response(1, b"one"));
    talk.answer(300, &kafka::response(2, b"two"));
    talk.answer(340, &kafka::response(3, b"three"));
    talk.ask(500, &kafka::small_request(4));
    talk.answer(510, &kafka::response(4, b"four"));
    let mut analyzer = on_port();
    let rows = talk.analyze(&mut analyzer);
    let timings: Vec<_> = rows.iter().map(timing).collect();
    assert_eq!(
        timings,
        [
            (1, Some(100), Some(0)),
            (2, Some(200), Some(100)),
            (3, Some(190), Some(150)),
            (4, Some(10), Some(0))
        ]
    );
    let first = &rows[0];
    assert_eq!((first.api, first.api_key, first.api_version), ("FIND_COORDINATOR", 10, 0));
    assert_eq!((first.client_id.as_deref(), first.error.as_deref()), (Some("tester"), None));
    assert_eq!((first.client.port(), first.broker.port()), (41234, 9092));
    assert_eq!((first.request_bytes, first.response_bytes), (28, Some(7)));
    assert_eq!((first.arrival, first.response, first.end), (Nanos(100), Some(Nanos(200)), Some(Nanos(200))));
    assert_eq!(finish(&mut analyzer), []);
    let counters = analyzer.counters();
    assert_eq!(counters.requests_by_api, [("FIND_COORDINATOR", 4)].into());
    assert_eq!((counters.packets, counters.connections, counters.gaps, counters.unanswered), (10, 1, 0, 0));
}

#[test]
fn head_of_line_time_includes_an_uncaptured_request() {
    let mut talk = Conversation::standard();
    let _before = talk.next_packet(true, &kafka::small_request(1));
    talk.ask(100, &kafka::small_request(2)).ask(110, &kafka::small_request(3));
    let (head, tail) = (kafka::response(1, b"the first"), kafka::response(2, b"the second one"));
    talk.answer(150, &head[..9]).answer(200, &head[9..]);
    talk.answer(210, &tail[..9]).answer(220, &tail[9..]);
    talk.answer(230, &kafka::response(3, b"three"));
    let mut analyzer = on_port();
    let mut rows = talk.analyze(&mut analyzer);
    rows.extend(finish(&mut analyzer));
    let timings: Vec<_> = rows.iter().map(timing).collect();
    assert_eq!(timings, [(2, Some(120), Some(100)), (3, Some(120), Some(110))]);
}

#[test]
fn produce_row_combines_request_and_response() {
    let (first, second) = (kafka::batch(0xc0ff_ee00, 3, &[1; 30]), kafka::batch(7, 2, &[2; 10]));
    let request = kafka::produce(9, -1, "topicA", [&first, &second]);
    let (head, tail) = request.split_at(50);
    let mut talk = Conversation::standard();
    talk.open(0).ask(10, head).ask(25, tail);
    let response = kafka::produced(9, "topicA", [(5, 6, -1), (2, 0, 777)]);
    let (start, end) = response.split_at(10);
    talk.answer(100, start).answer(120, end);
    let rows = talk.analyze(&mut on_port());
    let row = &rows[0];
    assert_eq!(rows.len(), 1);
    assert_eq!((row.arrival, row.arrival_end), (Nanos(10), Nanos(25)));
    assert_eq!((row.response, row.end), (Some(Nanos(100)), Some(Nanos(120))));
    assert_eq!((row.acks, row.throttle_ms, row.error.as_deref()), (Some(-1), Some(42), None));
    let [two, five] = &row.partitions[..] else { panic!("{row:?}") };
    assert_eq!((two.topic.as_deref(), two.partition), (Some("topicA"), 2));
    assert_eq!((two.bytes, two.records), (first.len() as u32, Some(3)));
    assert_eq!((two.base_offset, two.error_code), (Some(777), Some(0)));
    assert_eq!(two.newest_record, Some(Nanos::from_millis(1_700_000_000_000)));
    assert_eq!((five.partition, five.base_offset, five.error_code), (5, None, Some(6)));
    let batch = two.batches[0];
    assert_eq!((batch.magic, batch.crc, batch.records), (2, 0xc0ff_ee00, 3));
    assert_eq!((batch.bytes, batch.producer_id, batch.base_sequence), (first.len() as u32, 4711, 17));
}

#[test]
fn acks_0_request_has_a_row_at_once_without_response() {
    let batch = kafka::batch(1, 1, &[0; 5]);
    let mut talk = Conversation::standard();
    talk.open(0).ask(10, &kafka::produce(1, 0, "t", [&batch, &batch])).ask(20, &kafka::small_request(2));
    let mut analyzer = on_port();
    let rows = talk.analyze(&mut analyzer);
    assert_eq!((rows.len(), rows[0].acks, timing(&rows[0])), (1, Some(0), (1, None, None)));
    talk.answer(30, &kafka::response(2, b""));
    assert_eq!(talk.analyze(&mut analyzer).iter().map(timing).collect::<Vec<_>>(), [(2, Some(10), Some(0))]);
    assert_eq!(analyzer.counters().unanswered, 0);
}

#[test]
fn lost_response_affects_only_its_own_request() {
    let mut talk = Conversation::standard();
    talk.open(0);
    for id in 1..=4 {
        talk.ask(10 * i64::from(id), &kafka::small_request(id));
    }
    talk.answer(100, &kafka::response(1, b"one"));
    let _lost = talk.next_packet(false, &kafka::response(2, b"two"));
    talk.answer(120, &kafka::response(3, b"three"));
    // The client's next request acknowledges the missing bytes, so the client received them.
    talk.ask(130, &kafka::small_request(5));
    talk.answer(140, &kafka::response(4, b"four")).answer(150, &kafka::response(5, b"five"));
    let mut analyzer = on_port();
    let mut rows = talk.analyze(&mut analyzer);
    rows.extend(finish(&mut analyzer));
    let ids: Vec<_> = rows.iter().map(|row| (row.correlation_id, row.end.is_some())).collect();
    assert_eq!(ids, [(1, true), (2, false), (3, true), (4, true), (5, true)]);
    assert_eq!(
        error(&rows[1]),
        "no response was captured, although a later request has one; 11 bytes of the broker's responses were not captured"
    );
    assert_eq!(rows[2].end, Some(Nanos(120)));
    let counters = analyzer.counters();
    assert_eq!((counters.gaps, counters.gap_bytes, counters.unanswered), (1, 11, 1));
}

#[test]
fn pairs_a_request_with_an_uncaptured_tail() {
    let batch = kafka::batch(1, 1, &[0; 5_000]);
    let request = kafka::produce(1, -1, "t", [&batch, &batch]);
    let (head, tail) = request.split_at(6_000);
    let mut talk = Conversation::standard();
    talk.open(0).ask(10, head);
    let _lost = talk.next_packet(true, tail);
    talk.answer(90, &kafka::produced(1, "t", [(2, 0, 5), (5, 0, 6)]));
    let mut analyzer = on_port();
    assert_eq!(talk.analyze(&mut analyzer), [], "the rest may be in the next packets");
    let rows = finish(&mut analyzer);
    assert_eq!(rows.len(), 1);
    assert_eq!((rows[0].arrival, rows[0].end), (Nanos(10), Some(Nanos(90))));
    assert_eq!(rows[0].partitions[0].base_offset, Some(5));
    assert!(!error(&rows[0]).is_empty(), "its end was not seen");
}

#[test]
fn snap_length_does_not_cause_a_resync() {
    let batch = kafka::batch(77, 1, &[0; 3_000]);
    let mut talk = Conversation::standard();
    talk.open(0).ask(10, &kafka::produce(1, -1, "t", [&batch, &batch]));
    talk.answer(20, &kafka::produced(1, "t", [(2, 0, 5), (5, 0, 6)]));
    // The response's tail is cut off as well. Its packet was captured, so its time is known.
    talk.ask(30, &kafka::small_request(2)).answer(40, &kafka::response(2, &[1; 500]));
    let mut analyzer = on_port();
    let mut rows = Vec::new();
    for (time_ns, bytes) in &talk.packets {
        let captured = &bytes[..bytes.len().min(300)];
        let packet = Packet {
            time_ns: *time_ns,
            link: LinkType::Ethernet,
            original_len: bytes.len() as u32,
            bytes: captured,
        };
        analyzer.packet(&packet, &mut |row| rows.push(*row));
    }
    assert_eq!(rows.iter().map(timing).collect::<Vec<_>>(), [(1, Some(10), Some(0)), (2, Some(10), Some(0))]);
    assert_eq!(rows[0].partitions[0].batches[0].crc, 77);
    assert_eq!(rows[0].partitions[0].base_offset, Some(5));
    assert!(!error(&rows[0]).is_empty(), "its second batch was not seen");
    assert_eq!(error(&rows[1]), "", "nothing of an undecoded response is missed");
    assert_eq!((analyzer.counters().truncated_packets, analyzer.counters().gaps), (2, 2));
}

#[test]
fn retransmitted_and_reordered_packets_change_only_times() {
    let request = kafka::small_request(1);
    let mut talk = Conversation::standard();
    talk.open(0);
    let parts = [
        talk.next_packet(true, &request[..10]),
        talk.next_packet(true, &request[10..20]),
        talk.next_packet(true, &request[20..]),
    ];
    for (time, part) in [(10, 0), (12, 2), (15, 0), (40, 1), (50, 1), (51, 2)] {
        talk.packets.push((time, parts[part].clone()));
    }
    talk.answer(60, &kafka::response(1, b""));
    let mut analyzer = on_port();
    let rows = talk.analyze(&mut analyzer);
    assert_eq!(rows.len(), 1);
    assert_eq!(
        (rows[0].arrival, rows[0].arrival_end),
        (Nanos(10), Nanos(40)),
        "complete with the middle part"
    );
    assert_eq!(analyzer.counters().retransmitted_bytes, 10 + 10 + request.len() as u64 - 20);
    assert_eq!(analyzer.counters().out_of_order_segments, 1);
}

#[test]
fn reused_port_is_another_connection() {
    let mut talk = Conversation::standard();
    talk.open(0).ask(10, &kafka::small_request(1));
    talk.client.seq = talk.client.seq.wrapping_add(77_777);
    talk.broker.seq = 123;
    talk.open(20).open(20).ask(30, &kafka::small_request(1)).answer(40, &kafka::response(1, b"")).close(50);
    let mut analyzer = on_port();
    let rows = talk.analyze(&mut analyzer);
    assert_eq!(rows.iter().map(timing).collect::<Vec<_>>(), [(1, None, None), (1, Some(10), Some(0))]);
    assert_eq!(error(&rows[0]), "no response before the connection ended");
    assert_eq!(finish(&mut analyzer), []);
}

#[test]
fn closed_connection_emits_rows_of_unanswered_requests() {
    let mut talk = Conversation::standard();
    talk.open(0).ask(10, &kafka::small_request(1)).close(20);
    let mut analyzer = on_port();
    let rows = talk.analyze(&mut analyzer);
    assert_eq!(rows.iter().map(error).collect::<Vec<_>>(), ["no response before the connection ended"]);
    assert_eq!(analyzer.counters().unanswered, 1);
}

#[test]
fn requests_alone_give_rows_without_responses() {
    let mut talk = Conversation::standard();
    talk.ask(10, &kafka::small_request(1)).ask(20, &kafka::small_request(2));
    let _unseen = talk.next_packet(false, &kafka::response(1, b""));
    let mut analyzer = on_port();
    let mut rows = talk.analyze(&mut analyzer);
    assert_eq!(rows, []);
    rows.extend(finish(&mut analyzer));
    assert_eq!(rows.iter().map(error).collect::<Vec<_>>(), ["no response before the capture ended"; 2]);
}

#[test]
fn responses_alone_give_no_rows() {
    let mut talk = Conversation::standard();
    for id in 0..50 {
        talk.answer(10, &kafka::response(id, &[7; 100]));
    }
    for mut analyzer in [on_port(), anywhere()] {
        let mut again = Conversation { packets: talk.packets.clone(), ..Conversation::standard() };
        assert_eq!(again.analyze(&mut analyzer), []);
        assert_eq!(finish(&mut analyzer), []);
        assert_eq!(analyzer.counters().other_connections, 1);
    }
}

#[test]
fn unfinished_frames_have_an_error_at_the_end_of_capture() {
    let mut talk = Conversation::standard();
    talk.open(0).ask(10, &kafka::small_request(1)).answer(20, &kafka::response(1, &[0; 50])[..30]);
    talk.ask(30, &kafka::small_request(2)[..20]);
    let mut analyzer = on_port();
    assert_eq!(talk.analyze(&mut analyzer), []);
    let rows = finish(&mut analyzer);
    let ends: Vec<_> = rows.iter().map(|row| (row.correlation_id, row.response, row.end)).collect();
    assert_eq!(ends, [(1, Some(Nanos(20)), None), (2, None, None)]);
    assert!(error(&rows[0]).contains("the capture ends inside the response"), "{}", error(&rows[0]));
    assert!(error(&rows[1]).contains("the capture ends inside the request"), "{}", error(&rows[1]));
}

#[test]
fn syn_or_content_identifies_the_broker_without_ports() {
    for opened in [true, false] {
        // The client's port is the lower one: port numbers prove nothing.
        let mut talk = Conversation::new("10.0.0.1:1024", "10.0.0.7:50000");
        if opened {
            talk.open(0);
        } else {
            // Joined in the middle: the tail of a response comes first.
            talk.answer(5, &kafka::response(16, &[0xfe; 300])[200..]);
        }
        talk.ask(10, &kafka::small_request(17)).answer(20, &kafka::response(17, b"\0\0x"));
        talk.ask(30, &kafka::small_request(18)).answer(40, &kafka::response(18, b"\0\0x"));
        let mut analyzer = anywhere();
        let mut rows = talk.analyze(&mut analyzer);
        rows.extend(finish(&mut analyzer));
        assert_eq!(
            rows.iter().map(timing).collect::<Vec<_>>(),
            [(17, Some(10), Some(0)), (18, Some(10), Some(0))]
        );
        assert_eq!((rows[0].client.port(), rows[0].broker.port()), (1024, 50000));
        assert_eq!(analyzer.counters().other_connections, 0);
    }
}

#[test]
fn skips_other_ports() {
    let mut talk = Conversation::new("10.0.0.7:41234", "10.0.0.1:9093");
    talk.open(0).ask(10, &kafka::small_request(1));
    let mut analyzer = on_port();
    assert_eq!(talk.analyze(&mut analyzer), []);
    assert_eq!((analyzer.counters().other_ports, analyzer.counters().connections), (4, 0));
}

#[test]
fn counts_a_tls_connection_once_without_rows() {
    let hello = [&[0x16, 3, 1, 0, 200, 1, 0, 0, 196, 3, 3][..], &[9; 194]].concat();
    let server = [&[0x16, 3, 3, 0, 80, 2, 0, 0, 76, 3, 3][..], &[9; 74]].concat();
    for mut analyzer in [on_port(), anywhere()] {
        let mut talk = Conversation::standard();
        talk.open(0)
            .ask(10, &hello)
            .answer(20, &server)
            .ask(30, &[0x17, 3, 3, 0, 2, 1, 1])
            .answer(40, &hello);
        assert_eq!(talk.analyze(&mut analyzer), []);
        assert_eq!(finish(&mut analyzer), []);
        assert_eq!((analyzer.counters().tls_connections, analyzer.counters().other_connections), (1, 0));
        assert_eq!(analyzer.counters().undecodable_frames, 0, "verdicts near it are near no loss");
        let bytes = (2 * hello.len() + server.len() + 7) as u64;
        let tls: Vec<_> = analyzer.take_tls().iter().collect();
        assert_eq!(tls, [("10.0.0.1:9092".parse().unwrap(), TlsCount { connections: 1, bytes })]);
        assert!(!analyzer.has_new_tls() && analyzer.take_tls().is_empty(), "it is counted once");
        // Later packets continue the same connection.
        talk.packets.clear();
        talk.ask(50, &[0x17, 3, 3, 0, 1, 1]);
        talk.analyze(&mut analyzer);
        assert!(!analyzer.has_new_tls());
        assert_eq!(analyzer.take_tls().total(), TlsCount { connections: 0, bytes: 6 });
    }
}

#[test]
fn counts_a_garbage_connection_once_without_rows() {
    let mut state = 1u32;
    let mut noise = || {
        let mut byte = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        (0..1_400).map(|_| byte()).collect::<Vec<u8>>()
    };
    for (mut analyzer, opened) in
        [(on_port(), true), (on_port(), false), (anywhere(), true), (anywhere(), false)]
    {
        let mut talk = Conversation::standard();
        if opened {
            talk.open(0);
        }
        for i in 0..900 {
            talk.ask(i, &noise()).answer(i, &noise());
        }
        assert_eq!(talk.analyze(&mut analyzer), []);
        assert_eq!(finish(&mut analyzer), []);
        assert_eq!((analyzer.counters().tls_connections, analyzer.counters().other_connections), (0, 1));
    }
}

#[test]
fn resolves_topic_ids_from_config_and_metadata_responses() {
    let batch = kafka::batch(1, 1, &[0; 5]);
    let mut known = HashMap::new();
    known.insert(TopicId([1; 16]), Arc::from("beforehand"));
    let mut analyzer = Analyzer::new(Config { ports: vec![9092], topics: known, ..Config::default() });
    let mut talk = Conversation::standard();
    talk.open(0);
    for (id, topic) in [(1, 1), (2, 2)] {
        talk.ask(10, &kafka::produce_by_id(id, [topic; 16], &batch));
    }
    talk.ask(20, &kafka::metadata_request(3)).answer(30, &kafka::metadata_response(3, [2; 16], "learnt"));
    talk.ask(40, &kafka::produce_by_id(4, [2; 16], &batch));
    let rows = talk.analyze(&mut analyzer);
    let names: Vec<_> = rows
        .iter()
        .filter_map(|row| row.partitions.first())
        .map(|p| (p.topic.as_deref(), p.topic_id))
        .collect();
    assert_eq!(
        names,
        [
            (Some("beforehand"), Some(TopicId([1; 16]))),
            (None, Some(TopicId([2; 16]))),
            (Some("learnt"), Some(TopicId([2; 16]))),
        ]
    );
    assert!(rows.iter().all(|row| row.error.is_none()), "{rows:?}");
}

#[test]
fn pending_requests_are_bounded_in_time_and_number() {
    let limits = Limits { pending_per_connection: 3, answer_within: Nanos(1_000), ..Limits::default() };
    let mut analyzer = Analyzer::new(Config { limits, ..Config::default() });
    let mut talk = Conversation::standard();
    talk.open(0);
    for id in 1..=5 {
        talk.ask(i64::from(id), &kafka::small_request(id));
    }
    let rows = talk.analyze(&mut analyzer);
    let reasons: Vec<_> = rows.iter().map(|row| (row.correlation_id, error(row))).collect();
    assert_eq!(reasons, [1, 2].map(|id| (id, "no response yet, and too many requests are waiting")));
    talk.ask(2_000, &kafka::small_request(6));
    let late = talk.analyze(&mut analyzer);
    let reasons: Vec<_> = late.iter().map(|row| (row.correlation_id, error(row))).collect();
    assert_eq!(reasons[1..], [4, 5].map(|id| (id, "no response before the timeout")));
}

#[test]
fn pending_requests_are_bounded_in_bytes() {
    let limits = Limits { unacknowledged_bytes: 16 << 10, ..Limits::default() };
    let mut analyzer = Analyzer::new(Config { limits, ..Config::default() });
    let mut talk = Conversation::standard();
    talk.open(0);
    for id in 1..=40 {
        talk.ask(id.into(), &kafka::small_request(id));
    }
    let rows = talk.answer(99, &kafka::response(40, b"last")).analyze(&mut analyzer);
    let dropped =
        rows.iter().filter(|row| error(row) == "no response yet, and too many requests are waiting");
    let dropped = dropped.count();
    assert!((20..38).contains(&dropped), "{dropped} requests beyond the 4 KiB that may wait");
    assert_eq!(rows.iter().map(|row| row.correlation_id).collect::<Vec<_>>(), (1..=40).collect::<Vec<_>>());
    assert_eq!(rows.last().map(timing), Some((40, Some(59), Some(0))));
}

#[test]
fn rows_of_one_packet_are_bounded_and_dropped_ones_counted() {
    let limits = Limits { row_bytes: 4_000, ..Limits::default() };
    let mut analyzer = Analyzer::new(Config { ports: vec![9092], limits, ..Config::default() });
    let batch = kafka::batch(5, 2, &[3; 70]);
    let many: Vec<u8> = (0..20).flat_map(|id| kafka::produce(id, 0, "topic", [&batch, &batch])).collect();
    let mut talk = Conversation::standard();
    let rows = talk
        .open(0)
        .ask(1, &many)
        .ask(2, &kafka::produce(20, 0, "topic", [&batch, &batch]))
        .analyze(&mut analyzer);
    assert!((2..10).contains(&rows.len()), "{} rows", rows.len());
    assert_eq!(rows.len() as u64 + analyzer.counters().dropped_requests, 21);
    assert_eq!(rows.last().map(|row| row.correlation_id), Some(20), "the next packet has room again");
}

#[test]
fn memory_limit_evicts_forged_connections_before_acknowledged_ones() {
    let limits = Limits { unacknowledged_bytes: 16 << 10, ..Limits::default() };
    let mut analyzer = Analyzer::new(Config { ports: vec![9092], limits, ..Config::default() });
    let mut honest = Conversation::standard();
    honest.open(0).ask(10, &kafka::small_request(1));
    assert_eq!(honest.analyze(&mut analyzer), []);
    let mut dropped = 0;
    for port in 1..=200 {
        let mut forged = Conversation::new(&format!("10.0.0.8:{port}"), "10.0.0.1:9092");
        let rows = forged.ask(20, &kafka::small_request(port)).analyze(&mut analyzer);
        assert!(rows.iter().all(|row| error(row) == "no response yet, and too many connections are open"));
        dropped += rows.len();
        assert!(analyzer.connections.bytes() < 32 << 10, "{} bytes", analyzer.connections.bytes());
    }
    assert!(dropped > 150, "{dropped}");
    assert_eq!(analyzer.counters().evicted_connections, dropped as u64);
    let rows = honest.answer(30, &kafka::response(1, b"late")).analyze(&mut analyzer);
    assert_eq!(rows.iter().map(timing).collect::<Vec<_>>(), [(1, Some(20), Some(0))]);
    assert_eq!(finish(&mut analyzer).len() + dropped, 200, "each has its row");
}

#[test]
fn silent_connection_emits_rows_of_late_requests() {
    let mut analyzer = on_port();
    let mut silent = Conversation::standard();
    silent.open(0).ask(10, &kafka::small_request(1));
    assert_eq!(silent.analyze(&mut analyzer), []);
    let mut busy = Conversation::new("10.0.0.8:41234", "10.0.0.1:9092");
    busy.open(800_000_000_000);
    assert_eq!(busy.analyze(&mut analyzer).len(), 1);
}

#[test]
fn connection_limit_evicts_the_least_recently_active() {
    let limits = Limits { connections: 2, ..Limits::default() };
    let mut analyzer = Analyzer::new(Config { ports: vec![9092], limits, ..Config::default() });
    let mut rows = Vec::new();
    for port in 1..=3 {
        let mut talk = Conversation::new(&format!("10.0.0.7:{port}"), "10.0.0.1:9092");
        talk.open(0).ask(10, &kafka::small_request(port));
        rows.extend(talk.analyze(&mut analyzer));
    }
    assert_eq!(rows.iter().map(|row| row.correlation_id).collect::<Vec<_>>(), [1]);
    assert_eq!((analyzer.counters().evicted_connections, analyzer.counters().connections), (1, 3));
    assert_eq!(finish(&mut analyzer).len(), 2);
}

#[test]
fn idle_connections_beyond_the_limit_resume_without_a_search() {
    let limits = Limits { connections: 2, ..Limits::default() };
    let mut analyzer = Analyzer::new(Config { ports: vec![9092], limits, ..Config::default() });
    let talk = |port| Conversation::new(&format!("10.0.0.7:{port}"), "10.0.0.1:9092");
    let mut talks: Vec<_> = (1..=5).map(talk).collect();
    let mut rows: Vec<_> = talks.iter_mut().flat_map(|talk| talk.open(0).analyze(&mut analyzer)).collect();
    for id in 1..=3 {
        for talk in &mut talks {
            talk.ask(100, &kafka::small_request(id)).answer(110, &kafka::response(id, b"answer"));
            rows.extend(talk.analyze(&mut analyzer));
        }
    }
    let in_turn = (1..=3).flat_map(|id| [(id, Some(10), Some(0)); 5]);
    assert_eq!(rows.iter().map(timing).collect::<Vec<_>>(), in_turn.collect::<Vec<_>>());
    let counters = analyzer.counters();
    assert_eq!((counters.connections, counters.evicted_connections, counters.skipped_bytes), (5, 0, 0));
}

#[test]
fn suspends_idle_connections_but_not_those_with_pending_requests() {
    let limits = Limits { connection_bytes: 128 << 10, ..Limits::default() };
    let mut analyzer = Analyzer::new(Config { ports: vec![9092], limits, ..Config::default() });
    let talk = |port| Conversation::new(&format!("10.0.0.7:{port}"), "10.0.0.1:9092");
    let mut talks: Vec<_> = (1..=100).map(talk).collect();
    let mut exchange = |talks: &mut [Conversation], id| {
        let mut rows = Vec::new();
        for talk in talks {
            talk.ask(10, &kafka::small_request(id)).answer(20, &kafka::response(id, b"answer")).ask(20, b"");
            rows.extend(talk.analyze(&mut analyzer));
        }
        (rows.len(), analyzer.connections.bytes())
    };
    for talk in &mut talks {
        talk.open(0);
    }
    let quarter = limits.connection_bytes / 4;
    let one = exchange(&mut talks[..1], 1).1;
    let (waiting, talks) = talks.split_first_mut().unwrap();
    let (rows, bytes) = exchange(talks, 1);
    assert_eq!(rows, 99);
    assert!(bytes <= quarter + 2 * one && quarter < 50 * one, "{bytes} bytes, {one} of one connection");
    // It is repeatedly checked as the least recently used connection.
    waiting.ask(30, &kafka::small_request(2));
    assert_eq!(waiting.analyze(&mut analyzer), []);
    for id in 2..=4 {
        for talk in &mut *talks {
            talk.ask(40, &kafka::small_request(id)).answer(50, &kafka::response(id, b"answer")).ask(50, b"");
            assert_eq!(
                talk.analyze(&mut analyzer).iter().map(timing).collect::<Vec<_>>(),
                [(id, Some(10), Some(0))]
            );
        }
    }
    let rows = waiting.answer(60, &kafka::response(2, b"late")).analyze(&mut analyzer);
    assert_eq!(rows.iter().map(timing).collect::<Vec<_>>(), [(2, Some(30), Some(0))]);
    let counters = analyzer.counters();
    assert_eq!((counters.connections, counters.evicted_connections, counters.skipped_bytes), (100, 0, 0));
    // Closed connections are evicted first.
    for port in 1_001..=1_100 {
        talk(port)
            .open(70)
            .ask(80, &kafka::small_request(1))
            .answer(90, b"")
            .close(100)
            .analyze(&mut analyzer);
    }
    let bytes = analyzer.connections.bytes();
    assert!(bytes <= quarter + 2 * one, "{bytes} bytes, {one} of one connection");
    assert_eq!(analyzer.counters().evicted_connections, 0);
}

/// A conversation of many requests, as its two streams.
fn streams(requests: i32) -> (Vec<u8>, Vec<u8>) {
    let (mut asked, mut answered) = (Vec::new(), Vec::new());
    let batch = kafka::batch(5, 2, &[3; 700]);
    for id in 0..requests {
        if id % 3 == 0 {
            asked.extend(kafka::produce(id, -1, "topic", [&batch, &batch]));
            answered.extend(kafka::produced(id, "topic", [(2, 0, 1), (5, 0, 1)]));
        } else {
            asked.extend(kafka::small_request(id));
            answered.extend(kafka::response(id, &vec![1; id as usize * 10]));
        }
    }
    (asked, answered)
}

/// Cuts a stream into packets of these lengths. Then repeats and swaps some of them.
fn shuffled(
    talk: &mut Conversation,
    by_client: bool,
    stream: &[u8],
    cuts: &[(usize, bool, bool)],
) -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    let mut rest = stream;
    for (len, repeat, swap) in cuts.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (now, later) = rest.split_at((*len).min(rest.len()));
        packets.push(talk.next_packet(by_client, now));
        rest = later;
        let last = packets.len() - 1;
        if *repeat {
            packets.push(packets[last / 2].clone());
        }
        if *swap && last > 0 {
            packets.swap(last, last - 1);
        }
    }
    packets
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn rows_do_not_depend_on_segmentation_repeats_or_order(
        cuts in prop::collection::vec((1..900usize, prop::bool::weighted(0.1), prop::bool::weighted(0.2)), 1..40),
    ) {
        let (asked, answered) = streams(30);
        let mut talk = Conversation::standard();
        talk.open(0);
        for (by_client, stream) in [(true, asked), (false, answered)] {
            let packets = shuffled(&mut talk, by_client, &stream, &cuts);
            talk.packets.extend(packets.into_iter().map(|packet| (10, packet)));
        }
        let mut analyzer = on_port();
        let rows = talk.analyze(&mut analyzer);
        prop_assert_eq!(rows.iter().map(|row| row.correlation_id).collect::<Vec<_>>(), (0..30).collect::<Vec<_>>());
        for row in &rows {
            prop_assert_eq!((row.end, row.error.as_deref()), (Some(Nanos(10)), None));
            prop_assert_eq!(row.partitions.len(), if row.correlation_id % 3 == 0 { 2 } else { 0 });
        }
        prop_assert_eq!(analyzer.counters().gaps, 0);
    }

    /// Lost packets never invent a request. Every request that is captured whole and answered whole between losses
    /// appears at most once.
    #[test]
    fn lost_packets_invent_no_request(
        cuts in prop::collection::vec((1..900usize, Just(false), prop::bool::weighted(0.1)), 1..40),
        kept in prop::collection::vec(prop::bool::weighted(0.9), 1..60),
    ) {
        let (asked, answered) = streams(30);
        let mut talk = Conversation::standard();
        talk.open(0);
        for (by_client, stream) in [(true, asked), (false, answered)] {
            let packets = shuffled(&mut talk, by_client, &stream, &cuts);
            let captured = packets.into_iter().zip(kept.iter().cycle()).filter(|(_, kept)| **kept);
            talk.packets.extend(captured.map(|(packet, _)| (10, packet)));
        }
        let mut analyzer = on_port();
        let mut rows = talk.analyze(&mut analyzer);
        rows.extend(finish(&mut analyzer));
        let mut ids: Vec<i32> = rows.iter().map(|row| row.correlation_id).collect();
        ids.sort_unstable();
        prop_assert!(ids.windows(2).all(|pair| pair[0] < pair[1]), "{:?}", ids);
        for row in &rows {
            prop_assert!((0..30).contains(&row.correlation_id));
            prop_assert_eq!(row.api, if row.correlation_id % 3 == 0 { "PRODUCE" } else { "FIND_COORDINATOR" });
            prop_assert!(row.end.is_some() || row.error.is_some(), "{:?}", row);
        }
    }

    #[test]
    fn malformed_packets_never_panic(
        packets in prop::collection::vec((any::<u16>(), prop::collection::vec(any::<u8>(), 0..120)), 0..40),
        flips in prop::collection::vec((0..400usize, any::<u8>()), 0..200),
    ) {
        let mut analyzer = anywhere();
        let (asked, answered) = streams(4);
        let mut talk = Conversation::standard();
        talk.open(0).ask(1, &asked).answer(2, &answered).close(3);
        for (at, value) in flips {
            let len = talk.packets.len();
            let bytes = &mut talk.packets[at % len].1;
            let len = bytes.len();
            bytes[at % len] = value;
        }
        talk.analyze(&mut analyzer);
        for (link, bytes) in &packets {
            let packet = Packet {
                time_ns: i64::from(*link),
                link: LinkType::from_number(link % 300),
                original_len: u32::from(*link) << 16,
                bytes,
            };
            analyzer.packet(&packet, &mut |_| ());
        }
        finish(&mut analyzer);
        prop_assert_eq!(analyzer.counters().packets, packets.len() as u64 + 7);
    }
}
