//! Compares reading only near slow requests with reading all events.
//! Both give the same verdicts on randomized simulated recordings.

mod broker;

use diagnose::{Config, Engine, Summary};
use model::{Event, Nanos, Verdict};
use recording::{Error, Recording, Table};

use super::{SelectiveRead, read_plan};
use broker::{Habits, record};

/// Runs the engine over events; returns verdicts, totals and the number of events.
fn judge(
    config: &Config,
    events: impl Iterator<Item = Result<Event, Error>>,
) -> (Vec<Verdict>, Summary, u64) {
    let mut engine = Engine::new(config.clone());
    let mut count = 0;
    for event in events {
        engine.push(event.unwrap());
        count += 1;
    }
    let summary = engine.finish();
    (engine.take_verdicts(), summary, count)
}

/// Compares both ways of reading.
/// Returns the verdicts and the share of events that was read for them.
fn compare(config: &Config, recording: &Recording) -> (Vec<Verdict>, f64) {
    let (whole, summary, all) = judge(config, recording.events_of(&Table::ALL));
    let mut near = SelectiveRead::of(recording, config).unwrap_or_else(|| {
        let focus = read_plan(recording, config).unwrap();
        panic!("read whole: {} verdicts, {focus:?}", whole.len())
    });
    let (verdicts, mut near_summary, read) = judge(config, &mut near.events);
    near.rest().unwrap().add_to(&mut near_summary);
    for (verdict, expected) in verdicts.iter().zip(&whole) {
        assert_eq!(verdict, expected);
    }
    assert_eq!(verdicts.len(), whole.len());
    assert_eq!(near_summary.requests, summary.requests);
    assert_eq!(near_summary.joins, summary.joins);
    assert_eq!(near_summary.not_judged, summary.not_judged);
    assert_eq!(near_summary.by_cause, summary.by_cause);
    assert_eq!(near_summary.by_root, summary.by_root);
    (verdicts, read as f64 / all as f64)
}

#[test]
fn selective_read_gives_the_same_verdicts_as_a_full_read() {
    let mut causes = std::collections::BTreeSet::new();
    for (seed, habits) in
        [Habits::alone(), Habits::followed(), Habits::read_from_disk()].into_iter().enumerate()
    {
        let directory = tempfile::tempdir().unwrap();
        let recording = record(&directory.path().join("r"), habits, seed as u64);
        let (verdicts, share) = compare(&Config::replay(Nanos::from_millis(100)), &recording);
        assert!(verdicts.len() > 20, "{} of {habits:?}", verdicts.len());
        assert!(share < 0.8, "{share} of all was read of {habits:?}");
        causes.extend(verdicts.iter().flat_map(|verdict| verdict.chain.iter().map(|cause| cause.as_str())));
    }
    // Otherwise the comparison would prove little.
    for cause in [
        "journal-commit",
        "log-lock",
        "handlers-busy",
        "gc-pause",
        "head-of-line",
        "replication-wait",
        "run-queue",
        "slow-device",
    ] {
        assert!(causes.contains(cause), "{cause} is not among {causes:?}");
    }
}

#[test]
fn explains_a_selected_request_even_if_it_was_fast() {
    let directory = tempfile::tempdir().unwrap();
    let recording = record(&directory.path().join("r"), Habits::alone(), 9);
    for number in [17, 4_000] {
        let config = Config { only_request: Some(number), ..Config::replay(Nanos::from_millis(100)) };
        let (verdicts, share) = compare(&config, &recording);
        assert!(verdicts.len() == 1 && share < 0.1, "{} {share}", verdicts.len());
    }
}

#[test]
fn reads_few_events_if_nothing_is_slow() {
    let directory = tempfile::tempdir().unwrap();
    let recording = record(&directory.path().join("r"), Habits::quiet(), 1);
    let (verdicts, share) = compare(&Config::replay(Nanos::from_millis(100)), &recording);
    assert!(verdicts.is_empty() && share < 0.1, "{} {share}", verdicts.len());
}

#[test]
fn reads_all_events_if_most_requests_are_slow() {
    let directory = tempfile::tempdir().unwrap();
    let recording = record(&directory.path().join("r"), Habits::quiet(), 1);
    assert!(SelectiveRead::of(&recording, &Config::replay(Nanos(1))).is_none());
}
