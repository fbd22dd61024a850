//! `tune --follow-advice`: from a broker out of the box, the first advice that the lab can follow, again and again; then a
//! search over the same settings, and how near to its best the advice has led. Measures nothing itself.

use std::path::Path;

use super::report::SearchResult;
use super::search::search;
use super::setting::{About, Configuration, Setting};
use super::tuning_loop::{TuningLoop, follow};
use super::{SECONDS, TuneArguments, after_all_steps, report};
use crate::error::Error;
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
pub(super) fn run(arguments: &TuneArguments, brokerscope: Option<&Path>) -> Result<(), Error> {
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
) -> Result<SearchResult, Error> {
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
