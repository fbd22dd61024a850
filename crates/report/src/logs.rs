//! What broker logs tell: entry by entry, or added up. Does not read logs.

mod digest;
mod isr;
mod json;
mod overview;
mod requests;
mod table;
mod tier;
mod view;

use std::io::{self, Write};

use model::LogEntry;

use crate::fields::CsvRows;

pub use digest::{Group, LogSummary};
pub use isr::IsrChanges;
pub use json::LogJson;
pub use overview::LogOverview;
pub use requests::ApiTimes;
pub use table::LogTable;
pub use tier::{Cleanup, Migration, Migrations};

/// An entry, and the log that it stands in.
#[derive(Clone, Copy, Debug)]
pub struct LogRow<'a> {
    /// What a line tells.
    pub entry: &'a LogEntry,
    /// The log, as the user named it. Not escaped.
    pub file: &'a str,
}

/// How much was read.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogStats {
    /// Logs.
    pub files: u64,
    /// Bytes, after unpacking.
    pub bytes: u64,
    /// Lines.
    pub lines: u64,
    /// Lines that were longer than what is kept of one, and told something or might have.
    pub cut_lines: u64,
    /// Lines about a request that could not be read.
    pub unreadable_requests: u64,
}

/// An output of what logs tell.
pub trait LogReport {
    /// Takes one entry that is wanted.
    fn entry(&mut self, row: LogRow<'_>) -> io::Result<()>;

    /// Ends the output with what the wanted entries and requests come to.
    fn finish(&mut self, digest: &LogSummary, read: &LogStats) -> io::Result<()>;
}

/// Entries as CSV. There are no types in CSV, so sums are not in it.
pub struct LogCsv<W>(CsvRows<W>);

impl<W: Write> LogCsv<W> {
    /// CSV to this output.
    pub fn new(out: W) -> Self {
        Self(CsvRows::new(out, view::names))
    }
}

impl<W: Write> LogReport for LogCsv<W> {
    fn entry(&mut self, row: LogRow<'_>) -> io::Result<()> {
        self.0.row(&view::entry(row))
    }

    fn finish(&mut self, _: &LogSummary, _: &LogStats) -> io::Result<()> {
        self.0.finish()
    }
}
