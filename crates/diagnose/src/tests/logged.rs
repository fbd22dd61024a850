//! Requests of Kafka's request log: their real times, their stages by Kafka's clock, and their causes.

use model::api_key::FETCH;
use model::{
    Cause, Confidence, Event, FileOp, FileOpKind, JvmPause, JvmPauseKind, Nanos, Partition, Request,
    RequestSource, SocketOp, Stage,
};

use super::causes::starved;
use super::stages::{NETWORK, read, us, write};
use super::waker::{WAKE, parked};
use super::{JOURNAL_STACK, append, commit, ms, off_cpu, op, request, request_event, run};

/// A request from 1,000 to 1,200 ms: 20 ms in the queue, 150 of work, 15 for followers, 5 in the response's queue, 10
/// of sending. Its line came `late`.
fn logged(late: Nanos) -> Request {
    let seen = request(1, 6, 1_000, 1_200, 1);
    let partitions = seen.partitions.into_iter().map(|of| Partition { batches: Vec::new(), ..of });
    Request {
        arrival: seen.arrival + late,
        arrival_end: seen.arrival_end + late,
        response: Some(ms(1_190) + late),
        end: Some(ms(1_200) + late),
        head_of_line: None,
        request_bytes: 0,
        response_bytes: None,
        partitions: partitions.collect(),
        seen_by: Some(RequestSource::RequestLog),
        queue: Some(ms(20)),
        local: Some(ms(150)),
        remote: Some(ms(15)),
        ..request(1, 6, 1_000, 1_200, 1)
    }
}

/// The same, with places in the connection's streams for the calls that read and wrote it.
fn sized() -> Request {
    Request {
        response_sequence: Some(7),
        response_bytes: Some(60),
        sequence: Some(0),
        request_bytes: 90,
        ..logged(Nanos::ZERO)
    }
}

/// The write of its response.
fn answered(ended: Nanos) -> Event {
    write(&sized(), ended - us(50), ended)
}

/// Its append, from 1,030 to 1,160 ms, which waited for a commit.
fn appended() -> Vec<Event> {
    vec![
        off_cpu(7, ms(1_031), ms(1_160), JOURNAL_STACK),
        op(append(7, 6, ms(1_030), ms(1_160), 1)),
        commit(2285, 1_000, 1_161),
    ]
}

/// A pause right after the request, which stopped the thread that logs it.
fn pause() -> Event {
    Event::JvmPause(Box::new(JvmPause {
        start: ms(1_200),
        end: ms(1_320),
        pid: 1,
        kind: JvmPauseKind::Gc,
        operation: "G1New".into(),
        cause: "G1 Evacuation Pause".into(),
        gc_id: Some(41),
        time_to_safepoint: Some(ms(1)),
    }))
}

fn stages(request: &model::Verdict) -> Vec<(Stage, i64)> {
    let taken = request.stages.iter().filter(|(_, time)| *time > Nanos::ZERO);
    taken.map(|(stage, time)| (stage, time.0 / 1_000_000)).collect()
}

#[test]
fn stages_follow_kafka_times_and_the_observed_append() {
    let (verdicts, summary) =
        run([appended(), vec![answered(ms(1_200)), request_event(logged(us(700)))]].concat());
    assert_eq!(
        stages(&verdicts[0]),
        [
            (Stage::Queue, 20),
            (Stage::Handler, 20),
            (Stage::Append, 130),
            (Stage::Remote, 15),
            (Stage::Respond, 5),
            (Stage::NetworkOut, 10),
        ]
    );
    assert_eq!((verdicts[0].cause, verdicts[0].confidence), (Cause::JournalCommit, Confidence::Exact));
    assert_eq!((summary.joins.by_base_offset, summary.joins.unjoined), (1, 0));
    assert_eq!(verdicts[0].request.end, Some(ms(1_200)), "it ended with the last write before its line");
}

#[test]
fn pause_that_delays_only_the_log_line_is_not_blamed() {
    let late = ms(120) + us(300);
    let seen = vec![pause(), answered(ms(1_200)), request_event(logged(late))];
    let (verdicts, _) = run(seen.clone());
    assert_eq!((verdicts[0].cause, verdicts[0].request.arrival), (Cause::Unobserved, ms(1_000)));
    // Nor if no source saw when it was answered.
    let unseen = seen.into_iter().filter(|event| !matches!(event, Event::SocketOp(_)));
    assert_eq!(run(unseen).0[0].cause, Cause::Unobserved);
    // Its own write is still known by its key.
    let (verdicts, _) =
        run([appended(), vec![pause(), answered(ms(1_200)), request_event(logged(late))]].concat());
    assert_eq!(verdicts[0].cause, Cause::JournalCommit);
}

