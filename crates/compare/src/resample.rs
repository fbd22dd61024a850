//! How much a configuration's figures vary by chance: draws blocks of time from its runs, and whole runs, with
//! replacement, and computes the figures of each draw. Does not compare configurations.

use fastrand::Rng;
use model::Nanos;

use crate::counts::{Axis, Counts, Sum};
use crate::dependence;
use crate::figure::{Figure, Interval};
use crate::student;

/// Number of draws of blocks, and of runs: the standard error itself is then accurate to about 2 %.
pub const RESAMPLES: usize = 1_000;
/// Share of all comparisons in which the interval holds the true difference.
pub const CONFIDENCE: f64 = 0.95;

/// The 97.5th percentile of the normal distribution.
const NORMAL: f64 = 1.96;
/// Two latencies closer than this are one level of a histogram.
const RESOLUTION: f64 = 1.0 / 128.0;

/// One run, prepared for drawing.
#[derive(Clone, Debug)]
pub(crate) struct PreparedRun {
    /// The width of a block.
    pub(crate) width: Nanos,
    pub(crate) blocks: Vec<Counts>,
    /// How many consecutive blocks are drawn together.
    pub(crate) stretch: usize,
    pub(crate) sum: Sum,
}

impl PreparedRun {
    pub(crate) fn of(axis: &Axis, width: Nanos, mut blocks: Vec<Counts>) -> Self {
        for block in &mut blocks {
            axis.place(block);
        }
        let sum = Sum::of(axis, &blocks);
        let stretch = stretch(&blocks, &sum);
        Self { width, blocks, stretch, sum }
    }

    /// How many stretches it has that depend little on each other.
    pub(crate) fn stretches(&self) -> f64 {
        self.blocks.len() as f64 / self.stretch as f64
    }
}

/// The number of blocks for which a run depends on its past. The longest of those for the load, for the level of
/// latencies, and for the share of the slowest hundredth.
fn stretch(blocks: &[Counts], sum: &Sum) -> usize {
    let [slow] = sum.places([0.99]);
    let of =
        |value: &dyn Fn(&Counts) -> f64| dependence::length(&blocks.iter().map(value).collect::<Vec<_>>());
    let load = of(&|block| block.totals.requests as f64);
    let beyond = |block: &Counts| {
        let slowest = block.levels.iter().filter(|level| level.0 > slow).map(|level| f64::from(level.1));
        slowest.sum::<f64>() / block.totals.answered.max(1) as f64
    };
    // By the latencies' ranks: a few very long ones do not hide the others.
    let rank = |block: &Counts| {
        let ranks = block.levels.iter().map(|level| level.0 as f64 * f64::from(level.1));
        ranks.sum::<f64>() / block.totals.answered.max(1) as f64
    };
    load.max(of(&rank)).max(of(&beyond))
}

/// How much one figure varies, on its scale.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Variation {
    variance: f64,
    /// The degrees of freedom of the variance.
    freedom: f64,
    /// Its values in draws of blocks.
    draws: Vec<f64>,
}

/// Every figure's variation.
pub(crate) type Variations = [Option<Variation>; Figure::ALL.len()];

/// Variation of a configuration that was run once or several times. Blocks show well how much it varies within runs.
/// Whole runs show poorly how much it varies overall, because they are few. The larger of the two counts, with the
/// degrees of freedom of its parts (Satterthwaite 1946).
pub(crate) fn variations(axis: &Axis, runs: &[PreparedRun], seed: u64) -> Variations {
    let mut random = Rng::with_seed(seed);
    let count = runs.len() as f64;
    let stretches: f64 = runs.iter().map(PreparedRun::stretches).sum();
    let freedom = (stretches - count).max(1.0);
    let within = draw(axis, |sum| blocks(runs, &mut random, sum));
    let among = (runs.len() > 1).then(|| draw(axis, |sum| whole_runs(runs, &mut random, sum)));
    let of = |(figure, draws): (Figure, Vec<f64>)| {
        // A maximum has no interval: no draw has a higher one than the run, however much higher another run's may be
        // (Bickel and Freedman 1981, section 6).
        if figure == Figure::Max || draws.len() * 2 < RESAMPLES {
            return None;
        }
        // Draws vary as much as if each run had one stretch less.
        let within = variance(&draws) * (freedom + count) / freedom;
        let among = among.as_ref().and_then(|among| among.get(figure as usize));
        let among = among.map(|draws| variance(draws) * count / (count - 1.0));
        let (variance, freedom) = combined(within, freedom, among, count - 1.0);
        let level = if figure.quantile().is_some() { RESOLUTION * RESOLUTION / 12.0 } else { 0.0 };
        Some(Variation { variance: variance + level, freedom, draws })
    };
    let mut variations = Variations::default();
    for (slot, drawn) in variations.iter_mut().zip(Figure::ALL.into_iter().zip(within)) {
        *slot = of(drawn);
    }
    variations
}

