//! What logs come to, for people: what happened how often and how long it took, the slowest, and tables of their own for
//! what tiered storage, replicas and requests did. Shows no single entry but those.

mod tier;

use std::io::{self, Write};

use model::{LogEntry, Nanos};

use super::table::{cells, message};
use super::view::total_ns;
use super::{LogReport, LogRow, LogStats, LogSummary};
use crate::distribution::Distribution;
use crate::escape::escape;
use crate::paint::{Role, paint};
use crate::quantity::{format_count, format_count_of, or_dash};
use crate::table::{Column, Table};
use crate::{Style, Zone};

/// Rows of a table that are shown, unless all are.
const SHOWN: usize = 20;
const INDENT: usize = 2;

/// Tables for people.
pub struct LogOverview<W> {
    out: W,
    look: Style,
}

impl<W: Write> LogOverview<W> {
    /// Tables that look like this.
    pub fn new(out: W, look: &Style) -> Self {
        Self { out, look: look.clone() }
    }

    fn kinds(&mut self, digest: &LogSummary) -> io::Result<()> {
        let columns = [
            Column::text("WHAT", 17),
            Column::number("COUNT", 0),
            Column::number("TIMED", 0),
            Column::number("MEDIAN", 7),
            Column::number("P99", 7),
            Column::number("MAX", 7),
            Column::number("TOTAL", 7),
            Column::text("FIRST", 23),
            Column::text("LAST", 23),
        ];
        let zone = self.look.zone.clone();
        let mut table = self.table(columns.to_vec());
        for ((kind, pattern), group) in &digest.groups {
            let lengths = &group.lengths;
            let [median, p99, max] = quantiles(lengths, [0.5, 0.99, 1.0]);
            let total = (lengths.count() > 0).then(|| nanos(total_ns(lengths)));
            table.row(vec![
                escape(pattern.as_deref().unwrap_or(kind.as_str())).into_owned(),
                format_count(group.count),
                format_count(lengths.count()),
                median,
                p99,
                max,
                or_dash(total),
                or_dash(group.span.map(|(first, _)| zone.date_and_time(first))),
                or_dash(group.span.map(|(_, last)| zone.date_and_time(last))),
            ])?;
        }
        table.finish()
    }

    fn in_sync(&mut self, digest: &LogSummary) -> io::Result<()> {
        let mut changes: Vec<_> = digest.in_sync.iter().collect();
        if changes.is_empty() {
            return Ok(());
        }
        changes.sort_by_key(|(_, change)| {
            std::cmp::Reverse((change.shrinks, change.expansions, change.changes))
        });
        let shrinks = changes.iter().map(|(_, change)| change.shrinks).sum();
        let partitions = format_count_of(changes.len() as u64, "partition");
        self.heading(&format!("In-sync replicas: of {partitions}, {}", format_count_of(shrinks, "shrink")))?;
        let columns = [
            Column::text("TOPIC", 16),
            Column::number("PARTITION", 0),
            Column::number("SHRINKS", 0),
            Column::number("EXPANSIONS", 0),
            Column::number("CHANGES", 0),
            Column::text("FIRST", 23),
            Column::text("LAST", 23),
        ];
        let (zone, shown) = (self.look.zone.clone(), self.shown());
        let mut table = self.table(columns.to_vec());
        for (of, change) in changes.iter().take(shown) {
            table.row(vec![
                escape(&of.topic).into_owned(),
                of.partition.to_string(),
                format_count(change.shrinks),
                format_count(change.expansions),
                format_count(change.changes),
                or_dash(change.span.map(|(first, _)| zone.date_and_time(first))),
                or_dash(change.span.map(|(_, last)| zone.date_and_time(last))),
            ])?;
        }
        table.finish()?;
        self.rest(changes.len())
    }

    fn requests(&mut self, digest: &LogSummary) -> io::Result<()> {
        if digest.apis.is_empty() {
            return Ok(());
        }
        let mut apis: Vec<_> = digest.apis.iter().collect();
        apis.sort_by_key(|(_, times)| std::cmp::Reverse(times.total().sum()));
        self.heading("Requests, as Kafka's request log has them (the last columns are each time's own 99th percentile)")?;
        let columns = [
            Column::text("API", 16),
            Column::number("COUNT", 0),
            Column::number("MEDIAN", 7),
            Column::number("P99", 7),
            Column::number("P99.9", 7),
            Column::number("MAX", 7),
            Column::number("QUEUE", 7),
            Column::number("LOCAL", 7),
            Column::number("REMOTE", 7),
            Column::number("RESPONSE_QUEUE", 7),
            Column::number("SEND", 7),
            Column::number("THROTTLE", 7),
        ];
        let mut table = self.table(columns.to_vec());
        for (name, times) in apis {
            let mut row = vec![escape(name).into_owned(), format_count(times.total().count())];
            row.extend(quantiles(times.total(), [0.5, 0.99, 0.999, 1.0]));
            row.extend(times.times.iter().skip(1).flat_map(|(_, spread)| quantiles(spread, [0.99])));
            table.row(row)?;
        }
        table.finish()
    }

