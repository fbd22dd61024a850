//! Totals of logs: how often each kind of entry occurred and how long it took, what tiered storage, replicas and requests
//! did, and the slowest entries. Each list is declared once, for tables and for JSON lines.

use std::cmp::Reverse;
use std::io::{self, Write};
use std::sync::Arc;

use model::{LogEntry, Nanos, TopicPartition};
use serde_json::{Value, json};

use super::summary::{ApiTimes, Group, IsrChanges, Kind};
use super::tier::{Cleanup, Migration, Queue, change, percent};
use super::{LogEntries, LogRow, LogSink, LogStats, LogSummary};
use crate::distribution::Distribution;
use crate::json;
use crate::quantity::{NONE, format_bytes, format_count, format_count_of};
use crate::rows::{Cell, Column, Format, Report, Writer};
use crate::text_writer::{INDENT, TextWriter};
use crate::{Style, Zone};

/// Rows of a table, unless it is wide.
const MAX_ROWS: usize = 20;
/// Width of a timeline.
const TIMELINE: usize = 40;

/// Times of the first and the last entry.
type Span = Option<(Nanos, Nanos)>;

/// Columns of a first and a last time.
fn span_columns<R: Report>(of: impl for<'a> Fn(&'a R::Row<'a>) -> Span + Copy + 'static) -> [Column<R>; 2] {
    [
        Column::text("FIRST", 23, "first_ns", move |row| {
            of(row).map(|(first, _)| Cell::DateTime(first)).into()
        }),
        Column::text("LAST", 23, "last_ns", move |row| of(row).map(|(_, last)| Cell::DateTime(last)).into()),
    ]
}

/// Entries by kind, or by the user's pattern.
struct Kinds;

impl Report for Kinds {
    type Row<'a> = (&'a Kind, &'a Group);
    const TYPE: &'static str = "log-kind";

    fn columns(&self) -> Vec<Column<Self>> {
        type Col = Column<Kinds>;
        let percentile = |heading, field, share| Col::percentile(heading, field, share, |row| &row.1.lengths);
        let mut columns = vec![
            Col::text("WHAT", 17, "", |((kind, pattern), _)| {
                pattern.as_deref().unwrap_or(kind.as_str()).into()
            }),
            Col::data("kind", |((kind, _), _)| kind.as_str().into()),
            Col::data("pattern", |((_, pattern), _)| pattern.as_deref().into()),
            Col::number("COUNT", 0, "count", |(_, group)| Cell::Count(group.count)),
            Col::number("TIMED", 0, "timed", |(_, group)| Cell::Count(group.lengths.count())),
            percentile("MEDIAN", "median_ns", 0.5),
            percentile("P99", "p99_ns", 0.99),
            percentile("MAX", "max_ns", 1.0),
            Col::number("TOTAL", 7, "", |(_, group)| {
                (group.lengths.count() > 0).then(|| Cell::Length(group.lengths.total())).into()
            }),
            Col::data("total_ns", |(_, group)| Cell::Length(group.lengths.total())),
        ];
        columns.extend(span_columns(|row: &(&Kind, &Group)| row.1.span));
        columns
    }
}

/// Tiered storage's cleanups by partition; without a partition, the total.
struct Cleanups;

impl Report for Cleanups {
    type Row<'a> = (Option<&'a TopicPartition>, &'a Cleanup);
    const TYPE: &'static str = "tier-cleanup";

