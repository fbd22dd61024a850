//! A comparison as Markdown, for an issue or a change's description. Text from outside stands in code spans, which it
//! cannot end.

use std::io::{self, Write};

use compare::Figure;

use super::{ComparisonReport, figures};
use crate::markdown::{cell, code};
use crate::quantity::format_count;

/// Causes of each configuration.
const CAUSES: usize = 3;

/// Writes all of it.
pub fn write_markdown(out: &mut dyn Write, compared: &ComparisonReport) -> io::Result<()> {
    let comparison = &compared.comparison;
    writeln!(out, "# Did the change help?\n")?;
    writeln!(
        out,
        "{}; the base is {}; a request of {} or longer misses the objective.\n",
        code(&compared.of_what()),
        code(compared.base()),
        comparison.slo
    )?;
    figures(out, compared)?;
    for (at, of) in comparison.configurations.iter().enumerate().skip(1) {
        writeln!(out, "\n## {} against {}\n", code(&of.name), code(compared.base()))?;
        writeln!(out, "| figure | base | here | change | 95 % interval | |\n|---|--:|--:|--:|---|---|")?;
        for of in comparison.differences_of(at) {
            let (base, value) = (figures::value(of.figure, of.base), figures::value(of.figure, of.value));
            let (change, interval) =
                (figures::change(of.figure, of.change), figures::interval(of.figure, of.interval));
            let (title, outcome) = (of.figure.title(), figures::outcome(of));
            writeln!(out, "| {title} | {base} | {value} | {change} | {interval} | {outcome} |")?;
        }
    }
    causes(out, compared)?;
    let mut notes = compared.cautions();
    notes.extend(compared.notes.iter().map(|note| code(note)));
    if !notes.is_empty() {
        writeln!(out)?;
        notes.iter().try_for_each(|note| writeln!(out, "- {note}"))?;
    }
    out.flush()
}

fn figures(out: &mut dyn Write, compared: &ComparisonReport) -> io::Result<()> {
    writeln!(out, "| configuration | runs | requests | a second | p50 | p90 | p99 | p99.9 | max | missed |")?;
    writeln!(out, "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|")?;
    for of in &compared.comparison.configurations {
        write!(out, "| {} | {} | {} |", cell(&of.name), of.runs.len(), format_count(of.requests))?;
        for figure in Figure::ALL.into_iter().filter(|figure| *figure != Figure::BytesPerSecond) {
            write!(out, " {} |", figures::value(figure, of.figures.of(figure)))?;
        }
        writeln!(out)?;
    }
    Ok(())
}

fn causes(out: &mut dyn Write, compared: &ComparisonReport) -> io::Result<()> {
    writeln!(out, "\n## What slow requests waited for\n")?;
    writeln!(out, "| configuration | cause | requests | time | a minute |\n|---|---|--:|--:|--:|")?;
    for of in &compared.comparison.configurations {
        for total in of.causes.iter().take(CAUSES) {
            let (requests, a_minute) =
                (format_count(total.requests), figures::a_minute(total.time, of.seconds));
            writeln!(
                out,
                "| {} | {} | {requests} | {} | {a_minute} |",
                cell(&of.name),
                total.cause.as_str(),
                total.time
            )?;
        }
    }
    Ok(())
}
