//! Locks that threads were blocked on in thread dumps: one row a lock and method. Does not read dumps.

use std::io::{self, Write};
use std::sync::Arc;

use model::{Lock, LockHolder};
use serde_json::{Value, json};

use crate::Style;
use crate::escape::escape;
use crate::fields::Fields;
use crate::quantity::{NONE, or_dash};
use crate::table::{Column, Table};

/// Numbers of threads of one name that a cell lists.
const MOST_NUMBERS: usize = 32;

const COLUMNS: [Column; 6] = [
    Column::text("LOCK", 18),
    Column::text("CLASS", 16),
    Column::text("OWNER", 24),
    Column::text("BLOCKED THREADS", 24),
    Column::text("METHOD", 24),
    Column::text("IN DUMPS", 0),
];
const WIDE: [Column; 2] = [Column::number("WAITS", 0), Column::text("OWNERS' TIDS", 0)];

/// A lock that threads were blocked on.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockedRow {
    /// The lock.
    pub lock: Lock,
    /// The method that its waiters were in; empty where that is not known.
    pub method: Arc<str>,
    /// Who had it, most often first.
    pub owners: Vec<ThreadDumpCount>,
    /// Who waited for it, most often first.
    pub threads: Vec<ThreadDumpCount>,
    /// In how many dumps anyone waited.
    pub dumps: u64,
    /// How many dumps there were.
    pub of_dumps: u64,
    /// How many waits all dumps together show.
    pub waits: u64,
}

/// A thread, and in how many dumps it was seen so.
#[derive(Clone, Debug, PartialEq)]
pub struct ThreadDumpCount {
    /// The thread.
    pub thread: LockHolder,
    /// In how many dumps.
    pub dumps: u64,
}

/// Writes them as a table.
///
/// # Errors
/// What the output says.
pub fn write_table<W: Write>(out: W, look: &Style, rows: &[BlockedRow]) -> io::Result<()> {
    let columns = COLUMNS.into_iter().chain(WIDE.into_iter().filter(|_| look.wide)).collect();
    let mut table = Table::new(out, columns, look.lookahead).coloured(look.colour);
    for row in rows {
        table.row(cells(row, look.wide))?;
    }
    table.finish()
}

/// Writes them as JSON lines.
///
/// # Errors
/// What the output says.
pub fn write_json<W: Write>(mut out: W, rows: &[BlockedRow]) -> io::Result<()> {
    let address = |lock: &Lock| (lock.address != 0).then_some(lock.address);
    for row in rows {
        let lock = json!({
            "kind": row.lock.kind.as_str(),
            "class": &*row.lock.class,
            "address": address(&row.lock),
        });
        let mut fields = vec![("type", "blocked".into()), ("lock", lock)];
        fields.extend(rest(row));
        Fields(fields).write_json(&mut out)?;
    }
    out.flush()
}

/// Writes them as CSV: nothing is inside another.
///
/// # Errors
/// What the output says.
pub fn write_csv<W: Write>(mut out: W, rows: &[BlockedRow]) -> io::Result<()> {
    let flat = |row: &BlockedRow| {
        let mut fields = vec![
            ("lock_kind", row.lock.kind.as_str().into()),
            ("lock_class", (*row.lock.class).into()),
            ("lock_address", (row.lock.address != 0).then_some(row.lock.address).into()),
        ];
        fields.extend(rest(row));
        Fields(fields)
    };
    flat(&none()).write_csv_names(&mut out)?;
    rows.iter().try_for_each(|row| flat(row).write_csv(&mut out))?;
    out.flush()
}

fn rest(row: &BlockedRow) -> [(&'static str, Value); 6] {
    let threads = |threads: &[ThreadDumpCount]| -> Value {
        let thread = |seen: &ThreadDumpCount| json!({ "thread": &*seen.thread.thread, "tid": seen.thread.tid, "dumps": seen.dumps });
        threads.iter().map(thread).collect()
    };
    [
        ("owners", threads(&row.owners)),
        ("threads", threads(&row.threads)),
        ("method", (!row.method.is_empty()).then_some(&*row.method).into()),
        ("dumps", row.dumps.into()),
        ("of_dumps", row.of_dumps.into()),
        ("waits", row.waits.into()),
    ]
}

fn cells(row: &BlockedRow, wide: bool) -> Vec<String> {
    let address = Some(row.lock.address).filter(|&address| address != 0);
    let lock = or_dash(address.map(|address| format!("{} {address:#x}", row.lock.kind)));
    let named = |text: &str| if text.is_empty() { NONE.to_owned() } else { escape(text).into_owned() };
    let mut cells = vec![
        lock,
        named(&row.lock.class),
        named(&names(&row.owners)),
        named(&names(&row.threads)),
        named(&row.method),
        format!("{} of {}", row.dumps, row.of_dumps),
    ];
    if wide {
        let tids = row.owners.iter().filter_map(|owner| owner.thread.tid);
        let tids = tids.take(MOST_NUMBERS).map(|tid| tid.to_string()).collect::<Vec<_>>().join(" ");
        cells.extend([row.waits.to_string(), named(&tids)]);
    }
    cells
}

/// Names, those that differ in their numbers as one: `data-plane-kafka-request-handler-{0,2,3}`. Not escaped.
fn names(threads: &[ThreadDumpCount]) -> String {
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
    stems.iter().map(|(stem, numbers)| together(stem, numbers)).collect::<Vec<_>>().join(", ")
}

fn together(stem: &str, numbers: &[&str]) -> String {
    match numbers {
        [one] => format!("{stem}{one}"),
        _ if numbers.len() > MOST_NUMBERS => {
            let some = numbers.iter().take(MOST_NUMBERS).copied().collect::<Vec<_>>().join(",");
            format!("{stem}{{{some},…}}")
        }
        _ => format!("{stem}{{{}}}", numbers.join(",")),
    }
}

/// A row about nothing, for the names of its fields.
fn none() -> BlockedRow {
    BlockedRow {
        lock: Lock { kind: model::LockKind::Monitor, class: "".into(), address: 0 },
        method: "".into(),
        owners: Vec::new(),
        threads: Vec::new(),
        dumps: 0,
        of_dumps: 0,
        waits: 0,
    }
}
