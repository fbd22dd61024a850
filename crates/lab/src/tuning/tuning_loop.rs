//! The tuning loop: makes the first advised change that it can make, measures it, and keeps it if nothing got worse;
//! then asks for advice again. Does not know how configurations are measured.

use serde::Deserialize;

use super::EXPLAINED_MS;
use super::{Configuration, Setting};
use crate::error::{Error, Result};
use crate::experiment::Experiment;
use crate::session::print_status;

/// Measures configurations.
pub(super) trait Bench {
    /// Makes sure that a configuration has been run `runs` times in all; `what` is the purpose.
    fn measure(&mut self, tuned: &Configuration, what: &str, runs: u32) -> Result<()>;

    /// Records per second of its runs, in order.
    fn records_per_s(&self, tuned: &Configuration) -> Vec<f64>;

    /// The output of `advise` for its first recording, by rank.
    fn advice(&mut self, tuned: &Configuration) -> Result<Vec<Advice>>;

    /// The output of `compare` for the second against the first.
    fn compare(&mut self, before: &Configuration, after: &Configuration) -> Result<Comparison>;

    /// Prints a status line.
    fn print_status(&self, line: &str);
}

/// Comparison of a configuration with another.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Comparison {
    pub(super) throughput: Outcome,
    pub(super) p99: Outcome,
    pub(super) p99_before_ms: Option<f64>,
    pub(super) p99_after_ms: Option<f64>,
}

/// Result for a figure, by an interval from the noise of its runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Outcome {
    Lower,
    Higher,
    #[serde(rename = "no-difference")]
    Same,
    /// Too little was measured to say.
    #[default]
    #[serde(other)]
    Unknown,
}

/// Decision on a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// Throughput rose.
    Better,
    /// Nothing got worse.
    NoWorse,
    /// Throughput fell; or p99 rose, and throughput did not.
    Worse,
}

impl Decision {
    fn of(compared: &Comparison) -> Self {
        match (compared.throughput, compared.p99) {
            (Outcome::Higher, _) => Self::Better,
            (Outcome::Lower, _) | (_, Outcome::Higher) => Self::Worse,
            _ => Self::NoWorse,
        }
    }

    pub(super) fn is_kept(self) -> bool {
        self != Self::Worse
    }
}

/// A piece of advice that was followed.
#[derive(Clone, Debug)]
pub(super) struct Step {
    /// The configuration that it was made to.
    pub(super) before: Configuration,
    pub(super) choice: Choice,
    /// Why higher-ranked advice was not followed.
    pub(super) passed_over: Vec<String>,
    pub(super) compared: Comparison,
    pub(super) decision: Decision,
}

/// A finished tuning loop.
#[derive(Clone, Debug)]
pub(super) struct TuningLoop {
    pub(super) start: Configuration,
    pub(super) steps: Vec<Step>,
    /// The configuration at its end.
    pub(super) end: Configuration,
    /// Why each remaining piece of advice is not followed; empty if none remains.
    pub(super) left: Vec<String>,
}

/// Follows at most `most` pieces of advice from `start`. Measures each configuration `runs` times.
///
/// Changes that made nothing better are set aside until something else does: then another part may be the limit.
pub(super) fn follow(
    bench: &mut impl Bench,
    start: Configuration,
    (most, runs): (u32, u32),
) -> Result<TuningLoop> {
    bench.measure(&start, &start.describe(), runs)?;
    let mut tuning_loop = TuningLoop { end: start.clone(), start, steps: Vec::new(), left: Vec::new() };
    let mut aside: Vec<Vec<Setting>> = Vec::new();
    loop {
        let Selection { choice, passed_over } =
            choose(&bench.advice(&tuning_loop.end)?, &tuning_loop.end, &aside);
        let Some(choice) = choice else {
            tuning_loop.left = passed_over;
            return Ok(tuning_loop);
        };
        if tuning_loop.steps.len() >= most as usize {
            let next = choice.tuned.changed_from(&tuning_loop.end);
            tuning_loop.left = vec![format!("{}: {next}: {most} steps were the most", choice.rule)];
            return Ok(tuning_loop);
        }
        let number = tuning_loop.steps.len() + 1;
        let step = take(bench, tuning_loop.end.clone(), choice, passed_over, (number, runs))?;
        match step.decision {
            Decision::Better => aside.clear(),
            _ => aside.push(step.choice.tuned.settings_changed_from(&tuning_loop.end)),
        }
        if step.decision.is_kept() {
            tuning_loop.end = step.choice.tuned.clone();
        }
        tuning_loop.steps.push(step);
    }
}

