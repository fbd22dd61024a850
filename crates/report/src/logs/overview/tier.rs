//! What tiered storage did to the files of its state: the table of case 3, and migrations as a line of time.

use std::cmp::Reverse;
use std::io::{self, Write};

use model::Nanos;

use super::super::LogSummary;
use super::super::tier::{Cleanup, Queue, percent};
use super::LogOverview;
use crate::escape::escape;
use crate::quantity::{NONE, format_bytes, format_count, format_count_of, or_dash};
use crate::table::Column;

/// How wide a line of time is.
const WIDTH: usize = 40;

impl<W: Write> LogOverview<W> {
    /// One row a partition, that which shrank most first, and all of them together.
    pub(super) fn cleanups(&mut self, digest: &LogSummary) -> io::Result<()> {
        let all = &digest.all_cleanups;
        if all.cleanups == 0 {
            return Ok(());
        }
        self.heading(&format!(
            "Tier state cleanup: {} removed from the state of {}, {} → {} ({} %)",
            format_count_of(all.segments, "segment"),
            format_count_of(digest.cleanups.len() as u64, "partition"),
            format_bytes(all.before_bytes),
            format_bytes(all.after_bytes),
            percentage(all.change_percent()),
        ))?;
        let columns = [
            Column::text("TOPIC", 16),
            Column::text("PARTITION", 0),
            Column::number("CLEANUPS", 0),
            Column::number("SEGMENTS", 0),
            Column::number("BEFORE", 0),
            Column::number("AFTER", 0),
            Column::number("CHANGE", 0),
            Column::number("CHANGE(%)", 0),
        ];
        let mut rows: Vec<_> = digest.cleanups.iter().collect();
        rows.sort_by_key(|(_, cleanup)| cleanup.change_bytes());
        let shown = self.shown();
        let mut table = self.table(columns.to_vec());
        for (of, cleanup) in rows.iter().take(shown) {
            table.row(row(&escape(&of.topic), &of.partition.to_string(), cleanup))?;
        }
        table.row(row("total", "", all))?;
        table.finish()?;
        self.rest(rows.len())
    }

    /// Each file with the time since the one before, on the line of time of its queue.
    pub(super) fn migrations(&mut self, digest: &LogSummary) -> io::Result<()> {
        for queue in digest.migrations.queues() {
            self.heading(&lead(&queue))?;
            self.migrations_of(&queue)?;
        }
        if digest.migrations.more > 0 {
            let more = format_count_of(digest.migrations.more, "migration");
            writeln!(self.out, "\n{more} without a time, or that there was no room for")?;
        }
        Ok(())
    }

    fn migrations_of(&mut self, queue: &Queue) -> io::Result<()> {
        let columns = [
            Column::text("END TIME", 23),
            Column::number("SINCE BEFORE", 0),
            Column::text("TOPIC", 16),
            Column::text("PARTITION", 0),
            Column::number("BEFORE", 0),
            Column::number("AFTER", 0),
            Column::number("CHANGE(%)", 0),
            Column::text("WHEN", WIDTH + 2),
        ];
        let (zone, wide, shown) = (self.look.zone.clone(), self.look.wide, self.shown());
        // Those that held up the rest are what one wants to see.
        let mut rows: Vec<_> = queue.with_gaps().collect();
        let count = rows.len();
        if !wide && count > shown {
            rows.sort_by_key(|(_, gap)| Reverse(*gap));
            rows.truncate(shown);
            rows.sort_by_key(|(migration, _)| migration.end);
        }
        let mut table = self.table(columns.to_vec());
        for (migration, gap) in rows {
            let of = migration.topic_partition.as_ref();
            table.row(vec![
                zone.date_and_time(migration.end),
                or_dash(gap),
                or_dash(of.map(|of| escape(&of.topic).into_owned())),
                or_dash(of.map(|of| of.partition)),
                format_count(migration.before_bytes),
                format_count(migration.after_bytes),
                percentage(percent(migration.before_bytes, migration.after_bytes)),
                line(queue.span(), migration.end, gap),
            ])?;
        }
        table.finish()?;
        self.rest(count)
    }
}

fn row(topic: &str, partition: &str, cleanup: &Cleanup) -> Vec<String> {
    let change = cleanup.change_bytes();
    let sign = if change < 0 { "-" } else { "" };
    vec![
        topic.to_owned(),
        partition.to_owned(),
        format_count(cleanup.cleanups),
        format_count(cleanup.segments),
        format_count(cleanup.before_bytes),
        format_count(cleanup.after_bytes),
        format!("{sign}{}", format_count(change.unsigned_abs())),
        percentage(cleanup.change_percent()),
    ]
}

fn percentage(percent: Option<f64>) -> String {
    percent.map_or_else(|| NONE.to_owned(), |percent| format!("{percent:+.2}"))
}

/// How many in which time, and whether one after the other.
fn lead(queue: &Queue) -> String {
    let files = format_count_of(queue.migrations.len() as u64, "file");
    let Some((first, last)) = queue.span().filter(|(first, last)| first < last) else {
        return format!("Tier state migration: {files}");
    };
    let longest = queue.with_gaps().filter_map(|(_, gap)| gap).max().unwrap_or(Nanos::ZERO);
    let order = match queue.correlation() {
        Some(_) if queue.is_serial() == Some(true) => {
            "one after the other: the larger the file, the longer since the one before"
        }
        Some(_) => "whether one after the other, their ends do not say",
        None => "too few to say whether one after the other",
    };
    format!(
        "Tier state migration: {files} in {}, up to {longest} since the one before; {order}",
        last - first
    )
}

/// From the end of the one before to this one's, as a bar.
fn line(span: Option<(Nanos, Nanos)>, end: Nanos, gap: Option<Nanos>) -> String {
    let Some((first, last)) = span.filter(|(first, last)| first < last) else { return NONE.to_owned() };
    let whole = (last - first).0 as f64;
    let place = |at: Nanos| (((at - first).0 as f64 / whole * WIDTH as f64) as usize).min(WIDTH);
    let from = place(end - gap.unwrap_or(Nanos::ZERO)).min(WIDTH - 1);
    let to = place(end).max(from + 1);
    format!("|{}{}{}|", " ".repeat(from), "█".repeat(to - from), " ".repeat(WIDTH - to))
}
