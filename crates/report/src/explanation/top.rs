//! The slowest requests' verdicts, slowest first. Does not know how they are shown; the totals are of all.

use std::io;

use model::Verdict;

use super::{Conclusion, ExplanationReport};
use crate::slowest::Slowest;

/// Hands on the verdicts of the slowest requests when the input has ended.
pub struct TopVerdicts<'a> {
    to: Box<dyn ExplanationReport + 'a>,
    slowest: Slowest<Verdict>,
}

impl<'a> TopVerdicts<'a> {
    /// The slowest `most`, to be handed to this output.
    pub fn new(most: usize, to: Box<dyn ExplanationReport + 'a>) -> Self {
        Self { to, slowest: Slowest::new(most) }
    }
}

impl ExplanationReport for TopVerdicts<'_> {
    fn verdict(&mut self, verdict: Verdict) -> io::Result<()> {
        self.slowest.offer(verdict.request.latency().unwrap_or_default(), || verdict);
        Ok(())
    }

    fn finish(&mut self, conclusion: &Conclusion) -> io::Result<()> {
        let slowest = std::mem::replace(&mut self.slowest, Slowest::new(0));
        slowest.into_sorted().try_for_each(|verdict| self.to.verdict(verdict))?;
        self.to.finish(conclusion)
    }
}
