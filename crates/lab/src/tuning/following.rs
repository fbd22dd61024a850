//! `tune --follow-advice`: from a broker out of the box, the first advice that the lab can follow, again and again; then a
//! search over the same settings, and how near to its best the advice has led. Measures nothing itself.

use std::path::Path;

use super::advice::Measuring;
use super::report::SearchResult;
use super::search::search;
use super::setting::{Configuration, Setting};
use super::tuning_loop::{Bench, TuningLoop, follow};
use super::{DIRTY_BYTES, EXPLAINED_MS, PACE, SECONDS, TuneArguments, after_all_steps, report, setting};
use crate::error::Error;
use crate::experiment::{Adaptive, print};

/// Pieces of advice that are tried on the best configuration: on what is well tuned none may make anything worse.
const ON_THE_BEST: u32 = 2;
/// What is kept, and where.
const NAME: &str = "tune --follow-advice";
const DIRECTORY: &str = "lab-tune-advice";

/// Runs what is left of it, and says what came of it.
///
/// # Errors
/// Where a run failed twice, or was interrupted: what was measured is kept.
pub(super) fn run(arguments: &TuneArguments, brokerscope: Option<&Path>) -> Result<(), Error> {
    if arguments.experiment.list {
        return print(&listed());
    }
    let (start, device) = (Configuration::out_of_the_box(), setting::device(PACE, DIRTY_BYTES));
    let first = start.setup(&start.id(), &start.described(), None, &device);
    let (own, most) = (&arguments.experiment, most_runs(arguments));
    let adaptive = Adaptive::open((NAME, DIRECTORY), first, (SECONDS, most), own, brokerscope)?;
    let mut bench = Measuring { adaptive, device, slower_than_ms: EXPLAINED_MS };
    let tuning_loop = follow(&mut bench, start, (arguments.steps, own.repetitions))?;
    let unused = arguments.steps.saturating_sub(u32::try_from(tuning_loop.steps.len()).unwrap_or(u32::MAX));
    bench.adaptive.forgo((unused * own.repetitions) as usize);
    let held = if arguments.search > 0 { Some(hold(&mut bench, &tuning_loop, arguments)?) } else { None };
    let text = report::all(&bench, &tuning_loop, held.as_ref(), arguments);
    bench.adaptive.conclude(&text, &report::configurations(&tuning_loop, held.as_ref()), own)
}

/// Searches, then runs the best and where advice led in turn, and follows advice from the best.
fn hold(
    bench: &mut Measuring,
    tuning_loop: &TuningLoop,
    arguments: &TuneArguments,
) -> Result<SearchResult, Error> {
    let (runs, seed) = (arguments.experiment.repetitions, arguments.experiment.seed);
    let known = measured_by(tuning_loop);
    let best = search(bench, known.clone(), after_all_steps(), (arguments.search, seed))?;
    let before = if known.contains(&best) { runs } else { 1 };
    if best != tuning_loop.end {
        for run in 1..=runs {
            bench.measure(&best, "the best again", before + run)?;
            bench.measure(&tuning_loop.end, "where advice led, again", runs + run)?;
        }
    }
    let of = |tuned: &Configuration, before: u32| {
        let all = bench.records_per_s(tuned);
        if best == tuning_loop.end { all } else { all.into_iter().skip(before as usize).collect() }
    };
    let (led, found) = (of(&tuning_loop.end, runs), of(&best, before));
    let beyond = follow(bench, best, (ON_THE_BEST, runs))?;
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
        let tried: Vec<String> = setting.searched().iter().map(|value| setting.shown(*value)).collect();
        format!(
            "{:<20} starts at {}; searched: {}\n",
            setting.name(),
            setting.shown(setting.default()),
            tried.join(", ")
        )
    };
    Setting::ALL.iter().filter(|setting| setting.searched().len() > 1).map(line).collect()
}