    fn columns(&self) -> Vec<Column<Self>> {
        type Col = Column<Cleanups>;
        vec![
            Col::text("TOPIC", 16, "topic", |(of, _)| of.map_or("total", |of| &of.topic).into()),
            Col::text("PARTITION", 0, "", |(of, _)| {
                of.map_or_else(|| Cell::from(""), |of| of.partition.into())
            }),
            Col::data("partition", |(of, _)| of.map(|of| of.partition).into()),
            Col::number("CLEANUPS", 0, "cleanups", |(_, cleanup)| Cell::Count(cleanup.cleanups)),
            Col::number("SEGMENTS", 0, "segments", |(_, cleanup)| Cell::Count(cleanup.segments)),
            Col::number("BEFORE", 0, "before_bytes", |(_, cleanup)| Cell::Count(cleanup.before_bytes)),
            Col::number("AFTER", 0, "after_bytes", |(_, cleanup)| Cell::Count(cleanup.after_bytes)),
            Col::number("CHANGE", 0, "", |(_, cleanup)| {
                let change = cleanup.change_bytes();
                let sign = if change < 0 { "-" } else { "" };
                format!("{sign}{}", format_count(change.unsigned_abs())).into()
            }),
            Col::data("change_bytes", |(_, cleanup)| cleanup.change_bytes().into()),
            Col::number("CHANGE(%)", 0, "", |(_, cleanup)| format_percent(cleanup.change_percent()).into()),
            Col::data("change_percent", |(_, cleanup)| cleanup.change_percent().into()),
        ]
    }
}

/// Migrations of tiered storage's state, each with the time since the previous one.
struct MigrationRows;

struct MigrationRow<'a> {
    queue: &'a Queue,
    nth: usize,
    migration: &'a Migration,
    gap: Option<Nanos>,
}

impl Report for MigrationRows {
    type Row<'a> = MigrationRow<'a>;
    const TYPE: &'static str = "tier-migration";

    fn columns(&self) -> Vec<Column<Self>> {
        type Col = Column<MigrationRows>;
        fn of<'a>(row: &MigrationRow<'a>) -> Option<&'a TopicPartition> {
            row.migration.topic_partition.as_ref()
        }
        let change_percent =
            |row: &MigrationRow<'_>| percent(row.migration.before_bytes, row.migration.after_bytes);
        vec![
            Col::data("queue", |row| row.nth.into()),
            Col::text("END TIME", 23, "end_ns", |row| Cell::DateTime(row.migration.end)),
            Col::number("SINCE PREVIOUS", 0, "since_before_ns", |row| row.gap.map(Cell::Length).into()),
            Col::text("TOPIC", 16, "topic", |row| of(row).map(|of| &*of.topic).into()),
            Col::text("PARTITION", 0, "partition", |row| of(row).map(|of| of.partition).into()),
            Col::number("BEFORE", 0, "before_bytes", |row| Cell::Count(row.migration.before_bytes)),
            Col::number("AFTER", 0, "after_bytes", |row| Cell::Count(row.migration.after_bytes)),
            Col::data("change_bytes", |row| {
                change(row.migration.before_bytes, row.migration.after_bytes).into()
            }),
            Col::number("CHANGE(%)", 0, "", move |row| format_percent(change_percent(row)).into()),
            Col::data("change_percent", move |row| change_percent(row).into()),
            Col::text("WHEN", TIMELINE + 2, "", |row| {
                line(row.queue.span(), row.migration.end, row.gap).into()
            }),
        ]
    }
}

/// Changes of in-sync replicas, by partition.
struct Isr;

impl Report for Isr {
    type Row<'a> = (&'a TopicPartition, &'a IsrChanges);
    const TYPE: &'static str = "isr";

    fn columns(&self) -> Vec<Column<Self>> {
        type Col = Column<Isr>;
        let mut columns = vec![
            Col::text("TOPIC", 16, "topic", |(of, _)| (&*of.topic).into()),
            Col::number("PARTITION", 0, "partition", |(of, _)| of.partition.into()),
            Col::number("SHRINKS", 0, "shrinks", |(_, changes)| Cell::Count(changes.shrinks)),
            Col::number("EXPANSIONS", 0, "expansions", |(_, changes)| Cell::Count(changes.expansions)),
            Col::number("CHANGES", 0, "changes", |(_, changes)| Cell::Count(changes.changes)),
        ];
        columns.extend(span_columns(|row: &(&TopicPartition, &IsrChanges)| row.1.span));
        columns
    }
}

/// Requests of Kafka's request log, by API.
struct Apis;

