//! One configuration's figure against the base's: how much it differs, within which bounds, and whether that can be
//! chance. Does not draw.

use std::fmt;

use crate::counts::{Counts, Sum};
use crate::figure::{Figure, Figures, Interval};
use crate::resample::{PreparedRun, Variation, Variations};

/// A percentile is known only if at least this many requests were slower.
const BEYOND: u64 = 10;
/// And only if these are in at least this many blocks: of three, every twentieth draw has none (e^-3).
const BLOCKS: usize = 4;
/// Blocks with misses that a comparison needs, of both sides together. Misses in fewer blocks are all on one side by
/// chance too often (2 · 2^-5 > 5 %).
const MISSED_BLOCKS: usize = 6;
/// Draws of fewer stretches than this show too little of how much runs vary.
const STRETCHES: f64 = 8.0;

/// Result of a comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Outcome {
    /// Lower than the base by more than chance.
    Lower,
    /// Higher than the base by more than chance.
    Higher,
    /// The interval contains zero.
    NoDifference,
    /// There was too little data.
    TooShort(Shortfall),
    /// A maximum has no known interval.
    Untested,
}

/// The kind of data that there was too little of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shortfall {
    /// Nothing was measured, on one side at least.
    Nothing,
    /// The number of requests slower than the percentile.
    Requests(u64),
    /// The number of blocks of time with requests as slow as it, or slower.
    Blocks(usize),
    /// The number of blocks of time in which either side missed the objective.
    Misses(usize),
    /// The number of the runs' stretches that do not depend on each other.
    Stretches(u32),
}

impl fmt::Display for Shortfall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => write!(f, "nothing to compare"),
            Self::Requests(count) => write!(f, "only {count} slower requests, {BEYOND} needed"),
            Self::Blocks(count) => {
                write!(f, "slower requests in only {count} blocks of time, {BLOCKS} needed")
            }
            Self::Misses(count) => write!(f, "misses in only {count} blocks of time, {MISSED_BLOCKS} needed"),
            Self::Stretches(count) => {
                write!(f, "only {count} independent stretches of time, {STRETCHES} needed")
            }
        }
    }
}

impl Outcome {
    /// The name in JSON and CSV.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Lower => "lower",
            Self::Higher => "higher",
            Self::NoDifference => "no-difference",
            Self::TooShort(_) => "too-short",
            Self::Untested => "untested",
        }
    }

    /// The text for people.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Lower => "lower",
            Self::Higher => "higher",
            Self::NoDifference => "no difference",
            Self::TooShort(_) => "too short to say",
            Self::Untested => "not tested",
        }
    }
}

/// One figure of one configuration against the base's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Difference {
    /// The configuration's index.
    pub configuration: usize,
    /// The figure.
    pub figure: Figure,
    /// The base's value.
    pub base: Option<f64>,
    /// The configuration's value.
    pub value: Option<f64>,
    /// The change relative to the base's value; for shares, the difference.
    pub change: Option<f64>,
    /// The confidence interval of the change. It holds the true change in [`crate::CONFIDENCE`] of all comparisons.
    pub interval: Option<Interval>,
    /// The result.
    pub outcome: Outcome,
}

/// The compared data of a configuration.
pub(crate) struct Side<'a> {
    pub(crate) runs: &'a [PreparedRun],
    pub(crate) sum: &'a Sum,
    pub(crate) figures: Figures,
    pub(crate) variations: &'a Variations,
}

pub(crate) fn differ(configuration: usize, figure: Figure, side: &Side<'_>, base: &Side<'_>) -> Difference {
    let (value, of_base) = (side.figures.of(figure), base.figures.of(figure));
    let scale = figure.scale();
    let on_scale = |value: Option<f64>| value.and_then(|value| scale.onto(value));
    let off = on_scale(value).zip(on_scale(of_base)).map(|(value, base)| value - base);
    let mut difference = Difference {
        configuration,
        figure,
        base: of_base,
        value,
        change: off.map(|off| scale.change(off)),
        interval: None,
        outcome: Outcome::Untested,
    };
    if figure == Figure::Max {
        return difference;
    }
    let (Some(off), Some(one), Some(other)) = (off, side.variation(figure), base.variation(figure)) else {
        difference.outcome = Outcome::TooShort(Shortfall::Nothing);
        return difference;
    };
    if let Some(shortfall) = shortfall(figure, side, base) {
        difference.outcome = Outcome::TooShort(shortfall);
        return difference;
    }
    let Interval { low, high } = one.less(other).around(figure, off);
    difference.interval = Some(Interval { low: scale.change(low), high: scale.change(high) });
    difference.outcome = match (low > 0.0, high < 0.0) {
        (true, _) => Outcome::Higher,
        (_, true) => Outcome::Lower,
        _ => Outcome::NoDifference,
    };
    difference
}

fn shortfall(figure: Figure, side: &Side<'_>, base: &Side<'_>) -> Option<Shortfall> {
    let stretches = |side: &Side<'_>| side.runs.iter().map(PreparedRun::stretches).sum::<f64>();
    let fewest = stretches(side).min(stretches(base));
    if fewest < STRETCHES {
        return Some(Shortfall::Stretches(fewest as u32));
    }
    if figure == Figure::SloMisses {
        let blocks =
            side.blocks(|block| block.totals.misses > 0) + base.blocks(|block| block.totals.misses > 0);
        return (1..MISSED_BLOCKS).contains(&blocks).then_some(Shortfall::Misses(blocks));
    }
    let share = figure.quantile()?;
    let beyond = |side: &Side<'_>| ((1.0 - share) * side.sum.totals.answered as f64).round() as u64;
    let fewest = beyond(side).min(beyond(base));
    if fewest < BEYOND {
        return Some(Shortfall::Requests(fewest));
    }
    let blocks = |side: &Side<'_>| {
        let [place] = side.sum.places([share]);
        side.blocks(|block| block.levels.iter().any(|level| level.0 >= place))
    };
    let fewest = blocks(side).min(blocks(base));
    (fewest < BLOCKS).then_some(Shortfall::Blocks(fewest))
}

impl Side<'_> {
    fn variation(&self, figure: Figure) -> Option<&Variation> {
        self.variations.get(figure as usize).and_then(Option::as_ref)
    }

    fn blocks(&self, which: impl Fn(&Counts) -> bool) -> usize {
        self.runs.iter().flat_map(|run| &run.blocks).filter(|block| which(block)).count()
    }
}
