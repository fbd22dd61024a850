//! `tune --follow-advice`: from a broker out of the box, the first advice that the lab can follow, again and again; then a
//! search over the same settings, and how near to its best the advice has led. Measures nothing itself.

use std::path::Path;

use fastrand::Rng;

use super::report::SearchResult;
use super::tuning_loop::{Bench, TuningLoop, follow};
use super::{About, Configuration, Setting};
use super::{SECONDS, TuneArguments, after_all_steps, report};
use crate::error::Result;
use crate::experiment::{Experiment, Subject};
use crate::session::print;

/// Pieces of advice that are tried on the best configuration: on what is well tuned none may make anything worse.
const ON_THE_BEST: u32 = 2;
/// What is kept, and where.
const SUBJECT: Subject = Subject {
    name: "tune --follow-advice",
    directory: "lab-tune-advice",
    seconds: SECONDS,
    explained_ms: None,
};

/// Runs what is left of it, and says what came of it.
///
/// # Errors
/// Where a run failed twice, or was interrupted: what was measured is kept.
pub(super) fn run(arguments: &TuneArguments, brokerscope: Option<&Path>) -> Result<()> {
    if arguments.experiment.list {
        return print(&listed());
    }
    let start = Configuration::out_of_the_box();
    let (own, most) = (&arguments.experiment, most_runs(arguments));
    let mut experiment = Experiment::open(&SUBJECT, &[start.to_setup()], own, brokerscope)?;
    let done = experiment.runs();
    experiment.announce(&format!("{most} runs"), " at most", done, most);
    let tuning_loop = follow(&mut experiment, start, (arguments.steps, own.repetitions))?;
    let unused = (arguments.steps as usize).saturating_sub(tuning_loop.steps.len());
    experiment.forgo(unused * own.repetitions as usize);
    let held =
        if arguments.search > 0 { Some(hold(&mut experiment, &tuning_loop, arguments)?) } else { None };
    let text = report::all(&experiment, &tuning_loop, held.as_ref(), arguments);
    experiment.conclude(&text, &report::labels(&tuning_loop, held.as_ref()))
}

/// Searches, then runs the best and where advice led in turn, and follows advice from the best.
fn hold(
    experiment: &mut Experiment<'_>,
    tuning_loop: &TuningLoop,
    arguments: &TuneArguments,
) -> Result<SearchResult> {
    let (runs, seed) = (arguments.experiment.repetitions, arguments.experiment.seed);
    let known = measured_by(tuning_loop);
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

/// Each once.
fn measured_by(tuning_loop: &TuningLoop) -> Vec<Configuration> {
    let mut all = vec![tuning_loop.start.clone()];
    for step in &tuning_loop.steps {
        if !all.contains(&step.choice.tuned) {
            all.push(step.choice.tuned.clone());
        }
    }
    all
}

/// The start and each step, the search, twice the last round, and advice on the best.
fn most_runs(arguments: &TuneArguments) -> usize {
    let runs = arguments.experiment.repetitions;
    let searched = if arguments.search > 0 { arguments.search + (2 + ON_THE_BEST) * runs } else { 0 };
    ((arguments.steps + 1) * runs + searched) as usize
}

fn listed() -> String {
    let line = |setting: &Setting| {
        let About { name, default, searched, .. } = setting.about();
        let tried: Vec<String> = searched.iter().map(|value| setting.shown(*value)).collect();
        format!("{name:<20} starts at {}; searched: {}\n", setting.shown(default), tried.join(", "))
    };
    Setting::ALL.iter().filter(|setting| setting.about().searched.len() > 1).map(line).collect()
}

/// Of the configurations that a search tries, one in so many is drawn by chance: one setting at a time does not find what only
/// two together make better.
const ONE_DRAWN_IN: u32 = 3;

/// What a search has found so far.
struct Search<'b, B: Bench> {
    bench: &'b mut B,
    seen: Vec<Configuration>,
    best: (Configuration, f64),
    left: u32,
}

/// Tries so many configurations beside `known`, which have been measured; returns the best of all.
pub(super) fn search(
    bench: &mut impl Bench,
    known: Vec<Configuration>,
    first: Configuration,
    (most, seed): (u32, u64),
) -> Result<Configuration> {
    let start = known.first().cloned().unwrap_or_else(Configuration::out_of_the_box);
    let mut search = Search { bench, seen: Vec::new(), best: (start, 0.0), left: most };
    for tuned in known {
        search.count(tuned);
    }
    search.see(first)?;
    let mut rng = Rng::with_seed(seed);
    for _ in 0..most / ONE_DRAWN_IN {
        search.see(drawn(&mut rng))?;
    }
    while search.one_by_one()? {}
    Ok(search.best.0)
}

fn drawn(rng: &mut Rng) -> Configuration {
    Setting::ALL.into_iter().fold(Configuration::out_of_the_box(), |tuned, setting| {
        let value = rng.choice(setting.about().searched);
        tuned.with(setting, value.copied().unwrap_or(setting.about().default))
    })
}

impl<B: Bench> Search<'_, B> {
    /// Each setting's other values, from the best so far; whether it found a better one.
    fn one_by_one(&mut self) -> Result<bool> {
        let before = self.best.1;
        for setting in Setting::ALL {
            for &value in setting.about().searched {
                self.see(self.best.0.clone().with(setting, value))?;
            }
        }
        Ok(self.best.1 > before && self.left > 0)
    }

    /// Measures one that has not been seen, while any may be.
    fn see(&mut self, tuned: Configuration) -> Result<()> {
        if self.left == 0 || self.seen.contains(&tuned) {
            return Ok(());
        }
        self.left -= 1;
        self.bench.measure(&tuned, &format!("search, {}", tuned.described()), 1)?;
        self.count(tuned);
        Ok(())
    }

    fn count(&mut self, tuned: Configuration) {
        let rate = middle(self.bench.records_per_s(&tuned));
        if rate > self.best.1 {
            self.best = (tuned.clone(), rate);
        }
        self.seen.push(tuned);
    }
}

/// The median; 0 of nothing.
pub(super) fn middle(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    crate::experiment::median(&rates)
}

#[cfg(test)]
mod search_tests {
    use super::super::tuning_loop::tests::{MadeUp, advised, rate};
    use super::*;

    #[test]
    fn the_best_is_found_and_no_more_is_tried_than_allowed() {
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
    fn without_a_search_the_best_is_the_best_that_is_known() {
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
    fn draws_follow_from_the_seed() {
        let of = |seed| drawn(&mut Rng::with_seed(seed)).id();
        assert_eq!(of(3), of(3));
        assert!((1..9).map(of).collect::<std::collections::BTreeSet<_>>().len() > 4);
    }
}
