//! A stopped process: named for everything within its stop, and for nothing else.

use model::{
    Cause, Confidence, Event, EvidenceKind, JvmPause, JvmPauseKind, ProcessStop, Request, Row, StopKind,
    Verdict,
};

use super::{append, ms, off_cpu, op, request, request_event, run};

const STOPPED: &str = "exit_to_user_mode_loop;arch_do_signal_or_restart;get_signal;do_signal_stop;schedule";

fn stop() -> ProcessStop {
    ProcessStop {
        start: ms(1_000),
        end: ms(1_400),
        pid: 1,
        kind: StopKind::Signal,
        by_tid: Some(4711),
        by: "bash".into(),
        threads: 31,
    }
}

fn stopped(stop: ProcessStop) -> Event {
    Event::ProcessStop(Box::new(stop))
}

/// A request that arrived at `arrival`, appended after the process had resumed.
fn held_up(number: u32, arrival: i64) -> [Event; 2] {
    [
        op(append(number, number as i32, ms(1_401), ms(1_402), number)),
        request_event(request(number as i32, number as i32, arrival, 1_403, number)),
    ]
}

fn five() -> Vec<Event> {
    (1..=5).flat_map(|number| held_up(number, 990 + i64::from(number) * 10)).collect()
}

fn with(mut events: Vec<Event>, more: impl IntoIterator<Item = Event>) -> Vec<Verdict> {
    events.extend(more);
    run(events).0
}

fn causes(verdicts: &[Verdict]) -> Vec<(Cause, Confidence)> {
    verdicts.iter().map(|verdict| (verdict.cause, verdict.confidence)).collect()
}

#[test]
fn all_requests_of_a_stop_have_it_as_their_root_and_name_the_sender() {
    let mut events = five();
    events.push(stopped(stop()));
    let (verdicts, summary) = run(events);
    assert_eq!(causes(&verdicts), [(Cause::ProcessStopped, Confidence::Exact); 5]);
    assert_eq!((summary.by_root.len(), summary.by_root[0].requests), (1, 5));
    for verdict in &verdicts {
        assert_eq!(&*verdict.root, "process-stopped:1:1000000000");
        let seen = &verdict.evidence[0];
        assert_eq!((seen.kind, seen.tid), (EvidenceKind::Kernel, Some(4711)));
        assert_eq!(&*seen.text, "the process 1 was stopped for 400 ms by a signal from bash (4711)");
    }
}

#[test]
fn stop_without_requests_is_no_cause() {
    assert_eq!(run([stopped(stop())]).0, []);
    let before = ProcessStop { start: ms(500), end: ms(900), ..stop() };
    assert_eq!(causes(&with(five(), [stopped(before)])), [(Cause::Unobserved, Confidence::Weak); 5]);
}

#[test]
fn stop_of_another_process_is_no_cause() {
    let other = ProcessStop { pid: 9, ..stop() };
    assert_eq!(causes(&with(five(), [stopped(other)])), [(Cause::Unobserved, Confidence::Weak); 5]);
}

#[test]
fn names_the_freezer_or_tracer_as_far_as_known() {
    let describe = |kind, by: &str| {
        let by_tid = (!by.is_empty()).then_some(7);
        let stop = ProcessStop { kind, by_tid, by: by.into(), ..stop() };
        let verdict = with(five(), [stopped(stop)]).remove(0);
        assert_eq!(verdict.cause, Cause::ProcessStopped);
        verdict.evidence[0].text.clone()
    };
    assert_eq!(describe(StopKind::Freezer, ""), "the process 1 was frozen with its cgroup for 400 ms");
    let thawed = "the process 1 was frozen with its cgroup for 400 ms, until runc (7) thawed it";
    assert_eq!(describe(StopKind::Freezer, "runc"), thawed);
    assert_eq!(
        describe(StopKind::Tracer, "gdb"),
        "the process 1 was halted for 400 ms by its tracer gdb (7)"
    );
}

#[test]
fn stack_of_a_stopped_thread_is_no_wait_of_its_append() {
    let within = || {
        vec![
            off_cpu(7, ms(1_002), ms(1_400), STOPPED),
            op(append(7, 0, ms(1_001), ms(1_402), 1)),
            request_event(request(1, 0, 999, 1_403, 1)),
        ]
    };
    let verdicts = with(within(), [stopped(stop())]);
    assert_eq!(
        (verdicts[0].cause, &verdicts[0].chain[..]),
        (Cause::ProcessStopped, &[Cause::ProcessStopped][..])
    );
    assert_eq!(causes(&with(within(), [])), [(Cause::Unobserved, Confidence::Weak)]);
}

#[test]
fn process_stop_takes_precedence_over_a_jvm_pause() {
    let pause = JvmPause {
        start: ms(985),
        end: ms(1_410),
        pid: 1,
        kind: JvmPauseKind::Gc,
        operation: "G1New".into(),
        cause: "".into(),
        gc_id: Some(7),
        ..Row::empty()
    };
    let pause = Event::JvmPause(Box::new(pause));
    let verdicts = with(five(), [pause.clone(), stopped(stop())]);
    assert_eq!(causes(&verdicts), [(Cause::ProcessStopped, Confidence::Exact); 5]);
    assert_eq!(causes(&with(five(), [pause])), [(Cause::GcPause, Confidence::Exact); 5]);
}

#[test]
fn large_request_during_a_stop_is_not_slow_client() {
    let large =
        |bytes| Request { arrival_end: ms(1_401), request_bytes: bytes, ..request(1, 1, 1_000, 1_403, 1) };
    let of = |bytes| vec![op(append(1, 1, ms(1_401), ms(1_402), 1)), request_event(large(bytes))];
    let verdicts = with(of(1 << 20), [stopped(stop())]);
    assert_eq!(causes(&verdicts), [(Cause::ProcessStopped, Confidence::Strong)]);
    assert_eq!(with(of(1 << 20), [])[0].cause, Cause::SlowClient);
    // A request that fits into the receive buffer arrives while the process is stopped.
    assert_eq!(with(of(600), [stopped(stop())])[0].cause, Cause::SlowClient);
}

#[test]
fn log_lock_waiter_has_the_stop_of_the_holder() {
    // Its append began before the stop and ended after it: another producer of the partition waits behind it.
    let events = vec![
        op(append(7, 0, ms(995), ms(1_402), 1)),
        request_event(request(1, 0, 994, 1_403, 1)),
        op(append(8, 0, ms(1_402), ms(1_403), 2)),
        request_event(request(2, 0, 996, 1_404, 2)),
    ];
    let (verdicts, summary) = run(events.into_iter().chain([stopped(stop())]));
    assert_eq!(verdicts.iter().map(|verdict| verdict.cause).collect::<Vec<_>>(), [Cause::ProcessStopped; 2]);
    assert_eq!(summary.by_root.len(), 1);
}
