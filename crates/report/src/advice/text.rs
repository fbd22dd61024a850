//! Advice for people: layer by layer, each piece with its evidence, the settings, what to expect, the risk and how to verify it; then
//! what thread dumps and samples show.

use std::io::{self, Write};

use advise::{Change, FiredRule};

use super::{AdviceReport, views};
use crate::Style;
use crate::escape::escape;
use crate::paint::{Role, paint};
use crate::quantity::format_count_of;
use crate::wrap::wrap;

/// Where the text behind a label begins.
const TEXT_AT: usize = 14;

/// Writes it.
pub fn write(mut out: impl Write, look: &Style, advised: &AdviceReport) -> io::Result<()> {
    let heading = |text: &str| paint(look.colour, Role::Heading, text);
    writeln!(out, "{}", heading(&escape(&title(advised))))?;
    if advised.advice.given.is_empty() {
        writeln!(out, "\nNothing that is known calls for a change")?;
    }
    for (layer, given) in advised.by_layer() {
        writeln!(out, "\n{}", heading(&capital(layer.as_str())))?;
        for (rank, given) in given {
            one(&mut out, look, advised, rank, given)?;
        }
    }
    views::write_text(&mut out, look, &advised.views)?;
    missing(&mut out, &heading("\nNot known"), advised)?;
    if advised.all {
        silent(&mut out, &heading("\nRules that have nothing to advise"), advised)?;
    }
    out.flush()
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

fn one(
    out: &mut impl Write,
    look: &Style,
    advised: &AdviceReport,
    rank: usize,
    given: &FiredRule,
) -> io::Result<()> {
    let finding = &given.recommendation;
    let cost =
        finding.cost.map_or_else(|| "no cost measured".to_owned(), |cost| format!("cost {}", cost.time));
    let role = if finding.cost.is_some() { Role::Bad } else { Role::Faint };
    writeln!(out, "{rank:>3}. {}  {}", given.rule.name, paint(look.colour, role, &cost))?;
    labelled(out, "because", &finding.evidence)?;
    for (at, change) in finding.changes.iter().enumerate() {
        let label = match at {
            0 => "change",
            _ if change.together => "and",
            _ => "or, and",
        };
        labelled(out, label, &told(change))?;
    }
    labelled(out, "expect", &finding.effect)?;
    labelled(out, "risk", finding.risk)?;
    labelled(out, "verify", &advised.verify(given.rule))
}

pub(super) fn told(change: &Change) -> String {
    format!("{}: {} -> {}", change.setting, change.old, change.new)
}

/// A label, and text that goes on below itself.
pub(super) fn labelled(out: &mut impl Write, label: &str, text: &str) -> io::Result<()> {
    let lines = wrap(&escape(text), TEXT_AT, TEXT_AT);
    writeln!(out, "     {label:<width$}{}", lines.join(&format!("\n{:TEXT_AT$}", "")), width = TEXT_AT - 5)
}

fn missing(out: &mut impl Write, heading: &str, advised: &AdviceReport) -> io::Result<()> {
    if advised.advice.missing.is_empty() {
        return Ok(());
    }
    writeln!(out, "{heading}")?;
    for missing in &advised.advice.missing {
        let rules = missing.rules.len() as u64;
        let who = if advised.all { missing.rules.join(", ") } else { format_count_of(rules, "rule") };
        bullet(out, &format!("{}: {} ({who} cannot tell)", missing.input, missing.why))?;
    }
    Ok(())
}

fn silent(out: &mut impl Write, heading: &str, advised: &AdviceReport) -> io::Result<()> {
    writeln!(out, "{heading}")?;
    for silent in &advised.advice.silent {
        bullet(out, &format!("{}: {}", silent.rule.name, silent.why))?;
    }
    Ok(())
}

fn bullet(out: &mut impl Write, text: &str) -> io::Result<()> {
    writeln!(out, "{}", crate::wrap::bullet(&escape(text), 2))
}
