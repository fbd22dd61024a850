//! Advice as data, the same fields for programs and for the page.

use advise::{Change, FiredRule, Target};
use serde::Serialize;

use super::AdviceReport;

/// One rule's advice.
#[derive(Clone, Debug, Serialize)]
pub struct RecommendationData {
    /// Its place by measured cost, from 1.
    pub rank: usize,
    /// The rule's name.
    pub rule: &'static str,
    /// Where its change is made.
    pub layer: &'static str,
    /// What it cost slow requests; none where that was not measured.
    pub cost_ns: Option<i64>,
    /// How many of them.
    pub cost_requests: Option<u64>,
    /// What was seen.
    pub evidence: String,
    /// Settings, the first to be tried first.
    pub changes: Vec<ChangeData>,
    /// What to expect.
    pub effect: String,
    /// What it may cost.
    pub risk: &'static str,
    /// The command that shows whether it helped, and what to look at.
    pub verify: String,
    /// When the rule speaks.
    pub condition: &'static str,
    /// Where that and the advice come from.
    pub source: &'static str,
}

/// One setting.
#[derive(Clone, Debug, Serialize)]
pub struct ChangeData {
    /// Its name.
    pub setting: String,
    /// What it is.
    pub old: String,
    /// What it should be.
    pub new: String,
    /// The same for programs; none where only a person can make the change.
    pub target: Option<TargetData>,
    /// Whether it helps only together with the change before it.
    pub together: bool,
    /// How it goes with the changes before it: `and/or` (it helps alone, too), `and` (only together), `or` (it excludes them).
    pub combination: &'static str,
}

/// A setting as a program changes it.
#[derive(Clone, Debug, Serialize)]
pub struct TargetData {
    /// Where it is set.
    pub of: &'static str,
    /// Its name there.
    pub name: String,
    /// Its new value.
    pub value: String,
}

/// Advice as a page shows it.
#[derive(Clone, Debug, Serialize)]
pub struct AdviceData {
    /// How long was watched; none where nothing of requests is known.
    pub window_ns: Option<i64>,
    /// Slow requests in that time.
    pub slow_requests: Option<u64>,
    /// What they took.
    pub slow_ns: Option<i64>,
    /// By layer, that with the dearest first.
    pub layers: Vec<LayerData>,
    /// What is not known.
    pub missing: Vec<UnknownInputData>,
    /// Rules that have nothing to advise.
    pub silent: Vec<QuietRuleData>,
}

/// Advice on one layer.
#[derive(Clone, Debug, Serialize)]
pub struct LayerData {
    /// Its name.
    pub layer: &'static str,
    /// Its advice, by rank.
    pub given: Vec<RecommendationData>,
}

/// An input that is not known.
#[derive(Clone, Debug, Serialize)]
pub struct UnknownInputData {
    /// What.
    pub input: &'static str,
    /// Why not.
    pub why: String,
    /// The rules that need it.
    pub rules: Vec<&'static str>,
}

/// A rule that does not fire.
#[derive(Clone, Debug, Serialize)]
pub struct QuietRuleData {
    /// The rule.
    pub rule: &'static str,
    /// Its layer.
    pub layer: &'static str,
    /// Why not.
    pub why: String,
}

impl RecommendationData {
    pub(super) fn of(advised: &AdviceReport, rank: usize, given: &FiredRule) -> Self {
        let (rule, finding) = (given.rule, &given.recommendation);
        Self {
            rank,
            rule: rule.name,
            layer: rule.layer.as_str(),
            cost_ns: finding.cost.map(|cost| cost.time.0),
            cost_requests: finding.cost.map(|cost| cost.requests),
            evidence: finding.evidence.clone(),
            changes: finding.changes.iter().map(ChangeData::of).collect(),
            effect: finding.effect.clone(),
            risk: finding.risk,
            verify: advised.verify(rule),
            condition: rule.condition,
            source: rule.source,
        }
    }
}

impl ChangeData {
    fn of(change: &Change) -> Self {
        let Change { setting, old, new, target, .. } = change.clone();
        let target = target.map(|Target { of, name, value }| TargetData { of: of.as_str(), name, value });
        let (together, combination) = (change.is_together(), change.combination.as_str());
        Self { setting, old, new, target, together, combination }
    }
}

impl AdviceData {
    /// All of it.
    pub fn of(advised: &AdviceReport) -> Self {
        let watched = advised.watched.as_ref();
        let advice = &advised.advice;
        Self {
            window_ns: watched.map(|(window, _)| window.0),
            slow_requests: watched.map(|(_, slow)| slow.requests),
            slow_ns: watched.map(|(_, slow)| slow.time.0),
            layers: advised.by_layer().into_iter().map(|layer| LayerData::of(advised, layer)).collect(),
            missing: advice.missing.iter().map(UnknownInputData::of).collect(),
            silent: advice.silent.iter().map(QuietRuleData::of).collect(),
        }
    }
}

impl LayerData {
    fn of(advised: &AdviceReport, (layer, given): (advise::Layer, Vec<(usize, &FiredRule)>)) -> Self {
        let given = given.into_iter().map(|(rank, given)| RecommendationData::of(advised, rank, given));
        Self { layer: layer.as_str(), given: given.collect() }
    }
}

impl UnknownInputData {
    pub(super) fn of(missing: &advise::MissingInput) -> Self {
        Self { input: missing.input, why: missing.why.to_string(), rules: missing.rules.clone() }
    }
}

impl QuietRuleData {
    pub(super) fn of(silent: &advise::SilentRule) -> Self {
        Self { rule: silent.rule.name, layer: silent.rule.layer.as_str(), why: silent.why.clone() }
    }
}
