//! Reads of tiered storage: fetches that waited for a remote-log reader, told by its connections.

use model::{Cause, Confidence, Event, Nanos, Request, SocketOp, SocketOpKind, Verdict};

use super::stages::{fetch, numbered, read, socket_op, us, write};
use super::{asked, ms, run};

const PEER: &str = "10.9.9.9:443";
const WANTED: u64 = 498;

/// A call of a remote-log reader; a write has no bytes here.
fn call(tid: u32, start: i64, end: i64, peer: &str, read: u64) -> Event {
    let kind = if read > 0 { SocketOpKind::Read } else { SocketOpKind::Write };
    let of = numbered(fetch());
    Event::SocketOp(Box::new(SocketOp {
        tid,
        thread: "remote-log-read".into(),
        local: "10.0.0.1:50123".parse().unwrap(),
        remote: peer.parse().unwrap(),
        bytes: Some(read.max(200)),
        ..socket_op(&of, kind, ms(start), ms(end))
    }))
}

/// A fetch from 0 to 700 ms of records that were there, and what readers did meanwhile.
fn fetched_with(data: Option<Nanos>, readers: Vec<Event>) -> Option<Verdict> {
    let ours = numbered(Request { data, max_wait_ms: Some(650), ..fetch() });
    let own = [read(&ours, us(100), us(200)), write(&ours, us(699_900), us(699_990)), asked(ours)];
    run(readers.into_iter().chain(own)).0.pop()
}

fn fetched(readers: Vec<Event>) -> Verdict {
    fetched_with(Some(ms(-20)), readers).unwrap()
}

fn one_reader() -> Vec<Event> {
    vec![call(50, 20, 21, PEER, 0), call(50, 400, 401, PEER, 300), call(50, 690, 691, PEER, 300)]
}

#[test]
fn a_fetch_that_waited_for_a_remote_log_reader_is_named_with_peer_and_bytes() {
    let verdict = fetched(one_reader());
    assert_eq!((&*verdict.chain, verdict.confidence), (&[Cause::RemoteTierRead][..], Confidence::Strong));
    assert_eq!(&*verdict.root, "remote-tier-read:10.9.9.9:443");
    assert_eq!(
        verdict.evidence[0].text,
        "remote-log-read read 600 bytes from 10.9.9.9:443 in 671 ms, the last of them 8.9 ms before the response"
    );
    assert_eq!(Some(verdict.stages.total()), verdict.request.latency());
}

#[test]
fn who_read_too_little_or_something_else_is_not_it() {
    let cause = |readers| fetched(readers).cause;
    assert_eq!(WANTED, u64::from(fetch().partitions[0].bytes));
    let of = |bytes| vec![call(50, 20, 21, PEER, 0), call(50, 690, 691, PEER, bytes)];
    assert_eq!(cause(of(WANTED)), Cause::RemoteTierRead);
    assert_eq!(cause(of(WANTED - 1)), Cause::Unobserved);
    let early = vec![call(50, 20, 21, PEER, 0), call(50, 600, 601, PEER, 600)];
    assert_eq!(cause(early), Cause::Unobserved, "the answer did not follow");
    let short = vec![call(50, 500, 501, PEER, 0), call(50, 690, 691, PEER, 600)];
    assert_eq!(cause(short), Cause::Unobserved, "less than half of the time");
    let before = vec![call(50, -5, 1, PEER, 600), call(50, 690, 691, PEER, 10)];
    assert_eq!(cause(before), Cause::Unobserved, "it began before the fetch was read");
    let two_peers = vec![call(50, 20, 21, "10.9.9.8:443", 600), call(50, 690, 691, PEER, 10)];
    assert_eq!(cause(two_peers), Cause::Unobserved);
    let Event::SocketOp(op) = call(50, 20, 691, PEER, 600) else { unreachable!() };
    let other = Event::SocketOp(Box::new(SocketOp { thread: "kafka-admin".into(), ..*op }));
    assert_eq!(cause(vec![other]), Cause::Unobserved);
}

#[test]
fn of_two_readers_that_fit_none_is_chosen_and_a_fetch_that_may_have_waited_is_not_judged() {
    let second = |tid, end| vec![call(tid, 30, 31, PEER, 0), call(tid, end - 1, end, PEER, 600)];
    let both = [one_reader(), second(51, 695)].concat();
    assert_eq!(fetched(both).cause, Cause::Unobserved);
    let one = [one_reader(), second(51, 500)].concat();
    assert_eq!(fetched(one).cause, Cause::RemoteTierRead, "the other's answer was long before");
    assert_eq!(fetched_with(None, one_reader()), None);
    let late = fetched_with(Some(ms(600)), one_reader()).map(|verdict| verdict.cause);
    assert_ne!(late, Some(Cause::RemoteTierRead));
}
