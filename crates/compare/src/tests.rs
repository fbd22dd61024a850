//! Whether intervals hold what they promise: over many seeds, for known distributions.

use fastrand::Rng;
use model::Nanos;

use crate::{Comparison, Difference, Figure, Outcome, Part, Run, Setup, Shortfall};

const SLO: Nanos = Nanos::from_millis(65);

/// A simulated broker: latencies are log-normal around a level that wanders, and stalls start by chance.
#[derive(Clone, Copy)]
struct Broker {
    seconds: i64,
    a_second: i64,
    median_ms: f64,
    /// How much of a second's level carries over to the next.
    memory: f64,
    /// How far apart runs are, in logarithms.
    runs_apart: f64,
    /// The share of seconds in which a stall starts.
    stalls: f64,
}

const QUIET: Broker =
    Broker { seconds: 30, a_second: 40, median_ms: 2.0, memory: 0.0, runs_apart: 0.0, stalls: 0.0 };

fn normal(random: &mut Rng) -> f64 {
    (0..12).map(|_| random.f64()).sum::<f64>() - 6.0
}

impl Broker {
    fn run(&self, random: &mut Rng) -> Run {
        let mut run = Run::new("run", SLO, Part::WHOLE);
        let of_run = self.runs_apart * normal(random);
        let mut level = 0.0;
        for second in 0..self.seconds {
            level = self.memory * level + 0.3 * normal(random);
            let stalled = random.f64() < self.stalls;
            for n in 0..self.a_second {
                let arrival = Nanos(1_000 + (second * self.a_second + n) * (1_000_000_000 / self.a_second));
                let waits = if stalled && n < self.a_second / 4 { 100.0 + 100.0 * random.f64() } else { 0.0 };
                let ms = self.median_ms * (of_run + level + 0.4 * normal(random)).exp() + waits;
                run.request(arrival, Some(Nanos((ms * 1e6) as i64)), 100);
            }
        }
        run
    }

    fn setup(&self, runs: usize, random: &mut Rng) -> Setup {
        Setup { name: String::new(), note: None, runs: (0..runs).map(|_| self.run(random)).collect() }
    }
}

fn compare(a: Broker, b: Broker, runs: usize, seed: u64) -> Comparison {
    let mut random = Rng::with_seed(seed);
    let setups = vec![a.setup(runs, &mut random), b.setup(runs, &mut random)];
    Comparison::of(SLO, setups)
}

fn difference(comparison: &Comparison, figure: Figure) -> Difference {
    *comparison.differences.iter().find(|difference| difference.figure == figure).unwrap()
}

/// The share of intervals that hold this change.
fn coverage(a: Broker, b: Broker, runs: usize, figure: Figure, change: f64, seeds: u64) -> f64 {
    let intervals = (0..seeds).filter_map(|seed| difference(&compare(a, b, runs, seed), figure).interval);
    let hits: Vec<bool> =
        intervals.map(|interval| interval.low <= change && change <= interval.high).collect();
    // A short run does not always show whether its seconds depend on each other.
    assert!(hits.len() as u64 * 10 >= seeds * 8, "{figure:?}: {} of {seeds} had an interval", hits.len());
    hits.iter().filter(|hit| **hit).count() as f64 / hits.len() as f64
}

#[test]
fn interval_holds_the_true_change_of_independent_seconds() {
    let broker = Broker { a_second: 100, ..QUIET };
    let faster = Broker { median_ms: 1.5, ..broker };
    for figure in [Figure::P50, Figure::P99] {
        let share = coverage(broker, faster, 1, figure, -0.25, 150);
        assert!((0.90..=0.99).contains(&share), "{figure:?}: {share}");
    }
}

#[test]
fn equal_brokers_rarely_differ_by_chance() {
    let stalls = Broker { stalls: 0.3, ..QUIET };
    for figure in [Figure::SloMisses, Figure::P90] {
        let share = coverage(stalls, stalls, 1, figure, 0.0, 150);
        assert!(share >= 0.90, "{figure:?}: {share}");
    }
}

#[test]
fn variation_between_runs_is_not_a_change() {
    let broker = Broker { runs_apart: 0.3, seconds: 20, ..QUIET };
    let share = coverage(broker, broker, 3, Figure::P50, 0.0, 150);
    assert!(share >= 0.90, "{share}");
    // One run of each cannot show it, which is why there are repetitions.
    let once = coverage(broker, broker, 1, Figure::P50, 0.0, 60);
    assert!(once < 0.75, "{once}");
}

