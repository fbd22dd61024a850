//! Reads of tiered storage: fetches that waited for a remote-log reader, recognized by its connections or its files.

use model::{
    Cause, Confidence, Event, FileKind, FileOp, FileOpKind, Nanos, Partition, Request, SocketOp,
    SocketOpKind, Verdict,
};

use super::stages::{fetch, numbered, read, socket_op, us, write};
use super::{append, io, ms, off_cpu, op, request_event, run};

const PEER: &str = "10.9.9.9:443";
const WANTED: u64 = 498;

/// A call of a remote-log reader; a write reads no bytes.
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

/// A fetch from 0 to 700 ms of records that were there. Includes the readers' calls meanwhile.
fn fetched_with(data: Option<Nanos>, readers: Vec<Event>) -> Option<Verdict> {
    let ours = numbered(Request { data, max_wait_ms: Some(650), ..fetch() });
    let own = [read(&ours, us(100), us(200)), write(&ours, us(699_900), us(699_990)), request_event(ours)];
    run(readers.into_iter().chain(own)).0.pop()
}

fn fetched(readers: Vec<Event>) -> Verdict {
    fetched_with(Some(ms(-20)), readers).unwrap()
}

fn one_reader() -> Vec<Event> {
    vec![call(50, 20, 21, PEER, 0), call(50, 400, 401, PEER, 300), call(50, 690, 691, PEER, 300)]
}

