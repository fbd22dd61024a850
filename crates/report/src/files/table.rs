//! Files for people: one row a group, those first that were asked for first.

use std::io::{self, Write};

use super::{FileTotals, GroupBy, GroupKey, Traffic, heading};
use crate::Style;
use crate::escape::escape;
use crate::quantity::{NONE, format_bytes, format_count, format_count_of, or_dash};
use crate::table::{Column, Table};

const COLUMNS: [Column; 10] = [
    Column::number("READS", 7),
    Column::number("CACHED", 9),
    Column::number("DISK_READS", 0),
    Column::number("DISK", 9),
    Column::number("WRITES", 7),
    Column::number("WRITTEN", 9),
    Column::number("FSYNCS", 0),
    Column::number("BLOCK_IOS", 0),
    Column::number("BLOCK", 9),
    Column::number("TIME", 7),
];
const WIDE: [Column; 10] = [
    Column::number("READ", 9),
    Column::number("SENT", 0),
    Column::number("READAHEAD", 0),
    Column::number("FAULTS", 0),
    Column::number("OTHERS", 0),
    Column::number("ERRORS", 0),
    Column::number("BLOCK_READS", 0),
    Column::number("BLOCK_READ", 0),
    Column::number("BLOCK_WRITES", 0),
    Column::number("BLOCK_WRITTEN", 0),
];

pub(super) fn write(out: &mut impl Write, look: &Style, totals: &FileTotals, most: usize) -> io::Result<()> {
    heading::write(out, totals)?;
    let mut columns = COLUMNS.to_vec();
    if totals.rated().is_some() {
        columns.push(Column::number("OF_RATED", 0));
    }
    if look.wide {
        columns.extend(WIDE);
        columns.push(Column::text("DEVICE", 0));
    }
    columns.push(Column::text(heading(totals.by), 0));
    let mut table = Table::new(&mut *out, columns, usize::MAX).coloured(look.colour);
    let shown = totals.groups.iter().take(most);
    for (who, traffic) in shown {
        table.row(cells(totals, who, traffic, look.wide))?;
    }
    table.finish()?;
    let more = totals.groups.len().saturating_sub(most);
    if more > 0 {
        writeln!(out, "… and {} more (--top N tells more)", format_count(more as u64))?;
    }
    if totals.groups.iter().any(|(who, _)| *who == GroupKey::Others) {
        writeln!(out, "others: those there was no room for")?;
    }
    unknown(out, &totals.unknown)?;
    out.flush()
}

fn heading(by: GroupBy) -> &'static str {
    match by {
        GroupBy::File => "FILE",
        GroupBy::Kind => "KIND",
        GroupBy::Topic => "TOPIC",
        GroupBy::Partition => "PARTITION",
    }
}

fn cells(totals: &FileTotals, who: &GroupKey, traffic: &Traffic, wide: bool) -> Vec<String> {
    let mut cells = vec![
        format_count(traffic.reads),
        or_dash(traffic.cached_bytes.map(format_bytes)),
        or_dash(traffic.disk_bytes.map(|_| format_count(traffic.disk_reads))),
        or_dash(traffic.disk_bytes.map(format_bytes)),
        format_count(traffic.writes),
        format_bytes(traffic.written_bytes),
        format_count(traffic.fsyncs),
        format_count(traffic.block_requests()),
        format_bytes(traffic.block_read_bytes + traffic.block_written_bytes),
        traffic.time.to_string(),
    ];
    if let Some(rated) = totals.rated() {
        cells.push(format!("{:.1} %", traffic.block_requests() as f64 * 100.0 / rated));
    }
    if wide {
        cells.extend([
            format_bytes(traffic.read_bytes),
            format_bytes(traffic.sent_bytes),
            format_bytes(traffic.readahead_bytes),
            format_count(traffic.faults),
            format_count(traffic.others),
            format_count(traffic.errors),
            format_count(traffic.block_reads),
            format_bytes(traffic.block_read_bytes),
            format_count(traffic.block_writes),
            format_bytes(traffic.block_written_bytes),
            if let GroupKey::File { device, .. } = who {
                escape(device).into_owned()
            } else {
                NONE.to_owned()
            },
        ]);
    }
    cells.push(name(who));
    cells
}

fn name(who: &GroupKey) -> String {
    match who {
        GroupKey::File { file, .. } => escape(file).into_owned(),
        GroupKey::Kind(kind) => (*kind).to_owned(),
        GroupKey::Topic(topic) => or_dash(topic.as_deref().map(escape)),
        GroupKey::Partition(of) => {
            or_dash(of.as_ref().map(|(topic, number)| format!("{}-{number}", escape(topic))))
        }
        GroupKey::Others => "others".to_owned(),
    }
}

fn unknown(out: &mut impl Write, unknown: &Traffic) -> io::Result<()> {
    let requests = unknown.block_requests();
    if requests == 0 {
        return Ok(());
    }
    writeln!(
        out,
        "beside them {} of no known file (journals, metadata, other programs): {} read, {} written",
        format_count_of(requests, "block request"),
        format_bytes(unknown.block_read_bytes),
        format_bytes(unknown.block_written_bytes)
    )
}