#[test]
fn pause_within_a_logged_request_is_strong_not_exact() {
    let Event::JvmPause(pause) = pause() else { unreachable!() };
    let within = JvmPause { start: ms(1_040), end: ms(1_160), ..*pause };
    let within = Event::JvmPause(Box::new(within));
    let (verdicts, _) = run(vec![within.clone(), answered(ms(1_200)), request_event(logged(us(300)))]);
    assert_eq!((verdicts[0].cause, verdicts[0].confidence), (Cause::GcPause, Confidence::Strong));
    // If the request's end was not seen, the pause may have been before it.
    let (verdicts, _) = run(vec![within, request_event(logged(us(300)))]);
    assert_eq!(verdicts[0].cause, Cause::Unobserved);
}

#[test]
fn write_of_an_earlier_response_does_not_date_the_request() {
    let (verdicts, _) = run([appended(), vec![answered(ms(999)), request_event(logged(us(700)))]].concat());
    assert_eq!(verdicts[0].request.arrival, ms(1_000) + us(700));
}

#[test]
fn offset_written_twice_joins_neither_append() {
    let again = op(append(8, 6, ms(700), ms(701), 1));
    let late = [appended(), vec![again, request_event(logged(ms(300)))]].concat();
    let (verdicts, summary) = run(late);
    assert_eq!((summary.joins.by_base_offset, summary.joins.unjoined), (0, 1));
    assert_eq!(verdicts[0].cause, Cause::Unobserved);
}

/// Kafka's queue time begins before the request is in the queue. So a handler that was held up says nothing: another
/// one may have been free.
#[test]
fn queue_time_is_explained_only_if_all_handlers_were_busy() {
    let queued = Request { queue: Some(ms(160)), local: Some(ms(10)), ..logged(us(300)) };
    let stall = |tid, partition, base_offset| {
        let mut held = append(tid, partition, ms(990), ms(1_155), 50);
        held.batch.as_mut().unwrap().base_offset = base_offset;
        [off_cpu(tid, ms(991), ms(1_155), JOURNAL_STACK), op(held)]
    };
    let own = [op(append(7, 6, ms(1_162), ms(1_163), 1)), answered(ms(1_200)), request_event(queued)];
    let with = |stalls: Vec<Event>| {
        let events = [vec![commit(2285, 980, 1_156)], stalls, own.to_vec()].concat();
        run(events).0.remove(0)
    };
    let taker = stall(7, 1, 700);
    let verdict = with([taker.clone(), stall(8, 2, 800)].concat());
    assert_eq!(verdict.chain, [Cause::HandlersBusy, Cause::JournalCommit]);
    assert_eq!(verdict.confidence, Confidence::Strong);
    let idle = op(append(8, 2, ms(900), ms(901), 51));
    let verdict = with([vec![idle], taker.to_vec()].concat());
    assert_eq!(verdict.cause, Cause::Unobserved);
}

/// Kafka's send time, with the two writes of the response in it: one at 1,020 ms, the last one when the client had room
/// for `room` bytes.
fn sent_slowly(room: u32) -> Vec<Event> {
    let zero = Nanos::ZERO;
    let request = Request { queue: Some(zero), local: Some(ms(5)), remote: Some(zero), ..logged(us(300)) };
    let Event::SocketOp(last) = answered(ms(1_200)) else { unreachable!() };
    let last = SocketOp { sequence: 105_000, sequence_end: 205_000, peer_window: Some(room), ..*last };
    let first =
        SocketOp { start: ms(1_020), end: ms(1_021), sequence: 5_000, sequence_end: 105_000, ..last.clone() };
    let request = Request { response: Some(ms(1_006)), ..request };
    vec![Event::SocketOp(Box::new(first)), Event::SocketOp(Box::new(last)), request_event(request)]
}

#[test]
fn full_client_window_between_two_writes_is_a_slow_client() {
    let verdict = run(sent_slowly(20_000)).0.remove(0);
    assert_eq!((verdict.cause, verdict.confidence), (Cause::SlowClient, Confidence::Strong));
    assert!(verdict.evidence.iter().any(|seen| seen.text.starts_with("the response took 180 ms to leave")));
    assert_eq!(run(sent_slowly(200_000)).0[0].cause, Cause::Unobserved, "there was room");
}

