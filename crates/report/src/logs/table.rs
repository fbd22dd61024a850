//! Entries as a table: one row a line of the log that told something.

use std::io::{self, Write};

use model::LogEntry;

use super::{LogReport, LogRow, LogStats, LogSummary};
use crate::escape::escape;
use crate::quantity::{NONE, or_dash};
use crate::table::{Column, Table};
use crate::{Style, Zone};

/// What is shown of a message, unless all is.
const MESSAGE_CHARS: usize = 100;

const COLUMNS: [Column; 6] = [
    Column::text("TIME", 23),
    Column::number("TOOK", 7),
    Column::text("WHAT", 17),
    Column::text("TOPIC", 16),
    Column::text("PARTITION", 0),
    Column::text("MESSAGE", 0),
];
const WIDE: [Column; 6] = [
    Column::text("LEVEL", 5),
    Column::number("COUNT", 0),
    Column::number("OFFSET", 0),
    Column::number("BEFORE_BYTES", 0),
    Column::number("AFTER_BYTES", 0),
    Column::text("FILE", 0),
];

/// Entries as a table.
pub struct LogTable<W> {
    table: Table<W>,
    zone: Zone,
    wide: bool,
}

impl<W: Write> LogTable<W> {
    /// A table that looks like this.
    pub fn new(out: W, look: &Style) -> Self {
        let [time, took, what, topic, partition, message] = COLUMNS;
        let mut columns = vec![time, took, what, topic, partition];
        columns.extend(WIDE.into_iter().filter(|_| look.wide));
        columns.push(message);
        let table = Table::new(out, columns, look.lookahead).coloured(look.colour);
        Self { table, zone: look.zone.clone(), wide: look.wide }
    }
}

impl<W: Write> LogReport for LogTable<W> {
    fn entry(&mut self, LogRow { entry, file }: LogRow<'_>) -> io::Result<()> {
        let mut cells = cells(entry, &self.zone).to_vec();
        if self.wide {
            cells.extend([
                or_dash(entry.level),
                or_dash(entry.count),
                or_dash(entry.offset),
                or_dash(entry.before_bytes),
                or_dash(entry.after_bytes),
                escape(file).into_owned(),
            ]);
        }
        cells.push(message(entry, self.wide));
        self.table.row(cells)
    }

    fn finish(&mut self, _: &LogSummary, _: &LogStats) -> io::Result<()> {
        self.table.finish()
    }
}

/// All but the message.
pub(super) fn cells(entry: &LogEntry, zone: &Zone) -> [String; 5] {
    let of = entry.topic_partition.as_ref();
    [
        entry.at.map_or_else(|| NONE.to_owned(), |at| zone.date_and_time(at)),
        or_dash(entry.length),
        escape(entry.name()).into_owned(),
        or_dash(of.map(|of| escape(&of.topic).into_owned())),
        or_dash(of.map(|of| of.partition)),
    ]
}

/// The message; unless all is wanted, the beginning of it, without the partition before it that has columns of its own.
pub(super) fn message(entry: &LogEntry, wide: bool) -> String {
    let named = entry.topic_partition.is_some() && entry.text.starts_with('[');
    let short = entry.text.split_once("] ").filter(|_| named && !wide).map_or(&*entry.text, |(_, rest)| rest);
    let text = escape(short);
    match text.char_indices().nth(MESSAGE_CHARS) {
        Some((end, _)) if !wide => format!("{}…", text.get(..end).unwrap_or_default()),
        _ => text.into_owned(),
    }
}
