//! Waits for locks, each with its holder. Does not find out who that was: `diagnose::Locks` does.

mod flame;
pub mod summary;
mod table;
mod view;

use std::io::{self, Write};

use diagnose::{HolderActivity, LockName, LockRow};

pub use flame::stack_time;
pub use summary::{LockSummary, LockSummaryReport};
pub use table::LockTable;

use crate::escape::escape;
use crate::fields::CsvRows;
use crate::file_ops::reasons;

/// An output of waits, one after the other.
pub trait LockReport {
    /// Writes one wait.
    fn wait(&mut self, row: &LockRow) -> io::Result<()>;

    /// Ends the output.
    fn finish(&mut self) -> io::Result<()>;
}

/// Waits as JSON lines.
pub struct LockJson<W>(pub W);

impl<W: Write> LockReport for LockJson<W> {
    fn wait(&mut self, row: &LockRow) -> io::Result<()> {
        view::fields(row).write_json(&mut self.0)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Waits as CSV.
pub struct LockCsv<W>(CsvRows<W>);

impl<W: Write> LockCsv<W> {
    /// CSV to this output.
    pub fn new(out: W) -> Self {
        Self(CsvRows::new(out, view::names))
    }
}

impl<W: Write> LockReport for LockCsv<W> {
    fn wait(&mut self, row: &LockRow) -> io::Result<()> {
        self.0.row(&view::flat(row))
    }

    fn finish(&mut self) -> io::Result<()> {
        self.0.finish()
    }
}

/// How a wait was seen; one that was not is inferred.
fn seen_by(row: &LockRow) -> &'static str {
    row.seen_by.map_or("inferred", |source| source.as_str())
}

/// The lock as people call it: one without a name by where it is taken, or by its class. Not escaped.
fn lock_name(row: &LockRow) -> String {
    let class = || row.lock.as_ref().map(|lock| lock.class.to_string()).filter(|class| !class.is_empty());
    match (row.name, &row.taken_in) {
        (LockName::Other, Some(method)) => format!("lock in {method}"),
        (LockName::Other, None) => class().unwrap_or_else(|| row.name.as_str().to_owned()),
        (name, _) => name.as_str().to_owned(),
    }
}

/// What the holder was doing, in words. Escaped.
fn doing(row: &LockRow) -> Option<String> {
    Some(match &row.doing {
        HolderActivity::Unknown => return None,
        HolderActivity::Op(op, spent) => {
            let bytes = op.bytes.filter(|_| op.op == model::FileOpKind::Write);
            let bytes = bytes.map(|bytes| format!(" {bytes} bytes")).unwrap_or_default();
            let why = if spent.is_empty() { String::new() } else { format!(": {}", reasons::longest(spent)) };
            format!("{}{bytes} {}{why}", op.op.as_str(), op.latency())
        }
        HolderActivity::Waiting(lock) => escape(&format!("waiting for {lock}")).into_owned(),
        HolderActivity::Stopped(stop) => escape(stop).into_owned(),
    })
}
