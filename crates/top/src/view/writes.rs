//! File operations: the slowest one by one, with what they waited for; or all of them by file.

use std::sync::Arc;

use model::Nanos;
use report::quantity::{NONE, format_bytes, format_count, or_dash};

use crate::clip::{clip, clip_middle, width as columns_of};
use crate::item::{Cell, Column, Item, Rank, RowKey, cell};
use crate::palette::Tone;
use crate::state::State;
use crate::state::about::BrokerInfo;
use crate::state::operations::{OfFile, Operation};

pub(crate) const LATENCY: usize = 1;
pub(crate) const FILE_SLOWEST: usize = 2;

/// Reasons that nobody has to do anything about.
const HARMLESS: [&str; 2] = ["cpu", "unobserved"];
/// What takes so long, others wait for.
const LONG: Nanos = Nanos::from_millis(10);

pub(crate) const COLUMNS: [Column; 11] = [
    Column::text("TIME", 12),
    Column::number("LATENCY", 8),
    Column::text("OP", 9),
    Column::text("WHY", 19).growing(1, 24),
    Column::number("BYTES", 9),
    Column::text("FILE", 16).growing(6, 60),
    Column::text("THREAD", 20).growing(2, 40).spare(1),
    Column::number("TID", 7).spare(2),
    Column::number("OFFSET", 15).spare(3),
    Column::text("DEVICE", 9).spare(4),
    Column::text("FS", 5).spare(5),
];

pub(crate) const FILE_COLUMNS: [Column; 8] = [
    Column::text("FILE", 20).growing(6, 80),
    Column::number("OPS", 10),
    Column::number("SLOWEST", 8),
    Column::text("WHY", 15).growing(1, 24),
    Column::number("TOTAL", 8),
    Column::number("BYTES", 9),
    Column::number("MEAN", 8).spare(1),
    Column::text("LAST", 12).spare(2),
];

pub(crate) fn operations(state: &State) -> Vec<Box<dyn Item + '_>> {
    state.operations.slowest().map(|op| Box::new(op) as Box<dyn Item + '_>).collect()
}

pub(crate) fn by_file(state: &State) -> Vec<Box<dyn Item + '_>> {
    state
        .operations
        .by_file()
        .map(|(file, of)| Box::new(FileRow { file, of }) as Box<dyn Item + '_>)
        .collect()
}

fn reason(name: &str) -> Tone {
    if HARMLESS.contains(&name) { Tone::Faint } else { Tone::Name }
}

pub(crate) fn latency(latency: Nanos) -> Cell {
    cell(latency.to_string(), if latency >= LONG { Tone::Bad } else { Tone::Plain })
}

impl Operation {
    /// Most of its time, with its share.
    fn why(&self) -> Option<(&'static str, String)> {
        let first = self.reasons.first()?;
        let share = (first.time.0 as f64 / self.latency.0.max(1) as f64 * 100.0).round();
        Some((first.name, format!("{} {share:.0}%", first.name)))
    }
}

impl Item for &Operation {
    fn key(&self) -> RowKey {
        RowKey::Operation(self.number)
    }

    fn rank(&self, column: usize) -> Rank {
        match column {
            0 => Rank::Number(self.end.0),
            1 => Rank::Number(self.latency.0),
            2 => Rank::Text(self.op.as_str().to_owned()),
            3 => Rank::Text(self.why().map(|(name, _)| name.to_owned()).unwrap_or_default()),
            4 => Rank::of_count(self.bytes.unwrap_or(0)),
            5 => Rank::Text(self.file.to_string()),
            6 => Rank::Text(self.thread.to_string()),
            7 => Rank::Number(self.tid.into()),
            8 => Rank::of_count(self.offset),
            9 => Rank::Text(self.device.to_string()),
            _ => Rank::Text(self.fs.to_string()),
        }
    }

    fn cell(&self, column: usize, width: usize, about: &BrokerInfo) -> Cell {
        match column {
            0 => cell(about.zone.time_of_day(self.end), Tone::Plain),
            1 => latency(self.latency),
            2 => cell(clip(self.op.as_str(), width), Tone::Plain),
            3 => match self.why() {
                Some((name, why)) if columns_of(&why) <= width => cell(why, reason(name)),
                Some((name, _)) => cell(clip(name, width), reason(name)),
                None => cell(NONE.to_owned(), Tone::Faint),
            },
            4 => cell(or_dash(self.bytes.map(format_bytes)), Tone::Plain),
            5 => cell(clip_middle(&self.file, width), Tone::Plain),
            6 => cell(clip_middle(&self.thread, width), Tone::Plain),
            7 => cell(self.tid.to_string(), Tone::Plain),
            8 => cell(format_count(self.offset), Tone::Plain),
            9 => cell(clip(&self.device.to_string(), width), Tone::Plain),
            _ => cell(clip(&self.fs, width), Tone::Plain),
        }
    }

    fn words(&self) -> String {
        let why = self.reasons.first().map_or("", |reason| reason.name);
        let (op, file, thread) = (self.op.as_str(), &self.file, &self.thread);
        format!("{op} {why} {file} {thread} {} {}", self.tid, self.device)
    }
}

struct FileRow<'a> {
    file: Option<&'a Arc<str>>,
    of: &'a OfFile,
}

impl FileRow<'_> {
    fn name(&self) -> &str {
        self.file.map_or("(others)", |file| file)
    }
}

impl Item for FileRow<'_> {
    fn key(&self) -> RowKey {
        RowKey::FileOfOperations(self.file.cloned())
    }

    fn rank(&self, column: usize) -> Rank {
        match column {
            0 => Rank::Text(self.name().to_owned()),
            1 => Rank::of_count(self.of.count),
            2 => Rank::Number(self.of.slowest.0),
            3 => Rank::Text(self.of.reason.unwrap_or_default().to_owned()),
            4 => Rank::Number(self.of.time.0),
            5 => Rank::of_count(self.of.bytes),
            6 => Rank::Number(self.of.mean().0),
            _ => Rank::Number(self.of.last.0),
        }
    }

    fn cell(&self, column: usize, width: usize, about: &BrokerInfo) -> Cell {
        match column {
            0 => cell(clip_middle(self.name(), width), Tone::Plain),
            1 => cell(format_count(self.of.count), Tone::Plain),
            2 => latency(self.of.slowest),
            3 => {
                let why = self.of.reason.unwrap_or(NONE);
                cell(clip(why, width), reason(why))
            }
            4 => cell(self.of.time.to_string(), Tone::Plain),
            5 => cell(format_bytes(self.of.bytes), Tone::Plain),
            6 => cell(self.of.mean().to_string(), Tone::Plain),
            _ => cell(about.zone.time_of_day(self.of.last), Tone::Plain),
        }
    }

    fn words(&self) -> String {
        format!("{} {}", self.name(), self.of.reason.unwrap_or_default())
    }
}
