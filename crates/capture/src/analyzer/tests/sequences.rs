//! The TCP sequence numbers of requests and responses: those of the packets, wherever the capture begins.

use model::Request;

use super::{anywhere, finish, on_port};
use crate::analyzer::Analyzer;
use crate::tests::conversation::Conversation;
use crate::tests::kafka;

/// A row's correlation id, and the start and end of the request and its response.
type Extents = (i32, [Option<u32>; 4]);

fn extents(row: &Request) -> Extents {
    let ends = [row.sequence, row.sequence_end(), row.response_sequence, row.response_sequence_end()];
    (row.correlation_id, ends)
}

/// One request and its answer, cut into packets of `packet_bytes`; returns the row's expected extents.
/// The client's sequence numbers wrap within the first request.
fn exchange(talk: &mut Conversation, correlation_id: i32, packet_bytes: usize) -> Extents {
    let time = i64::from(correlation_id) * 100;
    let (asked, answered) = (talk.client.seq, talk.broker.seq);
    for part in kafka::small_request(correlation_id).chunks(packet_bytes) {
        talk.ask(time, part);
    }
    for part in kafka::response(correlation_id, &[1; 60]).chunks(packet_bytes) {
        talk.answer(time + 7, part);
    }
    (correlation_id, [asked, talk.client.seq, answered, talk.broker.seq].map(Some))
}

fn rows(analyzer: &mut Analyzer, talk: &mut Conversation) -> Vec<Extents> {
    let mut rows = talk.analyze(analyzer);
    rows.extend(finish(analyzer));
    rows.iter().map(extents).collect()
}

#[test]
fn sequence_numbers_match_the_packets() {
    for packet_bytes in [1, 5, 1000] {
        for mut analyzer in [on_port(), anywhere()] {
            let mut talk = Conversation::standard();
            talk.open(0);
            let expected: Vec<_> = (1..=4).map(|id| exchange(&mut talk, id, packet_bytes)).collect();
            assert_eq!(rows(&mut analyzer, &mut talk), expected, "packets of {packet_bytes} bytes");
        }
    }
}

#[test]
fn sequence_numbers_match_after_a_start_inside_a_frame() {
    for mut analyzer in [on_port(), anywhere()] {
        let mut talk = Conversation::standard();
        talk.ask(0, &[7; 33]).answer(1, &[8; 45]);
        let expected: Vec<_> = (1..=4).map(|id| exchange(&mut talk, id, 1000)).collect();
        assert_eq!(rows(&mut analyzer, &mut talk), expected);
    }
}

#[test]
fn sequence_numbers_match_after_uncaptured_bytes() {
    for lost in 0..4 {
        for mut analyzer in [on_port(), anywhere()] {
            let mut talk = Conversation::standard();
            talk.open(0);
            let mut expected = Vec::new();
            for id in 1..=4 {
                if id == lost + 1 {
                    talk.next_packet(true, &kafka::small_request(100));
                    talk.next_packet(false, &kafka::response(100, &[1; 30]));
                }
                expected.push(exchange(&mut talk, id, 1000));
            }
            assert_eq!(rows(&mut analyzer, &mut talk), expected, "before request {}", lost + 1);
        }
    }
}
