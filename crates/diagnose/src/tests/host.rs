//! A paused machine and stolen CPUs: named for everything within them, and for nothing else.

use model::{
    Cause, Confidence, CpuGap, CpuGapKind, Event, EvidenceKind, JvmPause, JvmPauseKind, Nanos, OffCpu,
    Request, Row, Verdict,
};

use super::{append, ms, off_cpu, op, request, request_event, run};

/// A gap of one CPU of two, idle and without steal time.
fn gap(cpu: u32, start: i64, end: i64) -> CpuGap {
    CpuGap {
        start: ms(start),
        end: ms(end),
        kind: CpuGapKind::Gap,
        cpu,
        cpus: 2,
        stolen: Nanos::ZERO,
        tid: None,
        thread: "".into(),
    }
}

/// The same with a handler on it, taken by the hypervisor.
fn stolen(cpu: u32, start: i64, end: i64, tid: u32) -> CpuGap {
    let stolen = ms(end - start - 4);
    CpuGap { stolen, tid: Some(tid), thread: "data-plane-kafk".into(), ..gap(cpu, start, end) }
}

fn away(gap: CpuGap) -> Event {
    Event::CpuGap(Box::new(gap))
}

/// Both CPUs for 400 ms; the clock of each interrupts at its own times.
fn pause() -> [Event; 2] {
    [away(gap(0, 996, 1_401)), away(gap(1, 1_000, 1_404))]
}

/// A request that arrived at `arrival`, appended after the machine had resumed.
fn held_up(number: u32, arrival: i64) -> [Event; 2] {
    [
        op(append(number, number as i32, ms(1_402), ms(1_403), number)),
        request_event(request(number as i32, number as i32, arrival, 1_404, number)),
    ]
}

fn five() -> Vec<Event> {
    (1..=5).flat_map(|number| held_up(number, 990 + i64::from(number) * 2)).collect()
}

fn with(mut events: Vec<Event>, more: impl IntoIterator<Item = Event>) -> Vec<Verdict> {
    events.extend(more);
    run(events).0
}

fn causes(verdicts: &[Verdict]) -> Vec<(Cause, Confidence)> {
    verdicts.iter().map(|verdict| (verdict.cause, verdict.confidence)).collect()
}

#[test]
fn all_requests_of_a_host_pause_have_it_as_their_root() {
    let mut events = five();
    events.extend(pause());
    let (verdicts, summary) = run(events);
    assert_eq!(causes(&verdicts), [(Cause::HostPaused, Confidence::Exact); 5]);
    assert_eq!((summary.by_root.len(), summary.by_root[0].requests), (1, 5));
    for verdict in &verdicts {
        assert_eq!(&*verdict.root, "host-paused:1000000000");
        let seen = &verdict.evidence[0];
        assert_eq!((seen.kind, seen.tid), (EvidenceKind::Kernel, None));
        let expected = "the machine was paused: no timer interrupt came on any of its 2 CPUs for 401 ms, and no steal time \
                        was counted";
        assert_eq!(&*seen.text, expected);
    }
}

#[test]
fn machine_pause_with_steal_time_is_cpu_steal() {
    let verdicts = with(five(), [away(stolen(0, 996, 1_401, 50)), away(stolen(1, 1_000, 1_404, 51))]);
    assert_eq!(causes(&verdicts), [(Cause::CpuSteal, Confidence::Exact); 5]);
    assert_eq!(&*verdicts[0].root, "cpu-steal:996000000");
    let one_was_idle = with(five(), [away(stolen(0, 996, 1_401, 50)), away(gap(1, 1_000, 1_404))]);
    assert_eq!(causes(&one_was_idle), [(Cause::CpuSteal, Confidence::Exact); 5]);
}

#[test]
fn machine_that_runs_on_one_cpu_is_not_paused() {
    assert_eq!(causes(&with(five(), [away(gap(0, 996, 1_401))])), [(Cause::Unobserved, Confidence::Weak); 5]);
    let after_each_other = [away(gap(0, 996, 1_200)), away(gap(1, 1_195, 1_401))];
    assert_eq!(causes(&with(five(), after_each_other)), [(Cause::Unobserved, Confidence::Weak); 5]);
    let of_four = pause().map(|event| match event {
        Event::CpuGap(gap) => away(CpuGap { cpus: 4, ..*gap }),
        other => other,
    });
    assert_eq!(causes(&with(five(), of_four)), [(Cause::Unobserved, Confidence::Weak); 5]);
}

#[test]
fn single_cpu_gap_is_strong_host_pause_or_exact_cpu_steal() {
    let only = |gap: CpuGap| causes(&with(five(), [away(CpuGap { cpus: 1, ..gap })]));
    assert_eq!(only(gap(0, 996, 1_401)), [(Cause::HostPaused, Confidence::Strong); 5]);
    assert_eq!(only(stolen(0, 996, 1_401, 50)), [(Cause::CpuSteal, Confidence::Exact); 5]);
}

#[test]
fn host_pause_without_requests_is_no_cause() {
    assert_eq!(run(pause()).0, []);
    let before = [away(gap(0, 500, 900)), away(gap(1, 500, 900))];
    assert_eq!(causes(&with(five(), before)), [(Cause::Unobserved, Confidence::Weak); 5]);
}

