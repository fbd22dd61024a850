//! `tune --follow-advice`: from a broker out of the box, the first advice that the lab can follow, again and again;
//! then a search over the same settings, and how close to its best the advice has led. Measures nothing itself.

use std::path::Path;

use fastrand::Rng;

use super::report::SearchResult;
use super::tuning_loop::{Bench, TuningLoop, follow};
use super::{About, Configuration, Setting};
use super::{SECONDS, TuneArguments, after_all_steps, report};
use crate::error::Result;
use crate::experiment::{Experiment, Subject};
use crate::session::print;

/// Pieces of advice to try on the best configuration: on a well-tuned one, none may make anything worse.
const ON_THE_BEST: u32 = 2;
/// Declaration of the experiment.
const SUBJECT: Subject = Subject {
    name: "tune --follow-advice",
    directory: "lab-tune-advice",
    seconds: SECONDS,
    explained_ms: None,
};

/// Performs what is left of it, and reports the result.
///
/// # Errors
/// A run failed twice, or was interrupted; finished runs are kept.
pub(super) fn run(arguments: &TuneArguments, brokerscope: Option<&Path>) -> Result<()> {
    if arguments.experiment.list {
        return print(&list_settings());
    }
    let start = Configuration::out_of_the_box();
    let (own, most) = (&arguments.experiment, most_runs(arguments));
    let mut experiment = Experiment::open(&SUBJECT, &[start.to_setup()], own, brokerscope)?;
    let done = experiment.runs();
    experiment.announce(&format!("{most} runs"), " at most", done, most);
    let tuning_loop = follow(&mut experiment, start, (arguments.steps, own.repetitions))?;
    let unused = (arguments.steps as usize).saturating_sub(tuning_loop.steps.len());
    experiment.forgo(unused * own.repetitions as usize);
    let search_result = if arguments.search > 0 {
        Some(compare_with_search(&mut experiment, &tuning_loop, arguments)?)
    } else {
        None
    };
    let text = report::all(&experiment, &tuning_loop, search_result.as_ref(), arguments);
    experiment.conclude(&text, &report::labels(&tuning_loop, search_result.as_ref()))
}

/// Searches, then runs the best and where advice led in turn. Then follows advice from the best.
fn compare_with_search(
    experiment: &mut Experiment<'_>,
    tuning_loop: &TuningLoop,
    arguments: &TuneArguments,
) -> Result<SearchResult> {
    let (runs, seed) = (arguments.experiment.repetitions, arguments.experiment.seed);
    let known = configurations_of(tuning_loop);
    let best = search(experiment, known.clone(), after_all_steps(), (arguments.search, seed))?;
    let before = if known.contains(&best) { runs } else { 1 };
    if best != tuning_loop.end {
        for run in 1..=runs {
            experiment.measure(&best.to_setup(), "the best again", before + run)?;
            experiment.measure(&tuning_loop.end.to_setup(), "where advice led, again", runs + run)?;
        }
    }
    let of = |tuned: &Configuration, before: u32| {
        let all = experiment.records_per_s(&tuned.id());
        if best == tuning_loop.end { all } else { all.into_iter().skip(before as usize).collect() }
    };
    let (led, found) = (of(&tuning_loop.end, runs), of(&best, before));
    let beyond = follow(experiment, best, (ON_THE_BEST, runs))?;
    Ok(SearchResult { led, found, beyond })
}

/// The configurations of a tuning loop, each once.
fn configurations_of(tuning_loop: &TuningLoop) -> Vec<Configuration> {
    let mut all = vec![tuning_loop.start.clone()];
    for step in &tuning_loop.steps {
        if !all.contains(&step.choice.tuned) {
            all.push(step.choice.tuned.clone());
        }
    }
    all
}

/// The maximum number of runs: the start and each step, the search, twice the last round, and advice on the best.
fn most_runs(arguments: &TuneArguments) -> usize {
    let runs = arguments.experiment.repetitions;
    let searched = if arguments.search > 0 { arguments.search + (2 + ON_THE_BEST) * runs } else { 0 };
    ((arguments.steps + 1) * runs + searched) as usize
}

fn list_settings() -> String {
    let line = |setting: &Setting| {
        let About { name, default, search_values, .. } = setting.about();
        let tried: Vec<String> = search_values.iter().map(|value| setting.format_value(*value)).collect();
        format!("{name:<20} starts at {}; searched: {}\n", setting.format_value(default), tried.join(", "))
    };
    Setting::ALL.iter().filter(|setting| setting.about().search_values.len() > 1).map(line).collect()
}

