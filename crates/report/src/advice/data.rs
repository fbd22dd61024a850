//! Advice as data, the same fields for programs and for the page.

use advise::{Change, FiredRule, Target};
use serde::Serialize;

use super::AdviceReport;

/// One rule's advice.
#[derive(Clone, Debug, Serialize)]
pub struct RecommendationData {
    /// Rank by measured cost, from 1.
    pub rank: usize,
    /// The rule's name.
    pub rule: &'static str,
    /// The layer that its change applies to.
    pub layer: &'static str,
    /// Time it cost slow requests; `None` if not measured.
    pub cost_ns: Option<i64>,
    /// Number of these requests; `None` if not measured.
    pub cost_requests: Option<u64>,
    /// Observed evidence.
    pub evidence: String,
    /// Settings to change, in the order to try them.
    pub changes: Vec<ChangeData>,
    /// Expected effect.
    pub effect: String,
    /// Risk of the change.
    pub risk: &'static str,
    /// The command that shows whether it helped, and what to look at in its output.
    pub verify: String,
    /// Condition under which the rule fires.
    pub condition: &'static str,
    /// Source of the condition and the advice.
    pub source: &'static str,
}

/// One setting.
#[derive(Clone, Debug, Serialize)]
pub struct ChangeData {
    /// Its name.
    pub setting: String,
    /// Current value.
    pub old: String,
    /// Recommended value.
    pub new: String,
    /// The change for programs; `None` if only a person can make it.
    pub target: Option<TargetData>,
    /// Whether it helps only together with the change before it.
    pub together: bool,
    /// Relation to the changes before it: `and/or` (also helps alone), `and` (helps only together), `or` (excludes them).
    pub combination: &'static str,
}

/// A setting that a program can change.
#[derive(Clone, Debug, Serialize)]
pub struct TargetData {
    /// Where it is set.
    pub of: &'static str,
    /// Its name there.
    pub name: String,
    /// Its new value.
    pub value: String,
}

/// Advice for the page.
#[derive(Clone, Debug, Serialize)]
pub struct AdviceData {
    /// Length of the watch; `None` if no requests were observed.
    pub window_ns: Option<i64>,
    /// Slow requests in that time.
    pub slow_requests: Option<u64>,
    /// Their total latency.
    pub slow_ns: Option<i64>,
    /// Advice by layer, the layer with the costliest finding first.
    pub layers: Vec<LayerData>,
    /// Unknown inputs.
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
    pub recommendations: Vec<RecommendationData>,
}

/// An input that is not known.
#[derive(Clone, Debug, Serialize)]
pub struct UnknownInputData {
    /// Name of the input.
    pub input: &'static str,
    /// Why it is not known.
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
    /// Why it does not fire.
    pub why: String,
}

impl RecommendationData {
    pub(super) fn of(report: &AdviceReport, rank: usize, fired: &FiredRule) -> Self {
        let (rule, finding) = (fired.rule, &fired.recommendation);
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
            verify: report.verify(rule),
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
    /// Converts a report.
    pub fn of(report: &AdviceReport) -> Self {
        let watched = report.watched.as_ref();
        let advice = &report.advice;
        Self {
            window_ns: watched.map(|(window, _)| window.0),
            slow_requests: watched.map(|(_, slow)| slow.requests),
            slow_ns: watched.map(|(_, slow)| slow.time.0),
            layers: report.by_layer().into_iter().map(|layer| LayerData::of(report, layer)).collect(),
            missing: advice.missing.iter().map(UnknownInputData::of).collect(),
            silent: advice.silent.iter().map(QuietRuleData::of).collect(),
        }
    }
}

impl LayerData {
    fn of(report: &AdviceReport, (layer, fired): (advise::Layer, Vec<(usize, &FiredRule)>)) -> Self {
        let recommendations =
            fired.into_iter().map(|(rank, fired)| RecommendationData::of(report, rank, fired));
        Self { layer: layer.as_str(), recommendations: recommendations.collect() }
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
