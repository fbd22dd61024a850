//! Compares a broker's runs under several configurations: did the change help? Computes their figures, and which
//! differences exceed chance. Pure functions over requests and verdicts.
//!
//! A [`Run`] counts the requests of one recording by block of time, in bounded memory. [`Comparison::of`] combines
//! runs: several of one configuration are its repetitions.
//!
//! Requests close in time are alike: one journal commit makes dozens of them slow. Treated as independent, they would
//! make any two runs differ. So the bootstrap draws blocks of time with replacement, in stretches as long as blocks
//! depend on each other (circular blocks: Politis and Romano 1992; their length: Politis and White 2004, corrected by
//! Patton, Politis and White 2009), and whole runs if there are several, because runs differ from each other for
//! further reasons. An interval spans 95 % of the draws (the percentile method: Efron and Tibshirani, "An Introduction
//! to the Bootstrap", 1993, chapters 8 and 13). That is too narrow for few blocks and runs: it is widened by as much as
//! Student's distribution is wider than the normal one (Hesterberg, "What Teachers Should Know About the Bootstrap",
//! The American Statistician 69, 2015).
//!
//! Does not know where requests come from or how figures are shown. The same input gives the same output.

mod blocks;
mod comparison;
mod counts;
mod dependence;
mod difference;
mod figure;
mod over_time;
mod resample;
mod run;
mod student;
#[cfg(test)]
mod tests;

pub use comparison::{CauseTime, Comparison, Configuration, RunFigures, Setup};
pub use difference::{Difference, Outcome, Shortfall};
pub use figure::{Figure, Figures, Interval, Scale};
pub use over_time::OverTime;
pub use resample::{CONFIDENCE, RESAMPLES};
pub use run::{Part, Run};
