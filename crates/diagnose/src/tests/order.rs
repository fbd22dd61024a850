//! The same events give the same verdicts: in any order within the allowed disorder, in any batches, live or from a
//! recording, and with other events around them.

use model::{Event, LockHolder, LockKind, LockSource, LockWait, Nanos, Verdict};
use proptest::prelude::*;

use super::{JOURNAL_STACK, append, commit, io, ms, off_cpu, op, request, request_event};
use crate::{Config, Engine, Summary};

/// Two journal stalls, each with three requests behind the lock.
/// Quick requests come all the time. Times are in microseconds, several events at the same instant.
fn events() -> Vec<Event> {
    let mut events = vec![commit(2285, 995, 1_400), io(1_002, 1_390), commit(2286, 2_000, 2_300)];
    for (number, stall) in [(0, 1_000), (1, 2_050)] {
        let tid = 30 + number;
        let (crc, end) = (900 + number, stall + 200);
        events.push(op(append(tid, 6, ms(stall), ms(end), crc)));
        events.push(off_cpu(tid, ms(stall + 1), ms(end - 1), JOURNAL_STACK));
        events.push(request_event(request(crc as i32, 6, stall, end + 2, crc)));
        for behind in 1..4 {
            let (tid, crc) = (40 + behind, 910 + 10 * number + behind);
            let start = Nanos(ms(end).0 + i64::from(behind) * 20_000);
            events.push(op(append(tid, 6, start, Nanos(start.0 + 10_000), crc)));
            events.push(Event::LockWait(Box::new(wait(tid, ms(stall + 10), start, number))));
            events.push(request_event(request(crc as i32, 6, stall + 5, end + 3, crc)));
        }
    }
    for quick in 0..300_i64 {
        let (crc, at) = (quick as u32, ms(quick * 10));
        events.push(op(append(20, 1, at, Nanos(at.0 + 40_000), crc)));
        events.push(request_event(request(quick as i32, 1, quick * 10, quick * 10 + 1, crc)));
    }
    events.sort_by_key(Event::time);
    events
}

fn wait(tid: u32, start: Nanos, end: Nanos, number: u32) -> LockWait {
    LockWait {
        start,
        end,
        pid: 1,
        tid,
        thread: "data-plane-kafka-request-handler-1".into(),
        lock: model::Lock { kind: LockKind::Monitor, class: "java.lang.Object".into(), address: 7 },
        holder: Some(LockHolder {
            tid: Some(30 + number),
            thread: "data-plane-kafka-request-handler-0".into(),
        }),
        stack: "".into(),
        source: LockSource::Usdt,
    }
}

/// The verdicts and summary, taken after every `batch` events.
fn verdicts_of(config: &Config, events: &[Event], batch: usize) -> (Vec<Verdict>, Summary) {
    let mut engine = Engine::new(config.clone());
    let mut verdicts = Vec::new();
    for some in events.chunks(batch) {
        for event in some {
            engine.push(event.clone());
        }
        verdicts.extend(engine.take_verdicts());
    }
    let summary = engine.finish();
    verdicts.extend(engine.take_verdicts());
    (verdicts, summary)
}

fn expected() -> (Vec<Verdict>, Summary) {
    let expected = verdicts_of(&Config::replay(ms(100)), &events(), 1);
    assert_eq!(expected.0.len(), 8, "the stalled and those behind them");
    assert!(
        expected.0.iter().all(|verdict| verdict.cause == model::Cause::JournalCommit),
        "{:?}",
        expected.1
    );
    expected
}

/// The events, each delayed by its entry of `delays`.
fn delayed(delays: &[i64], most: Nanos) -> Vec<Event> {
    let mut events: Vec<(Nanos, Event)> = events()
        .into_iter()
        .enumerate()
        .map(|(number, event)| {
            let delay = delays.get(number % delays.len()).copied().unwrap_or(0).rem_euclid(most.0);
            (event.time() + Nanos(delay), event)
        })
        .collect();
    events.sort_by_key(|(arrival, _)| *arrival);
    events.into_iter().map(|(_, event)| event).collect()
}

/// Reports the first verdict that differs. All of them in full would be too long.
fn same(one: &(Vec<Verdict>, Summary), other: &(Vec<Verdict>, Summary)) {
    for (verdict, expected) in one.0.iter().zip(&other.0) {
        assert_eq!(verdict.request.correlation_id, expected.request.correlation_id);
        assert_eq!(verdict, expected);
    }
    assert_eq!(one.0.len(), other.0.len());
    assert_eq!(one.1.by_root, other.1.by_root);
    assert_eq!(one.1.by_cause, other.1.by_cause);
    assert_eq!(one.1.joins, other.1.joins);
}

#[test]
fn live_and_replay_give_the_same_verdicts() {
    same(&verdicts_of(&Config::live(ms(100)), &events(), 1), &expected());
}

#[test]
fn ticks_without_events_give_the_same_verdicts_before_the_end() {
    let (expected, _) = expected();
    let mut engine = Engine::new(Config::live(ms(100)));
    let mut verdicts = Vec::new();
    let mut last = Nanos::ZERO;
    for event in events() {
        last = last.max(event.time());
        engine.push(event);
    }
    verdicts.extend(engine.take_verdicts());
    let before = verdicts.len();
    assert!(before < expected.len(), "nothing is left to decide");
    // No more events: only time passes.
    for later in 1..30 {
        engine.tick(last + ms(later * 50));
        verdicts.extend(engine.take_verdicts());
    }
    assert!(verdicts == expected, "other verdicts, or in another order");
    engine.finish();
    assert!(engine.take_verdicts().is_empty());
}

#[test]
fn decides_requests_before_the_event_limit_drops_them() {
    let few = Config { max_events: 120, ..Config::replay(ms(100)) };
    let (verdicts, summary) = verdicts_of(&few, &events(), 1);
    let (expected, expected_summary) = expected();
    assert_eq!(verdicts.len(), expected.len());
    assert_eq!(summary.requests, expected_summary.requests);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn disorder_and_batch_size_do_not_change_verdicts(
        delays in proptest::collection::vec(any::<i64>(), 1..50),
        batch in 1_usize..200,
        live in any::<bool>(),
    ) {
        let config = if live { Config::live(ms(100)) } else { Config::replay(ms(100)) };
        let disordered = delayed(&delays, config.disorder);
        same(&verdicts_of(&config, &disordered, batch), &expected());
    }
}

#[test]
fn stage_spans_cover_the_latency_and_add_up_to_the_stages() {
    for verdict in expected().0 {
        let request = &verdict.request;
        let mut at = request.arrival;
        let mut stages = model::Stages::default();
        for span in &verdict.stage_spans {
            assert_eq!(span.start, at, "a gap or an overlap");
            assert!(span.end > span.start);
            stages.add(span.stage, span.end - span.start);
            at = span.end;
        }
        assert_eq!(Some(at), request.end);
        assert_eq!(stages, verdict.stages);
    }
}

#[test]
fn only_request_judges_one_request_even_if_it_is_quick() {
    let config = Config { only_request: Some(17), ..Config::replay(ms(100)) };
    let (verdicts, summary) = verdicts_of(&config, &events(), 1);
    assert_eq!(verdicts.iter().map(|verdict| verdict.request.correlation_id).collect::<Vec<_>>(), [17]);
    assert_eq!(verdicts[0].stages.total(), ms(1));
    assert_eq!(verdicts[0].cause, model::Cause::Unobserved);
    assert_eq!(summary.requests, expected().1.requests);
}
