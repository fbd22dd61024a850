//! What to change about a broker: the advice of rules, ranked by cost and grouped by layer; unknown inputs; and the
//! reasoning of one rule. Does not evaluate rules.

mod data;
mod views;

use std::io::{self, Write};

use advise::{Advice, Change, Cost, FiredRule, Layer, NoAdvice, Rule, RuleResult};
use model::Nanos;
use serde::Serialize;

use crate::escape::escape;
use crate::paint::{Role, paint};
use crate::quantity::format_count_of;
use crate::text_writer::TextWriter;
use crate::{Style, json};

pub use data::{
    AdviceData, ChangeData, LayerData, QuietRuleData, RecommendationData, TargetData, UnknownInputData,
};
pub use views::Views;

/// Advice on one broker, with its context.
#[derive(Clone, Debug)]
pub struct AdviceReport {
    /// The examined input, for people (`recording samples/journal-stall`).
    pub subject: String,
    /// How long requests were watched, and the cost of the slow ones; `None` if they were not watched.
    pub watched: Option<(Nanos, Cost)>,
    /// Latency from which a request counts as slow.
    pub slower_than: Nanos,
    /// Results of the rules.
    pub advice: Advice,
    /// Views shown in addition to the advice.
    pub views: Views,
    /// The command that shows whether a change helped.
    pub comparison: String,
    /// Whether to show rules that did not fire too.
    pub all: bool,
    /// Further notes.
    pub notes: Vec<String>,
}

impl AdviceReport {
    /// Advice by layer with its rank, from 1: the layer with the costliest finding first.
    fn by_layer(&self) -> Vec<(Layer, Vec<(usize, &advise::FiredRule)>)> {
        let mut layers: Vec<(Layer, Vec<(usize, &advise::FiredRule)>)> = Vec::new();
        for (at, fired) in self.advice.fired.iter().enumerate() {
            let layer = fired.rule.layer;
            match layers.iter_mut().find(|(of, _)| *of == layer) {
                Some((_, all)) => all.push((at + 1, fired)),
                None => layers.push((layer, vec![(at + 1, fired)])),
            }
        }
        layers
    }

    /// The command that shows whether this rule's change helped. Also what to look at in its output.
    fn verify(&self, rule: &Rule) -> String {
        format!("{} (look at {})", self.comparison, rule.look_at)
    }
}

/// Column at which the text after a label starts.
const TEXT_AT: usize = 14;

/// Writes a report for people.
pub fn write_text(out: impl Write, style: &Style, report: &AdviceReport) -> io::Result<()> {
    let mut text = TextWriter::new(out, style);
    writeln!(text.out, "{}", style.heading(&escape(&title(report))))?;
    if report.advice.fired.is_empty() {
        writeln!(text.out, "\nNo rule advises a change")?;
    }
    for (layer, fired) in report.by_layer() {
        text.heading(&capital(layer.as_str()))?;
        fired.into_iter().try_for_each(|(rank, fired)| write_one(&mut text, report, rank, fired))?;
    }
    views::write_text(&mut text, &report.views)?;
    if !report.advice.missing.is_empty() {
        text.heading("Unknown inputs")?;
    }
    for missing in &report.advice.missing {
        let rules = missing.rules.len() as u64;
        let who = if report.all { missing.rules.join(", ") } else { format_count_of(rules, "rule") };
        text.bullet(&format!("{}: {} (not evaluated: {who})", missing.input, missing.why))?;
    }
    if report.all {
        text.heading("Rules that have nothing to advise")?;
        for silent in &report.advice.silent {
            text.bullet(&format!("{}: {}", silent.rule.name, silent.why))?;
        }
    }
    text.out.flush()
}

fn title(report: &AdviceReport) -> String {
    let watched = match &report.watched {
        Some((window, slow)) => {
            let requests = format_count_of(slow.requests, "request");
            format!("{window} watched, {requests} of {} or longer took {}", report.slower_than, slow.time)
        }
        None => "no requests were watched, so no cost is known".to_owned(),
    };
    format!("What to change: {} ({watched})", report.subject)
}