#[test]
fn host_pause_takes_precedence_over_gc_pause_and_run_queue() {
    let gc = JvmPause {
        start: ms(985),
        end: ms(1_410),
        pid: 1,
        kind: JvmPauseKind::Gc,
        operation: "G1New".into(),
        cause: "".into(),
        gc_id: Some(7),
        ..Row::empty()
    };
    let verdicts = with(five(), pause().into_iter().chain([Event::JvmPause(Box::new(gc))]));
    assert_eq!(causes(&verdicts), [(Cause::HostPaused, Confidence::Exact); 5]);
    let waited = || {
        vec![
            preempted(7, 998, 1_402),
            op(append(7, 0, ms(995), ms(1_403), 1)),
            request_event(request(1, 0, 994, 1_404, 1)),
        ]
    };
    assert_eq!(causes(&with(waited(), pause())), [(Cause::HostPaused, Confidence::Exact)]);
    assert_eq!(with(waited(), [])[0].cause, Cause::RunQueue);
}

/// A handler without a CPU.
pub(super) fn preempted(tid: u32, start: i64, end: i64) -> Event {
    let Event::OffCpu(interval) = off_cpu(tid, ms(start), ms(end), "") else { unreachable!() };
    Event::OffCpu(Box::new(OffCpu { preempted: true, ..*interval }))
}

#[test]
fn nothing_arrives_at_or_leaves_a_paused_machine() {
    let arrives = |bytes| {
        let slow = Request { arrival_end: ms(1_402), request_bytes: bytes, ..request(1, 1, 998, 1_404, 1) };
        vec![op(append(1, 1, ms(1_402), ms(1_403), 1)), request_event(slow)]
    };
    for bytes in [600, 1 << 20] {
        assert_eq!(causes(&with(arrives(bytes), pause())), [(Cause::HostPaused, Confidence::Strong)]);
        assert_eq!(with(arrives(bytes), [])[0].cause, Cause::SlowClient);
    }
    let leaves = Request { response: Some(ms(999)), ..request(1, 1, 990, 1_404, 1) };
    let leaves = vec![op(append(1, 1, ms(991), ms(992), 1)), request_event(leaves)];
    assert_eq!(causes(&with(leaves, pause())), [(Cause::HostPaused, Confidence::Exact)]);
}

#[test]
fn cpu_steal_delays_the_thread_on_that_cpu() {
    let writes =
        || vec![op(append(7, 0, ms(995), ms(1_403), 1)), request_event(request(1, 0, 994, 1_404, 1))];
    let verdicts = with(writes(), [away(stolen(1, 998, 1_402, 7))]);
    assert_eq!(causes(&verdicts), [(Cause::CpuSteal, Confidence::Exact)]);
    let seen = &verdicts[0].evidence[0];
    assert_eq!(
        (seen.tid, &*seen.text),
        (Some(7), "CPU 1 ran nothing for 404 ms, of which 400 ms was counted as steal time")
    );
    let another = with(writes(), [away(CpuGap { thread: "java".into(), ..stolen(1, 998, 1_402, 9) })]);
    assert_eq!(causes(&another), [(Cause::Unobserved, Confidence::Weak)], "another thread's CPU");
    let not_counted = CpuGap { stolen: Nanos::ZERO, ..stolen(1, 998, 1_402, 7) };
    assert_eq!(causes(&with(writes(), [away(not_counted)])), [(Cause::Unobserved, Confidence::Weak)]);
}

#[test]
fn log_lock_waiter_has_the_cpu_steal_of_the_holder() {
    let events = vec![
        op(append(7, 0, ms(995), ms(1_402), 1)),
        request_event(request(1, 0, 994, 1_403, 1)),
        op(append(8, 0, ms(1_402), ms(1_403), 2)),
        request_event(request(2, 0, 996, 1_404, 2)),
        away(stolen(1, 998, 1_401, 7)),
    ];
    let (verdicts, summary) = run(events);
    assert_eq!(verdicts.iter().map(|verdict| verdict.cause).collect::<Vec<_>>(), [Cause::CpuSteal; 2]);
    assert_eq!(summary.by_root.len(), 1);
}

#[test]
fn run_queue_wait_during_steal_is_weak_cpu_steal() {
    let waited = |steal: Option<CpuGap>| {
        let events = vec![
            preempted(7, 998, 1_402),
            op(append(7, 0, ms(995), ms(1_403), 1)),
            request_event(request(1, 0, 994, 1_404, 1)),
        ];
        let verdict = with(events, steal.map(away)).remove(0);
        (verdict.cause, verdict.confidence)
    };
    assert_eq!(waited(Some(stolen(1, 1_000, 1_400, 9))), (Cause::CpuSteal, Confidence::Weak));
    assert_eq!(waited(Some(stolen(1, 1_000, 1_100, 9))).0, Cause::RunQueue, "for a quarter of it");
    assert_eq!(waited(Some(gap(1, 1_000, 1_400))).0, Cause::RunQueue, "by nobody");
}

#[test]
fn steal_from_other_handlers_is_weak_cpu_steal() {
    let verdicts = with(held_up(1, 998).into(), [away(stolen(1, 1_000, 1_400, 9))]);
    assert_eq!(causes(&verdicts), [(Cause::CpuSteal, Confidence::Weak)]);
    let others = CpuGap { thread: "log-cleaner".into(), ..stolen(1, 1_000, 1_400, 9) };
    assert_eq!(
        causes(&with(held_up(1, 998).into(), [away(others)])),
        [(Cause::Unobserved, Confidence::Weak)]
    );
}

#[test]
fn order_of_cpu_gaps_does_not_change_verdicts() {
    let [first, second] = pause();
    let verdicts = with(five(), [second, first]);
    assert_eq!(causes(&verdicts), [(Cause::HostPaused, Confidence::Exact); 5]);
}