    fn broker(&mut self, digest: &LogSummary) -> io::Result<()> {
        if digest.events.is_empty() {
            return Ok(());
        }
        self.heading("The broker")?;
        let mut events: Vec<&LogEntry> = digest.events.iter().collect();
        events.sort_by_key(|event| event.at);
        let shown = self.shown();
        self.entries(events.iter().copied().take(shown))?;
        self.rest(events.len() + usize::try_from(digest.more_events).unwrap_or(usize::MAX))
    }

    fn slowest(&mut self, digest: &LogSummary) -> io::Result<()> {
        let slowest = digest.slowest();
        if slowest.is_empty() {
            return Ok(());
        }
        self.heading("The slowest")?;
        self.entries(slowest.into_iter())
    }

    fn entries<'a>(&mut self, entries: impl Iterator<Item = &'a LogEntry>) -> io::Result<()> {
        let columns = [
            Column::text("TIME", 23),
            Column::number("TOOK", 7),
            Column::text("WHAT", 17),
            Column::text("TOPIC", 0),
            Column::text("PARTITION", 0),
            Column::text("MESSAGE", 0),
        ];
        let (zone, wide) = (self.look.zone.clone(), self.look.wide);
        let mut table = self.table(columns.to_vec());
        for entry in entries {
            table.row([&cells(entry, &zone)[..], &[message(entry, wide)]].concat())?;
        }
        table.finish()
    }

    fn heading(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out, "\n{}", paint(self.look.colour, Role::Heading, text))
    }

    fn table(&mut self, columns: Vec<Column>) -> Table<&mut W> {
        Table::new(&mut self.out, columns, usize::MAX).coloured(self.look.colour).indented(INDENT)
    }

    fn shown(&self) -> usize {
        if self.look.wide { usize::MAX } else { SHOWN }
    }

    /// Says that there are more rows.
    fn rest(&mut self, rows: usize) -> io::Result<()> {
        match rows.saturating_sub(self.shown()) {
            0 => Ok(()),
            more => {
                writeln!(
                    self.out,
                    "{:INDENT$}… and {} more (--wide tells all)",
                    "",
                    format_count(more as u64)
                )
            }
        }
    }
}

impl<W: Write> LogReport for LogOverview<W> {
    fn entry(&mut self, _: LogRow<'_>) -> io::Result<()> {
        Ok(())
    }

    fn finish(&mut self, digest: &LogSummary, read: &LogStats) -> io::Result<()> {
        writeln!(self.out, "{}", lead(digest, read, &self.look.zone))?;
        if digest.count() > 0 {
            self.kinds(digest)?;
            self.cleanups(digest)?;
            self.migrations(digest)?;
            self.in_sync(digest)?;
            self.requests(digest)?;
            self.broker(digest)?;
            self.slowest(digest)?;
        }
        if digest.without_room > 0 {
            let count = format_count_of(digest.without_room, "line");
            writeln!(
                self.out,
                "\n{count} of partitions or APIs that there was no room for, or that name none"
            )?;
        }
        self.out.flush()
    }
}

/// What was read and from when to when it tells.
fn lead(digest: &LogSummary, read: &LogStats, zone: &Zone) -> String {
    let (told, lines) = (format_count_of(digest.count(), "thing"), format_count_of(read.lines, "line"));
    let span = digest.span.map_or_else(String::new, |(first, last)| {
        format!(", {} to {}", zone.date_and_time(first), zone.date_and_time(last))
    });
    format!("{told} in {lines} of {}{span}", format_count_of(read.files, "log"))
}

fn quantiles<const N: usize>(lengths: &Distribution, shares: [f64; N]) -> [String; N] {
    shares.map(|share| or_dash(lengths.quantile(share).map(nanos)))
}

fn nanos(length: u64) -> Nanos {
    Nanos(i64::try_from(length).unwrap_or(i64::MAX))
}
