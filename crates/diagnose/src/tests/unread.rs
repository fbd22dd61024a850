//! Requests whose bytes could not arrive while others of a connection were served.
//! They are recognized by how they arrived when the broker read again, and not named if the client itself was slow.

use model::{Cause, Confidence, Event, Nanos, Request, SocketOp, SocketOpKind, Verdict};

use super::stages::{socket_op, us};
use super::{JOURNAL_STACK, append, commit, ms, off_cpu, op, request, request_event, run};

const REQUEST_BYTES: u32 = 1_000_000;
/// The bytes that fit into the socket's buffer.
const TAKEN_BYTES: u32 = 200_000;

/// A request that arrived from 1,000 ms on and was complete at `complete`.
/// It waited behind a request that the broker answered at 1,150 ms.
fn large(complete: Nanos) -> Request {
    let mut large = request(2, 3, 1_000, 1_160, 77);
    large.client = request(1, 6, 0, 0, 0).client;
    (large.sequence, large.request_bytes, large.arrival_end) = (Some(7_000), REQUEST_BYTES - 4, complete);
    large
}

/// A request that the journal delayed until 1,150 ms, and its handler.
fn held_up() -> Vec<Event> {
    vec![
        off_cpu(7, ms(996), ms(1_149), JOURNAL_STACK),
        op(append(7, 6, ms(995), ms(1_149), 1)),
        commit(2285, 990, 1_150),
        request_event(request(1, 6, 990, 1_150, 1)),
    ]
}

/// The broker's read of the request's bytes from one position to another.
fn read(of: &Request, from: u32, to: u32, at: Nanos) -> Event {
    let first = of.sequence.unwrap();
    Event::SocketOp(Box::new(SocketOp {
        sequence: first.wrapping_add(from),
        sequence_end: first.wrapping_add(to),
        bytes: Some((to - from).into()),
        ..socket_op(of, SocketOpKind::Read, at, at + Nanos(10_000))
    }))
}

/// The verdict on the large request after the broker had resumed reading.
/// As many bytes as had arrived by then arrived at `again`.
fn verdict_of(again: Nanos, complete: Nanos, is_read_seen: bool) -> Verdict {
    let large = large(complete);
    let mut events = held_up();
    if is_read_seen {
        events.push(read(&large, 0, 4, us(1_150_100)));
        events.push(read(&large, 4, TAKEN_BYTES, us(1_150_200)));
        events.push(read(&large, TAKEN_BYTES, 2 * TAKEN_BYTES, again));
        events.push(read(&large, 2 * TAKEN_BYTES, REQUEST_BYTES, complete));
    }
    events.push(request_event(large));
    let (verdicts, _) = run(events);
    verdicts.into_iter().find(|verdict| verdict.request.correlation_id == 2).unwrap()
}

#[test]
fn blocked_bytes_wait_for_the_request_in_service() {
    let verdict = verdict_of(ms(1_151), ms(1_154), true);
    assert_eq!(verdict.chain, [Cause::HeadOfLine, Cause::JournalCommit]);
    assert_eq!((&*verdict.root, verdict.confidence), ("journal-commit:loop0:2285", Confidence::Strong));
    let text = &verdict.evidence[0].text;
    assert!(
        text.starts_with("could not arrive, because the broker read nothing from the connection, for 150 ms behind request 1"),
        "{text}"
    );
}

#[test]
fn last_bytes_may_arrive_late() {
    // All but the last came at once: the reason for their wait is another matter, and took less.
    assert_eq!(verdict_of(ms(1_151), ms(1_159), true).chain, [Cause::HeadOfLine, Cause::JournalCommit]);
}

#[test]
fn client_that_continues_slowly_is_not_blocked() {
    assert_eq!(verdict_of(us(1_150_200) + Nanos::from_millis(60), ms(1_300), true).cause, Cause::SlowClient);
    let quicker_but_not_much = us(1_150_200) + Nanos::from_millis(38);
    assert!(!verdict_of(quicker_but_not_much, ms(1_200), true).chain.contains(&Cause::HeadOfLine));
}

#[test]
fn unobserved_reads_give_no_cause() {
    assert_eq!(verdict_of(ms(1_151), ms(1_154), false).cause, Cause::Unobserved);
}

/// The verdict if another request of the connection lies between. The broker read that one after 1,150 ms.
fn verdict_behind_two(read_since: Nanos, complete: Nanos) -> Verdict {
    let large = large(complete);
    let mut events = held_up();
    let mut served = request(1, 6, 990, 1_150, 1);
    served.sequence = Some(5_000);
    let mut between = request(3, 4, 995, 1_151, 78);
    between.client = served.client;
    (between.sequence, between.request_bytes) = (Some(5_604), 7_000 - 5_604 - 4);
    between.head_of_line = Some(ms(1_150) - between.arrival);
    events.push(read(&served, 0, 604, read_since));
    events.push(read(&between, 0, 1_396, us(1_150_100)));
    events.push(read(&large, 0, REQUEST_BYTES, us(complete.0 / 1_000 + 1_000)));
    events.retain(|event| !matches!(event, Event::Request(request) if request.correlation_id == 1));
    events.extend([request_event(served), request_event(between), request_event(large)]);
    let (verdicts, _) = run(events);
    verdicts.into_iter().find(|verdict| verdict.request.correlation_id == 2).unwrap()
}

#[test]
fn blocked_bytes_behind_two_requests_wait_for_the_one_in_service() {
    let verdict = verdict_behind_two(us(990_100), us(1_150_300));
    assert_eq!(verdict.chain, [Cause::HeadOfLine, Cause::HeadOfLine, Cause::JournalCommit]);
    let text = &verdict.evidence[0].text;
    assert!(
        text.starts_with("could not arrive, because the broker read nothing from the connection, for 150 ms behind request 1"),
        "{text}"
    );
}

#[test]
fn bytes_that_arrive_late_are_not_blocked() {
    let verdict = verdict_behind_two(us(990_100), us(1_159_900));
    assert!(!verdict.chain.contains(&Cause::HeadOfLine), "{:?}", verdict.chain);
}

#[test]
fn bytes_are_not_blocked_before_the_served_request_is_read() {
    // Read only at 1,148 ms: until then nothing shows that the bytes had no room, and 2 ms are not long.
    let verdict = verdict_behind_two(ms(1_148), us(1_150_300));
    assert!(!verdict.chain.contains(&Cause::HeadOfLine), "{:?}", verdict.chain);
}
