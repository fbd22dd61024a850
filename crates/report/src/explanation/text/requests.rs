//! The requests that one root slowed: one line each, the slowest first.

use std::io::{self, Write};

use diagnose::RootTotal;
use model::{Cause, Partition, Verdict};

use crate::Style;
use crate::escape::escape;
use crate::explanation::group::Group;
use crate::explanation::way;
use crate::quantity::{NONE, format_count, millis, or_dash};
use crate::requests::table::topic_shown;
use crate::table::{Column, Table};

const COLUMNS: [Column; 8] = [
    Column::text("ARRIVAL TIME", 12),
    Column::text("END TIME", 12),
    Column::text("LATENCY(ms)", 0),
    Column::text("MESSAGE_ID", 0),
    Column::text("TOPIC", 0),
    Column::text("PARTITION", 0),
    Column::text("WAITED FOR", 0),
    Column::text("CONFIDENCE", 0),
];

const WIDE: [Column; 4] = [
    Column::text("API", 0),
    Column::number("CORRELATION", 0),
    Column::text("CLIENT", 0),
    Column::text("CLIENT_ID", 0),
];

/// How far below a request's row its notes stand.
const NOTE_INDENT: usize = 2;

/// The table, and how many requests it leaves out.
pub(super) fn table<W: Write>(
    out: &mut W,
    style: &Style,
    total: &RootTotal,
    group: &Group,
) -> io::Result<()> {
    let mut columns = COLUMNS.to_vec();
    if style.wide {
        columns.extend(WIDE);
    }
    let mut table = Table::new(&mut *out, columns, 0).indented(2);
    let rows = group.verdicts.iter().map(|verdict| cells(verdict, style)).collect::<Vec<_>>();
    for row in &rows {
        table.measure(row);
    }
    for (verdict, row) in group.verdicts.iter().zip(rows) {
        table.row(row)?;
        for note in notes(verdict) {
            table.note(NOTE_INDENT, &note)?;
        }
    }
    let untold = total.requests.saturating_sub(group.verdicts.len() as u64);
    if untold > 0 {
        writeln!(out, "  … and {} more{}", format_count(untold), style.how_to_see_all())?;
    }
    Ok(())
}

fn cells(verdict: &Verdict, style: &Style) -> Vec<String> {
    let request = &verdict.request;
    let shown = partition(verdict);
    let ids = match (&verdict.partition, shown) {
        (Some(_), Some(partition)) => partition.message_ids.iter().collect::<Vec<_>>(),
        _ => request.partitions.iter().flat_map(|partition| &partition.message_ids).collect(),
    };
    let mut cells = vec![
        style.zone.time_of_day(request.arrival),
        or_dash(request.end.map(|end| style.zone.time_of_day(end))),
        or_dash(request.latency().map(millis)),
        ids.first().map_or_else(|| NONE.to_owned(), |id| format!("{}{}", escape(id), and_more(ids.len()))),
        shown.map_or_else(|| NONE.to_owned(), topic_shown),
        or_dash(shown.map(|shown| format!("{}{}", shown.partition, and_more(request.partitions.len())))),
        way::words(verdict),
        confidence(verdict),
    ];
    if style.wide {
        cells.extend([
            escape(request.api).into_owned(),
            request.correlation_id.to_string(),
            request.client.to_string(),
            or_dash(request.client_id.as_deref().map(escape)),
        ]);
    }
    cells
}

/// The partition that the time was lost on, else the first.
fn partition(verdict: &Verdict) -> Option<&Partition> {
    let partitions = &verdict.request.partitions;
    let lost_on = verdict.partition.as_ref().and_then(|lost_on| {
        partitions.iter().find(|partition| {
            partition.topic.as_ref() == Some(&lost_on.topic) && partition.partition == lost_on.partition
        })
    });
    lost_on.or_else(|| partitions.first())
}

/// There is nothing to be confident of where nothing was found.
fn confidence(verdict: &Verdict) -> String {
    if verdict.cause == Cause::Unobserved { NONE.to_owned() } else { verdict.confidence.to_string() }
}

/// ` +3` where three more follow the one shown.
fn and_more(count: usize) -> String {
    if count > 1 { format!(" +{}", count - 1) } else { String::new() }
}

/// What makes this request's verdict less certain.
fn notes(verdict: &Verdict) -> Vec<String> {
    let losses = verdict.losses.iter().map(|loss| format!("near a loss: {}", escape(loss)));
    let errors = verdict.request.error.iter().map(|error| format!("unreadable: {}", escape(error)));
    losses.chain(errors).collect()
}