fn take(
    bench: &mut impl Bench,
    before: Configuration,
    choice: Choice,
    passed_over: Vec<String>,
    (number, runs): (usize, u32),
) -> Result<Step> {
    let what = choice.tuned.changed_from(&before);
    bench.print_status(&format!("step {number}: {what}, because {}: {}", choice.rule, choice.evidence));
    bench.measure(&choice.tuned, &format!("step {number}, {what}"), runs)?;
    let compared = bench.compare(&before, &choice.tuned)?;
    let step = Step { before, choice, passed_over, decision: Decision::of(&compared), compared };
    bench.print_status(&format!("step {number}: {}", step.describe()));
    Ok(step)
}

impl Step {
    /// Describes the decision and its reasons.
    pub(super) fn describe(&self) -> String {
        let result = |outcome, figure| match outcome {
            Outcome::Higher => format!("{figure} is higher"),
            Outcome::Lower => format!("{figure} is lower"),
            Outcome::Same => format!("no difference in {figure} beyond the noise"),
            Outcome::Unknown => format!("too little measured to judge {figure}"),
        };
        let decision = if self.decision.is_kept() { "kept" } else { "not kept" };
        let Comparison { throughput, p99, .. } = self.compared;
        format!("{decision}: {}, {}", result(throughput, "throughput"), result(p99, "p99"))
    }
}

/// One piece of advice.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Advice {
    pub(super) rule: String,
    pub(super) evidence: String,
    pub(super) changes: Vec<Change>,
}

/// A change of one setting.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Change {
    pub(super) setting: String,
    pub(super) new: String,
    pub(super) target: Option<Target>,
    /// Whether it must be made together with the previous one.
    pub(super) together: bool,
}

/// A change for programs.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Target {
    pub(super) of: String,
    pub(super) name: String,
    pub(super) value: String,
}

/// A chosen change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) rule: String,
    pub(super) evidence: String,
    /// The resulting configuration.
    pub(super) tuned: Configuration,
}

/// The choice, and why higher-ranked advice was not chosen; why none was if there is no choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Selection {
    pub(super) choice: Option<Choice>,
    pub(super) passed_over: Vec<String>,
}

/// Reads the pieces of advice from lines of JSON, by rank.
///
/// # Errors
/// The error of the first line that cannot be read.
pub(super) fn read(lines: &str) -> Result<Vec<Advice>, serde_json::Error> {
    #[derive(Deserialize)]
    #[serde(tag = "type", rename_all = "kebab-case")]
    enum Line {
        Advice(Advice),
        #[serde(other)]
        Other,
    }
    let read = lines.lines().map(serde_json::from_str);
    let advice = read.filter_map(|line| match line {
        Ok(Line::Advice(advice)) => Some(Ok(advice)),
        Ok(Line::Other) => None,
        Err(error) => Some(Err(error)),
    });
    advice.collect()
}

/// Chooses the first advice that can be followed; `aside` are settings that were changed together before, and made
/// nothing better.
pub(super) fn choose(advice: &[Advice], now: &Configuration, aside: &[Vec<Setting>]) -> Selection {
    let mut passed_over = Vec::new();
    for advice in advice {
        // Advice has alternatives, each a group of changes that belong together.
        for way in advice.changes.chunk_by(|_, next| next.together) {
            match apply(way, now, aside) {
                Ok(tuned) => {
                    let (rule, evidence) = (advice.rule.clone(), advice.evidence.clone());
                    return Selection { choice: Some(Choice { rule, evidence, tuned }), passed_over };
                }
                Err(why) => passed_over.push(format!("{}: {why}", advice.rule)),
            }
        }
    }
    Selection { choice: None, passed_over }
}

