//! What slow requests waited for: each root event with its victims, or all roots of a cause.

use model::{Cause, Nanos};
use report::quantity::format_count;

use super::requests::of_cause;
use crate::clip::clip;
use crate::item::{Cell, Column, Item, Rank, RowKey, bar, cell};
use crate::palette::Tone;
use crate::state::State;
use crate::state::about::BrokerInfo;
use crate::state::roots::{OfCause, Root, Toll};

pub(crate) const ROOT_TIME: usize = 2;
pub(crate) const CAUSE_TIME: usize = 3;

pub(crate) const ROOT_COLUMNS: [Column; 7] = [
    Column::text("CAUSE", 16).growing(1, 28),
    Column::number("VICTIMS", 7),
    Column::number("TIME", 8),
    Column::number("SLOWEST", 8),
    Column::text("LAST", 12),
    Column::text("WHAT", 22).growing(6, 110),
    Column::text("ROOT", 28).growing(1, 40).spare(1),
];

pub(crate) const CAUSE_COLUMNS: [Column; 8] = [
    Column::text("CAUSE", 16).growing(1, 28),
    Column::number("ROOTS", 7),
    Column::number("VICTIMS", 8),
    Column::number("TIME", 9),
    Column::text("SHARE", 10).growing(2, 30),
    Column::number("SLOWEST", 8),
    Column::text("LAST", 12),
    Column::text("ADVICE", 30).growing(8, 120).spare(1),
];

pub(crate) fn roots(state: &State) -> Vec<Box<dyn Item + '_>> {
    state.roots.iter().map(|root| Box::new(root) as Box<dyn Item + '_>).collect()
}

pub(crate) fn causes(state: &State) -> Vec<Box<dyn Item + '_>> {
    let whole = state.roots.time();
    let causes = state.roots.causes();
    causes.map(|(cause, of)| Box::new(CauseRow { cause, of, whole }) as Box<dyn Item + '_>).collect()
}

/// The columns that both have.
fn tolled(toll: &Toll, what: &str, about: &BrokerInfo) -> Cell {
    match what {
        "VICTIMS" => cell(format_count(toll.victims), Tone::Strong),
        "TIME" => cell(toll.time.to_string(), Tone::Plain),
        "SLOWEST" => cell(toll.slowest.to_string(), Tone::Bad),
        _ => cell(about.zone.time_of_day(toll.last), Tone::Plain),
    }
}

fn rank_of(toll: &Toll, what: &str) -> Rank {
    match what {
        "VICTIMS" => Rank::of_count(toll.victims),
        "TIME" => Rank::Number(toll.time.0),
        "SLOWEST" => Rank::Number(toll.slowest.0),
        _ => Rank::Number(toll.last.0),
    }
}

fn what(columns: &[Column], column: usize) -> &'static str {
    columns.get(column).map_or("", |column| column.name)
}

impl Item for &Root {
    fn key(&self) -> RowKey {
        RowKey::Root(self.id.clone())
    }

    fn rank(&self, column: usize) -> Rank {
        match what(&ROOT_COLUMNS, column) {
            "CAUSE" => Rank::Text(self.cause.to_string()),
            "WHAT" => Rank::Text(self.text.clone()),
            "ROOT" => Rank::Text(self.id.to_string()),
            other => rank_of(&self.toll, other),
        }
    }

    fn cell(&self, column: usize, width: usize, about: &BrokerInfo) -> Cell {
        match what(&ROOT_COLUMNS, column) {
            "CAUSE" => cell(clip(self.cause.as_str(), width), of_cause(self.cause)),
            "WHAT" if self.text.is_empty() => cell(clip("nothing that was seen", width), Tone::Faint),
            "WHAT" => cell(clip(&self.text, width), Tone::Plain),
            "ROOT" => cell(clip(&self.id, width), Tone::Faint),
            other => tolled(&self.toll, other, about),
        }
    }

    fn words(&self) -> String {
        format!("{} {} {}", self.cause, self.id, self.text)
    }
}

struct CauseRow<'a> {
    cause: Cause,
    of: &'a OfCause,
    /// The time of all causes.
    whole: Nanos,
}

impl Item for CauseRow<'_> {
    fn key(&self) -> RowKey {
        RowKey::Cause(self.cause)
    }

    fn rank(&self, column: usize) -> Rank {
        match what(&CAUSE_COLUMNS, column) {
            "CAUSE" | "ADVICE" => Rank::Text(self.cause.to_string()),
            "ROOTS" => Rank::of_count(self.of.roots),
            "SHARE" => Rank::Number(self.of.toll.time.0),
            other => rank_of(&self.of.toll, other),
        }
    }

    fn cell(&self, column: usize, width: usize, about: &BrokerInfo) -> Cell {
        let share = self.of.toll.time.0 as f64;
        match what(&CAUSE_COLUMNS, column) {
            "CAUSE" => cell(clip(self.cause.as_str(), width), of_cause(self.cause)),
            "ROOTS" => cell(format_count(self.of.roots), Tone::Plain),
            "SHARE" => bar(&[('█', Tone::Name, share)], self.whole.0 as f64, width),
            "ADVICE" => cell(clip(diagnose::advice(self.cause).first().unwrap_or(&""), width), Tone::Plain),
            other => tolled(&self.of.toll, other, about),
        }
    }

    fn words(&self) -> String {
        self.cause.to_string()
    }
}
