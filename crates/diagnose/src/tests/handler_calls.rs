//! Calls of request handlers that the JVM reported bound `queue` and `handler`; a call that may be another request's
//! bounds nothing.

use model::{Event, HandlerCall, Lock, LockKind, LockSource, LockWait, Nanos, Request, Row, Stage, Verdict};

use super::stages::{all_stages, numbered, read, us, write};
use super::{append, ms, op, request, request_event, run};

/// A call of handler 7.
fn call(start: Nanos, end: Nanos) -> HandlerCall {
    let method = "kafka.server.KafkaApis.handle".into();
    HandlerCall { start, end, pid: 1, tid: 7, thread: "data-plane-kafka-request-handler-0".into(), method }
}

fn called(call: HandlerCall) -> Event {
    Event::HandlerCall(Box::new(call))
}

/// Milliseconds in receive, queue, handler and respond.
fn stages(events: Vec<Event>) -> [i64; 4] {
    let (verdicts, _) = run(events);
    let verdict: &Verdict = verdicts.iter().find(|verdict| verdict.request.correlation_id == 1).unwrap();
    assert_eq!(Some(verdict.stages.total()), verdict.request.latency());
    [Stage::Receive, Stage::Queue, Stage::Handler, Stage::Respond]
        .map(|stage| verdict.stages.of(stage).0 / 1_000_000)
}

/// A request that was read at 1,000 ms and answered at 1,150 ms.
/// Thread 7 appended it from 1,100 to 1,101 ms. Nothing else was seen of that thread.
fn quick_append() -> (Request, Vec<Event>) {
    let ours = numbered(request(1, 6, 1_000, 1_150, 1));
    let events = vec![
        read(&ours, us(999_900), ms(1_000)),
        op(append(7, 6, ms(1_100), ms(1_101), 1)),
        write(&ours, us(1_149_900), ms(1_150)),
        request_event(ours.clone()),
    ];
    (ours, events)
}

fn with(calls: impl IntoIterator<Item = HandlerCall>) -> [i64; 4] {
    let (_, mut events) = quick_append();
    events.extend(calls.into_iter().map(called));
    stages(events)
}

#[test]
fn call_around_the_append_bounds_queue_and_handler() {
    assert_eq!(with([]), [0, 0, 100, 48], "without it all is the handler's");
    assert_eq!(with([call(ms(1_060), ms(1_103))]), [0, 60, 40, 48]);
    // The thread's earlier events in the call were for this request.
    let (_, mut events) = all_stages();
    assert_eq!(stages(events.clone()), [20, 30, 10, 9]);
    events.push(called(call(ms(1_065), ms(1_185))));
    assert_eq!(stages(events), [20, 35, 5, 9]);
}

#[test]
fn call_that_ends_right_before_the_response_extends_handler() {
    assert_eq!(with([call(ms(1_060), us(1_149_000))]), [0, 60, 88, 0]);
    assert_eq!(with([call(ms(1_060), ms(1_120))]), [0, 60, 40, 48], "the response was ready somewhen before");
    assert_eq!(with([call(ms(1_060), ms(1_180))]), [0, 60, 40, 48], "it answered within the call");
}

#[test]
fn call_possibly_for_another_request_bounds_nothing() {
    let none = with([]);
    for (other, why) in [
        (HandlerCall { tid: 8, ..call(ms(1_060), ms(1_103)) }, "another thread"),
        (call(ms(1_060), us(1_100_500)), "the append may be of the next call"),
        (call(us(1_100_500), ms(1_130)), "the append may be of the call before"),
        (call(ms(900), ms(1_103)), "it began before the request was read"),
        (call(ms(1_102), ms(1_140)), "it began after the append"),
    ] {
        assert_eq!(with([other]), none, "{why}");
    }
    let (_, mut events) = quick_append();
    events.splice(1..1, [op(append(7, 1, ms(1_070), ms(1_071), 50))]);
    let before = stages(events.clone());
    assert_eq!(before, [0, 71, 29, 48]);
    events.push(called(call(ms(1_060), ms(1_103))));
    assert_eq!(stages(events), before, "it was the call of another append");
}

/// A wait for a lock as the JVM reports it, with the stack of an append.
fn waited(start: Nanos, end: Nanos) -> Event {
    Event::LockWait(Box::new(LockWait {
        start,
        end,
        pid: 1,
        tid: 7,
        thread: "data-plane-kafka-request-handler-0".into(),
        lock: Lock { kind: LockKind::Monitor, class: "java.lang.Object".into(), address: 9 },
        stack: "kafka.server.KafkaApis.handle;kafka.server.ReplicaManager.appendRecords;\
                kafka.server.ReplicaManager.appendToLocalLog;kafka.cluster.Partition.appendRecordsToLeader;\
                org.apache.kafka.storage.internals.log.UnifiedLog.append"
            .into(),
        source: LockSource::Jfr,
        ..Row::empty()
    }))
}

#[test]
fn lock_wait_before_the_append_ties_the_call_to_the_request() {
    let (_, mut events) = quick_append();
    events.insert(1, waited(ms(1_070), ms(1_099)));
    let ends_with_the_append = call(ms(1_060), us(1_100_900));
    let stages_of = |call: HandlerCall| {
        let mut events = events.clone();
        events.push(called(call));
        stages(events)
    };
    assert_eq!(stages_of(ends_with_the_append)[1], 60);
    assert_eq!(stages_of(call(ms(1_080), us(1_100_900)))[1], 0, "the wait began before the call");
}

#[test]
fn call_for_another_request_extends_the_queue_stage() {
    assert_eq!(with([call(ms(950), ms(1_090))]), [0, 90, 10, 48], "begun before it was read");
    assert_eq!(with([call(ms(1_020), ms(1_090))]), [0, 90, 10, 48], "over before it was worked on");
    assert_eq!(
        with([call(ms(950), us(1_100_500))]),
        [0, 100, 0, 48],
        "clocks are apart by less than a millisecond"
    );
    assert_eq!(with([call(ms(950), ms(990))]), [0, 0, 100, 48], "over before it was read");
}
