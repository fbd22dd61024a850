//! What slow requests waited for: each root event with its victims, or all roots of a cause.

use model::{Cause, Nanos};
use report::quantity::format_count;

use super::{Table, requests::cause_tone, rows};
use crate::clip::clip;
use crate::item::{Cell, Column, Item, Rank, RowKey, bar, cell, columns, plain};
use crate::palette::Tone;
use crate::state::BrokerInfo;
use crate::state::roots::{OfCause, Root};

pub(crate) const BY_ROOT: Table = Table {
    grouping: Some("by root"),
    columns: &ROOT_COLUMNS,
    sorted_by: "TIME",
    items: |state| rows(state.roots.iter()),
};

pub(crate) const BY_CAUSE: Table = Table {
    grouping: Some("by cause"),
    columns: &CAUSE_COLUMNS,
    sorted_by: "TIME",
    items: |state| {
        let whole = state.roots.time();
        rows(state.roots.causes().map(move |(cause, of)| CauseRow { cause, of, whole }))
    },
};

columns! { ROOT_COLUMNS for &Root, |row, width, about| {
    key: RowKey::Root(row.id.clone()),
    words: format!("{} {} {}", row.cause, row.id, row.text),
    Column::text("CAUSE", 16).growing(1, 28) =>
        row.cause.as_str(), cell(clip(row.cause.as_str(), width), cause_tone(row.cause));
    Column::number("VICTIMS", 7) =>
        row.toll.victims, cell(format_count(row.toll.victims), Tone::Strong);
    Column::number("TIME", 8) =>
        row.toll.time, plain(row.toll.time.to_string());
    Column::number("SLOWEST", 8) =>
        row.toll.slowest, cell(row.toll.slowest.to_string(), Tone::Bad);
    Column::text("LAST", 12) =>
        row.toll.last, plain(about.zone.time_of_day(row.toll.last));
    Column::text("WHAT", 22).growing(6, 110) =>
        row.text.as_str(), match row.text.as_str() {
            "" => cell(clip("not observed", width), Tone::Faint),
            text => plain(clip(text, width)),
        };
    Column::text("ROOT", 28).growing(1, 40).spare(1) =>
        &*row.id, cell(clip(&row.id, width), Tone::Faint);
} }

struct CauseRow<'a> {
    cause: Cause,
    of: &'a OfCause,
    /// Time of all causes.
    whole: Nanos,
}

columns! { CAUSE_COLUMNS for CauseRow<'_>, |row, width, about| {
    key: RowKey::Cause(row.cause),
    words: row.cause.to_string(),
    Column::text("CAUSE", 16).growing(1, 28) =>
        row.cause.as_str(), cell(clip(row.cause.as_str(), width), cause_tone(row.cause));
    Column::number("ROOTS", 7) =>
        row.of.roots, plain(format_count(row.of.roots));
    Column::number("VICTIMS", 8) =>
        row.of.toll.victims, cell(format_count(row.of.toll.victims), Tone::Strong);
    Column::number("TIME", 9) =>
        row.of.toll.time, plain(row.of.toll.time.to_string());
    Column::text("SHARE", 10).growing(2, 30) =>
        row.of.toll.time, bar(&[('█', Tone::Name, row.of.toll.time.0 as f64)], row.whole.0 as f64, width);
    Column::number("SLOWEST", 8) =>
        row.of.toll.slowest, cell(row.of.toll.slowest.to_string(), Tone::Bad);
    Column::text("LAST", 12) =>
        row.of.toll.last, plain(about.zone.time_of_day(row.of.toll.last));
    Column::text("ADVICE", 30).growing(8, 120).spare(1) =>
        row.cause.as_str(), plain(clip(diagnose::causes::spec(row.cause).advice.first().unwrap_or(&""), width));
} }
