//! Evaluates all runs: the tables of programs and of recorded events, and the targets.

use super::recorded::RecordingStats;
use super::run::Run;
use super::watcher::Kind;
use crate::table;
use crate::target::{Bound, Target};

/// Minimum requests per second for all targets.
const LEAST_RATE: f64 = 5_000.0;
const THROUGHPUT_PERCENT: f64 = -2.0;
const P99_WHAT: &str = "p99, watched against not";
const P99_PERCENT: f64 = 5.0;

/// Evaluates runs as fast as the broker answers.
pub(super) fn saturated(runs: &[Run]) -> Vec<Target> {
    let p99 = differences(runs, Kind::Brokerscope, Kind::Nobody, p99);
    let mut targets = vec![rate(runs.iter()), throughput_against_nobody(runs)];
    targets.push(percent(P99_WHAT, &p99, Bound::AtMost(P99_PERCENT)));
    targets.extend(against_tools(runs));
    targets.push(completeness(
        "appends neither recorded nor counted as lost",
        runs.iter(),
        RecordingStats::unaccounted,
    ));
    targets
}

pub(super) fn of_kind(runs: &[Run], kind: Kind) -> impl Iterator<Item = &Run> {
    runs.iter().filter(move |run| run.kind == kind)
}

/// Differences in per cent of a figure between adjacent runs of two kinds.
pub(super) fn differences(runs: &[Run], one: Kind, other: Kind, of: impl Fn(&Run) -> f64) -> Vec<f64> {
    let pairs = of_kind(runs, one).zip(of_kind(runs, other));
    pairs.map(|(one, other)| percent_more(of(one), of(other))).collect()
}

fn percent_more(one: f64, other: f64) -> f64 {
    (one / other - 1.0) * 100.0
}

pub(super) fn throughput(run: &Run) -> f64 {
    run.seen.per_second()
}

pub(super) fn p99(run: &Run) -> f64 {
    run.seen.p99.as_secs_f64()
}

fn percent(what: &str, runs: &[f64], bound: Bound) -> Target {
    Target::of_runs(what.to_owned(), runs, bound, "%")
}

fn rate<'a>(runs: impl Iterator<Item = &'a Run>) -> Target {
    let rates: Vec<f64> = runs.filter(|run| run.kind == Kind::Brokerscope).map(throughput).collect();
    Target::of_runs("requests a second".to_owned(), &rates, Bound::AtLeast(LEAST_RATE), "/s")
}

fn throughput_against_nobody(runs: &[Run]) -> Target {
    let differences = differences(runs, Kind::Brokerscope, Kind::Nobody, throughput);
    percent("throughput, watched against not", &differences, Bound::AtLeast(THROUGHPUT_PERCENT))
}

fn against_tools(runs: &[Run]) -> [Target; 2] {
    let (ours, theirs) = (Kind::Brokerscope, Kind::Tools);
    [
        percent(
            "throughput against tcpdump + bpftrace",
            &differences(runs, ours, theirs, throughput),
            Bound::AtLeast(0.0),
        ),
        percent("p99 against them", &differences(runs, ours, theirs, p99), Bound::AtMost(0.0)),
    ]
}

/// Even one missing event in one run is a failure.
fn completeness<'a>(
    what: &str,
    runs: impl Iterator<Item = &'a Run>,
    of: impl Fn(&RecordingStats) -> u64,
) -> Target {
    let runs: Vec<f64> = runs.filter_map(|run| Some(of(run.recorded.as_ref()?) as f64)).collect();
    let measured = runs.iter().copied().fold(0.0, f64::max);
    Target { measured, ..Target::of_runs(what.to_owned(), &runs, Bound::AtMost(0.0), "") }
}

/// Prints what was recorded in each run next to what really happened. Also prints the last recorder's output.
pub(super) fn print_recorded<'a>(runs: impl Iterator<Item = &'a Run>) {
    let recorded: Vec<_> = runs.filter_map(|run| run.recorded.as_ref()).collect();
    table::print(
        &["appends", "recorded", "operations", "lost"],
        recorded.iter().map(|one| {
            let mut row = [one.appended, one.appends, one.operations].map(|count| count.to_string()).to_vec();
            row.push(one.lost_of_each_kind());
            row
        }),
    );
    if let Some(last) = recorded.last() {
        println!("{}\n", last.log.trim());
    }
}
