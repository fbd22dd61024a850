//! What `advise --format json` says, and which of it the lab can do: the first change of the first advice whose settings it has.
//! Why it passes over the ones before is said. Runs nothing.

use serde::Deserialize;

use super::EXPLAINED_MS;
use super::setting::{Configuration, Setting};
use super::tuning_loop::{Bench, Comparison, Outcome};
use crate::error::Error;
use crate::experiment::Experiment;

/// One piece of advice.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Advice {
    pub(super) rule: String,
    pub(super) evidence: String,
    pub(super) changes: Vec<Change>,
}

/// One setting.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Change {
    pub(super) setting: String,
    pub(super) new: String,
    pub(super) target: Option<Target>,
    /// Whether it is to be made with the one before.
    pub(super) together: bool,
}

/// The same for programs.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Target {
    pub(super) of: String,
    pub(super) name: String,
    pub(super) value: String,
}

/// A change that is to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) rule: String,
    pub(super) evidence: String,
    /// The configuration that comes of it.
    pub(super) tuned: Configuration,
}

/// What is chosen, and why what ranks before it is not; of everything where nothing is chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Selection {
    pub(super) choice: Option<Choice>,
    pub(super) passed_over: Vec<String>,
}

/// The pieces of advice among lines of JSON, by rank.
///
/// # Errors
/// What is wrong with the first line that cannot be read.
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

