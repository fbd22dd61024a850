//! What to change about a broker: what rules advise, ranked by what it cost and grouped by layer; what they do not know; and the
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

/// Advice on one broker, with what there is to say beside it.
#[derive(Clone, Debug)]
pub struct AdviceReport {
    /// What it is about, for people (`recording samples/journal-stall`).
    pub subject: String,
    /// For how long requests were watched, and what the slow ones took; none where they were not.
    pub watched: Option<(Nanos, Cost)>,
    /// Which requests were slow.
    pub slower_than: Nanos,
    /// What rules say.
    pub advice: Advice,
    /// What there is to look at beside it.
    pub views: Views,
    /// The command that shows whether a change helped.
    pub comparison: String,
    /// Whether to show rules that did not fire too.
    pub all: bool,
    /// What else is to be known.
    pub notes: Vec<String>,
}

impl AdviceReport {
    /// Advice by layer with its rank, from 1: the layer with the dearest first.
    fn by_layer(&self) -> Vec<(Layer, Vec<(usize, &advise::FiredRule)>)> {
        let mut layers: Vec<(Layer, Vec<(usize, &advise::FiredRule)>)> = Vec::new();
        for (at, given) in self.advice.given.iter().enumerate() {
            let layer = given.rule.layer;
            match layers.iter_mut().find(|(of, _)| *of == layer) {
                Some((_, all)) => all.push((at + 1, given)),
                None => layers.push((layer, vec![(at + 1, given)])),
            }
        }
        layers
    }

    /// The command that shows whether this rule's change helped, and what to look at.
    fn verify(&self, rule: &Rule) -> String {
        format!("{} (look at {})", self.comparison, rule.look_at)
    }
}

/// Where the text behind a label begins.
const TEXT_AT: usize = 14;

/// Writes it for people.
pub fn write_text(out: impl Write, look: &Style, advised: &AdviceReport) -> io::Result<()> {
    let mut text = TextWriter::new(out, look);
    writeln!(text.out, "{}", look.heading(&escape(&title(advised))))?;
    if advised.advice.given.is_empty() {
        writeln!(text.out, "\nNo rule advises a change")?;
    }
    for (layer, given) in advised.by_layer() {
        text.heading(&capital(layer.as_str()))?;
        given.into_iter().try_for_each(|(rank, given)| one(&mut text, advised, rank, given))?;
    }
    views::write_text(&mut text, &advised.views)?;
    if !advised.advice.missing.is_empty() {
        text.heading("Unknown inputs")?;
    }
    for missing in &advised.advice.missing {
        let rules = missing.rules.len() as u64;
        let who = if advised.all { missing.rules.join(", ") } else { format_count_of(rules, "rule") };
        text.bullet(&format!("{}: {} (not evaluated: {who})", missing.input, missing.why))?;
    }
    if advised.all {
        text.heading("Rules that have nothing to advise")?;
        for silent in &advised.advice.silent {
            text.bullet(&format!("{}: {}", silent.rule.name, silent.why))?;
        }
    }
    text.out.flush()
}

fn title(advised: &AdviceReport) -> String {
    let watched = match &advised.watched {
        Some((window, slow)) => {
            let requests = format_count_of(slow.requests, "request");
            format!("{window} watched, {requests} of {} or longer took {}", advised.slower_than, slow.time)
        }
        None => "no requests were watched, so no cost is known".to_owned(),
    };
    format!("What to change: {} ({watched})", advised.subject)
}

fn capital(name: &str) -> String {
    let mut letters = name.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn one<W: Write>(
    text: &mut TextWriter<W>,
    advised: &AdviceReport,
    rank: usize,
    given: &FiredRule,
) -> io::Result<()> {
    let finding = &given.recommendation;
    let (cost, role) = match finding.cost {
        Some(cost) => (format!("cost {}", cost.time), Role::Bad),
        None => ("no cost measured".to_owned(), Role::Faint),
    };
    writeln!(text.out, "{rank:>3}. {}  {}", given.rule.name, paint(text.style.colour, role, &cost))?;
    labelled(text, "because", &finding.evidence)?;
    for (at, change) in finding.changes.iter().enumerate() {
        let label = if at == 0 { "change" } else { change.combination.as_str() };
        labelled(text, label, &describe_change(change))?;
    }
    labelled(text, "expect", &finding.effect)?;
    labelled(text, "risk", finding.risk)?;
    labelled(text, "verify", &advised.verify(given.rule))
}

fn describe_change(change: &Change) -> String {
    format!("{}: {} -> {}", change.setting, change.old, change.new)
}

/// A label, and text that goes on below itself.
fn labelled<W: Write>(text: &mut TextWriter<W>, label: &str, of: &str) -> io::Result<()> {
    let before = format!("     {label:<width$}", width = TEXT_AT - 5);
    text.wrapped(&before, (TEXT_AT, TEXT_AT), of, None)
}

/// Writes the reasoning of one rule: its condition, its source and, where it was evaluated, its result.
pub fn explain_rule(
    out: impl Write,
    look: &Style,
    rule: &Rule,
    judged: Option<&RuleResult>,
) -> io::Result<()> {
    let text = &mut TextWriter::new(out, look);
    writeln!(text.out, "{}", look.heading(&format!("{} ({})", rule.name, rule.layer)))?;
    labelled(text, "when", rule.condition)?;
    labelled(text, "source", rule.source)?;
    labelled(text, "look at", rule.look_at)?;
    match judged {
        Some(Ok(finding)) => {
            labelled(text, "here", &finding.evidence)?;
            for change in &finding.changes {
                labelled(text, "change", &describe_change(change))?;
            }
            labelled(text, "expect", &finding.effect)?;
            labelled(text, "risk", finding.risk)?;
        }
        Some(Err(NoAdvice::Silent(why))) => labelled(text, "here", &format!("nothing to advise: {why}"))?,
        Some(Err(NoAdvice::NotKnown { input, why })) => {
            labelled(text, "here", &format!("not evaluated: {input} is not known: {why}"))?;
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
        given: usize,
        silent: usize,
        not_decided: usize,
        notes: &'a [String],
    },
}

/// Writes it as JSON, one object a line: `advice` by rank, `blocked`, `function` and `work` of what thread dumps and
/// samples show, `missing`, with all `silent`, and a `summary`.
pub fn write_json(mut out: impl Write, report: &AdviceReport) -> io::Result<()> {
    let advice = &report.advice;
    for (rank, fired) in (1..).zip(&advice.given) {
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
        given: advice.given.len(),
        silent: advice.silent.len(),
        not_decided: advice.missing.iter().map(|missing| missing.rules.len()).sum(),
        notes: &report.notes,
    };
    json::write_line(&mut out, &summary)?;
    out.flush()
}
