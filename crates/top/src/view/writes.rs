//! File operations: the slowest one by one, with the reasons for their waits; or all of them by file.

use std::sync::Arc;

use model::{FileOp, Nanos};
use report::quantity::{NONE, format_bytes, format_count, or_dash};

use super::{Table, rows};
use crate::clip::{clip, clip_middle, width as columns_of};
use crate::item::{Cell, Column, Item, Rank, RowKey, cell, columns, dash, plain};
use crate::palette::Tone;
use crate::state::BrokerInfo;
use crate::state::operations::{OfFile, Operation};

/// Reasons that need no action.
const HARMLESS: [&str; 2] = ["cpu", "unobserved"];
/// Latency from which others wait for an operation.
const LONG: Nanos = Nanos::from_millis(10);

pub(crate) const ONE_BY_ONE: Table = Table {
    grouping: Some("one by one"),
    columns: &COLUMNS,
    sorted_by: "LATENCY",
    items: |state| rows(state.operations.slowest.iter()),
};

pub(crate) const BY_FILE: Table = Table {
    grouping: Some("by file"),
    columns: &FILE_COLUMNS,
    sorted_by: "SLOWEST",
    items: |state| rows(state.operations.by_file().map(|(file, of)| FileRow { file, of })),
};

columns! { COLUMNS for &Operation, |row, width, about| {
    key: RowKey::Operation(row.number),
    words: {
        let why = row.reasons.first().map_or("", |reason| reason.name);
        let FileOp { op, file, thread, tid, device, .. } = &row.op;
        format!("{} {why} {file} {thread} {tid} {device}", op.as_str())
    },
    Column::text("TIME", 12) =>
        row.op.end, plain(about.zone.time_of_day(row.op.end));
    Column::number("LATENCY", 8) =>
        row.op.latency(), latency(row.op.latency());
    Column::text("OP", 9) =>
        row.op.op.as_str(), plain(clip(row.op.op.as_str(), width));
    Column::text("WHY", 19).growing(1, 24) =>
        row.why().map_or("", |(name, _)| name), match row.why() {
            Some((name, why)) if columns_of(&why) <= width => cell(why, reason(name)),
            Some((name, _)) => cell(clip(name, width), reason(name)),
            None => dash(),
        };
    Column::number("BYTES", 9) =>
        row.op.bytes.unwrap_or(0), plain(or_dash(row.op.bytes.map(format_bytes)));
    Column::text("FILE", 16).growing(6, 60) =>
        &*row.op.file, plain(clip_middle(&row.op.file, width));
    Column::text("THREAD", 20).growing(2, 40).spare(1) =>
        &*row.op.thread, plain(clip_middle(&row.op.thread, width));
    Column::number("TID", 7).spare(2) =>
        u64::from(row.op.tid), plain(row.op.tid.to_string());
    Column::number("OFFSET", 15).spare(3) =>
        row.op.offset, plain(format_count(row.op.offset));
    Column::text("DEVICE", 9).spare(4) =>
        row.op.device.to_string(), plain(clip(&row.op.device.to_string(), width));
    Column::text("FS", 5).spare(5) =>
        &*row.op.fs, plain(clip(&row.op.fs, width));
} }

struct FileRow<'a> {
    file: Option<&'a Arc<str>>,
    of: &'a OfFile,
}

impl FileRow<'_> {
    fn name(&self) -> &str {
        self.file.map_or("(others)", |file| file)
    }
}

columns! { FILE_COLUMNS for FileRow<'_>, |row, width, about| {
    key: RowKey::FileOfOperations(row.file.cloned()),
    words: format!("{} {}", row.name(), row.of.reason.unwrap_or_default()),
    Column::text("FILE", 20).growing(6, 80) =>
        row.name(), plain(clip_middle(row.name(), width));
    Column::number("OPS", 10) =>
        row.of.count, plain(format_count(row.of.count));
    Column::number("SLOWEST", 8) =>
        row.of.slowest, latency(row.of.slowest);
    Column::text("WHY", 15).growing(1, 24) =>
        row.of.reason.unwrap_or_default(), {
            let why = row.of.reason.unwrap_or(NONE);
            cell(clip(why, width), reason(why))
        };
    Column::number("TOTAL", 8) =>
        row.of.time, plain(row.of.time.to_string());
    Column::number("BYTES", 9) =>
        row.of.bytes, plain(format_bytes(row.of.bytes));
    Column::number("MEAN", 8).spare(1) =>
        row.of.mean(), plain(row.of.mean().to_string());
    Column::text("LAST", 12).spare(2) =>
        row.of.last, plain(about.zone.time_of_day(row.of.last));
} }

fn reason(name: &str) -> Tone {
    if HARMLESS.contains(&name) { Tone::Faint } else { Tone::Name }
}

pub(crate) fn latency(latency: Nanos) -> Cell {
    cell(latency.to_string(), if latency >= LONG { Tone::Bad } else { Tone::Plain })
}

impl Operation {
    /// The reason for most of its time, with its share.
    fn why(&self) -> Option<(&'static str, String)> {
        let first = self.reasons.first()?;
        let share = (first.time.0 as f64 / self.op.latency().0.max(1) as f64 * 100.0).round();
        Some((first.name, format!("{} {share:.0}%", first.name)))
    }
}
