//! Runs put together by configuration, with their figures and differences. Does not print them.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use model::{Cause, Nanos};

use crate::counts::{Axis, Counts, Sum};
use crate::difference::{Difference, Side, differ};
use crate::figure::{Figure, Figures, Interval};
use crate::over_time::{OverTime, Rows};
use crate::resample::{PreparedRun, Variations, variations};
use crate::run::Run;

/// Where the draws begin: the same input gives the same intervals.
const SEED: u64 = 0x6b61_666b_612d_3939;

/// What is compared: a configuration and its repetitions.
#[derive(Clone, Debug)]
pub struct Setup {
    /// What it is called.
    pub name: String,
    /// A sentence about it, by the person who made the runs.
    pub note: Option<String>,
    /// Its runs.
    pub runs: Vec<Run>,
}

/// The time that slow requests of one cause took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CauseTime {
    /// The cause.
    pub cause: Cause,
    /// How many requests.
    pub requests: u64,
    /// Their latencies added up.
    pub time: Nanos,
}

/// One run.
#[derive(Clone, Debug)]
pub struct RunFigures {
    /// What it is called.
    pub name: String,
    /// Requests that were compared.
    pub requests: u64,
    /// Those of them without a latency.
    pub unanswered: u64,
    /// From the first one's arrival to the last one's.
    pub seconds: f64,
    /// Its figures.
    pub figures: Figures,
    /// The width of a block of time, and how many are drawn together.
    pub block: Nanos,
    /// See there.
    pub stretch: usize,
}

/// One configuration: all of its runs.
#[derive(Clone, Debug)]
pub struct Configuration {
    /// What it is called.
    pub name: String,
    /// A sentence about it.
    pub note: Option<String>,
    /// Its runs.
    pub runs: Vec<RunFigures>,
    /// Requests that were compared.
    pub requests: u64,
    /// Those of them without a latency.
    pub unanswered: u64,
    /// Those that took as long as the objective, or longer.
    pub slo_misses: u64,
    /// The runs' lengths added up.
    pub seconds: f64,
    /// Its figures, of all runs together.
    pub figures: Figures,
    /// What slow requests waited for, most time first.
    pub causes: Vec<CauseTime>,
    intervals: [Option<Interval>; Figure::ALL.len()],
}

impl Configuration {
    /// Where a figure's true value is, in [`crate::CONFIDENCE`] of all cases.
    pub fn interval(&self, figure: Figure) -> Option<Interval> {
        self.intervals.get(figure as usize).copied().flatten()
    }
}

/// Configurations side by side. The first one is the base.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// From which latency on a request misses the objective.
    pub slo: Nanos,
    /// Every configuration, in the order given.
    pub configurations: Vec<Configuration>,
    /// Every figure of each but the base against the base's, configuration by configuration.
    pub differences: Vec<Difference>,
    rows: Rows,
}

/// A run's blocks and their width.
type RunBlocks = (Nanos, Vec<Counts>);

/// A configuration while it is put together.
struct Drawing {
    runs: Vec<PreparedRun>,
    sum: Sum,
    variations: Variations,
}

impl Comparison {
    /// Compares. Takes about a second for every ten minutes of runs.
    pub fn of(slo: Nanos, mut setups: Vec<Setup>) -> Self {
        let taken: Vec<Vec<RunBlocks>> =
            setups.iter_mut().map(|setup| setup.runs.iter_mut().map(Run::take_blocks).collect()).collect();
        let axis = Axis::of(taken.iter().flatten().flat_map(|taken| &taken.1));
        let drawings: Vec<Drawing> =
            (0..).zip(taken).map(|(at, runs)| Drawing::of(&axis, runs, SEED.wrapping_add(at))).collect();
        let configurations: Vec<Configuration> =
            setups.iter().zip(&drawings).map(|(setup, drawing)| configuration(setup, drawing)).collect();
        let sides = configurations.iter().zip(&drawings).map(|(of, drawing)| drawing.side(of.figures));
        let sides: Vec<Side<'_>> = sides.collect();
        let mut differences = Vec::new();
        if let Some((base, others)) = sides.split_first() {
            for (at, side) in (1..).zip(others) {
                differences.extend(Figure::ALL.map(|figure| differ(at, figure, side, base)));
            }
        }
        let rows = Rows::of(axis, drawings.into_iter().map(|drawing| drawing.runs).collect());
        Self { slo, configurations, differences, rows }
    }