/// Applies these changes, or returns why the lab does not make them.
fn apply(way: &[Change], now: &Configuration, aside: &[Vec<Setting>]) -> Result<Configuration, String> {
    let mut tuned = now.clone();
    for change in way {
        let (setting, value) = resolve(change, now)?;
        tuned = tuned.with(setting, value);
    }
    let changed = tuned.settings_changed_from(now);
    if changed.is_empty() {
        return Err(format!("{} is set already", describe_changes(way)));
    }
    if aside.contains(&changed) {
        return Err(format!(
            "{}: these settings were changed before, and it got no better",
            describe_changes(way)
        ));
    }
    Ok(tuned)
}

/// Resolves a change to one of the lab's settings, as far as that goes; or returns why it is none.
fn resolve(change: &Change, now: &Configuration) -> Result<(Setting, u32), String> {
    let changes = describe_changes(std::slice::from_ref(change));
    let Some(target) = &change.target else { return Err(format!("{changes}: to be done by hand")) };
    let Some(setting) = Setting::find(&target.of, &target.name) else {
        return Err(format!("{changes}: the lab does not change that"));
    };
    let value: u32 = target.value.parse().map_err(|_| format!("{changes}: the lab wants a number there"))?;
    let (least, most) = setting.about().within;
    let value = if now.of(setting) < most { value.min(most) } else { value };
    if (least..=most).contains(&value) {
        Ok((setting, value))
    } else {
        Err(format!(
            "{changes}: the lab goes from {} to {}",
            setting.format_value(least),
            setting.format_value(most)
        ))
    }
}

/// Describes changes: `batch.size (of app) -> 65536`.
fn describe_changes(way: &[Change]) -> String {
    let changes = way.iter().map(|change| format!("{} -> {}", change.setting, change.new));
    changes.collect::<Vec<_>>().join(" and ")
}

/// The relevant lines of a comparison.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
enum Line {
    Configuration {
        base: bool,
        latency_p99_ns: Option<f64>,
    },
    Difference {
        figure: String,
        outcome: Outcome,
    },
    #[serde(other)]
    Other,
}

impl Bench for Experiment<'_> {
    fn measure(&mut self, tuned: &Configuration, what: &str, runs: u32) -> Result<()> {
        self.measure(&tuned.to_setup(), what, runs)
    }

    fn records_per_s(&self, tuned: &Configuration) -> Vec<f64> {
        self.records_per_s(&tuned.id())
    }

    fn advice(&mut self, tuned: &Configuration) -> Result<Vec<Advice>> {
        let output = self.advise(&tuned.id(), EXPLAINED_MS)?;
        read(&output).map_err(|error| Error::Unusable(format!("what advise said: {error}")))
    }

    fn compare(&mut self, before: &Configuration, after: &Configuration) -> Result<Comparison> {
        let output = Experiment::compare(self, &before.id(), &after.id())?;
        parse_comparison(&output).map_err(|error| Error::Unusable(format!("what compare said: {error}")))
    }

    fn print_status(&self, line: &str) {
        print_status(line);
    }
}

fn parse_comparison(output: &str) -> Result<Comparison, serde_json::Error> {
    let mut compared = Comparison::default();
    for line in output.lines() {
        match serde_json::from_str(line)? {
            Line::Configuration { base, latency_p99_ns } => {
                let p99_ms = latency_p99_ns.map(|ns| ns / 1e6);
                *(if base { &mut compared.p99_before_ms } else { &mut compared.p99_after_ms }) = p99_ms;
            }
            Line::Difference { figure, outcome } => match figure.as_str() {
                "record_bytes_per_s" => compared.throughput = outcome,
                "latency_p99_ns" => compared.p99 = outcome,
                _ => {}
            },
            Line::Other => {}
        }
    }
    Ok(compared)
}