#[test]
fn remote_tier_read_names_the_peer_and_bytes() {
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
fn reader_with_too_few_bytes_or_at_another_time_is_no_cause() {
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
fn two_fitting_readers_or_a_possible_long_poll_name_no_reader() {
    let second = |tid, end| vec![call(tid, 30, 31, PEER, 0), call(tid, end - 1, end, PEER, 600)];
    let both = [one_reader(), second(51, 695)].concat();
    assert_eq!(fetched(both).cause, Cause::Unobserved);
    let one = [one_reader(), second(51, 500)].concat();
    assert_eq!(fetched(one).cause, Cause::RemoteTierRead, "the other's answer was long before");
    assert_eq!(fetched_with(None, one_reader()), None);
    let late = fetched_with(Some(ms(600)), one_reader()).map(|verdict| verdict.cause);
    assert_ne!(late, Some(Cause::RemoteTierRead));
}

/// A remote-log reader's read of a file on a mounted storage.
fn file_read(tid: u32, start: i64, end: i64, bytes: u64) -> FileOp {
    FileOp {
        op: FileOpKind::Read,
        thread: "remote-log-read".into(),
        bytes: Some(bytes),
        disk_bytes: Some(bytes),
        file: "tier/topicF-6/00000000000000000000-id.log".into(),
        kind: FileKind::Other,
        topic_partition: None,
        batch: None,
        journal_transaction: None,
        ..append(tid, 6, ms(start), ms(end), 0)
    }
}

/// A cold page that the device was slow to read.
fn slow_file_read(tid: u32, start: i64, end: i64, bytes: u64) -> Vec<Event> {
    const COLD: &str =
        "ksys_read;vfs_read;ext4_file_read_iter;filemap_read;folio_wait_bit_common;io_schedule;schedule";
    vec![
        off_cpu(tid, ms(start), ms(end), COLD),
        io(start, end),
        op(file_read(tid, start - 1, end + 1, bytes)),
    ]
}

#[test]
fn file_based_storage_is_named_with_the_slow_device_behind_it() {
    let verdict =
        fetched([vec![op(file_read(50, 20, 21, 10))], slow_file_read(50, 40, 690, WANTED)].concat());
    assert_eq!(verdict.chain, [Cause::RemoteTierRead, Cause::SlowDevice]);
    assert_eq!(verdict.confidence, Confidence::Strong);
    assert!(verdict.root.starts_with("slow-device:loop0:"), "{}", verdict.root);
    assert_eq!(
        verdict.evidence[0].text,
        "remote-log-read read 508 bytes from tier/topicF-6/00000000000000000000-id.log in 671 ms, the last of them 8.9 ms \
         before the response"
    );
    assert_eq!(Some(verdict.stages.total()), verdict.request.latency());
}

#[test]
fn unexplained_file_read_of_a_reader_is_the_root() {
    let verdict = fetched(vec![op(file_read(50, 20, 691, WANTED))]);
    assert_eq!(&*verdict.root, "remote-tier-read:tier/topicF-6/00000000000000000000-id.log");
    assert_eq!(fetched(vec![op(file_read(50, 20, 691, WANTED - 1))]).cause, Cause::Unobserved);
    let other = FileOp { thread: "kafka-scheduler".into(), ..file_read(50, 20, 691, WANTED) };
    assert_eq!(fetched(vec![op(other)]).cause, Cause::Unobserved);
    let copied = FileOp { op: FileOpKind::Write, ..file_read(50, 20, 691, WANTED) };
    assert_eq!(fetched(vec![op(copied)]).cause, Cause::Unobserved);
}

#[test]
fn reader_busy_when_the_fetch_arrives_reads_for_another_fetch() {
    let earlier = |from| vec![op(file_read(50, from, 100, 17)), op(file_read(50, 100, 691, WANTED))];
    let own = || slow_file_read(51, 40, 690, WANTED);
    let verdict = fetched([earlier(-90), own()].concat());
    assert_eq!((verdict.chain[0], verdict.evidence[0].tid), (Cause::RemoteTierRead, Some(51)));
    assert_eq!(fetched([earlier(20), own()].concat()).cause, Cause::Unobserved, "either may be it");
    assert_eq!(fetched(earlier(-90)).cause, Cause::RemoteTierRead, "it goes on with what waits");
}

#[test]
fn remote_read_takes_precedence_over_a_busy_network_thread() {
    let busy = || {
        let other = numbered(Request { correlation_id: 9, client: "10.0.0.9:1".parse().unwrap(), ..fetch() });
        vec![write(&other, ms(10), us(699_800))]
    };
    assert_eq!(fetched(busy()).cause, Cause::NetworkThreadsBusy);
    assert_eq!(fetched([busy(), one_reader()].concat()).cause, Cause::RemoteTierRead);
    let late = timed_out(Some(ms(-20)), [busy(), slow_file_read(50, 20, 900, 4_096)].concat()).unwrap();
    assert_eq!(late.chain, [Cause::RemoteTierRead, Cause::SlowDevice]);
}

/// The same fetch, answered without records.
fn timed_out(data: Option<Nanos>, readers: Vec<Event>) -> Option<Verdict> {
    let nothing = Partition { bytes: 0, batches: Vec::new(), ..fetch().partitions.remove(0) };
    let ours = Request { data, max_wait_ms: Some(700), partitions: vec![nothing], ..fetch() };
    let ours = numbered(ours);
    let own = [read(&ours, us(100), us(200)), write(&ours, us(699_900), us(699_990)), request_event(ours)];
    run(readers.into_iter().chain(own)).0.pop()
}

#[test]
fn empty_response_during_a_slow_remote_read_names_the_read() {
    let there = Some(ms(-20));
    let verdict = timed_out(there, slow_file_read(50, 20, 900, 4_096)).unwrap();
    assert_eq!(verdict.chain, [Cause::RemoteTierRead, Cause::SlowDevice]);
    assert_eq!(verdict.confidence, Confidence::Strong);
    assert!(verdict.evidence[0].text.ends_with("-id.log when the broker answered without records"));
    let peer = timed_out(there, vec![call(50, 20, 900, PEER, 300)]).unwrap();
    assert_eq!(&*peer.root, "remote-tier-read:10.9.9.9:443");
    // It had begun for another fetch, and others read too.
    let both = [slow_file_read(50, -400, 300, 9), slow_file_read(51, 250, 900, 9)].concat();
    let both = timed_out(there, both).unwrap();
    assert_eq!((both.chain[0], both.confidence), (Cause::RemoteTierRead, Confidence::Weak));
    let short = timed_out(there, slow_file_read(50, 20, 300, 4_096)).unwrap();
    assert_eq!(short.cause, Cause::Unobserved);
}

#[test]
fn fetch_that_waits_for_data_is_a_long_poll_despite_a_reader() {
    assert_eq!(timed_out(None, slow_file_read(50, 20, 900, 4_096)), None);
    assert_eq!(timed_out(Some(ms(600)), slow_file_read(50, 20, 900, 4_096)), None);
}
