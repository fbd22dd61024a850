//! Stages: each has the time that was injected for it, they add up, and unseen time belongs to none.

use model::{
    Cause, Event, Nanos, PartitionState, Request, RequestSource, Row, SocketOp, SocketOpKind, Stage, Verdict,
};

use super::{JOURNAL_STACK, append, commit, ms, off_cpu, op, request, request_event, run};
use crate::stages::waiting::is_mostly_intended_wait;
use crate::window::Window;
use crate::{Config, Engine};

pub(super) const NETWORK: u32 = 3;

pub(super) fn us(n: i64) -> Nanos {
    Nanos::from_micros(n)
}

/// A request with sequence numbers: 604 bytes, and 64 of its response.
pub(super) fn numbered(request: Request) -> Request {
    Request { sequence: Some(u32::MAX - 100), response_sequence: Some(5_000), ..request }
}

pub(super) fn socket_op(request: &Request, kind: SocketOpKind, start: Nanos, end: Nanos) -> SocketOp {
    let (sequence, bytes) = match kind {
        SocketOpKind::Read => (request.sequence.unwrap(), 4 + request.request_bytes),
        _ => (request.response_sequence.unwrap(), 4 + request.response_bytes.unwrap()),
    };
    SocketOp {
        start,
        end,
        op: kind,
        pid: 1,
        tid: NETWORK,
        thread: "data-plane-kafk".into(),
        local: request.broker,
        remote: request.client,
        bytes: Some(bytes.into()),
        sequence,
        sequence_end: sequence.wrapping_add(bytes),
        ..Row::empty()
    }
}

pub(super) fn read(request: &Request, start: Nanos, end: Nanos) -> Event {
    Event::SocketOp(Box::new(socket_op(request, SocketOpKind::Read, start, end)))
}

pub(super) fn write(request: &Request, start: Nanos, end: Nanos) -> Event {
    Event::SocketOp(Box::new(socket_op(request, SocketOpKind::Write, start, end)))
}

fn stages(verdict: &Verdict) -> Vec<(Stage, i64)> {
    assert_eq!(Some(verdict.stages.total()), verdict.request.latency());
    let taken = verdict.stages.iter().filter(|(_, time)| *time > Nanos::ZERO);
    taken.map(|(stage, time)| (stage, time.0 / 1_000_000)).collect()
}

/// A completely observed request from 1,000 to 1,200 ms: it arrived until 1,010, was read at 1,030, its handler was
/// busy with another until 1,060, and wrote from 1,070 to 1,180.
pub(super) fn all_stages() -> (Request, Vec<Event>) {
    let mut ours = numbered(request(1, 6, 1_000, 1_200, 1));
    ours.arrival_end = ms(1_010);
    ours.response = Some(ms(1_190));
    let events = vec![
        read(&ours, us(1_029_900), ms(1_030)),
        op(append(7, 1, ms(1_020), ms(1_060), 50)),
        off_cpu(7, ms(1_071), ms(1_180), JOURNAL_STACK),
        op(append(7, 6, ms(1_070), ms(1_180), 1)),
        write(&ours, us(1_189_900), ms(1_190)),
        commit(2285, 1_000, 1_181),
        request_event(ours.clone()),
    ];
    (ours, events)
}

#[test]
fn every_stage_of_a_produce_request_has_its_time() {
    let (_, events) = all_stages();
    let (verdicts, _) = run(events);
    assert_eq!(
        stages(&verdicts[0]),
        [
            (Stage::NetworkIn, 10),
            (Stage::Receive, 20),
            (Stage::Queue, 30),
            (Stage::Handler, 10),
            (Stage::Append, 110),
            (Stage::Respond, 9),
            (Stage::NetworkOut, 10),
        ]
    );
    assert_eq!(verdicts[0].cause, Cause::JournalCommit);
}