#[cfg(test)]
pub(super) mod tests {
    use super::advice_tests::{advice, change};
    use super::*;
    use std::cell::RefCell;
    use std::collections::BTreeMap;

    /// A simulated broker: its throughput and the advice follow from its configuration.
    pub(in crate::tuning) struct MadeUp {
        pub(in crate::tuning) rate: fn(&Configuration) -> f64,
        pub(in crate::tuning) p99_ms: fn(&Configuration) -> f64,
        pub(in crate::tuning) advised: fn(&Configuration) -> Vec<Advice>,
        /// Number of runs of each configuration.
        pub(in crate::tuning) runs: BTreeMap<String, u32>,
        pub(in crate::tuning) lines: RefCell<Vec<String>>,
    }

    impl MadeUp {
        pub(in crate::tuning) fn new(
            rate: fn(&Configuration) -> f64,
            advised: fn(&Configuration) -> Vec<Advice>,
        ) -> Self {
            let p99_ms = |_: &Configuration| 10.0;
            Self { rate, p99_ms, advised, runs: BTreeMap::new(), lines: RefCell::new(Vec::new()) }
        }
    }

    fn outcome(before: f64, after: f64) -> Outcome {
        match after / before {
            ratio if ratio > 1.02 => Outcome::Higher,
            ratio if ratio < 0.98 => Outcome::Lower,
            _ => Outcome::Same,
        }
    }

    impl Bench for MadeUp {
        fn measure(&mut self, tuned: &Configuration, _: &str, runs: u32) -> Result<()> {
            let made = self.runs.entry(tuned.id()).or_default();
            *made = runs.max(*made);
            Ok(())
        }

        fn records_per_s(&self, tuned: &Configuration) -> Vec<f64> {
            let made = self.runs.get(&tuned.id()).copied().unwrap_or(0);
            vec![(self.rate)(tuned); made as usize]
        }

        fn advice(&mut self, tuned: &Configuration) -> Result<Vec<Advice>> {
            assert!(self.runs.contains_key(&tuned.id()), "advice is of what was recorded");
            Ok((self.advised)(tuned))
        }

        fn compare(&mut self, before: &Configuration, after: &Configuration) -> Result<Comparison> {
            let p99 = |tuned| (self.p99_ms)(tuned);
            Ok(Comparison {
                throughput: outcome((self.rate)(before), (self.rate)(after)),
                p99: outcome(p99(before), p99(after)),
                p99_before_ms: Some(p99(before)),
                p99_after_ms: Some(p99(after)),
            })
        }

        fn print_status(&self, line: &str) {
            self.lines.borrow_mut().push(line.to_owned());
        }
    }

    /// The device is the limit, then the batches, then nothing; the MTU makes it worse.
    pub(in crate::tuning) fn rate(tuned: &Configuration) -> f64 {
        let device = 100.0 * f64::from(tuned.of(Setting::Devices).min(tuned.of(Setting::Partitions)));
        let batches = if tuned.of(Setting::Batch) >= 65_536 { 350.0 } else { 150.0 };
        let mtu = if tuned.of(Setting::Mtu) > 1_500 { 0.9 } else { 1.0 };
        f64::min(device, batches) * mtu
    }

    /// Advice on the device comes while it is the limit; advice on batches and the MTU always.
    pub(in crate::tuning) fn advised(tuned: &Configuration) -> Vec<Advice> {
        let device = 100.0 * f64::from(tuned.of(Setting::Devices).min(tuned.of(Setting::Partitions)));
        let devices = tuned.of(Setting::Devices) * 2;
        let spread = vec![
            change("topics", "partitions", devices.max(tuned.of(Setting::Partitions))),
            super::Change { together: true, ..change("log-dirs", "devices", devices) },
        ];
        let saturated = (device <= rate(tuned) + 1.0).then(|| advice("device-saturation", spread));
        let mut all: Vec<Advice> = saturated.into_iter().collect();
        all.push(advice("mtu", vec![change("interface", "mtu", 9_000)]));
        if tuned.of(Setting::Batch) < 65_536 {
            all.push(advice("batch-size", vec![change("producers", "batch.size", 65_536)]));
        }
        all
    }

