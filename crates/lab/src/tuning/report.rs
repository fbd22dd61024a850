//! Report on following advice: a table of the steps, what was left, and how close to the best of a search it led.

use std::fmt::Write;

use super::Configuration;
use super::TuneArguments;
use super::following::middle;
use super::tuning_loop::{Bench, TuningLoop};
use crate::experiment::Label;

/// The goal: this share of the best's throughput, in at most this many steps.
const TARGET_SHARE: f64 = 0.9;
const MAX_STEPS: usize = 8;

/// Result of a search, to compare with where advice led.
pub(super) struct SearchResult {
    /// Records per second in the last rounds. Of where advice led, and of the best that was found.
    pub(super) led: Vec<f64>,
    pub(super) found: Vec<f64>,
    /// The tuning loop that starts at the best.
    pub(super) beyond: TuningLoop,
}

/// The whole report.
pub(super) fn all(
    bench: &impl Bench,
    tuning_loop: &TuningLoop,
    search_result: Option<&SearchResult>,
    arguments: &TuneArguments,
) -> String {
    let runs = arguments.experiment.repetitions;
    let mut text = format!("Advice followed, medians of {runs} run(s) each; p99 of produce as recorded:\n\n");
    steps(&mut text, bench, tuning_loop);
    let ended = format!("After {} step(s)", tuning_loop.steps.len());
    left(&mut text, &ended, &tuning_loop.left);
    match search_result {
        None => text.push_str("\nNo search was made: how close that is to the best is not known.\n"),
        Some(search_result) => search(&mut text, bench, tuning_loop, search_result, arguments),
    }
    text
}

fn steps(text: &mut String, bench: &impl Bench, tuning_loop: &TuningLoop) {
    let rate = |tuned: &Configuration| middle(bench.records_per_s(tuned));
    let ms = |p99: Option<f64>| p99.map_or_else(|| "-".to_owned(), |ms| format!("{ms:.1}"));
    text.push_str("STEP   RECORDS/S  AGAINST BEFORE   P99 MS\n");
    let first = ms(tuning_loop.steps.first().and_then(|step| step.compared.p99_before_ms));
    let (started, called) = (rate(&tuning_loop.start), tuning_loop.start.describe());
    let _ = writeln!(text, "{:>4}  {started:>10.0}  {:>14}  {first:>7}  {called}", 0, "");
    for (number, step) in tuning_loop.steps.iter().enumerate() {
        let (after, before) = (rate(&step.choice.tuned), rate(&step.before));
        let change =
            if before > 0.0 { format!("{:+.0} %", 100.0 * (after / before - 1.0)) } else { "-".to_owned() };
        let (p99, what) = (ms(step.compared.p99_after_ms), step.choice.tuned.changed_from(&step.before));
        let _ = writeln!(text, "{:>4}  {after:>10.0}  {change:>14}  {p99:>7}  {what}", number + 1);
        let _ =
            writeln!(text, "      {}: {}\n      {}", step.choice.rule, step.choice.evidence, step.describe());
        for why in &step.passed_over {
            let _ = writeln!(text, "      not followed: {why}");
        }
    }
}

fn left(text: &mut String, ended: &str, left: &[String]) {
    if left.is_empty() {
        let _ = writeln!(text, "\n{ended} nothing is advised.");
        return;
    }
    let _ = writeln!(text, "\n{ended} nothing more was followed:");
    for why in left {
        let _ = writeln!(text, "  {why}");
    }
}

fn search(
    text: &mut String,
    bench: &impl Bench,
    tuning_loop: &TuningLoop,
    search_result: &SearchResult,
    arguments: &TuneArguments,
) {
    let (best, steps) = (&search_result.beyond.start, tuning_loop.steps.len());
    let (more, description) = (arguments.search, best.describe());
    let _ = writeln!(text, "\nThe best of these and of {more} more that a search tried: {description}");
    let (led, found) = (middle(search_result.led.clone()), middle(search_result.found.clone()));
    let share = if found > 0.0 { led / found } else { 0.0 };
    let reached = if share >= TARGET_SHARE && steps <= MAX_STEPS { "reached" } else { "NOT reached" };
    let turn = if *best == tuning_loop.end { "which is where advice led" } else { "both run in turn" };
    let _ = writeln!(
        text,
        "Following advice reached {:.0} % of its throughput in {steps} step(s), {led:.0} of {found:.0} records/s, {turn}; wanted: \
         {:.0} % in {MAX_STEPS}: {reached}",
        100.0 * share,
        100.0 * TARGET_SHARE
    );
    let worse = search_result.beyond.steps.iter().filter(|step| !step.decision.is_kept()).count();
    let followed = search_result.beyond.steps.len();
    let _ = writeln!(
        text,
        "\nOn the best, {followed} piece(s) of advice could be followed; {worse} made it worse:\n"
    );
    self::steps(text, bench, &search_result.beyond);
    left(text, "Then", &search_result.beyond.left);
}

