//! Why requests were slow: verdicts, then their totals. Does not reach verdicts.

mod chain;
mod finding;
mod groups;
mod rows;
mod story;
mod text;
mod timeline;

use std::io;

use diagnose::Summary;
use diagnose::request_log_check::Agreement;
use model::{Nanos, Verdict};
use serde::Serialize;

use crate::distribution::Distribution;
use crate::slowest::Slowest;

pub use chain::describe_chain;
pub use finding::{describe_finding, nothing_slow};
pub use rows::Verdicts;
pub use text::ExplanationText;
pub use timeline::{RequestText, write_request};

/// Totals of all verdicts, and their basis.
#[derive(Clone, Debug, Default)]
pub struct Conclusion {
    /// The engine's totals.
    pub summary: Summary,
    /// Latency from which a request counted as slow.
    pub slower_than: Nanos,
    /// Whether only the requests with one correlation id were analysed: then the totals do not cover the others.
    pub is_of_one_request: bool,
    /// Whether doubts were requested (`--why-not`).
    pub asks_why_not: bool,
    /// What could not be observed, and why.
    pub unobservable: Vec<Unobservable>,
    /// Agreement with Kafka's own request log, if there was one.
    pub agreement: Option<Agreement>,
    /// Delay of verdicts, if requests were explained as they arrived.
    pub lag: Option<Lag>,
    /// Notes on the input: that it is unfinished, or holds packets only.
    pub notes: Vec<String>,
}

/// Something that no source watched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unobservable {
    /// What could not be observed.
    pub what: String,
    /// Why, and what would change that.
    pub why: String,
}

/// An output of verdicts, one by one, and of their conclusion.
pub trait ExplanationReport {
    /// Adds one verdict; an output that groups verdicts writes nothing yet.
    fn verdict(&mut self, verdict: Verdict) -> io::Result<()>;

    /// Flushes what was written so far; does nothing for an output that groups verdicts.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Ends the output.
    fn finish(&mut self, conclusion: &Conclusion) -> io::Result<()>;
}

/// Passes on the verdicts of the slowest requests when the input ends.
pub struct TopVerdicts<'a> {
    to: Box<dyn ExplanationReport + 'a>,
    slowest: Slowest<Verdict>,
}

impl<'a> TopVerdicts<'a> {
    /// Passes the slowest `max` verdicts to this output.
    pub fn new(max: usize, to: Box<dyn ExplanationReport + 'a>) -> Self {
        Self { to, slowest: Slowest::new(max) }
    }
}

impl ExplanationReport for TopVerdicts<'_> {
    fn verdict(&mut self, verdict: Verdict) -> io::Result<()> {
        self.slowest.offer(verdict.latency(), || verdict);
        Ok(())
    }

    fn finish(&mut self, conclusion: &Conclusion) -> io::Result<()> {
        self.slowest.take().try_for_each(|verdict| self.to.verdict(verdict))?;
        self.to.finish(conclusion)
    }
}

/// The time from a request's end to its verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lag {
    /// Median.
    pub median: Nanos,
    /// 99th percentile.
    pub p99: Nanos,
    /// Maximum.
    pub longest: Nanos,
}

/// Collects a [`Lag`] of any number of verdicts, in bounded memory.
#[derive(Clone, Debug, Default)]
pub struct Lags(Distribution);

impl Lags {
    /// Adds the lag of one verdict.
    pub fn add(&mut self, lag: Nanos) {
        self.0.add_length(lag);
    }

    /// The lag of all verdicts; `None` without verdicts.
    pub fn conclude(&self) -> Option<Lag> {
        let at = |share| self.0.length_at(share);
        Some(Lag { median: at(0.5)?, p99: at(0.99)?, longest: at(1.0)? })
    }
}

#[cfg(test)]
mod tests {
    use model::Nanos;

    use super::{Lag, Lags};

    #[test]
    fn negative_lag_counts_as_zero_and_the_longest_is_exact() {
        let mut lags = Lags::default();
        assert_eq!(lags.conclude(), None);
        lags.add(Nanos(-5));
        lags.add(Nanos::from_millis(1_400));
        lags.add(Nanos::from_millis(1_900));
        let (median, longest) = (Nanos::from_millis(1_400), Nanos::from_millis(1_900));
        assert_eq!(lags.conclude(), Some(Lag { median, p99: longest, longest }));
    }
}