#[test]
fn draws_dependent_seconds_together() {
    let broker = Broker { memory: 0.7, seconds: 200, a_second: 10, ..QUIET };
    let share = coverage(broker, broker, 1, Figure::P50, 0.0, 100);
    assert!(share >= 0.86, "{share}");
    let stretch = compare(broker, broker, 1, 0).configurations[0].runs[0].stretch;
    assert!(stretch > 1, "{stretch}");
}

#[test]
fn finds_an_injected_change() {
    let stalls = Broker { stalls: 0.4, seconds: 60, ..QUIET };
    let better = Broker { stalls: 0.05, median_ms: 1.5, ..stalls };
    for seed in 0..20 {
        let comparison = compare(stalls, better, 3, seed);
        let misses = difference(&comparison, Figure::SloMisses);
        assert_eq!(misses.outcome, Outcome::Lower, "{seed}: {misses:?}");
        let max = difference(&comparison, Figure::Max);
        assert_eq!(max.outcome, Outcome::Untested, "{seed}: {max:?}");
        let p50 = difference(&comparison, Figure::P50);
        assert_eq!(p50.outcome, Outcome::Lower, "{seed}: {p50:?}");
        let load = difference(&comparison, Figure::RequestsPerSecond);
        assert_eq!(load.outcome, Outcome::NoDifference, "{seed}: {load:?}");
    }
}

#[test]
fn too_short_runs_yield_a_shortfall() {
    let outcome = |broker: Broker, figure| difference(&compare(broker, broker, 1, 7), figure).outcome;
    assert_eq!(outcome(QUIET, Figure::P999), Outcome::TooShort(Shortfall::Requests(1)));
    assert_eq!(
        outcome(Broker { seconds: 5, ..QUIET }, Figure::P50),
        Outcome::TooShort(Shortfall::Stretches(5))
    );
    assert_eq!(outcome(QUIET, Figure::Max), Outcome::Untested);
    // No request missed it: that is no difference.
    assert_eq!(outcome(QUIET, Figure::SloMisses), Outcome::NoDifference);
    let once = Broker { stalls: 0.05, ..QUIET };
    let misses = outcome(once, Figure::SloMisses);
    assert!(matches!(misses, Outcome::TooShort(Shortfall::Misses(1..=5))), "{misses:?}");
}

#[test]
fn same_input_gives_the_same_output() {
    let stalls = Broker { stalls: 0.4, ..QUIET };
    let (one, other) = (compare(stalls, QUIET, 2, 3), compare(stalls, QUIET, 2, 3));
    assert_eq!(one.differences, other.differences);
    assert_eq!(one.over_time(10), other.over_time(10));
}

#[test]
fn empty_runs_are_too_short_to_compare() {
    let mut random = Rng::with_seed(1);
    let nothing = Setup { name: String::new(), note: None, runs: vec![Run::new("empty", SLO, Part::WHOLE)] };
    let something = QUIET.setup(1, &mut random);
    for setups in [vec![nothing.clone(), something.clone()], vec![something, nothing.clone()], vec![nothing]]
    {
        let comparison = Comparison::of(SLO, setups);
        for difference in &comparison.differences {
            assert!(matches!(difference.outcome, Outcome::TooShort(_) | Outcome::Untested), "{difference:?}");
        }
    }
    assert!(Comparison::of(SLO, Vec::new()).over_time(5).rows.is_empty());
}

#[test]
fn part_starts_at_the_first_request() {
    let mut random = Rng::with_seed(1);
    let part = Part { from: Nanos::from_millis(10_000), until: Nanos::from_millis(20_000) };
    let mut run = Run::new("part", SLO, part);
    for second in 0..30_i64 {
        run.request(Nanos(5 + second * 1_000_000_000), Some(Nanos(1_000 + second)), random.u64(..10));
    }
    assert_eq!(run.requests, 10);
}

#[test]
fn rows_over_time_have_equal_length_and_the_slowest_second() {
    let mut random = Rng::with_seed(5);
    let long = Broker { seconds: 50, ..QUIET }.setup(2, &mut random);
    let mut short = QUIET.setup(1, &mut random);
    short.runs[0].request(Nanos(12_000_000_000), Some(Nanos(9_000_000_000)), 1);
    let comparison = Comparison::of(SLO, vec![long, short]);
    let over_time = comparison.over_time(25);
    assert_eq!((over_time.bucket, over_time.rows[0].len()), (Nanos(2_000_000_000), 25));
    let row = &over_time.rows[1];
    assert!(row[..15].iter().all(Option::is_some) && row[15..].iter().all(Option::is_none), "{row:?}");
    let (slowest, _) = row.iter().enumerate().max_by_key(|cell| cell.1).unwrap();
    assert_eq!(slowest, 5);
    assert_eq!(over_time.range().unwrap().1, row[5].unwrap());
}
