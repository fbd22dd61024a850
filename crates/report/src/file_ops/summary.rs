//! Operations summed up by what was done to which kind of file: how many, how long, and where the time went. Holds one
//! group for each, which are few. Does not print.

mod table;
mod view;

use std::collections::HashMap;
use std::io::{self, Write};

use model::{FileKind, FileOp, FileOpKind, Nanos};

use super::{FileOpReport, FileOpRow};
use crate::Style;
use crate::distribution::Distribution;

/// The operations of one kind on files of one kind.
#[derive(Clone, Debug)]
pub struct Group {
    pub(super) op: FileOpKind,
    pub(super) kind: FileKind,
    pub(super) errors: u64,
    pub(super) bytes: u64,
    /// Of the bytes, those that came from the device, where that was watched.
    pub(super) disk_bytes: Option<u64>,
    pub(super) latency: Distribution,
    pub(super) reasons: HashMap<&'static str, Nanos>,
}

impl Group {
    fn new(op: FileOpKind, kind: FileKind) -> Self {
        let latency = Distribution::of_latencies();
        Self { op, kind, errors: 0, bytes: 0, disk_bytes: None, latency, reasons: HashMap::new() }
    }

    fn add(&mut self, row: &FileOpRow<'_>) {
        let FileOp { bytes, disk_bytes, errno, .. } = row.op;
        self.errors += u64::from(errno.is_some());
        self.bytes = self.bytes.saturating_add(bytes.unwrap_or(0));
        if let Some(bytes) = disk_bytes {
            self.disk_bytes = Some(self.disk_bytes.unwrap_or(0).saturating_add(*bytes));
        }
        self.latency.add(u64::try_from(row.op.latency().0).unwrap_or(0));
        for reason in row.reasons {
            *self.reasons.entry(reason.name).or_default() += reason.time;
        }
    }

    /// Its reasons, the longest first.
    pub(super) fn reasons(&self) -> Vec<(&'static str, Nanos)> {
        let mut reasons = self.reasons.iter().map(|(&name, &time)| (name, time)).collect::<Vec<_>>();
        reasons.sort_by(|(a, x), (b, y)| y.cmp(x).then_with(|| a.cmp(b)));
        reasons
    }

    /// The time that all of its operations took.
    pub(super) fn time(&self) -> Nanos {
        Nanos(i64::try_from(self.latency.sum()).unwrap_or(i64::MAX))
    }
}

/// How a summary is written.
#[derive(Clone, Debug)]
pub enum FileOpSummaryReport {
    /// For people.
    Table(Style),
    /// One JSON object a group.
    Json,
    /// A line a group.
    Csv,
}

/// Sums operations up, and writes the sums when the input has ended.
pub struct FileOpSummary<W> {
    out: W,
    report: FileOpSummaryReport,
    groups: HashMap<(FileOpKind, FileKind), Group>,
}

impl<W: Write> FileOpSummary<W> {
    /// A summary to this output.
    pub fn new(out: W, report: FileOpSummaryReport) -> Self {
        Self { out, report, groups: HashMap::new() }
    }

    /// Those that took the longest in all first.
    fn in_order(&self) -> Vec<&Group> {
        let mut groups = self.groups.values().collect::<Vec<_>>();
        groups.sort_by_key(|group| {
            (std::cmp::Reverse(group.latency.sum()), group.op.as_str(), group.kind.as_str())
        });
        groups
    }
}

impl<W: Write> FileOpReport for FileOpSummary<W> {
    fn file_op(&mut self, row: &FileOpRow<'_>) -> io::Result<()> {
        let (op, kind) = (row.op.op, row.op.kind);
        self.groups.entry((op, kind)).or_insert_with(|| Group::new(op, kind)).add(row);
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        let groups = self.in_order().into_iter().cloned().collect::<Vec<_>>();
        match &self.report {
            FileOpSummaryReport::Table(look) => table::write(&mut self.out, look, &groups)?,
            FileOpSummaryReport::Json => {
                groups.iter().try_for_each(|group| view::fields(group).write_json(&mut self.out))?;
            }
            FileOpSummaryReport::Csv => {
                view::fields(&Group::new(FileOpKind::Write, FileKind::Log)).write_csv_names(&mut self.out)?;
                groups.iter().try_for_each(|group| view::fields(group).write_csv(&mut self.out))?;
            }
        }
        self.out.flush()
    }
}