impl Report for Apis {
    type Row<'a> = (&'a Arc<str>, &'a ApiTimes);
    const TYPE: &'static str = "log-requests";

    fn columns(&self) -> Vec<Column<Self>> {
        type Col = Column<Apis>;
        let total = |heading, share| Col::percentile(heading, "", share, |row| row.1.total());
        let mut columns = vec![
            Col::text("API", 16, "api", |(name, _)| (&***name).into()),
            Col::number("COUNT", 0, "count", |(_, times)| Cell::Count(times.total().count())),
            total("MEDIAN", 0.5),
            total("P99", 0.99),
            total("P99.9", 0.999),
            total("MAX", 1.0),
        ];
        for (heading, name, of) in ApiTimes::TIMES {
            columns.push(Col::percentile(heading, "", 0.99, move |row| of(row.1)));
            columns.push(Col::data(name, move |row| percentiles(of(row.1)).into()));
        }
        columns
    }
}

fn percentiles(times: &Distribution) -> Value {
    json!({
        "median_ns": times.quantile(0.5),
        "p99_ns": times.quantile(0.99),
        "p999_ns": times.quantile(0.999),
        "max_ns": times.max(),
        "total_ns": times.total().0,
    })
}

/// Writes the totals of logs as JSON lines.
pub fn write_json(out: &mut impl Write, summary: &LogSummary, stats: &LogStats) -> io::Result<()> {
    let format = &Format::Json;
    Writer::new(&mut *out, &Kinds, format).write_all(&summary.groups.iter().collect::<Vec<_>>())?;
    Writer::new(&mut *out, &Cleanups, format).write_all(&cleanups(summary))?;
    let queues = summary.migrations.queues();
    for (nth, queue) in queues.iter().enumerate() {
        Writer::new(&mut *out, &MigrationRows, format).write_all(&rows(nth, queue))?;
    }
    Writer::new(&mut *out, &Isr, format).write_all(&summary.in_sync.iter().collect::<Vec<_>>())?;
    Writer::new(&mut *out, &Apis, format).write_all(&summary.apis.iter().collect::<Vec<_>>())?;
    json::write_line(out, &total(summary, stats, &queues))
}

fn cleanups(summary: &LogSummary) -> Vec<(Option<&TopicPartition>, &Cleanup)> {
    summary.cleanups.iter().map(|(of, cleanup)| (Some(of), cleanup)).collect()
}

fn rows(nth: usize, queue: &Queue) -> Vec<MigrationRow<'_>> {
    queue.with_gaps().map(|(migration, gap)| MigrationRow { queue, nth, migration, gap }).collect()
}

/// The summary of all logs.
fn total(summary: &LogSummary, stats: &LogStats, queues: &[Queue]) -> Value {
    let cleanups = &summary.all_cleanups;
    let queue = |queue: &Queue| {
        json!({
            "files": queue.migrations.len(),
            "first_end_ns": queue.span().map(|(first, _)| first.0),
            "last_end_ns": queue.span().map(|(_, last)| last.0),
            "one_after_the_other": queue.is_serial(),
            "rank_correlation": queue.correlation(),
        })
    };
    json!({
        "type": "summary",
        "files": stats.files,
        "bytes": stats.bytes,
        "lines": stats.lines,
        "cut_lines": stats.cut_lines,
        "unreadable_requests": stats.unreadable_requests,
        "event_lines": summary.count(),
        "first_ns": summary.span.map(|(first, _)| first.0),
        "last_ns": summary.span.map(|(_, last)| last.0),
        "tier_cleanup": {
            "cleanups": cleanups.cleanups,
            "segments": cleanups.segments,
            "before_bytes": cleanups.before_bytes,
            "after_bytes": cleanups.after_bytes,
            "change_bytes": cleanups.change_bytes(),
            "change_percent": cleanups.change_percent(),
            "partitions": summary.cleanups.len(),
        },
        "tier_migration": queues.iter().map(queue).collect::<Vec<_>>(),
        "without_room": summary.without_room,
    })
}

