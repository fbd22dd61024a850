//! How much a configuration's figures vary by chance: draws blocks of time out of its runs, and runs, with replacement,
//! and computes the figures of each draw. Does not compare configurations.

use fastrand::Rng;
use model::Nanos;

use crate::counts::{Axis, Counts, Sum};
use crate::dependence;
use crate::figure::{Figure, Scale};

/// How often blocks, and runs, are drawn: the standard error is then itself right to some 2 %.
pub const DRAWS: usize = 1_000;
/// In how many of all comparisons the interval holds the true difference.
pub const CONFIDENCE: f64 = 0.95;

/// Two latencies closer than this are one level of a histogram.
const RESOLUTION: f64 = 1.0 / 128.0;

/// One run, ready to be drawn from.
#[derive(Clone, Debug)]
pub(crate) struct Drawn {
    /// The width of a block.
    pub(crate) width: Nanos,
    pub(crate) blocks: Vec<Counts>,
    /// How many blocks, one after the other, are drawn together.
    pub(crate) stretch: usize,
    pub(crate) sum: Sum,
}

impl Drawn {
    pub(crate) fn of(axis: &Axis, width: Nanos, mut blocks: Vec<Counts>) -> Self {
        blocks.iter_mut().for_each(|block| axis.place(block));
        let sum = Sum::of(axis, &blocks);
        let stretch = stretch(&blocks, &sum);
        Self { width, blocks, stretch, sum }
    }

    /// How many stretches it has that depend little on each other.
    pub(crate) fn stretches(&self) -> f64 {
        self.blocks.len() as f64 / self.stretch as f64
    }
}

/// As long as the load, how quick requests are, or the share of the slowest hundredth depends on its past.
fn stretch(blocks: &[Counts], sum: &Sum) -> usize {
    let [slow] = sum.places([0.99]);
    let of =
        |value: &dyn Fn(&Counts) -> f64| dependence::length(&blocks.iter().map(value).collect::<Vec<_>>());
    let load = of(&|block| block.requests as f64);
    let beyond = |block: &Counts| {
        let slowest = block.levels.iter().filter(|level| level.0 > slow).map(|level| f64::from(level.1));
        slowest.sum::<f64>() / (block.answered.max(1)) as f64
    };
    // By the latencies' ranks: a few that took very long do not hide what the others did.
    let rank = |block: &Counts| {
        let ranks = block.levels.iter().map(|level| level.0 as f64 * f64::from(level.1));
        ranks.sum::<f64>() / block.answered.max(1) as f64
    };
    load.max(of(&rank)).max(of(&beyond))
}

/// How much one figure varies, on its scale, and how many degrees of freedom that is known by.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Variation {
    pub(crate) variance: f64,
    pub(crate) freedom: f64,
}

/// Every figure's.
pub(crate) type Variations = [Option<Variation>; Figure::ALL.len()];

/// Of a configuration that was run once, or several times. Blocks tell well how much it varies within runs; whole runs
/// tell badly, since they are few, how much in all. The larger of the two counts, and by as many degrees of freedom as
/// its parts are known by (Satterthwaite 1946).
pub(crate) fn variations(axis: &Axis, runs: &[Drawn], seed: u64) -> Variations {
    let mut random = Rng::with_seed(seed);
    let stretches: f64 = runs.iter().map(Drawn::stretches).sum();
    let freedom = (stretches - runs.len() as f64).max(1.0);
    let within = draw(axis, |sum| blocks(runs, &mut random, sum));
    let among = (runs.len() > 1).then(|| draw(axis, |sum| whole_runs(runs, &mut random, sum)));
    let mut variations = Variations::default();
    for (slot, figure) in variations.iter_mut().zip(Figure::ALL) {
        // The variance of what is drawn is that of as many less one.
        let Some(within) = variance(&within, figure).map(|it| it * (freedom + runs.len() as f64) / freedom)
        else {
            continue;
        };
        let count = runs.len() as f64;
        let among =
            among.as_ref().and_then(|among| variance(among, figure)).map(|it| it * count / (count - 1.0));
        let mut variation = combined(within, freedom, among, count - 1.0);
        if figure.quantile().is_some() {
            variation.variance += RESOLUTION * RESOLUTION / 12.0;
        }
        *slot = Some(variation);
    }
    variations
}

fn combined(within: f64, freedom: f64, among: Option<f64>, runs_freedom: f64) -> Variation {
    let more = among.map_or(0.0, |among| (among - within).max(0.0));
    let variance = within + more;
    let parts = within * within / freedom + if more > 0.0 { more * more / runs_freedom } else { 0.0 };
    Variation { variance, freedom: if parts > 0.0 { variance * variance / parts } else { freedom } }
}

/// Figures of as many draws, on their scales.
type Draws = [Moments; Figure::ALL.len()];

fn draw(axis: &Axis, mut one: impl FnMut(&mut Sum)) -> Draws {
    let mut draws = Draws::default();
    let mut sum = Sum::new(axis);
    for _ in 0..DRAWS {
        sum.clear();
        one(&mut sum);
        let figures = sum.figures();
        for (moments, figure) in draws.iter_mut().zip(Figure::ALL) {
            if let Some(value) = figures.of(figure).and_then(|value| figure.scale().onto(value)) {
                moments.add(value);
            }
        }
    }
    draws
}

/// As many blocks of each run as it has, in stretches that begin anywhere and go on at the beginning after the end.
fn blocks(runs: &[Drawn], random: &mut Rng, sum: &mut Sum) {
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

fn whole_runs(runs: &[Drawn], random: &mut Rng, sum: &mut Sum) {
    for _ in runs {
        if let Some(run) = runs.get(random.usize(..runs.len())) {
            sum.merge(&run.sum);
        }
    }
}

/// Of a figure of most draws; none where the draws have none, or it is the maximum: what is drawn has no higher one than
/// the run, however much higher another run's may be (Bickel and Freedman 1981, section 6).
fn variance(draws: &Draws, figure: Figure) -> Option<f64> {
    let moments = draws.get(figure as usize)?;
    (figure != Figure::Max && moments.count * 2 > DRAWS as u64).then(|| moments.variance())
}

/// A mean and what varies around it (Welford 1962).
#[derive(Clone, Copy, Debug, Default)]
struct Moments {
    count: u64,
    mean: f64,
    squares: f64,
}

impl Moments {
    fn add(&mut self, value: f64) {
        self.count += 1;
        let off = value - self.mean;
        self.mean += off / self.count as f64;
        self.squares += off * (value - self.mean);
    }

    fn variance(&self) -> f64 {
        if self.count > 1 { self.squares / (self.count - 1) as f64 } else { 0.0 }
    }
}

/// How far a value may be off, on its scale.
pub(crate) fn margin(variance: f64, freedom: f64) -> f64 {
    crate::student::t(freedom) * variance.sqrt()
}

/// The value on its scale with its margin to both sides, in its own unit.
pub(crate) fn around(scale: Scale, value: f64, variation: Variation) -> Option<crate::Interval> {
    let at = scale.onto(value)?;
    let margin = margin(variation.variance, variation.freedom);
    Some(crate::Interval { low: scale.back(at - margin), high: scale.back(at + margin) })
}
