//! Locks that threads were blocked on in thread dumps: one row per lock and method. Does not read dumps.

use std::sync::Arc;

use model::{Lock, LockHolder};
use serde_json::{Value, json};

use crate::rows::{Cell, Column, Report};

/// Thread numbers that a cell lists per name.
const MAX_NUMBERS: usize = 32;

/// A lock that threads were blocked on.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockedRow {
    /// The lock.
    pub lock: Lock,
    /// The method that its waiters were in; empty if unknown.
    pub method: Arc<str>,
    /// Threads that held it, most often first.
    pub owners: Vec<ThreadDumpCount>,
    /// Threads that waited for it, most often first.
    pub threads: Vec<ThreadDumpCount>,
    /// Number of dumps in which any thread waited for it.
    pub dumps: u64,
    /// Total number of dumps.
    pub of_dumps: u64,
    /// Number of waits in all dumps.
    pub waits: u64,
}

/// A thread, and the number of dumps in which it waited for the lock or held it.
#[derive(Clone, Debug, PartialEq)]
pub struct ThreadDumpCount {
    /// The thread.
    pub thread: LockHolder,
    /// Number of dumps.
    pub dumps: u64,
}

/// Locks that threads were blocked on, one row each.
#[derive(Clone, Copy, Debug)]
pub struct BlockedThreads;

type Col = Column<BlockedThreads>;

impl Report for BlockedThreads {
    type Row<'a> = BlockedRow;
    const TYPE: &'static str = "blocked";

    fn columns(&self) -> Vec<Col> {
        let address = |row: &BlockedRow| Some(row.lock.address).filter(|&address| address != 0);
        vec![
            Col::text("LOCK", 18, "", move |row| {
                address(row).map(|at| format!("{} {at:#x}", row.lock.kind)).into()
            }),
            Col::data("lock.kind", |row| row.lock.kind.as_str().into()),
            Col::text("CLASS", 16, "", |row| Cell::known(&row.lock.class)),
            Col::data("lock.class", |row| (&*row.lock.class).into()),
            Col::data("lock.address", move |row| address(row).into()),
            Col::text("OWNER", 24, "", |row| names(&row.owners)),
            Col::data("owners", |row| counts(&row.owners)),
            Col::text("BLOCKED THREADS", 24, "", |row| names(&row.threads)),
            Col::data("threads", |row| counts(&row.threads)),
            Col::text("METHOD", 24, "method", |row| Cell::known(&row.method)),
            Col::text("IN DUMPS", 0, "", |row| format!("{} of {}", row.dumps, row.of_dumps).into()),
            Col::data("dumps", |row| row.dumps.into()),
            Col::data("of_dumps", |row| row.of_dumps.into()),
            Col::number("WAITS", 0, "waits", |row| row.waits.into()).wide(),
            Col::text("OWNERS' TIDS", 0, "", |row| {
                let tids = row.owners.iter().filter_map(|owner| owner.thread.tid).take(MAX_NUMBERS);
                known(tids.map(|tid| tid.to_string()).collect::<Vec<_>>().join(" "))
            })
            .wide(),
        ]
    }
}

fn known<'a>(text: String) -> Cell<'a> {
    if text.is_empty() { Cell::None } else { text.into() }
}

fn counts<'a>(threads: &[ThreadDumpCount]) -> Cell<'a> {
    let count = |seen: &ThreadDumpCount| json!({ "thread": &*seen.thread.thread, "tid": seen.thread.tid, "dumps": seen.dumps });
    Cell::Value(threads.iter().map(count).collect::<Value>())
}

/// Thread names; those that differ only in their number are merged: `data-plane-kafka-request-handler-{0,2,3}`.
fn names<'a>(threads: &[ThreadDumpCount]) -> Cell<'a> {
    let mut stems: Vec<(&str, Vec<&str>)> = Vec::new();
    for seen in threads {
        let name = &*seen.thread.thread;
        let (stem, number) = name.split_at(name.trim_end_matches(|c: char| c.is_ascii_digit()).len());
        match stems.iter_mut().find(|(known, _)| *known == stem) {
            Some((_, numbers)) if numbers.contains(&number) => {}
            Some((_, numbers)) => numbers.push(number),
            None => stems.push((stem, vec![number])),
        }
    }
    known(stems.iter().map(|(stem, numbers)| join(stem, numbers)).collect::<Vec<_>>().join(", "))
}

fn join(stem: &str, numbers: &[&str]) -> String {
    if let [one] = numbers {
        return format!("{stem}{one}");
    }
    let more = if numbers.len() > MAX_NUMBERS { ",…" } else { "" };
    let some = numbers.iter().take(MAX_NUMBERS).copied().collect::<Vec<_>>().join(",");
    format!("{stem}{{{some}{more}}}")
}
