//! One root: its heading, and what was seen of the event itself, told once for all requests it slowed.

use std::io::{self, Write};

use diagnose::RootTotal;
use model::{Cause, Evidence, Nanos};

use super::story::{Line, print};
use crate::Style;
use crate::escape::escape;
use crate::explanation::group::Group;
use crate::quantity::format_count_of;

/// Columns before what was seen of a root.
const INDENT: usize = 2;

/// The number, the root, and how much it did.
pub(super) fn heading<W: Write>(
    out: &mut W,
    style: &Style,
    number: usize,
    total: &RootTotal,
    group: &Group,
    in_full: bool,
) -> io::Result<()> {
    let when = match began(group) {
        Some(at) if !in_full => format!(", from {}", style.zone.time_of_day(at)),
        _ => String::new(),
    };
    let heading = format!(
        "{number}. {} → {}, {}{when}",
        escape(&name(total)),
        format_count_of(total.requests, "request"),
        total.time
    );
    // Only what is told in full stands out.
    if in_full { writeln!(out, "{}", style.heading(&heading)) } else { writeln!(out, "{heading}") }
}

fn name(total: &RootTotal) -> String {
    match total.cause {
        Cause::Unobserved => "unobserved: nothing that was seen explains most of their time".to_owned(),
        _ if total.text.is_empty() => total.root.to_string(),
        _ => total.text.clone(),
    }
}

fn began(group: &Group) -> Option<Nanos> {
    group.root.values().map(|seen| seen.start).min().or(group.first)
}

/// The commit, the device's part in it, and the longest of the writes that it held.
pub(super) fn evidence<W: Write>(
    out: &mut W,
    style: &Style,
    total: &RootTotal,
    group: &Group,
) -> io::Result<()> {
    for seen in group.root.values() {
        // The heading has said what it was.
        let text = if seen.text == total.text {
            format!("it began; it ended at {}", style.zone.time_of_day(seen.end))
        } else {
            seen.text.clone()
        };
        print(out, style, INDENT, &Line::of(seen, &text))?;
    }
    let longest = group.writes.values().max_by_key(|parts| parts.first().map(length));
    if let Some(line) = longest.and_then(|parts| Line::of_write(parts)) {
        print(out, style, INDENT, &line)?;
    }
    match group.writes.len() {
        0 | 1 => Ok(()),
        writes => writeln!(out, "  and {} like it", format_count_of(writes as u64 - 1, "more write")),
    }
}

fn length(evidence: &Evidence) -> Nanos {
    evidence.end - evidence.start
}
