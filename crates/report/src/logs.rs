//! Entries of broker logs: one by one, or summed up. Does not read logs.

mod overview;
mod summary;
mod tier;

use std::io::{self, Write};

use model::LogEntry;

use crate::file_ops::{partition, topic};
use crate::rows::{Cell, Column, Format, Report, Writer};

pub use overview::{LogOverview, write_json};
pub use summary::{ApiTimes, Group, IsrChanges, LogSummary};
pub use tier::{Cleanup, Migration, Migrations};

/// Characters of a message in tables that are not wide.
const MESSAGE_CHARS: usize = 100;

/// An entry, and the log that contains it.
#[derive(Clone, Copy, Debug)]
pub struct LogRow<'a> {
    /// The entry.
    pub entry: &'a LogEntry,
    /// The log, as the user named it. Not escaped.
    pub file: &'a str,
}

/// Amount of input read.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogStats {
    /// Logs.
    pub files: u64,
    /// Bytes, after unpacking.
    pub bytes: u64,
    /// Lines.
    pub lines: u64,
    /// Lines that matter, or may matter, and were cut because they were too long.
    pub cut_lines: u64,
    /// Lines of the request log that could not be read.
    pub unreadable_requests: u64,
}

/// Entries, one row each. CSV has no row types, so it contains no totals.
#[derive(Clone, Copy, Debug)]
pub struct LogEntries {
    /// Whether messages are shown in full.
    pub wide: bool,
}

type Col = Column<LogEntries>;

impl Report for LogEntries {
    type Row<'a> = LogRow<'a>;
    const TYPE: &'static str = "log-entry";

    fn columns(&self) -> Vec<Col> {
        let wide = self.wide;
        vec![
            Col::text("TIME", 23, "at_ns", |row| row.entry.at.map(Cell::DateTime).into()),
            Col::number("TOOK", 7, "", |row| row.entry.length.map(Cell::Length).into()),
            Col::text("WHAT", 17, "", |row| row.entry.name().into()),
            Col::data("kind", |row| row.entry.kind.as_str().into()),
            Col::data("pattern", |row| row.entry.pattern.as_deref().into()),
            Col::data("duration_ns", |row| row.entry.length.map(Cell::Length).into()),
            Col::text("TOPIC", 16, "topic", |row| topic(row.entry.topic_partition.as_ref())),
            Col::text("PARTITION", 0, "partition", |row| partition(row.entry.topic_partition.as_ref())),
            Col::text("LEVEL", 5, "level", |row| row.entry.level.into()).wide(),
            Col::number("COUNT", 0, "count", |row| row.entry.count.into()).wide(),
            Col::number("OFFSET", 0, "offset", |row| row.entry.offset.into()).wide(),
            Col::number("BEFORE_BYTES", 0, "before_bytes", |row| row.entry.before_bytes.into()).wide(),
            Col::number("AFTER_BYTES", 0, "after_bytes", |row| row.entry.after_bytes.into()).wide(),
            Col::data("message", |row| (&*row.entry.text).into()),
            Col::text("FILE", 0, "file", |row| row.file.into()).wide(),
            Col::text("MESSAGE", 0, "", move |row| Cell::Escaped(message(row.entry, wide))).place(u8::MAX),
        ]
    }
}

/// The message; unless `wide`, only its beginning, without the leading partition, which has its own columns.
fn message(entry: &LogEntry, wide: bool) -> String {
    let named = entry.topic_partition.is_some() && entry.text.starts_with('[');
    let short = entry.text.split_once("] ").filter(|_| named && !wide).map_or(&*entry.text, |(_, rest)| rest);
    let text = crate::escape::escape(short);
    match text.char_indices().nth(MESSAGE_CHARS) {
        Some((end, _)) if !wide => format!("{}…", text.split_at(end).0),
        _ => text.into_owned(),
    }
}

/// An output of log entries and their totals.
pub trait LogSink {
    /// Takes one selected entry.
    fn entry(&mut self, row: LogRow<'_>) -> io::Result<()>;

    /// Ends the output with the totals of the selected entries and requests.
    fn finish(&mut self, summary: &LogSummary, stats: &LogStats) -> io::Result<()>;
}

/// Log entries in any format, in JSON followed by their totals.
pub struct LogWriter<W: Write>(Writer<LogEntries, W>);

impl<W: Write> LogWriter<W> {
    /// Creates a writer to this output.
    pub fn new(out: W, format: &Format) -> Self {
        let wide = matches!(format, Format::Table(style) if style.wide);
        Self(Writer::new(out, &LogEntries { wide }, format))
    }
}

impl<W: Write> LogSink for LogWriter<W> {
    fn entry(&mut self, row: LogRow<'_>) -> io::Result<()> {
        self.0.row(&row)
    }

    fn finish(&mut self, summary: &LogSummary, stats: &LogStats) -> io::Result<()> {
        if self.0.is_json() {
            write_json(self.0.output(), summary, stats)?;
        }
        self.0.finish()
    }
}
