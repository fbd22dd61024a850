//! What was read and written of each file or kind of file: a second of the last few, and since the start; from the page cache
//! and from the device apart.

use report::files::GroupKey;
use report::quantity::{NONE, format_bytes, format_count, or_dash};

use crate::clip::{clip, clip_middle};
use crate::item::{Cell, Column, Item, Rank, RowKey, cell};
use crate::palette::Tone;
use crate::state::about::BrokerInfo;
use crate::state::traffic::Moved;

pub(crate) const MOVED: usize = 6;

const COMMON: usize = 13;

pub(crate) const COLUMNS: [Column; COMMON + 2] = [
    Column::text("FILE", 20).growing(6, 70),
    Column::number("READS/s", 7),
    Column::number("CACHE/s", 9),
    Column::number("DISK/s", 9),
    Column::number("WRITES/s", 8),
    Column::number("WRITE/s", 9),
    Column::number("MOVED", 9),
    Column::number("READS", 9).spare(2),
    Column::number("CACHE", 9).spare(2),
    Column::number("DISK", 9).spare(2),
    Column::number("WRITES", 9).spare(2),
    Column::number("WRITTEN", 9).spare(2),
    Column::number("FSYNCS", 7).spare(3),
    Column::text("KIND", 10).spare(1),
    Column::text("DEVICE", 9).spare(4),
];

/// The same of kinds of files, which are on any device.
pub(crate) const KIND_COLUMNS: [Column; COMMON] = {
    let [_, b, c, d, e, f, g, h, i, j, k, l, m, ..] = COLUMNS;
    [Column::text("KIND", 20).growing(6, 70), b, c, d, e, f, g, h, i, j, k, l, m]
};

pub(crate) fn items(moved: &[Moved]) -> Vec<Box<dyn Item + '_>> {
    moved.iter().map(|moved| Box::new(moved) as Box<dyn Item + '_>).collect()
}

impl Moved {
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

impl Item for &Moved {
    fn key(&self) -> RowKey {
        RowKey::Moved(self.who.clone())
    }

    fn rank(&self, column: usize) -> Rank {
        let (rates, total) = (&self.rates, &self.total);
        match column {
            0 => Rank::Text(self.name().to_owned()),
            1 => Rank::of_share(rates.reads),
            2 => Rank::of_share(rates.cached_bytes),
            3 => Rank::of_share(rates.disk_bytes.unwrap_or(0.0)),
            4 => Rank::of_share(rates.writes),
            5 => Rank::of_share(rates.written_bytes),
            6 => Rank::of_count(self.moved_bytes()),
            7 => Rank::of_count(total.reads),
            8 => Rank::of_count(self.cached_bytes()),
            9 => Rank::of_count(total.disk_bytes.unwrap_or(0)),
            10 => Rank::of_count(total.writes),
            11 => Rank::of_count(total.written_bytes),
            12 => Rank::of_count(total.fsyncs),
            13 => Rank::Text(self.kind().to_owned()),
            _ => Rank::Text(self.device().to_owned()),
        }
    }

    fn cell(&self, column: usize, width: usize, _about: &BrokerInfo) -> Cell {
        let (rates, total) = (&self.rates, &self.total);
        match column {
            0 => cell(clip_middle(self.name(), width), Tone::Plain),
            1 => count_rate(rates.reads),
            2 => rate(rates.cached_bytes),
            3 => rates.disk_bytes.map_or_else(nothing, from_disk),
            4 => count_rate(rates.writes),
            5 => rate(rates.written_bytes),
            6 => cell(format_bytes(self.moved_bytes()), Tone::Strong),
            7 => cell(format_count(total.reads), Tone::Plain),
            8 => cell(format_bytes(self.cached_bytes()), Tone::Plain),
            9 => cell(or_dash(total.disk_bytes.map(format_bytes)), Tone::Plain),
            10 => cell(format_count(total.writes), Tone::Plain),
            11 => cell(format_bytes(total.written_bytes), Tone::Plain),
            12 => cell(format_count(total.fsyncs), Tone::Plain),
            13 => cell(self.kind().to_owned(), Tone::Name),
            _ => cell(clip(self.device(), width), Tone::Plain),
        }
    }

    fn words(&self) -> String {
        format!("{} {} {}", self.name(), self.kind(), self.device())
    }
}

fn nothing() -> Cell {
    cell(NONE.to_owned(), Tone::Faint)
}

/// Nothing at all is a faint dash: columns of zeros hide what is not.
fn rate(bytes: f64) -> Cell {
    if bytes < 0.5 { nothing() } else { cell(format_bytes(bytes.round() as u64), Tone::Plain) }
}

/// Whoever reads from the device waits for it.
fn from_disk(bytes: f64) -> Cell {
    if bytes < 0.5 { nothing() } else { cell(format_bytes(bytes.round() as u64), Tone::Bad) }
}

fn count_rate(count: f64) -> Cell {
    match count {
        count if count <= 0.0 => nothing(),
        count if count < 9.95 => cell(format!("{count:.1}"), Tone::Plain),
        count => cell(format_count(count.round() as u64), Tone::Plain),
    }
}
