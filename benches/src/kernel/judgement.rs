//! What the runs say together: the tables of programs and of what was recorded, and the targets.

use std::collections::BTreeMap;
use std::time::Duration;

use super::accounts::Ran;
use super::latencies::LatencyStats;
use super::recorded::RecordingStats;
use super::run::Run;
use super::watcher::Kind;
use crate::table;
use crate::target::{Bound, Target};

/// Requests a second that all of it must hold at.
const LEAST_RATE: f64 = 5_000.0;
const THROUGHPUT_PERCENT: f64 = -2.0;
const P99_WHAT: &str = "p99, watched against not";
const P99_PERCENT: f64 = 5.0;
const PROCESSOR_PERCENT: f64 = 5.0;
/// Probe time for one operation that was hooked.
const OPERATION_NANOS: f64 = 1_000.0;
/// A program that ran so rarely in all runs tells nothing by its mean.
const OFTEN: u64 = 3_000;

/// Judges runs as fast as the broker answers.
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

/// Judges runs at the load that a broker must bear, and those in which programs' time was counted.
pub(super) fn paced(runs: &[Run], counted: &[Run]) -> Vec<Target> {
    let all = || runs.iter().chain(counted);
    let mut targets = vec![rate(all()), throughput_against_nobody(runs), p99_of_all_against_nobody(runs)];
    targets.extend(cost(counted));
    let cheaper = differences(counted, Kind::Brokerscope, Kind::Tools, share);
    targets.push(percent("processor time against tcpdump + bpftrace", &cheaper, Bound::AtMost(0.0)));
    targets.push(completeness("appends not recorded once", all(), RecordingStats::wrong));
    targets.push(completeness("events lost", all(), RecordingStats::all_lost));
    targets
}

pub(super) fn of_kind(runs: &[Run], kind: Kind) -> impl Iterator<Item = &Run> {
    runs.iter().filter(move |run| run.kind == kind)
}

/// By how many per cent a figure differs between the runs of two kinds that were beside each other.
pub(super) fn differences(runs: &[Run], one: Kind, other: Kind, of: impl Fn(&Run) -> f64) -> Vec<f64> {
    let pairs = of_kind(runs, one).zip(of_kind(runs, other));
    pairs.map(|(one, other)| percent_more(of(one), of(other))).collect()
}

/// By how many per cent the p99 of all runs of a kind together differs from that of those with nobody, without the rounds that
/// are left out.
pub(super) fn p99_against_nobody(runs: &[Run], kind: Kind, left_out: Option<usize>) -> f64 {
    let p99 = |kind| {
        let kept = of_kind(runs, kind).enumerate().filter(|(round, _)| Some(*round) != left_out);
        LatencyStats::p99_of_all(kept.map(|(_, run)| &run.seen))
    };
    percent_more(p99(kind), p99(Kind::Nobody))
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

/// Time of all who watch and of their programs, over the broker's own.
fn share(run: &Run) -> f64 {
    let own = run.broker.saturating_sub(run.in_programs());
    (run.watchers + run.in_programs()).as_secs_f64() * 100.0 / own.as_secs_f64()
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

/// Of all runs together: a journal's commits take about one request of a hundred each second, so one more commit or one
/// less in some seconds moves the p99 of a run by half and more. The spread is what leaving out any one round makes of it.
fn p99_of_all_against_nobody(runs: &[Run]) -> Target {
    let against_nobody = |left_out| p99_against_nobody(runs, Kind::Brokerscope, left_out);
    let rounds = of_kind(runs, Kind::Nobody).count();
    let others: Vec<f64> = (0..rounds).map(|left_out| against_nobody(Some(left_out))).collect();
    Target { measured: against_nobody(None), ..percent(P99_WHAT, &others, Bound::AtMost(P99_PERCENT)) }
}

fn cost(counted: &[Run]) -> Vec<Target> {
    let programs = programs(counted, Kind::Brokerscope);
    let shares: Vec<f64> = of_kind(counted, Kind::Brokerscope).map(share).collect();
    let per_operation: Vec<f64> = of_kind(counted, Kind::Brokerscope)
        .filter_map(|run| {
            let operations = run.recorded.as_ref()?.operations as f64 * run.measured_share();
            Some(run.in_programs().as_nanos() as f64 / operations)
        })
        .collect();
    let dearest = programs.values().filter(|ran| ran.count >= OFTEN).map(mean_nanos).fold(0.0, f64::max);
    vec![
        percent("recorder and programs over the broker", &shares, Bound::AtMost(PROCESSOR_PERCENT)),
        Target {
            what: "the dearest program, a run".to_owned(),
            measured: dearest,
            spread: None,
            bound: Bound::AtMost(OPERATION_NANOS),
            unit: "ns",
        },
        Target::of_runs(
            "all programs, an operation".to_owned(),
            &per_operation,
            Bound::AtMost(OPERATION_NANOS),
            "ns",
        ),
    ]
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

/// One in one run is one too many.
fn completeness<'a>(
    what: &str,
    runs: impl Iterator<Item = &'a Run>,
    of: impl Fn(&RecordingStats) -> u64,
) -> Target {
    let runs: Vec<f64> = runs.filter_map(|run| Some(of(run.recorded.as_ref()?) as f64)).collect();
    let measured = runs.iter().copied().fold(0.0, f64::max);
    Target { measured, ..Target::of_runs(what.to_owned(), &runs, Bound::AtMost(0.0), "") }
}

fn programs(counted: &[Run], kind: Kind) -> BTreeMap<String, Ran> {
    let mut programs: BTreeMap<String, Ran> = BTreeMap::new();
    for (name, ran) in of_kind(counted, kind).flat_map(|run| &run.programs) {
        programs.entry(name.clone()).or_default().add(*ran);
    }
    programs
}

fn mean_nanos(ran: &Ran) -> f64 {
    ran.time.as_nanos() as f64 / ran.count as f64
}

/// The dearest first; those that never ran are named together.
pub(super) fn print_programs(counted: &[Run]) {
    let programs = programs(counted, Kind::Brokerscope);
    let seconds: f64 = of_kind(counted, Kind::Brokerscope).map(|run| run.seen.seconds).sum();
    let mut ran: Vec<_> = programs.iter().filter(|(_, ran)| ran.count > 0).collect();
    ran.sort_by_key(|(_, ran)| std::cmp::Reverse(ran.time));
    table::print(
        &["program", "runs/s", "ns a run", "of a processor", "skipped"],
        ran.iter().map(|(name, ran)| {
            vec![
                (*name).clone(),
                format!("{:.0}", ran.count as f64 / seconds),
                format!("{:.0}", mean_nanos(ran)),
                format!("{:.2} %", ran.time.as_secs_f64() * 100.0 / seconds),
                ran.skipped.to_string(),
            ]
        }),
    );
    let idle = programs.values().filter(|ran| ran.count == 0 && ran.time == Duration::ZERO).count();
    println!("and {idle} programs that did not run\n");
}

/// What was recorded in each run beside what really happened, and what the last recorder said.
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
        println!("{}\n", last.said.trim());
    }
}
