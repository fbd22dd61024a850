//! Checks that counters never decrease, with any events in any order.

use std::collections::BTreeMap;

use model::{BrokerChange, BrokerState, Event};

use super::broker::{append, commit, fetch, off_cpu, op, produce, request_event};
use super::{exporter, ms, scrape};

/// The next of reproducible pseudo-random numbers (Knuth's MMIX).
fn next(state: &mut u64, below: u64) -> i64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    ((*state >> 33) % below) as i64
}

fn event(state: &mut u64, step: i64) -> Event {
    let at = 1_000 + step * 40 + next(state, 5_000) - 2_500;
    let (end, number) = (at + next(state, 300), step as i32);
    let topic = format!("t{}", next(state, 9));
    match next(state, 7) {
        0 => request_event(produce(number, &topic, at, end)),
        1 => request_event(fetch(number, &topic, at, end)),
        2 => op(append(next(state, 4) as u32, &topic, at, end, number as u32)),
        3 => Event::OffCpu(Box::new(off_cpu(next(state, 4) as u32, at, None, end))),
        4 => Event::JournalCommit(Box::new(commit(number as u32, at, end))),
        5 => {
            let state = if next(state, 2) == 0 { BrokerState::Gone } else { BrokerState::Watched };
            Event::BrokerChange(BrokerChange { at: ms(at), pid: 1, state })
        }
        _ => request_event(produce(number, &topic, end, at)),
    }
}

#[test]
fn counters_never_decrease() {
    let (mut exporter, mut state) = (exporter(), 7);
    let mut before: BTreeMap<String, f64> = BTreeMap::new();
    for step in 0..6_000 {
        exporter.push(event(&mut state, step));
        if step % 50 != 0 {
            continue;
        }
        let metrics = scrape(&mut exporter);
        let counts = |name: &str| {
            let name = name.split('{').next().unwrap();
            ["_total", "_count", "_sum", "_bucket"].iter().any(|end| name.ends_with(end))
        };
        let now: BTreeMap<_, _> = metrics.each().filter(|(name, _)| counts(name)).collect();
        for (name, value) in &before {
            // A topic may lose its slot; a counter with one never decreases.
            let Some(later) = now.get(name.as_str()) else {
                assert!(name.contains("topic="), "{name} is gone");
                continue;
            };
            assert!(later >= value || name.contains("{topic=\"t"), "{name}: {value}, then {later}");
        }
        before = now.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    }
    assert!(before["brokerscope_requests_total{api=\"PRODUCE\"}"] > 1_000.0);
    assert!(before.keys().any(|name| name.contains("slow_requests_total")));
}
