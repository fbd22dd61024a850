//! A summary for people: one row a group, those that took the longest in all first.

use std::io::{self, Write};

use model::Nanos;

use super::Group;
use crate::Style;
use crate::quantity::{NONE, format_bytes, format_count, or_dash};
use crate::table::{Column, Table};

const COLUMNS: [Column; 9] = [
    Column::text("OP", 5),
    Column::text("KIND", 5),
    Column::number("COUNT", 7),
    Column::number("BYTES", 8),
    Column::number("P50", 7),
    Column::number("P99", 7),
    Column::number("P999", 7),
    Column::number("MAX", 7),
    Column::number("TIME", 7),
];
const WIDE: [Column; 2] = [Column::number("DISK", 0), Column::number("ERRORS", 0)];
const TOP_REASON: Column = Column::text("TOP REASON", 0);
const REASONS: Column = Column::text("REASONS", 0);

pub(super) fn write(out: &mut impl Write, look: &Style, groups: &[Group]) -> io::Result<()> {
    let mut columns = COLUMNS.to_vec();
    if look.wide {
        columns.extend(WIDE);
    }
    columns.push(if look.wide { REASONS } else { TOP_REASON });
    let mut table = Table::new(out, columns, usize::MAX).coloured(look.colour);
    groups.iter().try_for_each(|group| table.row(cells(group, look.wide)))?;
    table.finish()
}

fn cells(group: &Group, wide: bool) -> Vec<String> {
    let latency = &group.latency;
    let at = |share| or_dash(latency.quantile(share).map(|ns| Nanos(i64::try_from(ns).unwrap_or(i64::MAX))));
    let mut cells = vec![
        group.op.as_str().to_owned(),
        group.kind.as_str().to_owned(),
        format_count(latency.count()),
        format_bytes(group.bytes),
        at(0.5),
        at(0.99),
        at(0.999),
        at(1.0),
        group.time().to_string(),
    ];
    if wide {
        cells.extend([or_dash(group.disk_bytes.map(format_bytes)), format_count(group.errors)]);
    }
    let reasons = group.reasons().into_iter().map(|(name, time)| reason(name, time, group.time()));
    let shown = reasons.take(if wide { usize::MAX } else { 1 }).collect::<Vec<_>>();
    cells.push(if shown.is_empty() { NONE.to_owned() } else { shown.join(", ") });
    cells
}

/// A reason and its share of the time.
fn reason(name: &str, time: Nanos, whole: Nanos) -> String {
    let percent = if whole > Nanos::ZERO { time.0 as f64 / whole.0 as f64 * 100.0 } else { 0.0 };
    format!("{name} {time} ({percent:.0} %)")
}
