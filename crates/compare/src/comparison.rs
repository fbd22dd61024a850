//! Combines runs by configuration, with their figures and differences. Does not print them.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use model::{Cause, Nanos};

use crate::counts::{Axis, Counts, Sum};
use crate::difference::{Difference, Side, differ};
use crate::figure::{Figure, Figures, Interval};
use crate::over_time::{OverTime, Rows};
use crate::resample::{PreparedRun, Variations, variations};
use crate::run::Run;

/// Seed of the draws: the same input gives the same intervals.
const SEED: u64 = 0x6b61_666b_612d_3939;

/// A configuration to compare, with its repetitions.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Its name.
    pub name: String,
    /// A note by the person who made the runs.
    pub note: Option<String>,
    /// Its runs.
    pub runs: Vec<Run>,
}

/// Total time of slow requests with one cause.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CauseTime {
    /// The cause.
    pub cause: Cause,
    /// Number of requests.
    pub requests: u64,
    /// Sum of their latencies.
    pub time: Nanos,
}

/// Figures of one run.
#[derive(Clone, Debug)]
pub struct RunFigures {
    /// Its name.
    pub name: String,
    /// Requests that were compared.
    pub requests: u64,
    /// Compared requests without a latency.
    pub unanswered: u64,
    /// From the first request's arrival to the last one's.
    pub seconds: f64,
    /// Its figures.
    pub figures: Figures,
    /// The width of a block of time.
    pub block: Nanos,
    /// How many consecutive blocks are drawn together.
    pub stretch: usize,
}

/// One configuration, over all of its runs.
#[derive(Clone, Debug)]
pub struct Configuration {
    /// Its name.
    pub name: String,
    /// A note about it.
    pub note: Option<String>,
    /// Its runs.
    pub runs: Vec<RunFigures>,
    /// Requests that were compared.
    pub requests: u64,
    /// Compared requests without a latency.
    pub unanswered: u64,
    /// Requests that took as long as the objective, or longer.
    pub slo_misses: u64,
    /// Sum of the runs' lengths.
    pub seconds: f64,
    /// Its figures over all runs.
    pub figures: Figures,
    /// Causes of slow requests, most time first.
    pub causes: Vec<CauseTime>,
    intervals: [Option<Interval>; Figure::ALL.len()],
}

impl Configuration {
    /// The confidence interval of a figure. It holds the true value in [`crate::CONFIDENCE`] of all cases.
    pub fn interval(&self, figure: Figure) -> Option<Interval> {
        self.intervals.get(figure as usize).copied().flatten()
    }
}

/// Compared configurations. The first one is the base.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The latency from which on a request misses the objective.
    pub slo: Nanos,
    /// Every configuration, in the order given.
    pub configurations: Vec<Configuration>,
    /// Differences of every figure from the base's, configuration by configuration. The base itself is not among them.
    pub differences: Vec<Difference>,
    rows: Rows,
}

/// A run's blocks and their width.
type RunBlocks = (Nanos, Vec<Counts>);

/// A configuration while its figures are computed.
struct Drawing {
    runs: Vec<PreparedRun>,
    sum: Sum,
    variations: Variations,
}

impl Comparison {
    /// Compares configurations. Takes about a second per ten minutes of runs.
    pub fn of(slo: Nanos, mut setups: Vec<Setup>) -> Self {
        let blocks: Vec<Vec<RunBlocks>> =
            setups.iter_mut().map(|setup| setup.runs.iter_mut().map(Run::take_blocks).collect()).collect();
        let axis = Axis::of(blocks.iter().flatten().flat_map(|blocks| &blocks.1));
        let drawings: Vec<Drawing> =
            (0..).zip(blocks).map(|(at, runs)| Drawing::of(&axis, runs, SEED.wrapping_add(at))).collect();
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

    /// The 99.9th percentile over the time of the run, in at most `most` cells.
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
        let non_empty: Vec<PreparedRun> = runs.iter().filter(|run| !run.blocks.is_empty()).cloned().collect();
        let mut sum = Sum::new(axis);
        for run in &runs {
            sum.merge(&run.sum);
        }
        let variations =
            if non_empty.is_empty() { Variations::default() } else { variations(axis, &non_empty, seed) };
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
        runs: setup
            .runs
            .iter()
            .zip(&drawing.runs)
            .map(|(run, prepared)| run_figures(run, prepared))
            .collect(),
        requests: setup.runs.iter().map(|run| run.requests).sum(),
        unanswered: setup.runs.iter().map(|run| run.unanswered).sum(),
        slo_misses: drawing.sum.totals.misses,
        seconds: drawing.sum.totals.seconds,
        figures,
        causes: causes(&setup.runs),
        intervals,
    }
}

fn run_figures(run: &Run, prepared: &PreparedRun) -> RunFigures {
    RunFigures {
        name: run.name.clone(),
        requests: run.requests,
        unanswered: run.unanswered,
        seconds: prepared.sum.totals.seconds,
        figures: prepared.sum.figures(),
        block: prepared.width,
        stretch: prepared.stretch,
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