    #[test]
    fn follows_all_advice_and_undoes_changes_that_make_it_worse() {
        let mut bench = MadeUp::new(rate, advised);
        let tuning_loop = follow(&mut bench, Configuration::out_of_the_box(), (8, 3)).unwrap();
        let steps: Vec<(&str, Decision)> =
            tuning_loop.steps.iter().map(|step| (&*step.choice.rule, step.decision)).collect();
        assert_eq!(
            steps,
            [
                ("device-saturation", Decision::Better),
                ("mtu", Decision::Worse),
                ("batch-size", Decision::Better),
                ("device-saturation", Decision::Better),
                ("mtu", Decision::Worse),
            ]
        );
        assert_eq!(tuning_loop.end.of(Setting::Devices), 4);
        assert_eq!(tuning_loop.end.of(Setting::Mtu), 1_500, "what made it worse is not kept");
        assert!(tuning_loop.left.iter().any(|why| why.contains("got no better")), "{:?}", tuning_loop.left);
        assert!(bench.runs.values().all(|runs| *runs == 3));
        assert!(
            bench
                .lines
                .borrow()
                .iter()
                .any(|line| line.starts_with("step 2: not kept: throughput is lower, no diff"))
        );
    }

    #[test]
    fn stops_after_the_maximum_number_of_steps() {
        let mut bench = MadeUp::new(rate, advised);
        let tuning_loop = follow(&mut bench, Configuration::out_of_the_box(), (1, 1)).unwrap();
        assert_eq!(tuning_loop.steps.len(), 1);
        assert!(tuning_loop.left[0].starts_with("mtu: MTU 1500 -> 9000"), "{:?}", tuning_loop.left);
    }

    #[test]
    fn higher_p99_is_accepted_only_with_higher_throughput() {
        let of = |throughput, p99| Decision::of(&Comparison { throughput, p99, ..Comparison::default() });
        assert_eq!(of(Outcome::Same, Outcome::Higher), Decision::Worse);
        assert_eq!(of(Outcome::Higher, Outcome::Higher), Decision::Better);
        assert_eq!(of(Outcome::Lower, Outcome::Lower), Decision::Worse);
        assert_eq!(of(Outcome::Unknown, Outcome::Lower), Decision::NoWorse);
    }
}

#[cfg(test)]
pub(super) mod advice_tests {
    use super::*;

    pub(in crate::tuning) fn change(of: &str, name: &str, value: u32) -> Change {
        let target = Target { of: of.to_owned(), name: name.to_owned(), value: value.to_string() };
        Change { setting: name.to_owned(), new: value.to_string(), target: Some(target), together: false }
    }

    pub(in crate::tuning) fn advice(rule: &str, changes: Vec<Change>) -> Advice {
        Advice { rule: rule.to_owned(), evidence: format!("{rule} was seen"), changes }
    }

    #[test]
    fn parses_the_json_output_of_advise() {
        let lines = [
            r#"{"type":"advice","rank":1,"rule":"mtu","evidence":"e","changes":[{"setting":"ip link set uplink mtu","old":"1500","new":"9000","target":{"of":"interface","name":"mtu","value":"9000"},"together":false},{"setting":"x","old":"","new":"y","target":null,"together":true}],"cost_ns":null}"#,
            r#"{"type":"missing","input":"i","why":"w","rules":[]}"#,
            r#"{"type":"summary","recommendations":1}"#,
        ];
        let read = read(&lines.join("\n")).unwrap();
        assert_eq!((read.len(), read[0].rule.as_str(), read[0].changes.len()), (1, "mtu", 2));
        assert_eq!(read[0].changes[0].target.as_ref().unwrap().value, "9000");
        assert!(super::read("{").is_err());
    }