#[test]
fn time_without_a_source_is_unobserved() {
    let (_, events) = all_stages();
    let without = |left_out: &[usize]| {
        let remaining = events.iter().enumerate().filter(|(i, _)| !left_out.contains(i));
        stages(&run(remaining.map(|(_, event)| event.clone())).0[0])
    };
    let wire = [(Stage::NetworkIn, 10), (Stage::NetworkOut, 10), (Stage::Unobserved, 180)];
    assert_eq!(without(&[0, 1, 2, 3, 4, 5]), wire, "packets only");
    let unread = [
        (Stage::NetworkIn, 10),
        (Stage::Append, 110),
        (Stage::Respond, 9),
        (Stage::NetworkOut, 10),
        (Stage::Unobserved, 60),
    ];
    assert_eq!(without(&[0]), unread, "not read by anybody who was seen");
    let no_append = without(&[2, 3]);
    assert_eq!(no_append[1], (Stage::Receive, 20));
    assert_eq!(no_append.last(), Some(&(Stage::Unobserved, 159)), "{no_append:?}");
}

/// With TLS sequence numbers identify nothing: a request that an agent saw is read and answered by the calls within
/// the broker's own.
#[test]
fn tls_request_is_read_and_answered_within_the_broker_calls() {
    let (numbered, mut events) = all_stages();
    let ours = Request {
        seen_by: Some(RequestSource::TlsAgent),
        arrival_end: us(1_030_100),
        response: Some(us(1_189_800)),
        sequence: None,
        response_sequence: None,
        ..numbered
    };
    events.pop();
    events.push(request_event(ours.clone()));
    let of = |events: Vec<Event>| stages(&run(events).0[0]);
    let seen = [
        (Stage::NetworkIn, 30),
        (Stage::Queue, 29),
        (Stage::Handler, 10),
        (Stage::Append, 110),
        (Stage::Respond, 9),
        (Stage::NetworkOut, 10),
    ];
    assert_eq!(of(events.clone()), seen);
    // A call that lasted longer than the broker's was not within it.
    let Event::SocketOp(read) = &mut events[0] else { unreachable!() };
    read.end = us(1_030_200);
    assert!(of(events).iter().any(|(stage, _)| *stage == Stage::Unobserved));
}

#[test]
fn read_of_another_connection_or_of_other_bytes_is_ignored() {
    let (ours, events) = all_stages();
    let Event::SocketOp(read) = &events[0] else { unreachable!() };
    for other in [
        SocketOp { remote: "10.0.0.9:1".parse().unwrap(), ..(**read).clone() },
        SocketOp { sequence_end: read.sequence_end.wrapping_sub(1), ..(**read).clone() },
        SocketOp { op: SocketOpKind::Write, ..(**read).clone() },
        SocketOp { start: ms(1_300), end: ms(1_301), ..(**read).clone() },
    ] {
        let mut events = events.clone();
        events[0] = Event::SocketOp(Box::new(other));
        let (verdicts, _) = run(events);
        let verdict = verdicts.iter().find(|verdict| verdict.request == ours).unwrap();
        assert_eq!(verdict.stages.of(Stage::Receive), Nanos::ZERO);
    }
}

/// A follower's fetch of the data after an offset.
pub(super) fn follower_fetch(broker: i32, offset: i64, at: i64) -> Event {
    let mut fetch = request(900 + broker, 6, at, at + 1, 0);
    (fetch.api, fetch.api_key) = ("FETCH", 1);
    fetch.client_id = Some(format!("broker-{broker}-fetcher-0").into());
    fetch.partitions[0].fetch_offset = Some(offset);
    request_event(fetch)
}

/// A request whose own append took a millisecond, from 1,010 ms on.
/// It was answered at `answered`. Another append to `partition` held its log from 1,011.1 to 1,180 ms, delayed by the
/// journal.
fn raised_the_watermark_behind_another(partition: i32, answered: i64) -> Vec<Event> {
    let mut ours = numbered(request(1, 6, 1_000, answered, 1));
    ours.acks = Some(1);
    vec![
        read(&ours, us(1_000_100), us(1_000_200)),
        op(append(7, 6, ms(1_010), ms(1_011), 1)),
        off_cpu(8, ms(1_012), ms(1_180), JOURNAL_STACK),
        op(append(8, partition, us(1_011_100), ms(1_180), 60)),
        write(&ours, ms(answered) - Nanos::from_micros(100), ms(answered)),
        commit(2285, 1_000, 1_181),
        request_event(ours),
    ]
}

