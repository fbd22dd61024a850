//! A page's story as Markdown, for an issue or an incident note. Text from outside goes into code spans, which it cannot end.

use std::io::{self, Write};

use model::Nanos;

use super::{Page, RecordingData};
use report::advice::RecommendationData;
use report::markdown::{cell, code};
use report::quantity::format_count;

/// Limits on roots and requests.
const ROOTS: usize = 10;
const REQUESTS: usize = 10;

/// Writes the note.
///
/// # Errors
/// Those of `out`.
pub fn write(out: &mut dyn Write, page: &Page) -> io::Result<()> {
    page.recordings.iter().try_for_each(|recording| note(out, recording))?;
    writeln!(out, "\n_{}_", page.written_by)
}

fn note(out: &mut dyn Write, recording: &RecordingData) -> io::Result<()> {
    let story = &recording.story;
    writeln!(out, "# {}\n\n**{}**\n", code(&recording.about.name), story.headline)?;
    for speed in &story.speeds {
        writeln!(out, "- {speed}")?;
    }
    list(out, "Why", story.why.iter().map(|why| why.text.clone()))?;
    list(out, "What to change", story.change.iter().map(|why| format!("{} ({})", why.text, why.cause)))?;
    advice(out, recording)?;
    roots(out, recording)?;
    requests(out, recording)?;
    let lost = recording.loss_totals.iter().filter(|(_, count)| **count > 0);
    list(out, "Lost", lost.map(|(kind, count)| format!("{} {kind}", format_count(*count))))?;
    let unobservable = recording.unobservable.iter().map(|one| format!("{}: {}", one.what, code(&one.why)));
    list(out, "What could not be observed", unobservable)?;
    list(out, "Input", recording.about.facts.iter().map(|(name, value)| format!("{name}: {}", code(value))))
}

fn list(out: &mut dyn Write, title: &str, items: impl Iterator<Item = String>) -> io::Result<()> {
    let mut items = items.peekable();
    if items.peek().is_some() {
        writeln!(out, "\n## {title}\n")?;
        items.try_for_each(|item| writeln!(out, "- {item}"))?;
    }
    Ok(())
}

/// Writes the advice of rules, by layer and rank.
fn advice(out: &mut dyn Write, recording: &RecordingData) -> io::Result<()> {
    let Some(advice) = recording.advice.as_ref().filter(|advice| !advice.layers.is_empty()) else {
        return Ok(());
    };
    writeln!(out, "\n## Advice")?;
    for layer in &advice.layers {
        writeln!(out, "\n### {}\n", layer.layer)?;
        layer.recommendations.iter().try_for_each(|recommendation| write_one(out, recommendation))?;
    }
    let missing = advice.missing.iter().map(|missing| format!("{}: {}", missing.input, code(&missing.why)));
    let mut missing = missing.peekable();
    if missing.peek().is_some() {
        writeln!(out, "\nUnknown inputs; rules that need them were not evaluated:\n")?;
        missing.try_for_each(|missing| writeln!(out, "- {missing}"))?;
    }
    Ok(())
}

fn write_one(out: &mut dyn Write, one: &RecommendationData) -> io::Result<()> {
    let cost = one.cost_ns.map_or_else(|| "no cost measured".to_owned(), |ns| format!("cost {}", Nanos(ns)));
    writeln!(out, "- **{}. {}** ({cost}): {}", one.rank, one.rule, code(&one.evidence))?;
    for (at, change) in one.changes.iter().enumerate() {
        let word = if at == 0 { "change" } else { change.combination };
        let [setting, old, new] = [&change.setting, &change.old, &change.new].map(|text| code(text));
        writeln!(out, "  - {word} {setting}: {old} → {new}")?;
    }
    writeln!(out, "  - expect {}", code(&one.effect))?;
    writeln!(out, "  - risk: {}", one.risk)?;
    writeln!(out, "  - verify {}", code(&one.verify))
}

fn roots(out: &mut dyn Write, recording: &RecordingData) -> io::Result<()> {
    if recording.slow.by_root.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\n## Root events\n\n| root | event | victims | victims' time | slowest |\n|---|---|--:|--:|--:|"
    )?;
    for root in recording.slow.by_root.iter().take(ROOTS) {
        let (time, slowest) = (Nanos(root.time_ns), Nanos(root.slowest_ns));
        let (victims, text) = (format_count(root.requests), cell(&root.text));
        writeln!(out, "| {} | {text} | {victims} | {time} | {slowest} |", cell(&root.root))?;
    }
    Ok(())
}

fn requests(out: &mut dyn Write, recording: &RecordingData) -> io::Result<()> {
    if recording.requests.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\n## Slowest requests\n\n| request | client | latency | chain to the cause |\n|---|---|--:|---|"
    )?;
    for one in recording.requests.iter().take(REQUESTS) {
        let client = cell(one.client_id.as_deref().unwrap_or(&one.client));
        let (latency, chain) = (Nanos(one.end_ns - one.arrival_ns), one.chain.join(" ← "));
        writeln!(out, "| {} {} | {client} | {latency} | {chain} |", one.api, one.correlation_id)?;
    }
    Ok(())
}
