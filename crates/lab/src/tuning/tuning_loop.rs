//! The tuning loop: the first that can be done is done, measured, and kept where nothing got worse; then advice
//! is asked for again. Knows nothing of how configurations are measured.

use serde::Deserialize;

use super::advice::{Advice, Choice, Selection, choose};
use super::setting::{Configuration, Setting};
use crate::error::Error;

/// Who measures configurations.
pub(super) trait Bench {
    /// Sees to it that a configuration has been run so often in all; `what` says what for.
    fn measure(&mut self, tuned: &Configuration, what: &str, runs: u32) -> Result<(), Error>;

    /// Records a second of its runs, in their order.
    fn records_per_s(&self, tuned: &Configuration) -> Vec<f64>;

    /// What `advise` says of its first recording, by rank.
    fn advice(&mut self, tuned: &Configuration) -> Result<Vec<Advice>, Error>;

    /// What `compare` says of the second against the first.
    fn compare(&mut self, before: &Configuration, after: &Configuration) -> Result<Comparison, Error>;

    /// Tells people.
    fn say(&self, line: &str);
}

/// A configuration against another.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Comparison {
    pub(super) throughput: Outcome,
    pub(super) p99: Outcome,
    pub(super) p99_before_ms: Option<f64>,
    pub(super) p99_after_ms: Option<f64>,
}

/// Where a figure lies, by an interval that the noise of its runs gives.
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

/// What becomes of a step.
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
    /// What it was made to.
    pub(super) before: Configuration,
    pub(super) choice: Choice,
    /// Why what ranked before it was not followed.
    pub(super) passed_over: Vec<String>,
    pub(super) compared: Comparison,
    pub(super) decision: Decision,
}

/// All of it.
#[derive(Clone, Debug)]
pub(super) struct TuningLoop {
    pub(super) start: Configuration,
    pub(super) steps: Vec<Step>,
    /// Where it ended.
    pub(super) end: Configuration,
    /// Why no more is followed, of each piece of advice that is left; none where none is.
    pub(super) left: Vec<String>,
}

/// Follows advice from `start`, `most` pieces of it, with so many runs of each configuration.
///
/// What made nothing better is set aside until something else does: then another part may be the limit.
pub(super) fn follow(
    bench: &mut impl Bench,
    start: Configuration,
    (most, runs): (u32, u32),
) -> Result<TuningLoop, Error> {
    bench.measure(&start, &start.described(), runs)?;
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
        let step =
            take(bench, tuning_loop.end.clone(), choice, passed_over, (tuning_loop.steps.len() + 1, runs))?;
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
) -> Result<Step, Error> {
    let what = choice.tuned.changed_from(&before);
    bench.say(&format!("step {number}: {what}, because {}: {}", choice.rule, choice.evidence));
    bench.measure(&choice.tuned, &format!("step {number}, {what}"), runs)?;
    let compared = bench.compare(&before, &choice.tuned)?;
    let step = Step { before, choice, passed_over, decision: Decision::of(&compared), compared };
    bench.say(&format!("step {number}: {}", step.told()));
    Ok(step)
}

