//! What a rule is and what can come of it. Holds none.

use std::sync::Arc;

use model::Known;

use crate::{Inputs, Layer, Recommendation};

/// One rule. All of it but the judgement is text for people, which `--explain` shows.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Its name in outputs: a contract.
    pub name: &'static str,
    /// Where its change is made.
    pub layer: Layer,
    /// When it speaks: evidence and threshold.
    pub condition: &'static str,
    /// Where threshold and advice come from.
    pub source: &'static str,
    /// What a comparison must show if the change helped.
    pub look_at: &'static str,
    /// Applies it.
    pub judge: fn(&Inputs) -> RuleResult,
}

impl Rule {
    /// What it says of some inputs.
    pub fn evaluate(&self, inputs: &Inputs) -> RuleResult {
        (self.judge)(inputs)
    }
}

/// What a rule says of some inputs.
pub type RuleResult = Result<Recommendation, NoAdvice>;

/// Why a rule has nothing to advise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoAdvice {
    /// Its condition does not hold.
    Silent(String),
    /// What it needs is not known.
    NotKnown {
        /// What.
        input: &'static str,
        /// Why not.
        why: Arc<str>,
    },
}

impl NoAdvice {
    /// A condition that does not hold, for this reason.
    pub(crate) fn silent(why: impl Into<String>) -> Self {
        Self::Silent(why.into())
    }
}

/// A value that a rule cannot do without.
pub(crate) fn need<'k, T>(input: &'static str, known: &'k Known<T>) -> Result<&'k T, NoAdvice> {
    known.as_ref().map_err(|why| NoAdvice::NotKnown { input, why: Arc::clone(why) })
}
