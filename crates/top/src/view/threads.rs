//! The time of the broker's threads in the last seconds, by thread or by role.

use report::quantity::format_count;
use report::thread_state::ThreadState::{self, Blocked, FileOp, Lock, Runnable, Running, Stopped};

use super::{Table, rows};
use crate::clip::{clip, clip_middle};
use crate::item::{Cell, Column, Item, Rank, RowKey, bar, cell, columns, dash, plain};
use crate::palette::{Tone, state_style};
use crate::state::BrokerInfo;
use crate::state::threads::{OfRole, Shares, ThreadTimes};

pub(crate) const BY_THREAD: Table = Table {
    grouping: Some("by thread"),
    columns: &THREAD_COLUMNS,
    sorted_by: "BUSY",
    items: |state| {
        let sampled = state.threads.sampled;
        rows(state.threads.thread_times().into_iter().map(move |times| ThreadRow { times, sampled }))
    },
};

pub(crate) const BY_ROLE: Table = Table {
    grouping: Some("by role"),
    columns: &ROLE_COLUMNS,
    sorted_by: "BUSY",
    items: |state| {
        let sampled = state.threads.sampled;
        let row = move |of: OfRole| RoleRow { each: of.shares.each_of(of.threads), of, sampled };
        rows(state.threads.roles().into_iter().map(row))
    },
};

/// A share of a thread's time, as a number.
const fn share(name: &'static str) -> Column {
    Column::number(name, 5)
}

struct ThreadRow {
    times: ThreadTimes,
    sampled: bool,
}

impl ThreadRow {
    fn share(&self, state: ThreadState) -> f64 {
        self.times.shares.of(state)
    }
}

columns! { THREAD_COLUMNS for ThreadRow, |row, width, about| {
    key: RowKey::Thread(row.times.tid),
    words: format!("{} {} {}", row.times.name, row.times.role.as_str(), row.times.tid),
    Column::text("THREAD", 16).growing(3, 60) =>
        &*row.times.name, plain(clip_middle(&row.times.name, width));
    share("BUSY") =>
        row.times.shares.busy(), per_cent(row.times.shares.busy(), Tone::Strong);
    Column::text("STATES", 12).growing(3, 50) =>
        row.times.shares.busy(), states(&row.times.shares, width);
    share("CPU") => row.share(Running), on_cpu(row.share(Running), row.sampled);
    share("RUNQ") => row.share(Runnable), part(row.share(Runnable));
    share("FILE") => row.share(FileOp), part(row.share(FileOp));
    share("BLOCK") => row.share(Blocked), part(row.share(Blocked));
    share("LOCK") => row.share(Lock), part(row.share(Lock));
    share("STOP") => row.share(Stopped), part(row.share(Stopped));
    Column::number("TID", 7) =>
        u64::from(row.times.tid), plain(row.times.tid.to_string());
    Column::text("ROLE", 17).spare(1) =>
        row.times.role.as_str(), cell(clip(row.times.role.as_str(), width), Tone::Name);
} }

struct RoleRow {
    of: OfRole,
    each: Shares,
    sampled: bool,
}

impl RoleRow {
    fn share(&self, state: ThreadState) -> f64 {
        self.each.of(state)
    }
}

columns! { ROLE_COLUMNS for RoleRow, |row, width, about| {
    key: RowKey::Role(row.of.role.as_str()),
    words: row.of.role.as_str().to_owned(),
    Column::text("ROLE", 17).growing(1, 26) =>
        row.of.role.as_str(), cell(clip(row.of.role.as_str(), width), Tone::Name);
    Column::number("THREADS", 7) =>
        row.of.threads, plain(format_count(row.of.threads));
    share("BUSY") =>
        row.each.busy(), per_cent(row.each.busy(), Tone::Strong);
    Column::text("STATES", 10).growing(3, 50) =>
        row.each.busy(), states(&row.each, width);
    share("CPU") => row.share(Running), on_cpu(row.share(Running), row.sampled);
    share("RUNQ") => row.share(Runnable), part(row.share(Runnable));
    share("FILE") => row.share(FileOp), part(row.share(FileOp));
    share("BLOCK") => row.share(Blocked), part(row.share(Blocked));
    share("LOCK") => row.share(Lock), part(row.share(Lock));
    share("STOP") => row.share(Stopped), part(row.share(Stopped));
    Column::number("HOST'S CPUS", 11).spare(1) =>
        row.of.processors.unwrap_or(0.0), row.of.processors.map_or_else(dash, |cpus| plain(format!("{cpus:.2}")));
} }

fn states(shares: &Shares, width: usize) -> Cell {
    let parts = ThreadState::ALL.map(|state| (state_style(state).0, Tone::State(state), shares.of(state)));
    bar(&parts, 1.0, width)
}

/// Time on a CPU, if anything samples it.
fn on_cpu(share: f64, sampled: bool) -> Cell {
    if sampled { part(share) } else { dash() }
}

fn part(share: f64) -> Cell {
    per_cent(share, Tone::Plain)
}

fn per_cent(share: f64, tone: Tone) -> Cell {
    let per_cent = share * 100.0;
    match per_cent {
        none if none <= 0.0 => dash(),
        little if little < 0.05 => cell("<0.1%".to_owned(), Tone::Faint),
        some if some < 9.95 => cell(format!("{some:.1}%"), tone),
        much => cell(format!("{much:.0}%"), tone),
    }
}
