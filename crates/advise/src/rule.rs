//! What a rule is, what it advises, and why it may not.

use std::sync::Arc;

pub(crate) use diagnose::causes::spec::CauseSpec;
pub use diagnose::causes::spec::{Combination, Layer, Scope};
use model::Known;

use crate::rules::causes;
use crate::{Cost, Inputs};

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
    /// What is to be expected, and what is not, where no cost was measured.
    pub(crate) effect: &'static str,
    /// What the change may cost.
    pub(crate) risk: &'static str,
    pub(crate) judge: Judge,
}

/// How a rule is applied.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Judge {
    /// By what a cause cost.
    Cause(&'static CauseSpec),
    /// By inputs.
    Inputs(fn(&Inputs) -> RuleResult),
}

/// Declares rules that judge by inputs: each with its name, the layer where its change is made and its function; then its texts.
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
    /// What it says of some inputs.
    pub fn evaluate(&self, inputs: &Inputs) -> RuleResult {
        let found = match self.judge {
            Judge::Cause(spec) => causes::judge(spec, inputs),
            Judge::Inputs(judge) => judge(inputs),
        }?;
        let effect = if found.effect.is_empty() { self.effect.to_owned() } else { found.effect };
        Ok(Recommendation { effect, risk: self.risk, ..found })
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

/// Nothing to advise: a condition does not hold, for this reason.
pub(crate) fn silent<T>(why: impl Into<String>) -> Result<T, NoAdvice> {
    Err(NoAdvice::Silent(why.into()))
}

/// Nothing to advise: an input is not known, for this reason.
pub(crate) fn not_known<T>(input: &'static str, why: impl Into<Arc<str>>) -> Result<T, NoAdvice> {
    Err(NoAdvice::NotKnown { input, why: why.into() })
}

/// Evidence where a condition holds; else the same words say why the rule is silent.
pub(crate) fn fires(holds: bool, evidence: String) -> Result<String, NoAdvice> {
    if holds { Ok(evidence) } else { silent(evidence) }
}

/// A value that a rule cannot do without.
pub(crate) fn need<'k, T>(input: &'static str, known: &'k Known<T>) -> Result<&'k T, NoAdvice> {
    known.as_ref().or_else(|why| not_known(input, Arc::clone(why)))
}

/// One piece of advice with its evidence.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recommendation {
    /// What was seen that the advice rests on.
    pub evidence: String,
    /// What to change, the first of several ways being the one to try first.
    pub changes: Vec<Change>,
    /// What it cost slow requests here, where that was measured: an upper bound of what the change can give back.
    pub cost: Option<Cost>,
    /// What is to be expected, and what is not.
    pub effect: String,
    /// What it may cost.
    pub risk: &'static str,
}

/// A recommendation of which no cost was measured, with the effect and the risk that its rule declares.
pub(crate) fn advise(evidence: impl Into<String>, changes: impl Into<Vec<Change>>) -> Recommendation {
    Recommendation { evidence: evidence.into(), changes: changes.into(), ..Recommendation::default() }
}

impl Recommendation {
    /// The same with what is to be expected.
    pub(crate) fn with_effect(self, effect: impl Into<String>) -> Self {
        Self { effect: effect.into(), ..self }
    }

    /// The same with a gain of at most what it cost; `limit` says what limits that further.
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
    /// What it is now.
    pub old: String,
    /// What it should be.
    pub new: String,
    /// The same for programs; none where only a person can make the change, or choose the value.
    pub target: Option<Target>,
    /// How it goes with the changes before it.
    pub combination: Combination,
}

/// A setting as a program changes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Where it is set.
    pub of: Scope,
    /// Its name there.
    pub name: String,
    /// Its new value; empty where it is to be left out, and of a flag that has none.
    pub value: String,
}

impl Change {
    /// A setting, what it is and what it should be.
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

    /// The same, which a program can make too.
    #[expect(clippy::needless_pass_by_value, reason = "numbers and words alike, made for this one call")]
    pub(crate) fn on(mut self, of: Scope, name: impl ToString, value: impl ToString) -> Self {
        self.target = Some(Target { of, name: name.to_string(), value: value.to_string() });
        self
    }

    /// The same, made by a program with the name and the value that people are shown.
    pub(crate) fn by_name(self, of: Scope) -> Self {
        let (name, value) = (self.setting.clone(), self.new.clone());
        self.on(of, name, value)
    }

    /// The same, to be made with the one before it.
    pub(crate) fn with_the_last(self) -> Self {
        Self { combination: Combination::Together, ..self }
    }

    /// The same, to be made instead of those before it.
    pub(crate) fn alternative(self) -> Self {
        Self { combination: Combination::Alternative, ..self }
    }

    /// Whether it helps only together with the change before it.
    pub fn is_together(&self) -> bool {
        self.combination == Combination::Together
    }
}