/// Tables for people; the only single entries are the slowest and those about the whole broker.
pub struct LogOverview<W>(TextWriter<W>);

impl<W: Write> LogOverview<W> {
    /// Creates tables in this style.
    pub fn new(out: W, style: &Style) -> Self {
        Self(TextWriter::new(out, style))
    }

    fn max_rows(&self) -> usize {
        if self.0.style.wide { usize::MAX } else { MAX_ROWS }
    }

    /// Writes a heading, the first rows, and how many more there are.
    fn section<'r, R: Report>(
        &mut self,
        heading: &str,
        report: &R,
        rows: &'r [R::Row<'r>],
    ) -> io::Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        self.0.heading(heading)?;
        let max = self.max_rows();
        self.0.table(report, rows.iter().take(max))?;
        self.0.more(rows.len().saturating_sub(max))
    }

    /// Writes one row per partition, the one that shrank most first, and a total.
    fn cleanups(&mut self, summary: &LogSummary) -> io::Result<()> {
        let all = &summary.all_cleanups;
        if all.cleanups == 0 {
            return Ok(());
        }
        self.0.heading(&format!(
            "Tier state cleanup: {} removed from the state of {}, {} → {} ({} %)",
            format_count_of(all.segments, "segment"),
            format_count_of(summary.cleanups.len() as u64, "partition"),
            format_bytes(all.before_bytes),
            format_bytes(all.after_bytes),
            format_percent(all.change_percent()),
        ))?;
        let mut rows = cleanups(summary);
        rows.sort_by_key(|(_, cleanup)| cleanup.change_bytes());
        let omitted = rows.len().saturating_sub(self.max_rows());
        rows.truncate(self.max_rows());
        rows.push((None, all));
        self.0.table(&Cleanups, &rows)?;
        self.0.more(omitted)
    }

    /// Writes each file with the time since the previous one, on its queue's timeline.
    fn migrations(&mut self, summary: &LogSummary) -> io::Result<()> {
        for queue in summary.migrations.queues() {
            // The ones that delayed the rest matter most.
            let (mut rows, max) = (rows(0, &queue), self.max_rows());
            if rows.len() > max {
                rows.sort_by_key(|row| Reverse(row.gap));
                if let Some(longest) = rows.get_mut(..max) {
                    longest.sort_by_key(|row| row.migration.end);
                }
            }
            self.section(&describe_queue(&queue), &MigrationRows, &rows)?;
        }
        if summary.migrations.more > 0 {
            let more = format_count_of(summary.migrations.more, "migration");
            writeln!(self.0.out, "\n{more} not listed: without a time, or beyond the limit")?;
        }
        Ok(())
    }

    fn isr(&mut self, summary: &LogSummary) -> io::Result<()> {
        let mut rows = summary.in_sync.iter().collect::<Vec<_>>();
        rows.sort_by_key(|(_, changes)| Reverse((changes.shrinks, changes.expansions, changes.changes)));
        let shrinks = rows.iter().map(|(_, changes)| changes.shrinks).sum();
        let partitions = format_count_of(rows.len() as u64, "partition");
        let heading = format!("In-sync replicas: {} of {partitions}", format_count_of(shrinks, "shrink"));
        self.section(&heading, &Isr, &rows)
    }

    fn requests(&mut self, summary: &LogSummary) -> io::Result<()> {
        let mut rows = summary.apis.iter().collect::<Vec<_>>();
        if rows.is_empty() {
            return Ok(());
        }
        rows.sort_by_key(|(_, times)| Reverse(times.total().sum()));
        self.0.heading(
            "Requests in Kafka's request log (the last columns are the p99 of each part of the time)",
        )?;
        self.0.table(&Apis, &rows)
    }

    /// Writes entries without the columns of wide tables, which are for lists.
    /// `others` counts entries that were not kept.
    fn entries(&mut self, heading: &str, entries: &[&LogEntry], max: usize, others: u64) -> io::Result<()> {
        if entries.is_empty() {
            return Ok(());
        }
        self.0.heading(heading)?;
        let style = Style { wide: false, ..self.0.style.aligned() };
        let report = LogEntries { wide: self.0.style.wide };
        let mut table = Writer::table(&mut self.0.out, &report, &style, INDENT);
        entries.iter().take(max).try_for_each(|entry| table.row(&LogRow { entry, file: "" }))?;
        table.finish()?;
        let count = entries.len() + usize::try_from(others).unwrap_or(usize::MAX);
        self.0.more(count.saturating_sub(max))
    }
}