#[test]
fn raising_the_high_watermark_waits_for_the_log_again() {
    let (verdicts, _) = run(raised_the_watermark_behind_another(6, 1_182));
    assert_eq!(verdicts[0].chain, [Cause::LogLock, Cause::JournalCommit]);
    assert_eq!(verdicts[0].stages.of(Stage::Lock), ms(169));
    assert_eq!(verdicts[0].stages.total(), ms(182));
}

#[test]
fn response_does_not_wait_for_another_or_an_already_free_log() {
    for (partition, answered) in [(5, 1_182), (6, 1_260)] {
        let (verdicts, _) = run(raised_the_watermark_behind_another(partition, answered));
        assert_eq!(verdicts[0].cause, Cause::Unobserved, "{partition} {answered}");
        assert_eq!(verdicts[0].stages.of(Stage::Lock), Nanos::ZERO);
    }
}

#[test]
fn last_follower_ends_the_remote_stage_with_acks_all() {
    let (mut ours, mut events) = all_stages();
    ours.acks = Some(-1);
    ours.end = Some(ms(1_400));
    ours.response = ours.end;
    // One record at offset 1: a follower that wants offset 2 has it.
    events.truncate(4);
    events.extend([
        write(&ours, ms(1_400), us(1_400_100)),
        follower_fetch(2, 1, 1_150),
        follower_fetch(2, 2, 1_250),
        follower_fetch(3, 2, 1_350),
        follower_fetch(3, 3, 1_390),
        // Not in sync: the request did not wait for it.
        follower_fetch(4, 2, 1_500),
        commit(2285, 1_000, 1_181),
        request_event(ours.clone()),
    ]);
    let (verdicts, _) = run(events.clone());
    let verdict = &verdicts[0];
    assert_eq!(verdict.stages.of(Stage::Remote), ms(170));
    assert_eq!(verdict.stages.of(Stage::Respond), ms(50));
    assert_eq!(verdict.stages.of(Stage::Unobserved), Nanos::ZERO);
    // There is a follower, but when the last one had it is unknown.
    let fetches = |event: &Event| matches!(event, Event::Request(fetch) if fetch.api == "FETCH");
    let mut only_before: Vec<Event> = events.into_iter().filter(|event| !fetches(event)).collect();
    only_before.push(follower_fetch(2, 1, 1_150));
    let (verdicts, _) = run(only_before);
    assert_eq!(verdicts[0].stages.of(Stage::Unobserved), ms(220));
}

/// A request with acks=all that was answered at 1,240 ms, with `facts`. Its append was done at 1,180 ms.
fn acknowledged_by_all(facts: Vec<Event>) -> Verdict {
    acknowledged_at(1_240, facts)
}

fn acknowledged_at(answered: i64, facts: Vec<Event>) -> Verdict {
    acknowledged(Some(-1), answered, facts)
}

fn acknowledged(acks: Option<i16>, answered: i64, facts: Vec<Event>) -> Verdict {
    let (mut ours, mut events) = all_stages();
    ours.acks = acks;
    (ours.response, ours.end) = (Some(ms(answered)), Some(ms(answered)));
    events.truncate(4);
    events.extend(facts);
    events.extend([
        write(&ours, ms(answered), ms(answered) + us(100)),
        commit(2285, 1_000, 1_181),
        request_event(ours),
    ]);
    run(events).0.remove(0)
}

fn replicas(partition: i32, replicas: u32) -> Event {
    Event::PartitionState(PartitionState { at: ms(1), topic: "topicF".into(), partition, replicas })
}