/// Threads of this broker that lack a CPU do not explain what Kafka counts as a wait for others.
#[test]
fn remote_time_is_not_explained_by_this_brokers_threads() {
    let of = |local, remote| {
        let times = Request { local: Some(ms(local)), remote: Some(ms(remote)), ..logged(us(300)) };
        run(vec![starved(7, 1_030, 1_180), answered(ms(1_200)), request_event(times)]).0.remove(0)
    };
    assert_eq!((of(165, 0).cause, of(165, 0).confidence), (Cause::RunQueue, Confidence::Weak));
    assert_eq!(of(0, 165).cause, Cause::Unobserved);
}

/// 5 ms of work, then the response waits for its network thread until 1,190 ms.
#[test]
fn lack_of_a_cpu_of_the_writing_thread_delays_the_response() {
    let of = |tid| {
        let zero = Some(Nanos::ZERO);
        let times = Request { queue: zero, local: Some(ms(5)), remote: zero, ..logged(us(300)) };
        run(vec![starved(tid, 1_007, 1_199), answered(ms(1_200)), request_event(times)]).0.remove(0)
    };
    let verdict = of(NETWORK);
    assert_eq!((verdict.cause, verdict.confidence), (Cause::RunQueue, Confidence::Strong));
    assert_eq!(stages(&verdict), [(Stage::Handler, 5), (Stage::Respond, 185), (Stage::NetworkOut, 10)]);
    assert_eq!(of(7).confidence, Confidence::Weak, "another thread");
}

/// The network thread was delayed for 30 ms after the write, and Kafka's times include that.
#[test]
fn request_does_not_arrive_before_its_read() {
    let read = read(&sized(), us(1_029_900), ms(1_030));
    let verdict = run(vec![read, answered(ms(1_200)), request_event(logged(ms(30)))]).0.remove(0);
    assert_eq!((verdict.request.arrival, verdict.request.end), (ms(1_030), Some(ms(1_200))));
    assert_eq!(stages(&verdict), [(Stage::Queue, 20), (Stage::Handler, 150)]);
}

/// The response is written after the file read for it, by the same thread.
#[test]
fn fetch_has_the_file_reads_of_the_thread_that_wrote_its_response() {
    let zero = Some(Nanos::ZERO);
    let times = Request { queue: zero, local: Some(ms(5)), remote: zero, ..logged(us(300)) };
    let fetch = Request { api_key: FETCH, response: Some(ms(1_006)), ..times };
    let call = write(&sized(), ms(1_006), us(1_006_100));
    let reading = FileOp {
        op: FileOpKind::Read,
        disk_bytes: Some(4_096),
        batch: None,
        ..append(NETWORK, 6, ms(1_010), ms(1_190), 0)
    };
    let with = |reading| {
        run(vec![call.clone(), op(reading), answered(ms(1_200)), request_event(fetch.clone())]).0.remove(0)
    };
    let verdict = with(reading.clone());
    assert_eq!((verdict.cause, verdict.confidence), (Cause::DiskReadInNetworkThread, Confidence::Strong));
    let other = FileOp { tid: NETWORK + 1, ..reading };
    assert_eq!(with(other).cause, Cause::Unobserved);
}

/// Its handler took it at 1,020 ms, and was parked until another handler's append was done.
#[test]
fn wait_of_its_handler_in_java_is_followed_to_the_waker() {
    let with = |since| {
        let mut events = vec![op(append(8, 2, ms(1_026), ms(1_159), 80)), commit(2285, 1_020, 1_160)];
        events
            .extend([off_cpu(8, ms(1_027), ms(1_158), JOURNAL_STACK), parked(7, since, 1_160_000, 8, WAKE)]);
        events.extend([op(append(7, 6, ms(1_165), ms(1_166), 1)), answered(ms(1_200))]);
        events.push(request_event(logged(us(300))));
        run(events).0.remove(0)
    };
    let verdict = with(1_025_000);
    assert_eq!(verdict.chain, [Cause::JavaWait, Cause::JournalCommit]);
    assert_eq!(verdict.confidence, Confidence::Strong);
    assert_eq!(with(990_000).cause, Cause::Unobserved, "it waited for work");
}
