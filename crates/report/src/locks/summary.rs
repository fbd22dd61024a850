//! Waits summed up, by the lock that was waited for and by who held it. Holds a bounded number of either.

mod table;
mod view;

use std::collections::{HashMap, HashSet};
use std::io::{self, Write};

use diagnose::{HolderActivity, LockRow};
use model::{Nanos, Tid};

use super::{LockReport, lock_name};
use crate::Style;
use crate::bounded_map::BoundedMap;
use crate::distribution::Distribution;

/// Locks, and holders, that are told apart; the rest are told together.
const MOST: usize = 10_000;

/// What waits are summed up by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum GroupBy {
    /// The lock that was waited for.
    Lock,
    /// The thread that held it.
    Holder,
}

impl GroupBy {
    /// The name in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Lock => "lock",
            Self::Holder => "holder",
        }
    }
}

/// Whom a sum is about: a lock's or a thread's name, and a partition or a thread's number.
type GroupKey = (String, Option<String>);

/// The waits for one lock or one holder.
#[derive(Clone, Debug)]
pub(super) struct Group {
    latency: Distribution,
    waiters: HashSet<Tid>,
    /// What holders were doing, or what kept them from doing it: the time waited for it.
    reasons: HashMap<String, Nanos>,
}

impl Default for Group {
    fn default() -> Self {
        Self { latency: Distribution::of_latencies(), waiters: HashSet::new(), reasons: HashMap::new() }
    }
}

impl Group {
    fn add(&mut self, row: &LockRow) {
        self.latency.add(u64::try_from(row.latency().0).unwrap_or(0));
        self.waiters.insert(row.tid);
        *self.reasons.entry(reason(row)).or_default() += row.latency();
    }

    fn time(&self) -> Nanos {
        Nanos(i64::try_from(self.latency.sum()).unwrap_or(i64::MAX))
    }

    /// What was waited for the longest, and how long.
    fn top_reason(&self) -> Option<(&str, Nanos)> {
        let longest = self.reasons.iter().max_by(|(a, x), (b, y)| x.cmp(y).then_with(|| b.cmp(a)));
        longest.map(|(name, time)| (name.as_str(), *time))
    }
}

/// What the holder was doing, without lengths: `write: journal-commit`.
fn reason(row: &LockRow) -> String {
    match &row.doing {
        HolderActivity::Unknown => "unknown".to_owned(),
        HolderActivity::Op(op, reasons) => match reasons.first() {
            Some(reason) => format!("{}: {}", op.op.as_str(), reason.name),
            None => op.op.as_str().to_owned(),
        },
        HolderActivity::Waiting(_) => "another lock".to_owned(),
        HolderActivity::Stopped(_) => "the JVM had stopped".to_owned(),
    }
}

/// How a summary is written.
#[derive(Clone, Debug)]
pub enum LockSummaryReport {
    /// For people.
    Table(Style),
    /// One JSON object a group.
    Json,
    /// A line a group.
    Csv,
}

/// Sums waits up, and writes the sums when the input has ended.
pub struct LockSummary<W> {
    out: W,
    report: LockSummaryReport,
    groups: BoundedMap<GroupKey, GroupBy, Group>,
}

/// A sum and whom it is about; nobody in particular where there were too many.
pub(super) struct Sum {
    by: GroupBy,
    who: Option<GroupKey>,
    group: Group,
}

impl<W: Write> LockSummary<W> {
    /// A summary to this output.
    pub fn new(out: W, report: LockSummaryReport) -> Self {
        Self { out, report, groups: BoundedMap::new(MOST) }
    }

    /// By lock and then by holder, those most waited for first.
    fn sums(&mut self) -> Vec<Sum> {
        let groups = std::mem::replace(&mut self.groups, BoundedMap::new(0)).into_groups();
        let mut sums: Vec<Sum> = groups.map(|(who, by, group)| Sum { by, who, group }).collect();
        sums.sort_by(|a, b| {
            let order = a.by.cmp(&b.by).then_with(|| b.group.latency.sum().cmp(&a.group.latency.sum()));
            order.then_with(|| a.who.cmp(&b.who))
        });
        sums
    }
}

impl<W: Write> LockReport for LockSummary<W> {
    fn wait(&mut self, row: &LockRow) -> io::Result<()> {
        let lock = (lock_name(row), row.partition.as_ref().map(ToString::to_string));
        self.groups.of(lock, GroupBy::Lock).add(row);
        if let Some(holder) = &row.holder {
            let who = (holder.thread.to_string(), holder.tid.map(|tid| tid.to_string()));
            self.groups.of(who, GroupBy::Holder).add(row);
        }
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        let sums = self.sums();
        match &self.report {
            LockSummaryReport::Table(look) => table::write(&mut self.out, look, &sums)?,
            LockSummaryReport::Json => {
                sums.iter().try_for_each(|sum| view::fields(sum).write_json(&mut self.out))?;
            }
            LockSummaryReport::Csv => {
                let none = Sum { by: GroupBy::Lock, who: None, group: Group::default() };
                view::fields(&none).write_csv_names(&mut self.out)?;
                sums.iter().try_for_each(|sum| view::fields(sum).write_csv(&mut self.out))?;
            }
        }
        self.out.flush()
    }
}