/// One in this many of a search's configurations is drawn at random: one setting at a time does not find what only two
/// together improve.
const ONE_DRAWN_IN: u32 = 3;

/// A search in progress.
struct Search<'b, B: Bench> {
    bench: &'b mut B,
    history: Vec<Configuration>,
    best: (Configuration, f64),
    left: u32,
}

/// Tries `most` configurations in addition to `known`, which have been measured; returns the best of all.
pub(super) fn search(
    bench: &mut impl Bench,
    known: Vec<Configuration>,
    first: Configuration,
    (most, seed): (u32, u64),
) -> Result<Configuration> {
    let start = known.first().cloned().unwrap_or_else(Configuration::out_of_the_box);
    let mut search = Search { bench, history: Vec::new(), best: (start, 0.0), left: most };
    for tuned in known {
        search.count(tuned);
    }
    search.try_configuration(first)?;
    let mut rng = Rng::with_seed(seed);
    for _ in 0..most / ONE_DRAWN_IN {
        search.try_configuration(draw(&mut rng))?;
    }
    while search.one_by_one()? {}
    Ok(search.best.0)
}

fn draw(rng: &mut Rng) -> Configuration {
    Setting::ALL.into_iter().fold(Configuration::out_of_the_box(), |tuned, setting| {
        let value = rng.choice(setting.about().search_values);
        tuned.with(setting, value.copied().unwrap_or(setting.about().default))
    })
}

impl<B: Bench> Search<'_, B> {
    /// Tries each setting's other values, from the best so far; returns whether it found a better one.
    fn one_by_one(&mut self) -> Result<bool> {
        let before = self.best.1;
        for setting in Setting::ALL {
            for &value in setting.about().search_values {
                self.try_configuration(self.best.0.clone().with(setting, value))?;
            }
        }
        Ok(self.best.1 > before && self.left > 0)
    }

    /// Measures a configuration that has not been tried, while any may be.
    fn try_configuration(&mut self, tuned: Configuration) -> Result<()> {
        if self.left == 0 || self.history.contains(&tuned) {
            return Ok(());
        }
        self.left -= 1;
        self.bench.measure(&tuned, &format!("search, {}", tuned.describe()), 1)?;
        self.count(tuned);
        Ok(())
    }

    fn count(&mut self, tuned: Configuration) {
        let rate = middle(self.bench.records_per_s(&tuned));
        if rate > self.best.1 {
            self.best = (tuned.clone(), rate);
        }
        self.history.push(tuned);
    }
}

/// The median; 0 if there are none.
pub(super) fn middle(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    crate::experiment::median(&rates)
}

#[cfg(test)]
mod search_tests {
    use super::super::tuning_loop::tests::{MadeUp, advised, rate};
    use super::*;

    #[test]
    fn search_finds_the_best_within_its_budget() {
        let mut bench = MadeUp::new(rate, advised);
        let start = Configuration::out_of_the_box();
        bench.measure(&start, "", 3).unwrap();
        let first = start.clone().with(Setting::Partitions, 16);
        let best = search(&mut bench, vec![start.clone()], first.clone(), (40, 1)).unwrap();
        assert_eq!((rate(&best), best.of(Setting::Devices)), (350.0, 4));
        assert!(bench.runs.len() <= 41 && bench.runs.contains_key(&first.id()), "{:?}", bench.runs);

        let mut few = MadeUp::new(rate, advised);
        few.measure(&start, "", 3).unwrap();
        search(&mut few, vec![start.clone()], first, (5, 1)).unwrap();
        assert_eq!(few.runs.len(), 6);
        assert_eq!(few.runs[&start.id()], 3, "what was known is not run again");
    }

    #[test]
    fn search_without_budget_returns_the_best_known_configuration() {
        let mut bench = MadeUp::new(rate, advised);
        let (start, other) =
            (Configuration::out_of_the_box(), Configuration::out_of_the_box().with(Setting::Mtu, 9_000));
        for tuned in [&start, &other] {
            bench.measure(tuned, "", 1).unwrap();
        }
        let best = search(&mut bench, vec![other, start.clone()], start.clone(), (0, 1)).unwrap();
        assert_eq!(best, start);
    }

    #[test]
    fn same_seed_draws_the_same_configuration() {
        let of = |seed| draw(&mut Rng::with_seed(seed)).id();
        assert_eq!(of(3), of(3));
        assert!((1..9).map(of).collect::<std::collections::BTreeSet<_>>().len() > 4);
    }
}
