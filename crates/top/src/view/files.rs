//! Bytes read and written by file or kind of file: per second over the last few seconds, and since the start; reads
//! from the page cache and from the device separately.

use report::files::GroupKey;
use report::quantity::{NONE, format_bytes, format_count, or_dash};

use super::{Table, rows};
use crate::clip::{clip, clip_middle};
use crate::item::{Cell, Column, Item, Rank, RowKey, cell, columns, dash, plain};
use crate::palette::Tone;
use crate::state::BrokerInfo;
use crate::state::traffic::TrafficRow;

pub(crate) const BY_FILE: Table = Table {
    grouping: Some("by file"),
    columns: &COLUMNS,
    sorted_by: "MOVED",
    items: |state| rows(state.traffic.by_file.moved.iter()),
};

pub(crate) const BY_KIND: Table = Table {
    grouping: Some("by kind"),
    columns: &KIND_COLUMNS,
    sorted_by: "MOVED",
    items: |state| rows(state.traffic.by_kind.moved.iter()),
};

columns! { COLUMNS for &TrafficRow, |row, width, about| {
    key: RowKey::Traffic(row.who.clone()),
    words: format!("{} {} {}", row.name(), row.kind(), row.device()),
    Column::text("FILE", 20).growing(6, 70) =>
        row.name(), plain(clip_middle(row.name(), width));
    Column::number("READS/s", 7) =>
        row.rates.reads, count_rate(row.rates.reads);
    Column::number("CACHE/s", 9) =>
        row.rates.cached_bytes.unwrap_or(0.0), rate(row.rates.cached_bytes.unwrap_or(0.0), Tone::Plain);
    // A thread that reads from the device waits for it.
    Column::number("DISK/s", 9) =>
        row.rates.disk_bytes.unwrap_or(0.0), rate(row.rates.disk_bytes.unwrap_or(0.0), Tone::Bad);
    Column::number("WRITES/s", 8) =>
        row.rates.writes, count_rate(row.rates.writes);
    Column::number("WRITE/s", 9) =>
        row.rates.written_bytes, rate(row.rates.written_bytes, Tone::Plain);
    Column::number("MOVED", 9) =>
        row.moved_bytes(), cell(format_bytes(row.moved_bytes()), Tone::Strong);
    Column::number("READS", 9).spare(2) =>
        row.total.reads, plain(format_count(row.total.reads));
    Column::number("CACHE", 9).spare(2) =>
        row.total.cached_bytes.unwrap_or(0), plain(or_dash(row.total.cached_bytes.map(format_bytes)));
    Column::number("DISK", 9).spare(2) =>
        row.total.disk_bytes.unwrap_or(0), plain(or_dash(row.total.disk_bytes.map(format_bytes)));
    Column::number("WRITES", 9).spare(2) =>
        row.total.writes, plain(format_count(row.total.writes));
    Column::number("WRITTEN", 9).spare(2) =>
        row.total.written_bytes, plain(format_bytes(row.total.written_bytes));
    Column::number("FSYNCS", 7).spare(3) =>
        row.total.fsyncs, plain(format_count(row.total.fsyncs));
    Column::text("KIND", 10).spare(1) =>
        row.kind(), cell(row.kind().to_owned(), Tone::Name);
    Column::text("DEVICE", 9).spare(4) =>
        row.device(), plain(clip(row.device(), width));
} }

/// Columns for kinds of files, which can be on any device.
const KIND_COLUMNS: [Column; 13] = {
    let [_, b, c, d, e, f, g, h, i, j, k, l, m, ..] = COLUMNS;
    [Column::text("KIND", 20).growing(6, 70), b, c, d, e, f, g, h, i, j, k, l, m]
};

impl TrafficRow {
    fn name(&self) -> &str {
        match &self.who {
            GroupKey::File { file, .. } => file,
            GroupKey::Kind(kind) => kind,
            GroupKey::Topic(topic) => topic.as_deref().unwrap_or(NONE),
            GroupKey::Partition(of) => of.as_ref().map_or(NONE, |(topic, _)| topic),
            GroupKey::Others => "(others)",
        }
    }

    fn kind(&self) -> &'static str {
        match &self.who {
            GroupKey::File { kind, .. } | GroupKey::Kind(kind) => kind,
            _ => NONE,
        }
    }

    fn device(&self) -> &str {
        match &self.who {
            GroupKey::File { device, .. } => device,
            _ => NONE,
        }
    }

    /// Bytes to and from devices.
    fn moved_bytes(&self) -> u64 {
        self.total.disk_bytes.unwrap_or(0).saturating_add(self.total.written_bytes)
    }
}

fn rate(bytes: f64, tone: Tone) -> Cell {
    if bytes < 0.5 { dash() } else { cell(format_bytes(bytes.round() as u64), tone) }
}

fn count_rate(count: f64) -> Cell {
    match count {
        count if count <= 0.0 => dash(),
        count if count < 9.95 => plain(format!("{count:.1}")),
        count => plain(format_count(count.round() as u64)),
    }
}
