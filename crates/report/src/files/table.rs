//! Files for people: one row a group, those first that were asked for first.

use std::io::{self, Write};

use super::{By, FileTotals, Traffic, Who, heading};
use crate::Look;
use crate::escape::escape;
use crate::numbers::{NONE, counted, grouped, or_none, size};
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

pub(super) fn write(out: &mut impl Write, look: &Look, totals: &FileTotals, most: usize) -> io::Result<()> {
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
        writeln!(out, "… and {} more (--top N tells more)", grouped(more as u64))?;
    }
    if totals.groups.iter().any(|(who, _)| *who == Who::Others) {
        writeln!(out, "others: those there was no room for")?;
    }
    unknown(out, &totals.unknown)?;
    out.flush()
}

fn heading(by: By) -> &'static str {
    match by {
        By::File => "FILE",
        By::Kind => "KIND",
        By::Topic => "TOPIC",
        By::Partition => "PARTITION",
    }
}

fn cells(totals: &FileTotals, who: &Who, traffic: &Traffic, wide: bool) -> Vec<String> {
    let mut cells = vec![
        grouped(traffic.reads),
        or_none(traffic.cached_bytes.map(size)),
        or_none(traffic.disk_bytes.map(|_| grouped(traffic.disk_reads))),
        or_none(traffic.disk_bytes.map(size)),
        grouped(traffic.writes),
        size(traffic.written_bytes),
        grouped(traffic.fsyncs),
        grouped(traffic.block_requests()),
        size(traffic.block_read_bytes + traffic.block_written_bytes),
        traffic.time.to_string(),
    ];
    if let Some(rated) = totals.rated() {
        cells.push(format!("{:.1} %", traffic.block_requests() as f64 * 100.0 / rated));
    }
    if wide {
        cells.extend([
            size(traffic.read_bytes),
            size(traffic.sent_bytes),
            size(traffic.readahead_bytes),
            grouped(traffic.faults),
            grouped(traffic.others),
            grouped(traffic.errors),
            grouped(traffic.block_reads),
            size(traffic.block_read_bytes),
            grouped(traffic.block_writes),
            size(traffic.block_written_bytes),
            if let Who::File { device, .. } = who { escape(device).into_owned() } else { NONE.to_owned() },
        ]);
    }
    cells.push(name(who));
    cells
}

fn name(who: &Who) -> String {
    match who {
        Who::File { file, .. } => escape(file).into_owned(),
        Who::Kind(kind) => (*kind).to_owned(),
        Who::Topic(topic) => or_none(topic.as_deref().map(escape)),
        Who::Partition(of) => {
            or_none(of.as_ref().map(|(topic, number)| format!("{}-{number}", escape(topic))))
        }
        Who::Others => "others".to_owned(),
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
        counted(requests, "block request"),
        size(unknown.block_read_bytes),
        size(unknown.block_written_bytes)
    )
}