#[test]
fn only_a_partition_with_one_replica_is_known_to_have_no_followers() {
    let of = |verdict: &Verdict| {
        [Stage::Remote, Stage::Respond, Stage::Unobserved].map(|s| verdict.stages.of(s).0 / 1_000_000)
    };
    let open = |verdict: &Verdict| verdict.doubts.iter().map(|doubt| doubt.what.clone()).collect::<Vec<_>>();
    // Nothing is known; another partition's state shows nothing about this one.
    for facts in [vec![], vec![replicas(5, 1)]] {
        let unknown = acknowledged_by_all(facts);
        assert_eq!(of(&unknown), [0, 0, 60]);
        assert!(open(&unknown)[0].contains("topicF-6") && open(&unknown)[0].contains("factor is not known"));
        assert_eq!(unknown.doubts[0].time, ms(60));
    }
    let alone = acknowledged_by_all(vec![replicas(6, 1)]);
    assert_eq!((of(&alone), open(&alone)), ([0, 60, 0], vec![]));
    let unseen = acknowledged_by_all(vec![replicas(6, 3)]);
    assert_eq!(of(&unseen), [0, 0, 60]);
    assert!(open(&unseen)[0].ends_with("it has 3 replicas"), "{:?}", open(&unseen));
    let seen = acknowledged_by_all(vec![replicas(6, 3), follower_fetch(2, 2, 1_230)]);
    assert_eq!((of(&seen), open(&seen)), ([50, 10, 0], vec![]));
    // The last state counts.
    let grown = acknowledged_by_all(vec![replicas(6, 1), replicas(6, 2)]);
    assert_eq!(of(&grown), [0, 0, 60]);
}

/// A compressed message of magic 0 or 1 does not contain its number of records.
/// So the offset that a follower fetches once it has them all is unknown.
#[test]
fn replication_time_is_unobserved_without_a_record_count() {
    let with = |records, fetched| {
        let (mut ours, mut events) = all_stages();
        ours.acks = Some(-1);
        (ours.response, ours.end) = (Some(ms(1_240)), Some(ms(1_240)));
        ours.partitions[0].batches[0].records = records;
        events.truncate(4);
        events.extend([
            follower_fetch(2, fetched, 1_190),
            write(&ours, ms(1_240), us(1_240_100)),
            request_event(ours),
        ]);
        let verdict = run(events).0.remove(0);
        [Stage::Remote, Stage::Respond, Stage::Unobserved].map(|stage| verdict.stages.of(stage).0 / 1_000_000)
    };
    assert_eq!(with(1, 2), [10, 50, 0]);
    assert_eq!(with(0, 2), [0, 0, 60]);
    assert_eq!(with(0, 1), [0, 0, 60], "it asks for the batch");
}

#[test]
fn busy_network_thread_is_not_blamed_if_followers_are_unobserved() {
    // It wrote another response from 1,181 ms until right before.
    let busy = || {
        let other = numbered(request(9, 5, 1_000, 1_599, 9));
        write(&other, ms(1_181), us(1_599_900))
    };
    // Nor while it is unknown whether the client asked for acks=all.
    for acks in [Some(-1), None] {
        let alone = acknowledged(acks, 1_600, vec![replicas(6, 1), busy()]);
        let unseen = acknowledged(acks, 1_600, vec![replicas(6, 3), busy()]);
        assert_eq!((alone.cause, alone.stages.of(Stage::Respond)), (Cause::NetworkThreadsBusy, ms(420)));
        assert_eq!((unseen.cause, unseen.stages.of(Stage::Unobserved)), (Cause::Unobserved, ms(420)));
    }
}

#[test]
fn starved_threads_are_not_blamed_if_followers_are_unobserved() {
    let starved = || {
        let Event::OffCpu(mut away) = off_cpu(9, ms(1_181), ms(1_599), "") else { unreachable!() };
        away.preempted = true;
        Event::OffCpu(away)
    };
    let cause = |count| acknowledged_at(1_600, vec![replicas(6, count), starved()]).cause;
    assert_eq!([cause(1), cause(3)], [Cause::RunQueue, Cause::Unobserved]);
}

