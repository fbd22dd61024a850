//! Separates the cost of the hooks themselves: a recorder of an idle process has the same programs on the same hooks,
//! and in the broker's threads they see that the process is another one and return. Their cost compared with no watcher
//! is the kernel's price of hooks on this machine; the additional cost of recording the broker itself is ours.

use super::judgement::{differences, p99, throughput};
use super::run::Run;
use super::watcher::Kind;
use crate::table;

/// Prints the cost of hooks alone, and ours. The runs are as fast as the broker answers.
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
