//! A summary for people: a table by lock and one by holder, those most waited for first.

use std::io::{self, Write};

use model::Nanos;

use super::{GroupBy, Sum};
use crate::Style;
use crate::escape::escape;
use crate::quantity::{NONE, format_count, or_dash};
use crate::table::{Column, Table};

const OTHERS: &str = "(others)";

const REST: [Column; 7] = [
    Column::number("WAITS", 6),
    Column::number("WAITERS", 0),
    Column::number("P50", 7),
    Column::number("P99", 7),
    Column::number("MAX", 7),
    Column::number("TIME", 7),
    Column::text("MOSTLY FOR", 0),
];

pub(super) fn write(out: &mut impl Write, look: &Style, sums: &[Sum]) -> io::Result<()> {
    section(out, look, sums, GroupBy::Lock, [Column::text("LOCK", 35), Column::text("PARTITION", 9)])?;
    writeln!(out)?;
    section(out, look, sums, GroupBy::Holder, [Column::text("HOLDER", 35), Column::text("TID", 9)])
}

fn section(
    out: &mut impl Write,
    look: &Style,
    sums: &[Sum],
    by: GroupBy,
    who: [Column; 2],
) -> io::Result<()> {
    let columns = who.into_iter().chain(REST).collect();
    let mut table = Table::new(out, columns, usize::MAX).coloured(look.colour);
    sums.iter().filter(|sum| sum.by == by).try_for_each(|sum| table.row(cells(sum)))?;
    table.finish()
}

fn cells(sum: &Sum) -> Vec<String> {
    let latency = &sum.group.latency;
    let at = |share| or_dash(latency.quantile(share).map(|ns| Nanos(i64::try_from(ns).unwrap_or(i64::MAX))));
    let (name, which) =
        sum.who.as_ref().map_or((OTHERS, None), |(name, which)| (name.as_str(), which.as_deref()));
    let mostly = sum.group.top_reason().map(|(name, time)| format!("{} {time}", escape(name)));
    vec![
        escape(name).into_owned(),
        which.map_or_else(|| NONE.to_owned(), |which| escape(which).into_owned()),
        format_count(latency.count()),
        format_count(sum.group.waiters.len() as u64),
        at(0.5),
        at(0.99),
        at(1.0),
        sum.group.time().to_string(),
        or_dash(mostly),
    ]
}
