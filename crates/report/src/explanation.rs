//! Why requests were slow: verdicts, then what they add up to. Does not reach verdicts.

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

/// What all verdicts add up to, and what they were reached from.
#[derive(Clone, Debug, Default)]
pub struct Conclusion {
    /// The engine's totals.
    pub summary: Summary,
    /// From which latency on a request counted as slow.
    pub slower_than: Nanos,
    /// Whether only the requests with one correlation id were looked at: then the totals say nothing of the others.
    pub is_of_one_request: bool,
    /// Whether it was asked what could not be decided.
    pub asks_why_not: bool,
    /// What could not be observed, and why.
    pub unobservable: Vec<Unobservable>,
    /// How far Kafka's own request log agrees, where one was given.
    pub agreement: Option<Agreement>,
    /// How far behind verdicts were, where requests were explained as they came.
    pub lag: Option<Lag>,
    /// What else is to be known about the input: that it is unfinished, that it holds packets only.
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

/// An output of verdicts, one after the other, and of their conclusion.
pub trait ExplanationReport {
    /// Takes one verdict; an output that groups them writes nothing yet.
    fn verdict(&mut self, verdict: Verdict) -> io::Result<()>;

    /// Hands on what was written so far; there is nothing of an output that groups verdicts.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Ends the output.
    fn finish(&mut self, conclusion: &Conclusion) -> io::Result<()>;
}

/// Hands on the verdicts of the slowest requests when the input has ended.
pub struct TopVerdicts<'a> {
    to: Box<dyn ExplanationReport + 'a>,
    slowest: Slowest<Verdict>,
}

impl<'a> TopVerdicts<'a> {
    /// The slowest `max`, to be handed to this output.
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
    /// Half of them sooner.
    pub median: Nanos,
    /// 99 of a hundred sooner.
    pub p99: Nanos,
    /// The last.
    pub longest: Nanos,
}

/// Collects a [`Lag`] of any number of verdicts, in bounded memory.
#[derive(Clone, Debug, Default)]
pub struct Lags(Distribution);

impl Lags {
    /// Counts a verdict that came so long after its request's end.
    pub fn add(&mut self, lag: Nanos) {
        self.0.add_length(lag);
    }

    /// What they come to; none without verdicts.
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
    fn the_longest_is_exact_and_none_is_less_than_nothing() {
        let mut lags = Lags::default();
        assert_eq!(lags.conclude(), None);
        lags.add(Nanos(-5));
        lags.add(Nanos::from_millis(1_400));
        lags.add(Nanos::from_millis(1_900));
        let (median, longest) = (Nanos::from_millis(1_400), Nanos::from_millis(1_900));
        assert_eq!(lags.conclude(), Some(Lag { median, p99: longest, longest }));
    }
}