impl<W: Write> LogSink for LogOverview<W> {
    fn entry(&mut self, _: LogRow<'_>) -> io::Result<()> {
        Ok(())
    }

    fn finish(&mut self, summary: &LogSummary, stats: &LogStats) -> io::Result<()> {
        writeln!(self.0.out, "{}", lead(summary, stats, &self.0.style.zone))?;
        if summary.count() > 0 {
            self.0.table(&Kinds, &summary.groups.iter().collect::<Vec<_>>())?;
            self.cleanups(summary)?;
            self.migrations(summary)?;
            self.isr(summary)?;
            self.requests(summary)?;
            let mut events: Vec<&LogEntry> = summary.events.iter().collect();
            events.sort_by_key(|event| event.at);
            self.entries("Broker events", &events, self.max_rows(), summary.more_events)?;
            self.entries("Slowest events", &summary.slowest.sorted(), usize::MAX, 0)?;
        }
        if summary.without_room > 0 {
            let count = format_count_of(summary.without_room, "line");
            writeln!(
                self.0.out,
                "\n{count} not in the tables above: no partition or API named, or beyond the limit of rows"
            )?;
        }
        self.0.out.flush()
    }
}

/// How much was read, and its time span.
fn lead(summary: &LogSummary, stats: &LogStats, zone: &Zone) -> String {
    let (events, lines) = (format_count_of(summary.count(), "event"), format_count_of(stats.lines, "line"));
    let span = summary.span.map_or_else(String::new, |(first, last)| {
        format!(", {} to {}", zone.date_and_time(first), zone.date_and_time(last))
    });
    format!("{events} in {lines} of {}{span}", format_count_of(stats.files, "log"))
}

fn format_percent(percent: Option<f64>) -> String {
    percent.map_or_else(|| NONE.to_owned(), |percent| format!("{percent:+.2}"))
}

/// The number of files, their time, and whether one was migrated after the other.
fn describe_queue(queue: &Queue) -> String {
    let files = format_count_of(queue.migrations.len() as u64, "file");
    let Some((first, last)) = queue.span().filter(|(first, last)| first < last) else {
        return format!("Tier state migration: {files}");
    };
    let longest = queue.with_gaps().filter_map(|(_, gap)| gap).max().unwrap_or(Nanos::ZERO);
    let order = match queue.correlation() {
        Some(_) if queue.is_serial() == Some(true) => {
            "one after the other: the larger the file, the longer the time since the one before"
        }
        Some(_) => "their end times do not show whether one after the other",
        None => "too few to tell whether one after the other",
    };
    format!(
        "Tier state migration: {files} in {}, up to {longest} since the one before; {order}",
        last - first
    )
}

/// The time from the previous end to this one, as a bar.
fn line(span: Span, end: Nanos, gap: Option<Nanos>) -> String {
    let Some((first, last)) = span.filter(|(first, last)| first < last) else { return NONE.to_owned() };
    let whole = (last - first).0 as f64;
    let place = |at: Nanos| (((at - first).0 as f64 / whole * TIMELINE as f64) as usize).min(TIMELINE);
    let from = place(end - gap.unwrap_or(Nanos::ZERO)).min(TIMELINE - 1);
    let to = place(end).max(from + 1);
    format!("|{}{}{}|", " ".repeat(from), "█".repeat(to - from), " ".repeat(TIMELINE - to))
}