impl Step {
    /// What was decided, and why.
    pub(super) fn told(&self) -> String {
        let seen = |outcome, figure| match outcome {
            Outcome::Higher => format!("{figure} is higher"),
            Outcome::Lower => format!("{figure} is lower"),
            Outcome::Same => format!("no difference in {figure} beyond the noise"),
            Outcome::Unknown => format!("too little measured to judge {figure}"),
        };
        let kept = if self.decision.is_kept() { "kept" } else { "not kept" };
        let Comparison { throughput, p99, .. } = self.compared;
        format!("{kept}: {}, {}", seen(throughput, "throughput"), seen(p99, "p99"))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::advice::tests::{advice, change};
    use super::*;
    use std::cell::RefCell;
    use std::collections::BTreeMap;

    /// A made-up broker: its throughput follows from its configuration, and so does the advice.
    pub(in crate::tuning) struct MadeUp {
        pub(in crate::tuning) rate: fn(&Configuration) -> f64,
        pub(in crate::tuning) p99_ms: fn(&Configuration) -> f64,
        pub(in crate::tuning) advised: fn(&Configuration) -> Vec<Advice>,
        /// How often each was run.
        pub(in crate::tuning) runs: BTreeMap<String, u32>,
        pub(in crate::tuning) said: RefCell<Vec<String>>,
    }

    impl MadeUp {
        pub(in crate::tuning) fn new(
            rate: fn(&Configuration) -> f64,
            advised: fn(&Configuration) -> Vec<Advice>,
        ) -> Self {
            let p99_ms = |_: &Configuration| 10.0;
            Self { rate, p99_ms, advised, runs: BTreeMap::new(), said: RefCell::new(Vec::new()) }
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
        fn measure(&mut self, tuned: &Configuration, _: &str, runs: u32) -> Result<(), Error> {
            let made = self.runs.entry(tuned.id()).or_default();
            *made = runs.max(*made);
            Ok(())
        }

        fn records_per_s(&self, tuned: &Configuration) -> Vec<f64> {
            let made = self.runs.get(&tuned.id()).copied().unwrap_or(0);
            vec![(self.rate)(tuned); made as usize]
        }

        fn advice(&mut self, tuned: &Configuration) -> Result<Vec<Advice>, Error> {
            assert!(self.runs.contains_key(&tuned.id()), "advice is of what was recorded");
            Ok((self.advised)(tuned))
        }

        fn compare(&mut self, before: &Configuration, after: &Configuration) -> Result<Comparison, Error> {
            let p99 = |tuned| (self.p99_ms)(tuned);
            Ok(Comparison {
                throughput: outcome((self.rate)(before), (self.rate)(after)),
                p99: outcome(p99(before), p99(after)),
                p99_before_ms: Some(p99(before)),
                p99_after_ms: Some(p99(after)),
            })
        }

        fn say(&self, line: &str) {
            self.said.borrow_mut().push(line.to_owned());
        }
    }

    /// The device is the limit, then the batches, and nothing after these; the MTU makes it worse.
    pub(in crate::tuning) fn rate(tuned: &Configuration) -> f64 {
        let device = 100.0 * f64::from(tuned.of(Setting::Devices).min(tuned.of(Setting::Partitions)));
        let batches = if tuned.of(Setting::Batch) >= 65_536 { 350.0 } else { 150.0 };
        let mtu = if tuned.of(Setting::Mtu) > 1_500 { 0.9 } else { 1.0 };
        f64::min(device, batches) * mtu
    }

    /// The device's is right while it is the limit; what is said of batches and the MTU is said always.
    pub(in crate::tuning) fn advised(tuned: &Configuration) -> Vec<Advice> {
        let device = 100.0 * f64::from(tuned.of(Setting::Devices).min(tuned.of(Setting::Partitions)));
        let devices = tuned.of(Setting::Devices) * 2;
        let spread = vec![
            change("topics", "partitions", devices.max(tuned.of(Setting::Partitions))),
            super::super::advice::Change { together: true, ..change("log-dirs", "devices", devices) },
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
    fn advice_is_followed_until_none_is_left_and_what_makes_it_worse_is_undone() {
        let mut bench = MadeUp::new(rate, advised);
        let tuning_loop = follow(&mut bench, Configuration::out_of_the_box(), (8, 3)).unwrap();
        let told: Vec<(&str, Decision)> =
            tuning_loop.steps.iter().map(|step| (&*step.choice.rule, step.decision)).collect();
        assert_eq!(
            told,
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
                .said
                .borrow()
                .iter()
                .any(|line| line.starts_with("step 2: not kept: throughput is lower, no diff"))
        );
    }

    #[test]
    fn it_ends_with_the_last_step_that_is_wanted() {
        let mut bench = MadeUp::new(rate, advised);
        let tuning_loop = follow(&mut bench, Configuration::out_of_the_box(), (1, 1)).unwrap();
        assert_eq!(tuning_loop.steps.len(), 1);
        assert!(tuning_loop.left[0].starts_with("mtu: MTU 1500 -> 9000"), "{:?}", tuning_loop.left);
    }

    #[test]
    fn what_raises_p99_for_nothing_is_not_kept_and_for_throughput_is() {
        let of = |throughput, p99| Decision::of(&Comparison { throughput, p99, ..Comparison::default() });
        assert_eq!(of(Outcome::Same, Outcome::Higher), Decision::Worse);
        assert_eq!(of(Outcome::Higher, Outcome::Higher), Decision::Better);
        assert_eq!(of(Outcome::Lower, Outcome::Lower), Decision::Worse);
        assert_eq!(of(Outcome::Unknown, Outcome::Lower), Decision::NoWorse);
    }
}
