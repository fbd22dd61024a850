//! The clients' measurements of all runs, side by side. Does not say what is chance; `compare` does.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Deserialize;

use super::run_log::{FinishedRun, RunLog};
use super::setup::Setup;
use super::test_bed::ClientMetrics;

/// A figure of a run: its heading, width, digits, unit and value.
type Column = (String, usize, usize, &'static str, fn(&ClientMetrics) -> Option<f64>);

/// Figures of all loads, and of those that know single requests.
fn columns(has_latencies: bool, slo_ms: u64) -> Vec<Column> {
    let mut columns: Vec<Column> = vec![
        ("RECORDS/S".to_owned(), 26, 0, "", |run| Some(run.records_per_s)),
        ("MB/S".to_owned(), 17, 2, "", |run| Some(run.bytes_per_s / 1e6)),
    ];
    if has_latencies {
        columns.extend::<[Column; 4]>([
            ("P99 MS".to_owned(), 18, 1, "", |run| Some(run.latency.as_ref()?.p99_ms)),
            ("P99.9 MS".to_owned(), 18, 1, "", |run| Some(run.latency.as_ref()?.p999_ms)),
            ("MAX MS".to_owned(), 18, 0, "", |run| Some(run.latency.as_ref()?.max_ms)),
            (format!(">{slo_ms} MS"), 19, 3, " %", |run| Some(run.latency.as_ref()?.miss_percent())),
        ]);
    }
    columns
}

/// A table with a row per configuration: medians over its runs, with the lowest and the highest value.
pub(crate) fn table(run_log: &RunLog, setups: &[Setup], slo_ms: u64) -> String {
    let rows = setups.iter().map(|setup| (setup, run_log.of(&setup.id)));
    let rows: Vec<(&Setup, Vec<&FinishedRun>)> = rows.filter(|(_, runs)| !runs.is_empty()).collect();
    let mut runs = rows.iter().flat_map(|(_, runs)| runs);
    let columns = columns(runs.any(|done| done.measured.latency.is_some()), slo_ms);
    let width = rows.iter().map(|(setup, _)| setup.name.chars().count()).max().unwrap_or(0).max(13);
    let mut text = String::from("What the clients saw, medians of the runs (least–most):\n\n");
    let _ = write!(text, "{:width$}  RUNS", "CONFIGURATION");
    for (heading, wide, _, unit, _) in &columns {
        let _ = write!(text, "  {heading:>0$}", wide + unit.len());
    }
    let steps = rows.iter().any(|(setup, _)| setup.builds_on.is_some());
    text.push_str(if steps { "  AGAINST WHAT IT BUILDS ON\n" } else { "\n" });
    for (setup, runs) in rows {
        let _ = write!(text, "{:width$}  {:>4}", setup.name, runs.len());
        for (_, wide, digits, unit, of) in &columns {
            let values = runs.iter().filter_map(|done| of(&done.measured)).collect();
            let _ = write!(text, "  {:>wide$}{unit}", spread(values, *digits));
        }
        if let Some(before) = &setup.builds_on {
            let rates = |runs: &[&FinishedRun]| runs.iter().map(|done| done.measured.records_per_s).collect();
            let _ = write!(text, "  {}", step(rates(&run_log.of(before)), rates(&runs)));
        }
        text.push('\n');
    }
    append_others(&mut text, run_log, setups);
    text
}

/// Appends the state of the journals, and what could not be set up. The journals' statistics show whether they were
/// what they should be.
fn append_others(text: &mut String, run_log: &RunLog, setups: &[Setup]) {
    let mut lines = String::new();
    for setup in setups {
        let last = run_log.of(&setup.id).last().map(|done| done.journal.join("; ")).unwrap_or_default();
        if !last.is_empty() {
            let _ = writeln!(lines, "{}: {last} (last run, since it was mounted)", setup.name);
        }
    }
    for (name, why) in &run_log.left_out {
        let _ = writeln!(lines, "{name}: left out: {why}");
    }
    if !lines.is_empty() {
        let _ = write!(text, "\n{lines}");
    }
}

/// The change of the rates against the previous step: `+57 %`. Marked as no difference if runs of both overlap, and as
/// undecided if there is only one run of each.
fn step(mut before: Vec<f64>, mut after: Vec<f64>) -> String {
    for rates in [&mut before, &mut after] {
        rates.sort_by(f64::total_cmp);
    }
    let (from, to) = (median(&before), median(&after));
    if from <= 0.0 {
        return "-".to_owned();
    }
    let change = format!("{:+.0} %", 100.0 * (to / from - 1.0));
    let apart = before.last() < after.first() || after.last() < before.first();
    match (before.len().min(after.len()), apart) {
        (0, _) => "-".to_owned(),
        (1, _) => format!("{change} (too few runs to say)"),
        (_, true) => change,
        (_, false) => format!("{change} (runs overlap: no difference seen)"),
    }
}

/// `12.3 (11.0–14.1)`; for a single run, only its value.
fn spread(mut values: Vec<f64>, digits: usize) -> String {
    values.sort_by(f64::total_cmp);
    match values.as_slice() {
        [] => "-".to_owned(),
        [one] => format!("{one:.digits$}"),
        [least, .., most] => {
            let median = median(&values);
            format!("{median:.digits$} ({least:.digits$}–{most:.digits$})")
        }
    }
}

/// The median of sorted values; 0 if there are none.
pub(crate) fn median(sorted: &[f64]) -> f64 {
    let at = |index: usize| sorted.get(index).copied().unwrap_or(0.0);
    let half = sorted.len() / 2;
    if sorted.len() % 2 == 1 { at(half) } else { f64::midpoint(at(half.saturating_sub(1)), at(half)) }
}

/// Maximum number of causes to name, the largest first.
const MAX_NAMED_CAUSES: usize = 3;

#[derive(Deserialize)]
struct Summary {
    requests: u64,
    slow: u64,
    by_cause: BTreeMap<String, Share>,
}

#[derive(Deserialize)]
struct Share {
    time_ns: f64,
}

/// `412 of 9,000 requests took 10 ms or longer: log-lock 61 %, slow-device 20 % of their time`. `None` if the text is
/// not a summary.
pub(super) fn describe_bottleneck(summary: &str, slower_than_ms: u64) -> Option<String> {
    let Summary { requests, slow, by_cause } = serde_json::from_str(summary).ok()?;
    if slow == 0 {
        return Some(format!("none of {requests} requests took {slower_than_ms} ms or longer"));
    }
    let whole: f64 = by_cause.values().map(|share| share.time_ns).sum();
    let mut shares: Vec<(&String, f64)> =
        by_cause.iter().map(|(cause, share)| (cause, 100.0 * share.time_ns / whole.max(1.0))).collect();
    shares.sort_by(|left, right| right.1.total_cmp(&left.1));
    let named: Vec<String> = shares
        .iter()
        .take(MAX_NAMED_CAUSES)
        .map(|(cause, percent)| format!("{cause} {percent:.0} %"))
        .collect();
    Some(format!(
        "{slow} of {requests} requests took {slower_than_ms} ms or longer: {} of their time",
        named.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn step_marks_overlapping_and_too_few_runs() {
        for (before, after, expected) in [
            (vec![100.0, 110.0, 90.0], vec![150.0, 170.0, 140.0], "+50 %"),
            (vec![100.0, 110.0, 90.0], vec![80.0, 70.0, 85.0], "-20 %"),
            (vec![100.0, 110.0, 90.0], vec![105.0, 104.0, 120.0], "+5 % (runs overlap: no difference seen)"),
            (vec![100.0], vec![200.0], "+100 % (too few runs to say)"),
            (vec![100.0], vec![], "-"),
        ] {
            assert_eq!(step(before, after), expected);
        }
    }

    #[test]
    fn spread_has_the_median_and_both_ends() {
        assert_eq!(spread(vec![3.0, 1.0, 2.0], 1), "2.0 (1.0–3.0)");
        assert_eq!(spread(vec![4.0, 1.0], 2), "2.50 (1.00–4.00)");
        assert_eq!(spread(vec![7.25], 0), "7");
        assert_eq!(spread(Vec::new(), 0), "-");
    }
}

#[cfg(test)]
mod bottleneck_tests {
    use super::*;

    #[test]
    fn bottleneck_names_the_largest_causes() {
        let share = |ns: u64| format!("{{\"requests\":1,\"time_ns\":{ns}}}");
        let summary = format!(
            "{{\"type\":\"summary\",\"requests\":90,\"slow\":4,\"by_cause\":{{\"a\":{},\"b\":{},\"c\":{},\"d\":{}}}}}",
            share(10),
            share(60),
            share(5),
            share(25)
        );
        assert_eq!(
            describe_bottleneck(&summary, 10).unwrap(),
            "4 of 90 requests took 10 ms or longer: b 60 %, d 25 %, a 10 % of their time"
        );
        let none = describe_bottleneck("{\"requests\":90,\"slow\":0,\"by_cause\":{}}", 10);
        assert_eq!(none.unwrap(), "none of 90 requests took 10 ms or longer");
        assert_eq!(describe_bottleneck("{\"type\":\"verdict\"}", 10), None);
    }
}