/// Combines variances and degrees of freedom.
fn combined(within: f64, freedom: f64, among: Option<f64>, runs_freedom: f64) -> (f64, f64) {
    let more = among.map_or(0.0, |among| (among - within).max(0.0));
    let variance = within + more;
    let parts = within * within / freedom + if more > 0.0 { more * more / runs_freedom } else { 0.0 };
    (variance, if parts > 0.0 { variance * variance / parts } else { freedom })
}

/// The figures of [`RESAMPLES`] draws, on their scales; a figure has only the draws that yield it.
fn draw(axis: &Axis, mut one: impl FnMut(&mut Sum)) -> [Vec<f64>; Figure::ALL.len()] {
    let mut draws = std::array::from_fn(|_| Vec::with_capacity(RESAMPLES));
    let mut sum = Sum::new(axis);
    for _ in 0..RESAMPLES {
        sum.clear();
        one(&mut sum);
        let figures = sum.figures();
        for (values, figure) in draws.iter_mut().zip(Figure::ALL) {
            values.extend(figures.of(figure).and_then(|value| figure.scale().onto(value)));
        }
    }
    draws
}

/// Draws as many blocks of each run as it has. Draws them in stretches that start anywhere and wrap around at the end.
fn blocks(runs: &[PreparedRun], random: &mut Rng, sum: &mut Sum) {
    for run in runs {
        let all = run.blocks.len();
        let mut times = vec![0_u64; all];
        let mut drawn = 0;
        while drawn < all {
            let from = random.usize(..all);
            for at in (from..from + run.stretch.min(all - drawn)).map(|at| at % all) {
                if let Some(times) = times.get_mut(at) {
                    *times += 1;
                }
            }
            drawn += run.stretch;
        }
        for (block, times) in run.blocks.iter().zip(times).filter(|(_, times)| *times > 0) {
            sum.add(block, times);
        }
    }
}

fn whole_runs(runs: &[PreparedRun], random: &mut Rng, sum: &mut Sum) {
    for _ in runs {
        if let Some(run) = runs.get(random.usize(..runs.len())) {
            sum.merge(&run.sum);
        }
    }
}

fn variance(draws: &[f64]) -> f64 {
    let count = draws.len() as f64;
    let mean = draws.iter().sum::<f64>() / count;
    draws.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0).max(1.0)
}

impl Variation {
    /// Variation of the difference to an independent one.
    pub(crate) fn less(&self, other: &Self) -> Self {
        let variance = self.variance + other.variance;
        let parts = self.variance.powi(2) / self.freedom + other.variance.powi(2) / other.freedom;
        let freedom = if parts > 0.0 { variance * variance / parts } else { self.freedom.min(other.freedom) };
        let draws = self.draws.iter().zip(&other.draws).map(|(one, other)| one - other).collect();
        Self { variance, freedom, draws }
    }

    /// The interval of a figure's true value, on its scale: the range of 95 % of the draws, stretched by as much as the
    /// variance exceeds that of the draws, and as Student's distribution is wider than the normal one. Draws keep the
    /// shape: a percentile at the edge of stalls may be much lower by chance, and hardly higher.
    pub(crate) fn around(&self, figure: Figure, value: f64) -> Interval {
        let mut draws = self.draws.clone();
        draws.sort_by(f64::total_cmp);
        let errors = student::t(self.freedom);
        let draw_variance = variance(&draws);
        let stretch =
            if draw_variance > 0.0 { errors / NORMAL * (self.variance / draw_variance).sqrt() } else { 0.0 };
        let tail = (1.0 - CONFIDENCE) / 2.0;
        let off = |share: f64| {
            let at = (share * (draws.len() as f64 - 1.0)).round() as usize;
            draws.get(at).map_or(0.0, |draw| stretch * (draw - value))
        };
        let level = if figure.quantile().is_some() { RESOLUTION } else { 0.0 };
        Interval { low: value + off(tail).min(-level / 2.0), high: value + off(1.0 - tail).max(level / 2.0) }
    }
}
