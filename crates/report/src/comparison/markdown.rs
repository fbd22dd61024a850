//! A comparison as Markdown, for an issue or a pull request. Text from outside goes into code spans, which it cannot
//! end.

use std::io::{self, Write};

use compare::Figure;

use super::{ComparisonReport, figures};
use crate::markdown::{cell, code};
use crate::quantity::format_count;

/// Causes listed per configuration.
const CAUSES: usize = 3;

/// Writes a comparison.
pub fn write_markdown(out: &mut dyn Write, report: &ComparisonReport) -> io::Result<()> {
    let comparison = &report.comparison;
    writeln!(out, "# Did the change help?\n")?;
    writeln!(
        out,
        "{}; the base is {}; a request of {} or longer misses the objective.\n",
        code(&report.describe_requests()),
        code(report.base()),
        comparison.slo
    )?;
    figures(out, report)?;
    for (at, of) in comparison.configurations.iter().enumerate().skip(1) {
        writeln!(out, "\n## {} against {}\n", code(&of.name), code(report.base()))?;
        writeln!(out, "| figure | base | here | change | 95 % interval | |\n|---|--:|--:|--:|---|---|")?;
        for of in comparison.differences_of(at) {
            let (base, value) = (figures::value(of.figure, of.base), figures::value(of.figure, of.value));
            let (change, interval) =
                (figures::change(of.figure, of.change), figures::interval(of.figure, of.interval));
            let (title, outcome) = (of.figure.title(), figures::outcome(of));
            writeln!(out, "| {title} | {base} | {value} | {change} | {interval} | {outcome} |")?;
        }
    }
    causes(out, report)?;
    let mut notes = report.cautions();
    notes.extend(report.notes.iter().map(|note| code(note)));
    if !notes.is_empty() {
        writeln!(out)?;
        notes.iter().try_for_each(|note| writeln!(out, "- {note}"))?;
    }
    out.flush()
}

fn figures(out: &mut dyn Write, report: &ComparisonReport) -> io::Result<()> {
    writeln!(out, "| configuration | runs | requests | a second | p50 | p90 | p99 | p99.9 | max | missed |")?;
    writeln!(out, "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|")?;
    for of in &report.comparison.configurations {
        write!(out, "| {} | {} | {} |", cell(&of.name), of.runs.len(), format_count(of.requests))?;
        for figure in Figure::ALL.into_iter().filter(|figure| *figure != Figure::BytesPerSecond) {
            write!(out, " {} |", figures::value(figure, of.figures.of(figure)))?;
        }
        writeln!(out)?;
    }
    Ok(())
}

fn causes(out: &mut dyn Write, report: &ComparisonReport) -> io::Result<()> {
    writeln!(out, "\n## What slow requests waited for\n")?;
    writeln!(out, "| configuration | cause | requests | time | a minute |\n|---|---|--:|--:|--:|")?;
    for of in &report.comparison.configurations {
        for total in of.causes.iter().take(CAUSES) {
            let (requests, per_minute) =
                (format_count(total.requests), figures::per_minute(total.time, of.seconds));
            writeln!(
                out,
                "| {} | {} | {requests} | {} | {per_minute} |",
                cell(&of.name),
                total.cause.as_str(),
                total.time
            )?;
        }
    }
    Ok(())
}