#[test]
fn doubt_about_followers_extends_to_the_request_behind() {
    let (mut ours, mut events) = all_stages();
    ours.acks = Some(-1);
    (ours.response, ours.end) = (Some(ms(1_600)), Some(ms(1_600)));
    let behind = Request {
        client: ours.client,
        head_of_line: Some(ms(585)),
        sequence: None,
        response_sequence: None,
        ..request(2, 5, 1_015, 1_605, 2)
    };
    events.truncate(4);
    events.extend([
        replicas(6, 3),
        write(&ours, ms(1_600), us(1_600_100)),
        request_event(ours),
        request_event(behind),
    ]);
    let (verdicts, _) = run(events);
    let verdict = verdicts.iter().find(|verdict| verdict.request.correlation_id == 2).unwrap();
    assert_eq!((verdict.cause, verdict.doubts.len()), (Cause::Unobserved, 1));
    let what = &verdict.doubts[0].what;
    assert!(
        what.starts_with("whether a request ahead of it on its connection waited for followers of topicF-6:")
    );
    assert_eq!(verdict.doubts[0].time, ms(420));
}

/// A fetch that waited from 0 to 700 ms.
pub(super) fn fetch() -> Request {
    let mut fetch = numbered(request(1, 6, 0, 700, 0));
    (fetch.api, fetch.api_key) = ("FETCH", 1);
    (fetch.min_bytes, fetch.max_wait_ms) = (Some(1), Some(500));
    fetch.partitions[0].fetch_offset = Some(40);
    fetch
}

#[test]
fn fetch_is_slow_only_beyond_its_intended_wait() {
    let with = |data: Option<i64>| run([request_event(Request { data: data.map(ms), ..fetch() })]).0.pop();
    assert_eq!(with(Some(650)).unwrap().stages.of(Stage::Remote), ms(500), "no longer than it had asked for");
    assert_eq!(with(Some(450)).unwrap().stages.of(Stage::Remote), ms(450));
    assert_eq!(with(Some(-20)).unwrap().stages.of(Stage::Remote), Nanos::ZERO);
    assert_eq!(with(None).unwrap().stages.of(Stage::Remote), ms(500), "it may have waited");
    let mut patient = fetch();
    patient.max_wait_ms = Some(650);
    assert_eq!(run([request_event(patient.clone())]).0, [], "the rest is not slow");
    patient.data = Some(ms(640));
    assert_eq!(run([request_event(patient)]).0, []);
}

/// A consumer that reads old records from tiered storage: an earlier response's high watermark shows that they were
/// there.
#[test]
fn slow_fetch_of_available_records_is_no_long_poll() {
    let patient = Request { max_wait_ms: Some(650), ..fetch() };
    let slow = Request { data: Some(ms(-20)), ..patient.clone() };
    let behind = |ahead: &Request| Request {
        client: ahead.client,
        head_of_line: Some(ms(690)),
        ..request(2, 6, 10, 710, 2)
    };
    let (verdicts, summary) = run([request_event(slow.clone()), request_event(behind(&slow))]);
    assert_eq!(summary.not_judged, []);
    assert_eq!(verdicts[0].request.latency(), Some(ms(700)));
    assert_eq!(verdicts[0].stages.of(Stage::Remote), Nanos::ZERO);
    assert!(verdicts.iter().all(|verdict| !verdict.chain.contains(&Cause::LongPoll)), "{verdicts:?}");
    let (verdicts, _) = run([request_event(patient.clone()), request_event(behind(&patient))]);
    assert_eq!(verdicts.len(), 1, "it may have waited, as far as anybody knows");
    assert_eq!(verdicts[0].chain, [Cause::HeadOfLine, Cause::LongPoll]);
}

#[test]
fn incomplete_response_is_no_intended_wait() {
    let is_intended =
        |end, data| is_mostly_intended_wait(&Window::default(), &Request { end, data, ..fetch() });
    assert!(is_intended(Some(ms(700)), Some(ms(450))));
    assert!(!is_intended(Some(ms(700)), Some(ms(20))));
    assert!(!is_intended(None, Some(ms(20))));
    assert!(!is_intended(None, None));
}

