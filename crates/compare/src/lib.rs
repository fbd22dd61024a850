//! Did the change help? Runs of a broker under several configurations, their figures, and which differences are more than
//! chance: pure functions over requests and verdicts.
//!
//! A [`Run`] takes the requests of one recording and keeps counts by block of time, in bounded memory. [`Comparison::of`]
//! puts runs together: several of one configuration are its repetitions.
//!
//! Requests that are near in time are alike: one commit of a journal makes dozens of them slow. Treated as independent
//! they would make any two runs differ. So the bootstrap draws blocks of time, with replacement and as long as they depend
//! on each other (circular blocks: Politis and Romano 1992; their length: Politis and White 2004, corrected by Patton,
//! Politis and White 2009), and whole runs where there are several, since runs differ from each other for reasons of their
//! own. What 95 % of the draws are within is an interval (the percentile method: Efron and Tibshirani, "An Introduction to
//! the Bootstrap", 1993, chapters 8 and 13), which is too narrow for few blocks and runs: it is widened as Student's
//! distribution is wider than the normal one (Hesterberg, "What Teachers Should Know About the Bootstrap", The American
//! Statistician 69, 2015).
//!
//! Knows nothing of where requests come from or how figures are shown. The same input gives the same output.

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