/// The first that can be done; `aside` are settings that were changed together before, and made nothing better.
pub(super) fn choose(advice: &[Advice], now: &Configuration, aside: &[Vec<Setting>]) -> Selection {
    let mut passed_over = Vec::new();
    for advice in advice {
        // Its several ways, each of changes that belong together.
        for way in advice.changes.chunk_by(|_, next| next.together) {
            match applied(way, now, aside) {
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

/// The configuration after these changes, or why the lab does not make them.
fn applied(way: &[Change], now: &Configuration, aside: &[Vec<Setting>]) -> Result<Configuration, String> {
    let mut tuned = now.clone();
    for change in way {
        let (setting, value) = understood(change, now)?;
        tuned = tuned.with(setting, value);
    }
    let changed = tuned.settings_changed_from(now);
    if changed.is_empty() {
        return Err(format!("{} is so already", told(way)));
    }
    if aside.contains(&changed) {
        return Err(format!("{}: these settings were changed before, and it got no better", told(way)));
    }
    Ok(tuned)
}

/// A change as one of the lab's, which goes as far as it can; or why it is none.
fn understood(change: &Change, now: &Configuration) -> Result<(Setting, u32), String> {
    let told = told(std::slice::from_ref(change));
    let Some(target) = &change.target else { return Err(format!("{told}: for a person to do")) };
    let Some(setting) = Setting::named(&target.of, &target.name) else {
        return Err(format!("{told}: the lab does not change that"));
    };
    let value: u32 = target.value.parse().map_err(|_| format!("{told}: the lab wants a number there"))?;
    let (least, most) = setting.about().within;
    let value = if now.of(setting) < most { value.min(most) } else { value };
    if (least..=most).contains(&value) {
        Ok((setting, value))
    } else {
        Err(format!("{told}: the lab goes from {} to {}", setting.shown(least), setting.shown(most)))
    }
}

/// `batch.size (of app) -> 65536`.
fn told(way: &[Change]) -> String {
    let said = way.iter().map(|change| format!("{} -> {}", change.setting, change.new));
    said.collect::<Vec<_>>().join(" and ")
}

/// The lines of a comparison that matter here.
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
    fn measure(&mut self, tuned: &Configuration, what: &str, runs: u32) -> Result<(), Error> {
        self.measure(&tuned.to_setup(), what, runs)
    }

    fn records_per_s(&self, tuned: &Configuration) -> Vec<f64> {
        self.records_per_s(&tuned.id())
    }

    fn advice(&mut self, tuned: &Configuration) -> Result<Vec<Advice>, Error> {
        let said = self.advise(&tuned.id(), EXPLAINED_MS)?;
        read(&said).map_err(|error| Error::Unusable(format!("what advise said: {error}")))
    }

    fn compare(&mut self, before: &Configuration, after: &Configuration) -> Result<Comparison, Error> {
        let said = Experiment::compare(self, &before.id(), &after.id())?;
        compared(&said).map_err(|error| Error::Unusable(format!("what compare said: {error}")))
    }

    fn say(&self, line: &str) {
        self.say(line);
    }
}

fn compared(said: &str) -> Result<Comparison, serde_json::Error> {
    let mut compared = Comparison::default();
    for line in said.lines() {
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
    use super::*;

    pub(in crate::tuning) fn change(of: &str, name: &str, value: u32) -> Change {
        let target = Target { of: of.to_owned(), name: name.to_owned(), value: value.to_string() };
        Change { setting: name.to_owned(), new: value.to_string(), target: Some(target), together: false }
    }

    pub(in crate::tuning) fn advice(rule: &str, changes: Vec<Change>) -> Advice {
        Advice { rule: rule.to_owned(), evidence: format!("{rule} was seen"), changes }
    }

    #[test]
    fn advice_is_read_from_what_advise_prints() {
        let lines = [
            r#"{"type":"advice","rank":1,"rule":"mtu","evidence":"e","changes":[{"setting":"ip link set uplink mtu","old":"1500","new":"9000","target":{"of":"interface","name":"mtu","value":"9000"},"together":false},{"setting":"x","old":"","new":"y","target":null,"together":true}],"cost_ns":null}"#,
            r#"{"type":"missing","input":"i","why":"w","rules":[]}"#,
            r#"{"type":"summary","given":1}"#,
        ];
        let read = read(&lines.join("\n")).unwrap();
        assert_eq!((read.len(), read[0].rule.as_str(), read[0].changes.len()), (1, "mtu", 2));
        assert_eq!(read[0].changes[0].target.as_ref().unwrap().value, "9000");
        assert!(super::read("{").is_err());
    }

    #[test]
    fn the_first_that_the_lab_can_do_is_done_and_the_others_are_explained() {
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
        let why = ["for a person", "does not change that", "goes from 1 to 16", "is so already"];
        assert_eq!(passed_over.len(), why.len());
        assert!(passed_over.iter().zip(why).all(|(told, why)| told.contains(why)), "{passed_over:?}");
        let again = choose(&all, &start, &[vec![Setting::Batch]]);
        assert_eq!(again.choice.unwrap().rule, "mtu");
        assert!(again.passed_over.iter().any(|told| told.contains("got no better")));
    }

    #[test]
    fn what_belongs_together_is_made_together_or_not_at_all() {
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
    fn what_goes_beyond_the_lab_is_done_as_far_as_it_can_be() {
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
    fn a_comparison_is_read_as_compare_prints_it() {
        let said = [
            r#"{"type":"configuration","configuration":"a","base":true,"latency_p99_ns":69000000,"runs":[]}"#,
            r#"{"type":"configuration","configuration":"b","base":false,"latency_p99_ns":null}"#,
            r#"{"type":"difference","figure":"record_bytes_per_s","outcome":"higher","why":null}"#,
            r#"{"type":"difference","figure":"latency_p99_ns","outcome":"too-short","why":"too few"}"#,
            r#"{"type":"difference","figure":"latency_p50_ns","outcome":"lower"}"#,
            r#"{"type":"over-time","cells":[1,null]}"#,
            r#"{"type":"summary","notes":[]}"#,
        ];
        let read = compared(&said.join("\n")).unwrap();
        let wanted = Comparison {
            throughput: Outcome::Higher,
            p99: Outcome::Unknown,
            p99_before_ms: Some(69.0),
            p99_after_ms: None,
        };
        assert_eq!(read, wanted);
        assert!(compared("no JSON").is_err());
    }
}