fn capital(name: &str) -> String {
    let mut letters = name.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn write_one<W: Write>(
    text: &mut TextWriter<W>,
    report: &AdviceReport,
    rank: usize,
    fired: &FiredRule,
) -> io::Result<()> {
    let finding = &fired.recommendation;
    let (cost, role) = match finding.cost {
        Some(cost) => (format!("cost {}", cost.time), Role::Bad),
        None => ("no cost measured".to_owned(), Role::Faint),
    };
    writeln!(text.out, "{rank:>3}. {}  {}", fired.rule.name, paint(text.style.colour, role, &cost))?;
    write_labelled(text, "because", &finding.evidence)?;
    for (at, change) in finding.changes.iter().enumerate() {
        let label = if at == 0 { "change" } else { change.combination.as_str() };
        write_labelled(text, label, &describe_change(change))?;
    }
    write_labelled(text, "expect", &finding.effect)?;
    write_labelled(text, "risk", finding.risk)?;
    write_labelled(text, "verify", &report.verify(fired.rule))
}

fn describe_change(change: &Change) -> String {
    format!("{}: {} -> {}", change.setting, change.old, change.new)
}

/// Writes a label and its text, wrapped with a hanging indent.
fn write_labelled<W: Write>(text: &mut TextWriter<W>, label: &str, of: &str) -> io::Result<()> {
    let before = format!("     {label:<width$}", width = TEXT_AT - 5);
    text.wrap(&before, (TEXT_AT, TEXT_AT), of, None)
}

/// Writes the reasoning of one rule: its condition, its source and, if it was evaluated, its result.
pub fn explain_rule(
    out: impl Write,
    style: &Style,
    rule: &Rule,
    result: Option<&RuleResult>,
) -> io::Result<()> {
    let text = &mut TextWriter::new(out, style);
    writeln!(text.out, "{}", style.heading(&format!("{} ({})", rule.name, rule.layer)))?;
    write_labelled(text, "when", rule.condition)?;
    write_labelled(text, "source", rule.source)?;
    write_labelled(text, "look at", rule.look_at)?;
    match result {
        Some(Ok(finding)) => {
            write_labelled(text, "here", &finding.evidence)?;
            for change in &finding.changes {
                write_labelled(text, "change", &describe_change(change))?;
            }
            write_labelled(text, "expect", &finding.effect)?;
            write_labelled(text, "risk", finding.risk)?;
        }
        Some(Err(NoAdvice::Silent(why))) => {
            write_labelled(text, "here", &format!("nothing to advise: {why}"))?;
        }
        Some(Err(NoAdvice::NotKnown { input, why })) => {
            write_labelled(text, "here", &format!("not evaluated: {input} is not known: {why}"))?;
        }
        None => {}
    }
    text.out.flush()
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
enum Line<'a> {
    Advice(RecommendationData),
    Missing(UnknownInputData),
    Silent(QuietRuleData),
    Summary {
        subject: &'a str,
        window_ns: Option<i64>,
        slower_than_ns: i64,
        slow_requests: Option<u64>,
        slow_ns: Option<i64>,
        recommendations: usize,
        silent: usize,
        not_decided: usize,
        notes: &'a [String],
    },
}

/// Writes a report as JSON, one object per line.
/// `advice` by rank; `blocked`, `function` and `work` from thread dumps and samples; `missing`; `silent` if all rules
/// are requested; and a `summary`.
pub fn write_json(mut out: impl Write, report: &AdviceReport) -> io::Result<()> {
    let advice = &report.advice;
    for (rank, fired) in (1..).zip(&advice.fired) {
        json::write_line(&mut out, &Line::Advice(RecommendationData::of(report, rank, fired)))?;
    }
    views::write_json(&mut out, &report.views)?;
    for missing in &advice.missing {
        json::write_line(&mut out, &Line::Missing(UnknownInputData::of(missing)))?;
    }
    for silent in advice.silent.iter().filter(|_| report.all) {
        json::write_line(&mut out, &Line::Silent(QuietRuleData::of(silent)))?;
    }
    let watched = report.watched.as_ref();
    let summary = Line::Summary {
        subject: &report.subject,
        window_ns: watched.map(|(window, _)| window.0),
        slower_than_ns: report.slower_than.0,
        slow_requests: watched.map(|(_, slow)| slow.requests),
        slow_ns: watched.map(|(_, slow)| slow.time.0),
        recommendations: advice.fired.len(),
        silent: advice.silent.len(),
        not_decided: advice.missing.iter().map(|missing| missing.rules.len()).sum(),
        notes: &report.notes,
    };
    json::write_line(&mut out, &summary)?;
    out.flush()
}
