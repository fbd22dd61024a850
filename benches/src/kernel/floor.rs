//! What of the cost is the hooks' own: a recorder of a process that does nothing has the same programs on the same
//! hooks, and in the broker's threads they find that the process is another and return. What that costs beside nobody
//! is the kernel's price of hooks on this machine; what the recorder of the broker itself costs beside it is ours.

use super::judgement::{differences, of_kind, p99, p99_against_nobody, throughput};
use super::latencies::LatencyStats;
use super::run::Run;
use super::watcher::Kind;
use crate::table;

/// Prints what hooks alone cost, and what is ours, of runs as fast as the broker answers.
pub(super) fn print_differences(runs: &[Run]) {
    let ratio = |what: &str, of: fn(&Run) -> f64| {
        let pairs = [
            (Kind::Hooks, Kind::Nobody),
            (Kind::Brokerscope, Kind::Hooks),
            (Kind::Brokerscope, Kind::Nobody),
        ];
        let cells = pairs.map(|(one, other)| percent(&differences(runs, one, other, of)));
        [vec![what.to_owned()], cells.to_vec()].concat()
    };
    table::print(
        &[
            "medians of runs beside each other",
            "hooks against nobody",
            "recorder against hooks",
            "against nobody",
        ],
        [
            ratio("throughput", throughput),
            ratio("p99", p99),
            ratio("the broker's processor time a request", Run::broker_nanos),
        ],
    );
    println!();
}

/// Prints what requests and processors see of each kind of watcher, and how much more that is than with nobody. What hooks alone
/// add is below anything that hooks the same can reach on this kernel, no matter what its programs do.
pub(super) fn print_against_nobody(runs: &[Run], kinds: &[Kind]) {
    table::print(
        &[
            "watched by",
            "p99 of all, ms",
            "against nobody",
            "broker, us a request",
            "against nobody",
            "watchers",
        ],
        kinds.iter().map(|&kind| {
            let p99 = LatencyStats::p99_of_all(of_kind(runs, kind).map(|run| &run.seen));
            let watchers =
                of_kind(runs, kind).map(|run| of_request(run.watchers.as_nanos() as f64, run) / 1e3);
            let broker = of_kind(runs, kind).map(Run::broker_nanos).collect();
            vec![
                kind.name().to_owned(),
                format!("{:.2}", p99 * 1e3),
                format!("{:+.1} %", p99_against_nobody(runs, kind, None)),
                format!("{:.1}", median(broker) / 1e3),
                percent(&differences(runs, kind, Kind::Nobody, Run::broker_nanos)),
                format!("{:.1}", median(watchers.collect())),
            ]
        }),
    );
    println!();
}

/// Prints what programs and watchers take for a request, of runs in which the kernel counts that. Hooks alone together with
/// what tcpdump takes are the least that a recorder of operations and packets can: the one does nothing, the other copies.
pub(super) fn print_counted(counted: &[Run]) {
    table::print(
        &["a request, counted", "hooks alone", "recorder", "tcpdump + bpftrace"],
        [
            row("programs, ns", counted, |run| of_request(run.in_programs().as_nanos() as f64, run)),
            row("runs of programs", counted, |run| {
                let runs = run.programs.values().map(|ran| ran.count).sum::<u64>();
                of_request(runs as f64, run)
            }),
            row("the watchers' processor time, ns", counted, |run| {
                of_request(run.watchers.as_nanos() as f64, run)
            }),
            row("the broker's processor time, ns", counted, Run::broker_nanos),
        ],
    );
    println!();
}

fn of_request(all: f64, run: &Run) -> f64 {
    all / run.seen.requests as f64
}

fn row(what: &str, runs: &[Run], of: impl Fn(&Run) -> f64) -> Vec<String> {
    let cell = |kind| format!("{:.0}", median(of_kind(runs, kind).map(&of).collect()));
    vec![what.to_owned(), cell(Kind::Hooks), cell(Kind::Brokerscope), cell(Kind::Tools)]
}

fn percent(runs: &[f64]) -> String {
    format!("{:+.1} %", median(runs.to_vec()))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
