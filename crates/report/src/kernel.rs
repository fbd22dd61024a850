//! Calls of kernel functions side by side in time. Does not put them in order: `diagnose::Calls` does.

mod table;
mod view;

use std::io::{self, Write};

use diagnose::{Call, Detail};
use model::CommitPhases;
use model::{JournalCommit, Nanos};

pub use table::KernelTable;

use crate::fields::CsvRows;
use crate::quantity::format_count_of;

/// An output of calls, one after the other.
pub trait KernelReport {
    /// Writes one call.
    fn call(&mut self, call: &Call) -> io::Result<()>;

    /// Ends the output.
    fn finish(&mut self) -> io::Result<()>;
}

/// Calls as JSON lines.
pub struct KernelJson<W>(pub W);

impl<W: Write> KernelReport for KernelJson<W> {
    fn call(&mut self, call: &Call) -> io::Result<()> {
        view::fields(call).write_json(&mut self.0)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Calls as CSV.
pub struct KernelCsv<W>(CsvRows<W>);

impl<W: Write> KernelCsv<W> {
    /// CSV to this output.
    pub fn new(out: W) -> Self {
        Self(CsvRows::new(out, view::names))
    }
}

impl<W: Write> KernelReport for KernelCsv<W> {
    fn call(&mut self, call: &Call) -> io::Result<()> {
        self.0.row(&view::fields(call))
    }

    fn finish(&mut self) -> io::Result<()> {
        self.0.finish()
    }
}

/// What else is known of a call, in words. Not escaped.
fn told(detail: &Detail) -> Option<String> {
    Some(match detail {
        Detail::Nothing => return None,
        Detail::Commit(commit) => commit_told(commit),
        Detail::Wait(name, function) if function.is_empty() => (*name).to_owned(),
        Detail::Wait(name, function) => format!("{name} in {function}"),
        Detail::Reclaim { pages, memcg } => {
            let whose = if *memcg { "the memory cgroup's limit" } else { "the host's shortage" };
            format!("freed {} for {whose}", format_count_of(*pages, "page"))
        }
    })
}

fn commit_told(commit: &JournalCommit) -> String {
    let mut told = vec![format!("transaction {}", commit.transaction)];
    if let Some(phases) = commit.phases {
        let spent = spent(phases).into_iter().filter(|&(_, length)| length > Nanos::ZERO);
        told.extend(spent.map(|(name, length)| format!("{name} {length}")));
        told.push(format!("{} logged", format_count_of(phases.blocks_logged.into(), "block")));
        told.push(format_count_of(phases.handles.into(), "handle"));
    }
    told.join(", ")
}

/// The phases that a commit itself consists of, in their order.
fn spent(phases: CommitPhases) -> [(&'static str, Nanos); 3] {
    [("locked", phases.locked), ("flushing", phases.flushing), ("logging", phases.logging)]
}
