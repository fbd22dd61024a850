//! Packets of both directions out of order, as two CPUs write them: which segments wait, and for how long.

use model::Nanos;
use proptest::prelude::*;

use super::{error, finish, on_port};
use crate::link::Flags;
use crate::tests::TestSegment;
use crate::tests::conversation::Conversation;
use crate::tests::kafka;

const MILLISECOND: i64 = 1_000_000;

/// An acknowledgement of everything sent so far, without payload.
fn acknowledgement(talk: &Conversation, by_client: bool) -> Vec<u8> {
    let (from, to) = if by_client { (&talk.client, &talk.broker) } else { (&talk.broker, &talk.client) };
    TestSegment { ack: to.seq, flags: Flags::ACK, payload: Vec::new(), ..from.clone() }.ethernet()
}

/// A request of which only the first part was captured, acknowledged and answered.
fn cut_short(talk: &mut Conversation, time: i64) {
    let batch = kafka::batch(1, 1, &[0; 5_000]);
    let request = kafka::produce(1, -1, "t", [&batch, &batch]);
    let (head, tail) = request.split_at(6_000);
    talk.open(time).ask(time, head);
    let _lost = talk.next_packet(true, tail);
    talk.answer(time, &kafka::produced(1, "t", [(2, 0, 5), (5, 0, 6)]));
}

#[test]
fn bytes_acknowledged_before_their_capture_are_not_lost() {
    let mut talk = Conversation::standard();
    talk.open(0);
    let request = talk.next_packet(true, &kafka::small_request(1));
    talk.answer(20, &kafka::response(1, b"one"));
    talk.packets.push((21, request));
    talk.packets.push((30, acknowledgement(&talk, true)));
    let mut analyzer = on_port();
    let rows = talk.analyze(&mut analyzer);
    assert_eq!(rows.iter().map(|row| (row.correlation_id, error(row))).collect::<Vec<_>>(), [(1, "")]);
    assert_eq!((rows[0].arrival, rows[0].response), (Nanos(21), Some(Nanos(20))), "each keeps its time");
    assert_eq!((analyzer.counters().gaps, analyzer.cx.pool.used), (0, 0));
}

#[test]
fn abandons_a_gap_after_more_packets_of_the_connection() {
    let mut talk = Conversation::standard();
    cut_short(&mut talk, 10);
    let mut analyzer = on_port();
    for number in 1..=32 {
        assert_eq!(talk.analyze(&mut analyzer), [], "after {} packets", number - 1);
        talk.packets.push((11, acknowledgement(&talk, number % 2 == 0)));
    }
    let rows = talk.analyze(&mut analyzer);
    assert_eq!(rows.iter().map(|row| row.end).collect::<Vec<_>>(), [Some(Nanos(10))]);
    assert_eq!((analyzer.counters().gaps, analyzer.cx.pool.used), (1, 0));
}

#[test]
fn abandons_a_gap_on_a_silent_connection_after_a_timeout() {
    let mut talk = Conversation::standard();
    cut_short(&mut talk, 10);
    let mut analyzer = on_port();
    assert_eq!(talk.analyze(&mut analyzer), []);
    let mut busy = Conversation::new("10.0.0.8:41234", "10.0.0.1:9092");
    busy.open(49 * MILLISECOND);
    assert_eq!(busy.analyze(&mut analyzer), []);
    busy.ask(51 * MILLISECOND, &kafka::small_request(1));
    let rows = busy.analyze(&mut analyzer);
    assert_eq!(rows.iter().map(|row| row.end).collect::<Vec<_>>(), [Some(Nanos(10))]);
}