/// The configurations of the final comparison: id, name, and why it was tried. Each configuration once.
pub(super) fn labels(tuning_loop: &TuningLoop, search_result: Option<&SearchResult>) -> Vec<Label> {
    let mut all = vec![(tuning_loop.start.id(), format!("0 {}", tuning_loop.start.describe()), None)];
    for (number, step) in tuning_loop.steps.iter().enumerate() {
        let undone = if step.decision.is_kept() { "" } else { " (undone)" };
        let what = step.choice.tuned.changed_from(&step.before);
        let why = format!("because {}: {}; {}", step.choice.rule, step.choice.evidence, step.describe());
        all.push((step.choice.tuned.id(), format!("{} {what}{undone}", number + 1), Some(why)));
    }
    if let Some(search_result) = search_result {
        let best = &search_result.beyond.start;
        all.push((best.id(), "best of the search".to_owned(), Some(best.describe())));
    }
    let mut seen = std::collections::BTreeSet::new();
    all.retain(|(id, _, _)| seen.insert(id.clone()));
    all
}

#[cfg(test)]
mod tests {
    use super::super::Setting;
    use super::super::tuning_loop::follow;
    use super::super::tuning_loop::tests::{MadeUp, advised, rate};
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        tune: TuneArguments,
    }

    fn arguments() -> TuneArguments {
        Line::parse_from(["tune", "--follow-advice", "--search", "5"]).tune
    }

    fn followed(most: u32) -> (MadeUp, TuningLoop) {
        let mut bench = MadeUp::new(rate, advised);
        let tuning_loop = follow(&mut bench, Configuration::out_of_the_box(), (most, 3)).unwrap();
        (bench, tuning_loop)
    }

    fn make_search_result(bench: &mut MadeUp, tuning_loop: &TuningLoop, found: f64) -> SearchResult {
        let best = Configuration::out_of_the_box()
            .with(Setting::Partitions, 4)
            .with(Setting::Devices, 4)
            .with(Setting::Batch, 65_536);
        let beyond = follow(bench, best, (2, 3)).unwrap();
        SearchResult { led: bench.records_per_s(&tuning_loop.end), found: vec![found; 3], beyond }
    }

    #[test]
    fn report_lists_each_step_with_evidence_and_decision() {
        let (bench, tuning_loop) = followed(8);
        let text = all(&bench, &tuning_loop, None, &arguments());
        for line in [
            "   0         100                     10.0  out of the box",
            "   1         150           +50 %     10.0  partitions 1 -> 2, log.dirs' devices 1 -> 2",
            "      device-saturation: device-saturation was seen",
            "      not kept: throughput is lower, no difference in p99 beyond the noise",
            "After 5 step(s) nothing more was followed:",
            "No search was made: how close that is to the best is not known.",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
    }

    #[test]
    fn target_is_nine_tenths_of_the_best_throughput() {
        let (mut bench, tuning_loop) = followed(8);
        for (found, expected) in [(380.0, "92 % of its throughput in 5 step(s)"), (500.0, "70 % of its")] {
            let search_result = make_search_result(&mut bench, &tuning_loop, found);
            let text = all(&bench, &tuning_loop, Some(&search_result), &arguments());
            assert!(text.contains(expected), "{text}");
            assert_eq!(text.contains("in 8: reached"), found < 390.0, "{text}");
            assert_eq!(text.contains("in 8: NOT reached"), found > 390.0, "{text}");
            assert!(text.contains("On the best, 1 piece(s) of advice could be followed; 1 made it worse"));
        }
    }

    #[test]
    fn labels_name_each_compared_configuration_once() {
        let (mut bench, tuning_loop) = followed(8);
        let search_result = make_search_result(&mut bench, &tuning_loop, 350.0);
        let compared = labels(&tuning_loop, Some(&search_result));
        let names: Vec<&str> = compared.iter().map(|(_, name, _)| name.as_str()).collect();
        assert_eq!(names.first(), Some(&"0 out of the box"));
        assert!(names.iter().any(|name| name.ends_with("MTU 1500 -> 9000 (undone)")), "{names:?}");
        assert_eq!(search_result.beyond.start, tuning_loop.end, "so the best is shown once");
        assert_eq!(names.len(), 6, "{names:?}");
    }
}
