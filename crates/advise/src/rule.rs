//! Rules, their advice, and reasons why a rule gives none.

use std::sync::Arc;

pub(crate) use diagnose::causes::spec::CauseSpec;
pub use diagnose::causes::spec::{Combination, Layer, Scope};
use model::Known;

use crate::rules::causes;
use crate::{Cost, Inputs};

/// One rule. Everything except its judgement is text for people, which `--explain` shows.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Its name in outputs: a contract.
    pub name: &'static str,
    /// The layer that its change applies to.
    pub layer: Layer,
    /// When it fires: evidence and threshold.
    pub condition: &'static str,
    /// Source of the threshold and the advice.
    pub source: &'static str,
    /// What a comparison must show if the change helped.
    pub look_at: &'static str,
    /// What to expect, and what not, if no cost was measured.
    pub(crate) effect: &'static str,
    /// Risk of the change.
    pub(crate) risk: &'static str,
    pub(crate) judge: Judge,
}

/// How a rule is applied.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Judge {
    /// By the cost of a cause.
    Cause(&'static CauseSpec),
    /// By inputs.
    Inputs(fn(&Inputs) -> RuleResult),
}

/// Declares rules that judge by inputs: each with its name, the layer that its change applies to and its function; then its
/// texts.
macro_rules! rules {
    ($LIST:ident: $($name:literal in $Layer:ident, $judge:expr => { $($field:ident: $text:expr,)* })+) => {
        pub(super) const $LIST: &[$crate::Rule] = &[$($crate::Rule {
            name: $name,
            layer: $crate::Layer::$Layer,
            judge: $crate::rule::Judge::Inputs($judge),
            $($field: $text,)*
        }),+];
    };
}
pub(crate) use rules;

impl Rule {
    /// Evaluates the rule on some inputs.
    pub fn evaluate(&self, inputs: &Inputs) -> RuleResult {
        let recommendation = match self.judge {
            Judge::Cause(spec) => causes::judge(spec, inputs),
            Judge::Inputs(judge) => judge(inputs),
        }?;
        let effect =
            if recommendation.effect.is_empty() { self.effect.to_owned() } else { recommendation.effect };
        Ok(Recommendation { effect, risk: self.risk, ..recommendation })
    }
}

/// Result of a rule on some inputs.
pub type RuleResult = Result<Recommendation, NoAdvice>;

/// Why a rule has nothing to advise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoAdvice {
    /// Its condition does not hold.
    Silent(String),
    /// An input that it needs is not known.
    NotKnown {
        /// Name of the input.
        input: &'static str,
        /// Why it is not known.
        why: Arc<str>,
    },
}

/// No advice: the condition does not hold, for this reason.
pub(crate) fn silent<T>(why: impl Into<String>) -> Result<T, NoAdvice> {
    Err(NoAdvice::Silent(why.into()))
}

/// No advice: an input is not known, for this reason.
pub(crate) fn not_known<T>(input: &'static str, why: impl Into<Arc<str>>) -> Result<T, NoAdvice> {
    Err(NoAdvice::NotKnown { input, why: why.into() })
}

/// Evidence if a condition holds; otherwise the same words say why the rule is silent.
pub(crate) fn fires(holds: bool, evidence: String) -> Result<String, NoAdvice> {
    if holds { Ok(evidence) } else { silent(evidence) }
}

/// A value that a rule needs.
pub(crate) fn need<'k, T>(input: &'static str, known: &'k Known<T>) -> Result<&'k T, NoAdvice> {
    known.as_ref().or_else(|why| not_known(input, Arc::clone(why)))
}

/// One piece of advice with its evidence.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recommendation {
    /// Observations that the advice rests on.
    pub evidence: String,
    /// What to change, in the order to try.
    pub changes: Vec<Change>,
    /// Measured cost to slow requests: an upper bound on the gain of the change; `None` if not measured.
    pub cost: Option<Cost>,
    /// What to expect, and what not.
    pub effect: String,
    /// Risk of the change.
    pub risk: &'static str,
}

/// Creates a recommendation without a measured cost. The effect and the risk are those that its rule declares.
pub(crate) fn advise(evidence: impl Into<String>, changes: impl Into<Vec<Change>>) -> Recommendation {
    Recommendation { evidence: evidence.into(), changes: changes.into(), ..Recommendation::default() }
}

impl Recommendation {
    /// Sets the expected effect.
    pub(crate) fn with_effect(self, effect: impl Into<String>) -> Self {
        Self { effect: effect.into(), ..self }
    }

    /// Sets the cost, which bounds the gain; `limit` describes further limits.
    pub(crate) fn at(self, cost: Cost, limit: &str) -> Self {
        let effect = if limit.contains("{cost}") {
            limit.replace("{cost}", &cost.time.to_string())
        } else {
            format!("at most the {} that it cost{limit}", cost.time)
        };
        Self { cost: Some(cost), effect, ..self }
    }
}

/// One setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Its name, or the command that changes it.
    pub setting: String,
    /// Current value.
    pub old: String,
    /// Recommended value.
    pub new: String,
    /// The change for programs; `None` if only a person can make the change or choose the value.
    pub target: Option<Target>,
    /// Relation to the changes before it.
    pub combination: Combination,
}

/// A setting that a program can change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Where it is set.
    pub of: Scope,
    /// Its name there.
    pub name: String,
    /// Its new value; empty if the setting is to be removed, or is a flag without a value.
    pub value: String,
}

impl Change {
    /// A setting with its current and its recommended value.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "numbers, names and sentences alike, made for this one call"
    )]
    pub(crate) fn of(setting: impl ToString, old: impl ToString, new: impl ToString) -> Self {
        Self {
            setting: setting.to_string(),
            old: old.to_string(),
            new: new.to_string(),
            target: None,
            combination: Combination::Either,
        }
    }

    /// Adds a target, so that a program can make the change too.
    #[expect(clippy::needless_pass_by_value, reason = "numbers and words alike, made for this one call")]
    pub(crate) fn on(mut self, of: Scope, name: impl ToString, value: impl ToString) -> Self {
        self.target = Some(Target { of, name: name.to_string(), value: value.to_string() });
        self
    }

    /// Adds a target with the name and the value that people see.
    pub(crate) fn by_name(self, of: Scope) -> Self {
        let (name, value) = (self.setting.clone(), self.new.clone());
        self.on(of, name, value)
    }

    /// Marks the change as one to make together with the previous one.
    pub(crate) fn with_the_last(self) -> Self {
        Self { combination: Combination::Together, ..self }
    }

    /// Marks the change as an alternative to those before it.
    pub(crate) fn alternative(self) -> Self {
        Self { combination: Combination::Alternative, ..self }
    }

    /// Whether it helps only together with the change before it.
    pub fn is_together(&self) -> bool {
        self.combination == Combination::Together
    }
}
