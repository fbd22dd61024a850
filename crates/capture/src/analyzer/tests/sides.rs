//! Traffic other than whole Kafka conversations: one side alone, tokens, TLS from its middle, an earlier connection's
//! segments, several listeners, the largest request.

use proptest::prelude::*;

use super::{anywhere, error, finish, on_port, timing};
use crate::analyzer::Analyzer;
use crate::config::{Config, Limits};
use crate::link::Flags;
use crate::packet::{LinkType, Packet};
use crate::tests::TestSegment;
use crate::tests::conversation::Conversation;
use crate::tests::kafka;

fn sized(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u32).to_be_bytes()[..], bytes].concat()
}

fn handshake(version: i16, correlation_id: i32) -> Vec<u8> {
    kafka::request(17, version, correlation_id, &[&[0, 5][..], b"PLAIN"].concat())
}

/// No error, one mechanism.
fn handshake_response(correlation_id: i32) -> Vec<u8> {
    kafka::response(correlation_id, &[&[0, 0, 0, 0, 0, 1, 0, 5][..], b"PLAIN"].concat())
}

#[test]
fn counts_raw_sasl_tokens_and_reads_the_requests_after_them() {
    for (mut analyzer, opened) in [(on_port(), true), (anywhere(), true), (on_port(), false)] {
        let mut talk = Conversation::standard();
        if opened {
            talk.open(0);
        }
        talk.ask(10, &handshake(0, 1)).answer(20, &handshake_response(1));
        talk.ask(30, &sized(b"n,,n=user,r=fyko")).answer(40, &sized(b"r=fyko,s=QSXCR,i=4096"));
        talk.ask(50, &sized(b"c=biws,r=fyko,p=v0X8")).answer(60, &sized(b""));
        talk.ask(70, &kafka::small_request(2)).answer(80, &kafka::response(2, b"\0\0x"));
        talk.ask(90, &kafka::small_request(3)).answer(95, &kafka::response(3, b"\0\0x"));
        let mut rows = talk.analyze(&mut analyzer);
        rows.extend(finish(&mut analyzer));
        let timings: Vec<_> = rows.iter().map(timing).collect();
        assert_eq!(timings, [(1, Some(10), Some(0)), (2, Some(10), Some(0)), (3, Some(5), Some(0))]);
        assert!(rows.iter().all(|row| row.error.is_none()), "{rows:?}");
        let counters = analyzer.counters();
        assert_eq!(counters.sasl_tokens, 4);
        assert_eq!((counters.undecodable_frames, counters.unmatched_responses), (0, 0));
        // A stream that is joined in its middle starts with a search, which is not a resync.
        assert_eq!(counters.resyncs, 0);
    }
}