#[test]
fn fetch_waits_until_its_data_is_written() {
    let mut stalled = append(7, 6, ms(460), ms(640), 40);
    stalled.batch = stalled.batch.map(|head| model::BatchHead { base_offset: 40, ..head });
    let late = Request { data: Some(ms(450)), max_wait_ms: Some(650), ..fetch() };
    assert_eq!(run([request_event(late.clone()), op(stalled.clone())]).0, []);
    stalled.topic_partition.as_mut().unwrap().partition = 5;
    assert_eq!(run([request_event(late), op(stalled)]).0.len(), 1, "another partition's");
}

#[test]
fn handler_stage_without_appends_lasts_from_read_to_response() {
    let mut metadata = numbered(request(1, 6, 0, 200, 0));
    (metadata.api, metadata.api_key) = ("METADATA", 3);
    let (verdicts, _) = run([
        read(&metadata, ms(10), ms(20)),
        write(&metadata, ms(190), ms(195)),
        request_event(metadata.clone()),
    ]);
    let expected = [(Stage::Receive, 20), (Stage::Handler, 170), (Stage::NetworkOut, 10)];
    assert_eq!(stages(&verdicts[0]), expected);
    assert_eq!(verdicts[0].cause, Cause::Unobserved);
    (metadata.api, metadata.api_key) = ("JOIN_GROUP", 11);
    let (verdicts, summary) = run([request_event(metadata)]);
    assert_eq!((verdicts.len(), summary.not_judged), (0, vec![("JOIN_GROUP", 1)]));
}

#[test]
fn request_behind_a_long_poll_is_not_slow() {
    let ahead = Request { end: Some(ms(500)), response: Some(ms(500)), ..fetch() };
    let ahead = Request { partitions: Vec::new(), ..ahead };
    let mut behind = request(2, 6, 10, 510, 0);
    (behind.api, behind.api_key) = ("METADATA", 3);
    behind.client = ahead.client;
    behind.head_of_line = Some(ms(490));
    let (verdicts, _) = run([request_event(ahead), request_event(behind)]);
    assert_eq!(verdicts, []);
}

#[test]
fn cause_smaller_than_the_unexplained_time_is_not_named() {
    // The append took 110 ms, 50 of them waiting for the journal.
    let (_, mut events) = all_stages();
    events[2] = off_cpu(7, ms(1_071), ms(1_121), JOURNAL_STACK);
    let (verdicts, _) = run(events);
    assert_eq!(verdicts[0].cause, Cause::Unobserved);
}

#[test]
fn stages_of_includes_quick_requests_of_the_chosen_apis() {
    let (_, events) = all_stages();
    let quick = request(2, 6, 2_000, 2_003, 2);
    let other = Request { api: "METADATA", api_key: 3, ..request(3, 6, 2_000, 2_003, 3) };
    let events: Vec<Event> = events
        .into_iter()
        .chain([op(append(9, 6, ms(2_001), ms(2_002), 2)), request_event(quick), request_event(other)])
        .collect();
    let request_stages = |apis: &[&'static str]| {
        let mut engine = Engine::new(Config { stages_of: apis.to_vec(), ..Config::replay(ms(100)) });
        events.iter().cloned().for_each(|event| engine.push(event));
        let summary = engine.finish();
        (engine.take_request_stages().collect::<Vec<_>>(), engine.take_verdicts(), summary.joins)
    };
    let (rows, verdicts, joins) = request_stages(&["PRODUCE"]);
    assert_eq!(rows.len(), 2, "slow or not, but not of other APIs: {rows:?}");
    for one in &rows {
        assert_eq!(Some(one.stages.total()), one.request.latency());
    }
    assert_eq!(rows[0].stages, verdicts[0].stages);
    assert_eq!(rows[1].request.correlation_id, 2);
    assert_eq!(rows[1].stages.of(Stage::Append), ms(1));
    let (none, same, same_joins) = request_stages(&[]);
    assert!(none.is_empty());
    assert_eq!((same, same_joins), (verdicts, joins), "asking changes nothing");
}
