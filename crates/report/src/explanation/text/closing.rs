//! What to change, and what the verdicts rest on: joins, losses, and what could not be observed.

use std::collections::HashSet;
use std::io::{self, Write};

use diagnose::{JoinStats, Summary};

use super::witness;
use crate::Style;
use crate::escape::escape;
use crate::explanation::group::Advice;
use crate::explanation::{Conclusion, Lag, Unobservable};
use crate::quantity::{format_count, format_count_of};
use crate::wrap::bullet;

/// What the words of the column CONFIDENCE mean.
const CONFIDENCE: &str = "confidence: exact = every link of the chain is joined by a key, and it took half of \
                          the time or more; strong = one link is inferred from the order of events, or others \
                          took more of the time; weak = only the times agree";

/// What to change, once a cause, the costliest first.
pub(super) fn advice<W: Write>(
    out: &mut W,
    style: &Style,
    summary: &Summary,
    advice: &Advice,
) -> io::Result<()> {
    let mut told = HashSet::new();
    for total in &summary.by_cause {
        let sentences = advice.get(&total.cause).into_iter().flatten();
        let new = sentences.filter(|sentence| told.insert(**sentence)).collect::<Vec<_>>();
        if !new.is_empty() {
            writeln!(out, "\n{}", style.heading(&format!("What to change about {}", total.cause)))?;
        }
        for sentence in new {
            writeln!(out, "{}", bullet(sentence, 2))?;
        }
    }
    Ok(())
}

/// How far all of it can be trusted.
pub(super) fn basis<W: Write>(out: &mut W, style: &Style, conclusion: &Conclusion) -> io::Result<()> {
    let summary = &conclusion.summary;
    writeln!(out, "\n{}", style.heading("What this rests on"))?;
    let mut sentences = Vec::new();
    sentences.extend(joins(&summary.joins));
    if summary.slow > 0 {
        sentences.push(CONFIDENCE.to_owned());
    }
    sentences.extend(conclusion.agreement.iter().flat_map(witness::of_all));
    sentences.extend(losses(summary));
    sentences.extend(conclusion.lag.map(lag));
    sentences.extend(conclusion.notes.iter().cloned());
    for sentence in sentences {
        writeln!(out, "{}", bullet(&escape(&sentence), 2))?;
    }
    if conclusion.unobservable.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{}", style.heading("What could not be observed, and why"))?;
    for Unobservable { what, why } in &conclusion.unobservable {
        writeln!(out, "{}", bullet(&escape(&format!("{what}: {why}")), 2))?;
    }
    Ok(())
}

fn lag(lag: Lag) -> String {
    format!(
        "verdicts were told {} after their requests had ended (median), 99 in a hundred within {}, the last after {}",
        lag.median, lag.p99, lag.longest
    )
}

/// From packets alone there is nothing to join with.
fn joins(joins: &JoinStats) -> Option<String> {
    let found = joins.by_crc + joins.by_base_offset;
    let all = found + joins.unjoined;
    let mut ways = vec![format!("{} by batch CRC", format_count(joins.by_crc))];
    if joins.by_base_offset > 0 {
        ways.push(format!("{} by base offset", format_count(joins.by_base_offset)));
    }
    if joins.unjoined > 0 {
        ways.push(format!("{} not found", format_count(joins.unjoined)));
    }
    if joins.not_written > 0 {
        ways.push(format!("{} more were refused or empty", format_count(joins.not_written)));
    }
    (found > 0).then(|| {
        format!(
            "{} of {} found their write: {}",
            format_count(found),
            format_count_of(all, "produce partition"),
            ways.join(", ")
        )
    })
}

fn losses(summary: &Summary) -> Vec<String> {
    let lost = summary.losses.iter().filter(|(_, count)| *count > 0);
    let lost = lost
        .map(|(kind, count)| format!("lost: {} {}", format_count(*count), kind.as_str()))
        .collect::<Vec<_>>();
    if lost.is_empty() { vec!["nothing was lost".to_owned()] } else { lost }
}