#[test]
fn accepts_a_second_sasl_handshake_after_a_refused_version_0() {
    let mut talk = Conversation::standard();
    let refused = kafka::response(1, &[0, 33, 0, 0, 0, 1, 0, 5, b'P', b'L', b'A', b'I', b'N']);
    talk.open(0).ask(10, &handshake(0, 1)).answer(20, &refused);
    talk.ask(30, &handshake(0, 2)).answer(40, &handshake_response(2));
    talk.ask(50, &sized(b"\0user\0password")).answer(60, &sized(b""));
    talk.ask(70, &kafka::small_request(3)).answer(80, &kafka::response(3, b"\0\0x"));
    let mut analyzer = on_port();
    let rows = talk.analyze(&mut analyzer);
    assert_eq!(rows.iter().map(|row| row.correlation_id).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!((analyzer.counters().sasl_tokens, analyzer.counters().resyncs), (2, 0));
}

#[test]
fn detects_tls_in_a_capture_that_starts_midstream() {
    let record = |length: u8| [&[0x17, 3, 3, 0, length][..], &vec![0x9c; length.into()]].concat();
    for mut analyzer in [on_port(), anywhere()] {
        let mut talk = Conversation::standard();
        for i in 1..9 {
            talk.ask(i * 10, &record(30 + i as u8)).answer(i * 10 + 5, &record(90 + i as u8));
        }
        assert_eq!(talk.analyze(&mut analyzer), []);
        assert_eq!(finish(&mut analyzer), []);
        assert_eq!((analyzer.counters().tls_connections, analyzer.counters().other_connections), (1, 0));
        // Also when only the ports show which end is the broker.
        let tls: Vec<_> = analyzer.take_tls().iter().map(|(listener, _)| listener.to_string()).collect();
        assert_eq!(tls, ["10.0.0.1:9092"]);
    }
}

#[test]
fn segments_of_an_earlier_connection_are_ignored() {
    let mut before = Conversation::standard();
    before.open(0);
    let old_request = before.next_packet(true, &kafka::small_request(77));
    let old_response = before.next_packet(false, &kafka::response(77, b"old"));
    let mut talk = Conversation::standard();
    talk.client.seq = talk.client.seq.wrapping_add(0x5000_0000);
    talk.broker.seq = 0x6000_0000;
    talk.open(10).ask(20, &kafka::small_request(1));
    talk.packets.push((21, old_request.clone()));
    talk.packets.push((22, old_response));
    talk.answer(30, &kafka::response(1, b"new"));
    talk.packets.push((31, old_request));
    talk.ask(40, &kafka::small_request(2)).answer(50, &kafka::response(2, b"new")).close(60);
    let mut analyzer = on_port();
    let rows = talk.analyze(&mut analyzer);
    assert_eq!(rows.iter().map(timing).collect::<Vec<_>>(), [(1, Some(10), Some(0)), (2, Some(10), Some(0))]);
    let counters = analyzer.counters();
    assert_eq!((counters.stray_segments, counters.gaps, counters.resyncs), (3, 0, 0));
}

/// Only the client's packets, with advancing acknowledgements: every request has its row, which says why there is no
/// answer.
#[test]
fn requests_without_captured_responses_have_rows() {
    for opened in [true, false] {
        let mut talk = Conversation::standard();
        if opened {
            talk.open(0);
            talk.packets.remove(1);
        }
        for id in 1..=20 {
            talk.ask(i64::from(id) * 10, &kafka::small_request(id));
            let _unseen = talk.next_packet(false, &kafka::response(id, &[7; 3_000]));
        }
        let limits = Limits { unacknowledged_bytes: 32 << 10, ..Limits::default() };
        let little_memory = Analyzer::new(Config { ports: vec![9092], limits, ..Config::default() });
        for mut analyzer in [on_port(), anywhere(), little_memory] {
            let mut again = Conversation { packets: talk.packets.clone(), ..Conversation::standard() };
            let mut rows = again.analyze(&mut analyzer);
            rows.extend(finish(&mut analyzer));
            assert_eq!(
                rows.iter().map(|row| row.correlation_id).collect::<Vec<_>>(),
                (1..=20).collect::<Vec<_>>()
            );
            for row in &rows {
                assert!(row.end.is_none() && error(row).starts_with("no response"), "{row:?}");
            }
            assert_eq!(analyzer.counters().unanswered, 20);
            assert_eq!(analyzer.counters().one_sided_connections, 1);
        }
    }
}

/// Only the broker's packets: no row is invented, and the missing side is reported.
#[test]
fn responses_alone_count_as_a_one_sided_connection() {
    for opened in [true, false] {
        let mut talk = Conversation::standard();
        if opened {
            talk.open(0);
            let answered = talk.packets.remove(1);
            talk.packets = vec![answered];
        }
        for id in 1..=20 {
            let _unseen = talk.next_packet(true, &kafka::small_request(id));
            talk.answer(i64::from(id) * 10, &kafka::response(id, &[7; 3_000]));
        }
        for mut analyzer in [on_port(), anywhere()] {
            let mut again = Conversation { packets: talk.packets.clone(), ..Conversation::standard() };
            let mut rows = again.analyze(&mut analyzer);
            rows.extend(finish(&mut analyzer));
            assert_eq!(rows, []);
            let counters = analyzer.counters();
            assert_eq!((counters.one_sided_connections, counters.other_connections), (1, 0), "{opened}");
        }
    }
}

/// A capture that ends between a request and its answer is not one-sided.
#[test]
fn capture_end_before_the_answer_is_not_one_sided() {
    let mut talk = Conversation::standard();
    talk.ask(10, &kafka::small_request(1));
    let mut analyzer = on_port();
    let mut rows = talk.analyze(&mut analyzer);
    rows.extend(finish(&mut analyzer));
    assert_eq!((rows.len(), analyzer.counters().one_sided_connections), (1, 0));
}

#[test]
fn reads_several_listeners_from_one_capture() {
    let ports = [9092, 9093, 19_092];
    let mut talks = Vec::new();
    for (i, port) in ports.into_iter().enumerate() {
        let mut talk = Conversation::new(&format!("10.0.0.7:{}", 50_000 + i), &format!("10.0.0.1:{port}"));
        talk.open(0).ask(10, &kafka::small_request(1)).answer(20, &kafka::response(1, b"\0\0x"));
        talks.push(talk);
    }
    // A broker is a client of another one: both ends have a configured port.
    let mut between = Conversation::new("10.0.0.2:9093", "10.0.0.1:9092");
    between.open(0).ask(10, &kafka::small_request(1)).answer(20, &kafka::response(1, b"\0\0x"));
    talks.push(between);
    let brokers = |ports: &[u16]| {
        let mut analyzer = Analyzer::new(Config { ports: ports.to_vec(), ..Config::default() });
        let mut rows = Vec::new();
        for talk in &talks {
            let mut again = Conversation { packets: talk.packets.clone(), ..Conversation::standard() };
            rows.extend(again.analyze(&mut analyzer));
        }
        assert!(rows.iter().all(|row| row.error.is_none() && row.end.is_some()), "{rows:?}");
        rows.iter().map(|row| row.broker.port()).collect::<Vec<_>>()
    };
    assert_eq!(brokers(&ports), [9092, 9093, 19_092, 9092]);
    assert_eq!(brokers(&[9093, 19_092])[..2], [9093, 19_092]);
    assert_eq!(brokers(&[]), [9092, 9093, 19_092, 9092]);
}

/// `socket.request.max.bytes` is 104857600 by default; a frame that is one byte larger is not Kafka's.
#[test]
fn reads_the_largest_request_and_rejects_a_larger_one() {
    let max = 104_857_600_usize;
    let overhead = kafka::produce(1, -1, "t", [&kafka::batch(1, 1, &[]), &kafka::batch(2, 1, &[])]).len() - 4;
    for (size, rows_expected) in [(max, vec![1, 2]), (max + 1, vec![2])] {
        let big = kafka::batch(1, 1, &vec![0xee; size - overhead]);
        let request = kafka::produce(1, -1, "t", [&big, &kafka::batch(2, 1, &[])]);
        assert_eq!(request.len() - 4, size);
        let mut analyzer = on_port();
        let mut talk = Conversation::standard();
        talk.open(0);
        let mut rows = talk.analyze(&mut analyzer);
        for piece in request.chunks(60_000) {
            talk.ask(10, piece);
            rows.extend(talk.analyze(&mut analyzer));
        }
        if rows_expected.len() == 2 {
            talk.answer(20, &kafka::produced(1, "t", [(2, 0, 5), (5, 0, 6)]));
        }
        talk.ask(30, &kafka::small_request(2)).answer(40, &kafka::response(2, b"\0\0x"));
        rows.extend(talk.analyze(&mut analyzer));
        rows.extend(finish(&mut analyzer));
        if rows_expected.len() == 2 {
            assert_eq!(rows.iter().map(|row| row.correlation_id).collect::<Vec<_>>(), rows_expected);
            assert_eq!((rows[0].request_bytes as usize, rows[0].error.as_deref()), (size, None));
            assert_eq!(rows[0].partitions[0].bytes as usize, big.len());
        } else {
            // The broker would close the connection; no row is invented.
            assert!(rows.iter().all(|row| row.correlation_id == 2), "{rows:?}");
        }
    }
}

#[test]
fn reads_a_first_produce_request_cut_in_its_header_on_a_known_port() {
    let batch = kafka::batch(1, 1, &[0; 200]);
    let mut talk = Conversation::standard();
    talk.ask(10, &kafka::produce(4, -1, "topicA", [&batch, &batch]));
    talk.answer(20, &kafka::produced(4, "topicA", [(2, 0, 5), (5, 0, 6)]));
    for (mut analyzer, ids) in [(on_port(), vec![4]), (anywhere(), vec![])] {
        let mut rows = Vec::new();
        for (time_ns, bytes) in &talk.packets {
            // The headers below take 54 bytes; 20 are left.
            let packet = Packet {
                time_ns: *time_ns,
                link: LinkType::Ethernet,
                original_len: bytes.len() as u32,
                bytes: &bytes[..74],
            };
            analyzer.packet(&packet, &mut |row| rows.push(*row));
        }
        rows.extend(finish(&mut analyzer));
        // Without a port, the side is unknown: an answer to Produce starts the same way.
        assert_eq!(rows.iter().map(|row| row.correlation_id).collect::<Vec<_>>(), ids);
        assert!(rows.iter().all(|row| row.api == "PRODUCE" && row.error.is_some()), "{rows:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Segments of an earlier connection: neither their sequence nor their acknowledgement numbers fit.
    #[test]
    fn stray_segments_make_no_rows(
        strays in prop::collection::vec((any::<bool>(), 0x2000_0000..0xd000_0000u32, 0x2000_0000..0xd000_0000u32), 1..20),
    ) {
        let mut talk = Conversation::standard();
        talk.open(0);
        for id in 1..=20 {
            talk.ask(i64::from(id), &kafka::small_request(id));
            if let Some((by_client, seq, ack)) = strays.get(id as usize % strays.len()) {
                let (from, to) = if *by_client { (&talk.client, &talk.broker) } else { (&talk.broker, &talk.client) };
                let stray = TestSegment {
                    seq: from.seq.wrapping_add(*seq),
                    ack: to.seq.wrapping_add(*ack),
                    flags: Flags::ACK,
                    payload: kafka::small_request(1_000),
                    ..from.clone()
                };
                talk.packets.push((i64::from(id), stray.ethernet()));
            }
            talk.answer(i64::from(id), &kafka::response(id, b"\0\0x"));
        }
        let mut analyzer = on_port();
        let rows = talk.analyze(&mut analyzer);
        prop_assert_eq!(rows.iter().map(|row| row.correlation_id).collect::<Vec<_>>(), (1..=20).collect::<Vec<_>>());
        prop_assert!(rows.iter().all(|row| row.error.is_none()));
        prop_assert_eq!(analyzer.counters().stray_segments, 20);
    }
}
