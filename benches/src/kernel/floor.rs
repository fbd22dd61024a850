//! What of the cost is the hooks' own: a recorder of a process that does nothing has the same programs on the same
//! hooks, and in the broker's threads they find that the process is another and return. What that costs beside nobody
//! is the kernel's price of hooks on this machine; what the recorder of the broker itself costs beside it is ours.

use super::judgement::{differences, p99, throughput};
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

fn percent(runs: &[f64]) -> String {
    format!("{:+.1} %", median(runs.to_vec()))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