    #[test]
    fn chooses_the_first_feasible_advice_and_explains_the_others() {
        let person = Change { target: None, ..change("", "CPUs", 4) };
        let all = [
            advice("run-queue", vec![person]),
            advice("swappiness", vec![change("kernel", "vm.swappiness", 1)]),
            advice("log-lock", vec![change("topics", "partitions", 999)]),
            advice("request-handlers", vec![change("broker", "num.io.threads", 8)]),
            advice("batch-size", vec![change("producers", "batch.size", 65_536)]),
            advice("mtu", vec![change("interface", "mtu", 9_000)]),
        ];
        let start = Configuration::out_of_the_box().with(Setting::Partitions, 16);
        let Selection { choice, passed_over } = choose(&all, &start, &[]);
        let choice = choice.unwrap();
        assert_eq!((&*choice.rule, choice.tuned.of(Setting::Batch)), ("batch-size", 65_536));
        let why = ["done by hand", "does not change that", "goes from 1 to 16", "is set already"];
        assert_eq!(passed_over.len(), why.len());
        assert!(passed_over.iter().zip(why).all(|(reason, why)| reason.contains(why)), "{passed_over:?}");
        let again = choose(&all, &start, &[vec![Setting::Batch]]);
        assert_eq!(again.choice.unwrap().rule, "mtu");
        assert!(again.passed_over.iter().any(|reason| reason.contains("got no better")));
    }

    #[test]
    fn applies_joint_changes_together_or_not_at_all() {
        let both = vec![
            change("topics", "partitions", 2),
            Change { together: true, ..change("log-dirs", "devices", 2) },
        ];
        let start = Configuration::out_of_the_box();
        let tuned = choose(&[advice("device-saturation", both.clone())], &start, &[]).choice.unwrap().tuned;
        assert_eq!((tuned.of(Setting::Partitions), tuned.of(Setting::Devices)), (2, 2));
        let unknown = vec![both[0].clone(), Change { together: true, ..change("kernel", "vm.x", 64) }];
        assert_eq!(choose(&[advice("device-saturation", unknown)], &start, &[]).choice, None);
    }

    #[test]
    fn limits_a_value_to_the_maximum_of_the_lab() {
        let six = [advice("device-saturation", vec![change("log-dirs", "devices", 6)])];
        let three = Configuration::out_of_the_box().with(Setting::Devices, 3);
        let four = choose(&six, &three, &[]).choice.unwrap().tuned;
        assert_eq!(four.of(Setting::Devices), 4);
        let left = choose(&six, &four, &[]);
        assert!(left.choice.is_none() && left.passed_over[0].contains("goes from 1 to 4"), "{left:?}");
    }
}

#[cfg(test)]
mod measuring_tests {
    use super::*;

    #[test]
    fn parses_the_json_output_of_compare() {
        let lines = [
            r#"{"type":"configuration","configuration":"a","base":true,"latency_p99_ns":69000000,"runs":[]}"#,
            r#"{"type":"configuration","configuration":"b","base":false,"latency_p99_ns":null}"#,
            r#"{"type":"difference","figure":"record_bytes_per_s","outcome":"higher","why":null}"#,
            r#"{"type":"difference","figure":"latency_p99_ns","outcome":"too-short","why":"too few"}"#,
            r#"{"type":"difference","figure":"latency_p50_ns","outcome":"lower"}"#,
            r#"{"type":"over-time","cells":[1,null]}"#,
            r#"{"type":"summary","notes":[]}"#,
        ];
        let read = parse_comparison(&lines.join("\n")).unwrap();
        let expected = Comparison {
            throughput: Outcome::Higher,
            p99: Outcome::Unknown,
            p99_before_ms: Some(69.0),
            p99_after_ms: None,
        };
        assert_eq!(read, expected);
        assert!(parse_comparison("no JSON").is_err());
    }
}