    /// The 99.9th percentile over the time of the run, in at most so many cells.
    pub fn over_time(&self, most: usize) -> OverTime {
        self.rows.over_time(most)
    }

    /// The differences of one configuration.
    pub fn differences_of(&self, configuration: usize) -> impl Iterator<Item = &Difference> {
        self.differences.iter().filter(move |difference| difference.configuration == configuration)
    }
}

impl Drawing {
    fn of(axis: &Axis, runs: Vec<RunBlocks>, seed: u64) -> Self {
        // A run without requests has no blocks to draw.
        let runs: Vec<PreparedRun> =
            runs.into_iter().map(|(width, blocks)| PreparedRun::of(axis, width, blocks)).collect();
        let drawn: Vec<PreparedRun> = runs.iter().filter(|run| !run.blocks.is_empty()).cloned().collect();
        let mut sum = Sum::new(axis);
        for run in &runs {
            sum.merge(&run.sum);
        }
        let variations =
            if drawn.is_empty() { Variations::default() } else { variations(axis, &drawn, seed) };
        Self { runs, sum, variations }
    }

    fn side(&self, figures: Figures) -> Side<'_> {
        Side { runs: &self.runs, sum: &self.sum, figures, variations: &self.variations }
    }
}

fn configuration(setup: &Setup, drawing: &Drawing) -> Configuration {
    let figures = drawing.sum.figures();
    let mut intervals = [None; Figure::ALL.len()];
    for ((slot, figure), variation) in intervals.iter_mut().zip(Figure::ALL).zip(&drawing.variations) {
        let scale = figure.scale();
        let value = figures.of(figure).and_then(|value| scale.onto(value));
        *slot = value.zip(variation.as_ref()).map(|(value, variation)| {
            let Interval { low, high } = variation.around(figure, value);
            Interval { low: scale.back(low), high: scale.back(high) }
        });
    }
    Configuration {
        name: setup.name.clone(),
        note: setup.note.clone(),
        runs: setup.runs.iter().zip(&drawing.runs).map(|(run, drawn)| run_figures(run, drawn)).collect(),
        requests: setup.runs.iter().map(|run| run.requests).sum(),
        unanswered: setup.runs.iter().map(|run| run.unanswered).sum(),
        slo_misses: drawing.sum.totals.misses,
        seconds: drawing.sum.totals.seconds,
        figures,
        causes: causes(&setup.runs),
        intervals,
    }
}

fn run_figures(run: &Run, drawn: &PreparedRun) -> RunFigures {
    RunFigures {
        name: run.name.clone(),
        requests: run.requests,
        unanswered: run.unanswered,
        seconds: drawn.sum.totals.seconds,
        figures: drawn.sum.figures(),
        block: drawn.width,
        stretch: drawn.stretch,
    }
}

fn causes(runs: &[Run]) -> Vec<CauseTime> {
    let mut sums: BTreeMap<Cause, (u64, Nanos)> = BTreeMap::new();
    for (&cause, &(requests, time)) in runs.iter().flat_map(|run| &run.causes) {
        let sum = sums.entry(cause).or_default();
        sum.0 += requests;
        sum.1 += time;
    }
    let mut causes: Vec<CauseTime> =
        sums.into_iter().map(|(cause, (requests, time))| CauseTime { cause, requests, time }).collect();
    causes.sort_by_key(|total| (Reverse(total.time), total.cause));
    causes
}