#[test]
fn reset_before_a_reordered_response_loses_no_row() {
    let mut talk = Conversation::standard();
    talk.open(0).ask(10, &kafka::small_request(1));
    let response = talk.next_packet(false, &kafka::response(1, b"late"));
    let reset = TestSegment { flags: Flags::RST, ack: 0, payload: Vec::new(), ..talk.client.clone() };
    talk.packets.push((20, reset.ethernet()));
    talk.packets.push((21, response));
    talk.ask(51 * MILLISECOND, &kafka::small_request(2));
    let rows = talk.analyze(&mut on_port());
    let rows: Vec<_> = rows.iter().map(|row| (row.correlation_id, row.end, error(row))).collect();
    assert_eq!(
        rows,
        [(1, Some(Nanos(21)), ""), (2, None, "no response before the connection ended")],
        "the reset ends the connection once it has waited"
    );
}

#[test]
fn full_pool_abandons_a_gap_at_once() {
    let mut talk = Conversation::standard();
    cut_short(&mut talk, 10);
    let mut analyzer = on_port();
    analyzer.cx.pool.total_limit = 0;
    assert_eq!(talk.analyze(&mut analyzer).len(), 1);
}

#[test]
fn waiting_segments_of_a_reused_port_belong_to_the_old_connection() {
    let mut talk = Conversation::standard();
    cut_short(&mut talk, 10);
    talk.client.seq = talk.client.seq.wrapping_add(77_777);
    talk.broker.seq = 123;
    talk.open(20).ask(30, &kafka::small_request(1)).answer(40, &kafka::response(1, b""));
    let rows = talk.analyze(&mut on_port());
    assert_eq!(rows.iter().map(|row| row.api).collect::<Vec<_>>(), ["PRODUCE", "FIND_COORDINATOR"]);
    assert_eq!(rows[0].partitions[0].base_offset, Some(5));
}

/// A conversation in small packets: requests, pipelined here and there, answers, acknowledgements.
fn conversation(talk: &mut Conversation, requests: i32, mtu: usize) {
    let batch = kafka::batch(5, 2, &[3; 700]);
    talk.open(0);
    for id in 0..requests {
        let is_produce = id % 3 == 0;
        let (asked, answered) = if is_produce {
            let request = kafka::produce(id, -1, "topic", [&batch, &batch]);
            (request, kafka::produced(id, "topic", [(2, 0, 1), (5, 0, 1)]))
        } else {
            (kafka::small_request(id), kafka::response(id, &vec![1; id as usize * 10]))
        };
        for (number, part) in asked.chunks(mtu).enumerate() {
            talk.ask(0, part);
            if number % 2 == 1 {
                talk.packets.push((0, acknowledgement(talk, false)));
            }
        }
        for part in answered.chunks(mtu) {
            talk.answer(0, part);
        }
        if id % 4 == 0 {
            talk.packets.push((0, acknowledgement(talk, true)));
        }
    }
    talk.close(0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Packets that swap places cost no row, and nothing is reported missing. They move up to a few positions, and
    /// include the handshake and the FINs.
    #[test]
    fn reordered_neighbouring_packets_lose_no_row(
        moves in prop::collection::vec(0..12usize, 7..300),
        mtu in 40..900usize,
        starts_midstream: bool,
    ) {
        let mut talk = Conversation::standard();
        conversation(&mut talk, 40, mtu);
        if starts_midstream {
            talk.packets.drain(..3);
        }
        let mut packets: Vec<_> = talk.packets.drain(..).enumerate().collect();
        packets.sort_by_key(|(place, _)| place + moves[place % moves.len()]);
        let packets = packets.into_iter().enumerate();
        talk.packets = packets.map(|(now, (_, (_, bytes)))| (now as i64 * 1_000, bytes)).collect();
        let mut analyzer = on_port();
        let mut rows = talk.analyze(&mut analyzer);
        rows.extend(finish(&mut analyzer));
        prop_assert_eq!(rows.iter().map(|row| row.correlation_id).collect::<Vec<_>>(), (0..40).collect::<Vec<_>>());
        for row in &rows {
            prop_assert_eq!((row.end.is_some(), error(row)), (true, ""));
        }
        let counters = analyzer.counters();
        prop_assert_eq!((counters.gaps, counters.unmatched_responses, counters.resyncs), (0, 0, 0));
        prop_assert_eq!(analyzer.cx.pool.used, 0);
    }
}
