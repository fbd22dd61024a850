//! Waits for locks with their holders, one by one or summed up. Sums are by lock and by holder. Does not determine
//! who held a lock: `diagnose::Locks` does.

use std::collections::{HashMap, HashSet};
use std::io::{self, Write};

use diagnose::{HolderActivity, LockName, LockRow, Reason};
use model::{CpuState, FileOp, FileOpKind, LockHolder, Nanos, StackTime, Tid};

use crate::bounded_map::BoundedMap;
use crate::distribution::Distribution;
use crate::escape::escape;
use crate::file_ops::{FileOpRow, FileOps, all_reasons, longest_reason, partition, time_by_name, topic};
use crate::rows::{Cell, Column, Format, Report, Sink, Writer, to_json};

/// Waits for locks, one row each. An unknown holder and its operation are null.
#[derive(Clone, Copy, Debug)]
pub struct LockWaits;

type Col = Column<LockWaits>;

impl Report for LockWaits {
    type Row<'a> = LockRow;
    const TYPE: &'static str = "lock-wait";

    fn columns(&self) -> Vec<Col> {
        let mut columns = vec![
            Col::text("START TIME", 12, "start_ns", |row| Cell::Time(row.start)),
            Col::text("END TIME", 12, "end_ns", |row| Cell::Time(row.end)),
            Col::text("LATENCY", 7, "latency_ns", |row| Cell::WholeMillis(row.latency())),
            Col::data("pid", |row| (row.pid != 0).then_some(row.pid).into()),
            Col::text("TID", 6, "tid", |row| row.tid.into()),
            Col::text("THREAD", 24, "thread", |row| (&*row.thread).into()),
            Col::data("lock.kind", |row| row.lock.as_ref().map(|lock| lock.kind.as_str()).into()),
            Col::data("lock.class", |row| row.lock.as_ref().map(|lock| &*lock.class).into()),
            Col::text("LOCK", 8, "lock.name", |row| lock_name(row).into()),
            Col::data("lock.address", |row| address(row).into()),
            Col::text("HOLDER", 24, "", |row| row.holder.as_ref().map(thread).into()),
            Col::data("holder", |row| row.holder.as_ref().map(|holder| &*holder.thread).into()),
            Col::data("holder_tid", |row| row.holder.as_ref().and_then(|holder| holder.tid).into()),
            Col::data("previous_owner", |row| row.previous_owner.as_ref().map(|owner| &*owner.thread).into()),
            Col::data("previous_owner_tid", |row| {
                row.previous_owner.as_ref().and_then(|owner| owner.tid).into()
            }),
            Col::text("HOLDER ACTIVITY", 40, "holder_activity", |row| {
                activity(row).map(Cell::Escaped).into()
            }),
        ];
        columns.extend(holder_op());
        columns.extend([
            Col::number("APPENDS AHEAD", 0, "appends_ahead", |row| row.ahead.into()).wide(),
            Col::text("TOPIC", 8, "topic", |row| topic(row.partition.as_ref())),
            Col::text("PARTITION", 0, "partition", |row| partition(row.partition.as_ref())),
            Col::data("stack", |row| Cell::known(&row.stack)),
            Col::text("SEEN BY", 8, "seen_by", |row| row.seen_by.map_or("inferred", |by| by.as_str()).into()),
            Col::text("PREVIOUS OWNER", 24, "", |row| row.previous_owner.as_ref().map(thread).into()).wide(),
            Col::text("CLASS", 16, "", |row| row.lock.as_ref().map(|lock| Cell::known(&lock.class)).into())
                .wide(),
            Col::text("ADDRESS", 14, "", |row| address(row).map(|address| format!("{address:#x}")).into())
                .wide(),
            Col::text("HOLDER'S FILE", 40, "", |row| operation(row).map(|(op, _)| &*op.file).into()).wide(),
            Col::text("REASONS", 0, "", |row| {
                operation(row).map(|(_, reasons)| Cell::Escaped(all_reasons(reasons))).into()
            })
            .wide(),
        ]);
        columns
    }
}

/// What the holder was doing: an object in JSON, a few of its fields in CSV.
fn holder_op() -> [Col; 7] {
    let data = |field: &'static str, of: fn(&FileOp) -> Cell<'_>| {
        Col::data(field, move |row| operation(row).map(|(op, _)| of(op)).into()).not_in_json()
    };
    [
        Col::data("holder_op", |row| {
            let row = operation(row).map(|(op, reasons)| FileOpRow { op, reasons, message_ids: &[] });
            row.map(|row| Cell::Json(to_json(&FileOps { by_message: false }, &row))).into()
        })
        .not_in_csv(),
        data("holder_op", |op| op.op.as_str().into()),
        data("holder_op_start_ns", |op| Cell::Time(op.start)),
        data("holder_op_end_ns", |op| Cell::Time(op.end)),
        data("holder_op_file", |op| (&*op.file).into()),
        data("holder_op_bytes", |op| op.bytes.into()),
        Col::data("holder_op_reasons", |row| {
            let pairs = operation(row).map(|(_, reasons)| {
                reasons.iter().map(|reason| (reason.name.into(), reason.time.0.into())).collect()
            });
            pairs.map(Cell::Pairs).into()
        })
        .not_in_json(),
    ]
}

/// The lock's name; if it has none, the method that takes it or its class. Not escaped.
fn lock_name(row: &LockRow) -> String {
    let class = || row.lock.as_ref().map(|lock| lock.class.to_string()).filter(|class| !class.is_empty());
    match (row.name, &row.taken_in) {
        (LockName::Other, Some(method)) => format!("lock in {method}"),
        (LockName::Other, None) => class().unwrap_or_else(|| row.name.as_str().to_owned()),
        (name, _) => name.as_str().to_owned(),
    }
}

fn address(row: &LockRow) -> Option<u64> {
    row.lock.as_ref().map(|lock| lock.address).filter(|&address| address != 0)
}

/// A thread with its number.
fn thread(LockHolder { thread, tid }: &LockHolder) -> String {
    tid.map_or_else(|| thread.to_string(), |tid| format!("{thread} {tid}"))
}

fn operation(row: &LockRow) -> Option<(&FileOp, &[Reason])> {
    match &row.doing {
        HolderActivity::Op(op, reasons) => Some((op, reasons)),
        _ => None,
    }
}

/// What the holder was doing, in words. Escaped.
fn activity(row: &LockRow) -> Option<String> {
    Some(match &row.doing {
        HolderActivity::Unknown => return None,
        HolderActivity::Op(op, spent) => {
            let bytes = op.bytes.filter(|_| op.op == FileOpKind::Write);
            let bytes = bytes.map(|bytes| format!(" {bytes} bytes")).unwrap_or_default();
            let why = if spent.is_empty() { String::new() } else { format!(": {}", longest_reason(spent)) };
            format!("{}{bytes} {}{why}", op.op.as_str(), op.latency())
        }
        HolderActivity::Waiting(lock) => escape(&format!("waiting for {lock}")).into_owned(),
        HolderActivity::Stopped(pause) => escape(pause).into_owned(),
    })
}

/// The stack of a wait with the lock on top, for a flame graph. Threads of one role are together. An inferred wait
/// has no stack: only the lock.
pub fn stack_time(row: &LockRow) -> StackTime {
    let lock = lock_name(row).replace(';', ",");
    let lock = match &row.partition {
        Some(partition) => format!("{lock} of {}", partition.to_string().replace(';', ",")),
        None => lock,
    };
    let frames = [&*row.stack, &lock].into_iter().filter(|frames| !frames.is_empty()).collect::<Vec<_>>();
    StackTime {
        state: CpuState::Off,
        thread: role(&row.thread).into(),
        tid: None,
        stack: frames.join(";").into(),
        time: row.latency(),
        count: 1,
    }
}

/// A thread's name without its number (`data-plane-kafka-request-handler-24`).
fn role(name: &str) -> &str {
    let unnumbered = name.trim_end_matches(|c: char| c.is_ascii_digit());
    unnumbered
        .strip_suffix('-')
        .filter(|role| !role.is_empty() && unnumbered.len() < name.len())
        .unwrap_or(name)
}

/// Limit on the locks, and on the holders, that are summed up separately; the rest are one group.
const MAX_GROUPS: usize = 10_000;
const OTHERS: &str = "(others)";

model::named! {
    /// Key by which waits are summed up.
    enum GroupBy {
        /// The lock that was waited for.
        Lock = "lock",
        /// The thread that held it.
        Holder = "holder",
    }
}

/// A lock's name and partition, or a thread's name and number.
type GroupKey = (String, Option<String>);

/// The waits for one lock or one holder.
#[derive(Default)]
struct Group {
    latency: Distribution,
    waiters: HashSet<Tid>,
    /// Time waited, by what the holders were doing or waiting for.
    reasons: HashMap<String, Nanos>,
}

impl Group {
    fn add(&mut self, row: &LockRow) {
        self.latency.add_length(row.latency());
        self.waiters.insert(row.tid);
        *self.reasons.entry(reason(row)).or_default() += row.latency();
    }

    /// The reason with the longest wait, and its time.
    fn top_reason(&self) -> Option<String> {
        let longest = self.reasons.iter().max_by(|(a, x), (b, y)| x.cmp(y).then_with(|| b.cmp(a)));
        longest.map(|(name, time)| format!("{name} {time}"))
    }
}

/// What the holder was doing, without durations: `write: journal-commit`.
fn reason(row: &LockRow) -> String {
    match &row.doing {
        HolderActivity::Unknown => "unknown".to_owned(),
        HolderActivity::Op(op, reasons) => match reasons.first() {
            Some(reason) => format!("{}: {}", op.op.as_str(), reason.name),
            None => op.op.as_str().to_owned(),
        },
        HolderActivity::Waiting(_) => "another lock".to_owned(),
        HolderActivity::Stopped(_) => "JVM pause".to_owned(),
    }
}

/// A group of waits and its key; `None` for the rest.
struct LockGroup {
    by: GroupBy,
    key: Option<GroupKey>,
    group: Group,
}

/// Totals of waits; a table shows those of one kind of key.
struct LockGroups {
    by: GroupBy,
}

impl Report for LockGroups {
    type Row<'a> = LockGroup;
    const TYPE: &'static str = "lock-summary";

    fn columns(&self) -> Vec<Column<Self>> {
        type Col = Column<LockGroups>;
        let percentile =
            |heading, field, share| Col::percentile(heading, field, share, |sum| &sum.group.latency);
        let (name, number) = match self.by {
            GroupBy::Lock => ("LOCK", "PARTITION"),
            GroupBy::Holder => ("HOLDER", "TID"),
        };
        vec![
            Col::text(name, 35, "", |sum| sum.key.as_ref().map_or(OTHERS, |(name, _)| name).into()),
            Col::text(number, 9, "", |sum| sum.key.as_ref().and_then(|(_, number)| number.as_deref()).into()),
            Col::data("by", |sum| sum.by.as_str().into()),
            Col::data("lock", |sum| sum.key_of(GroupBy::Lock).map(|(name, _)| &**name).into()),
            Col::data("topic_partition", |sum| {
                sum.key_of(GroupBy::Lock).and_then(|(_, of)| of.as_deref()).into()
            }),
            Col::data("holder", |sum| sum.key_of(GroupBy::Holder).map(|(name, _)| &**name).into()),
            Col::data("holder_tid", |sum| {
                sum.key_of(GroupBy::Holder).and_then(|(_, tid)| tid.as_ref()?.parse::<Tid>().ok()).into()
            }),
            Col::number("WAITS", 6, "count", |sum| Cell::Count(sum.group.latency.count())),
            Col::number("WAITERS", 0, "waiters", |sum| Cell::Count(sum.group.waiters.len() as u64)),
            Col::number("TIME", 7, "time_ns", |sum| Cell::Length(sum.group.latency.total())).place(1),
            percentile("P50", "latency_p50_ns", 0.5),
            percentile("P99", "latency_p99_ns", 0.99),
            percentile("MAX", "latency_max_ns", 1.0),
            Col::text("TOP REASON", 0, "", |sum| sum.group.top_reason().into()).place(1),
            Col::data("reasons", |sum| time_by_name(&sum.group.reasons)),
        ]
    }
}

impl LockGroup {
    fn key_of(&self, by: GroupBy) -> Option<&GroupKey> {
        self.key.as_ref().filter(|_| self.by == by)
    }
}

/// Sums up waits, and writes the totals when the input ends.
pub struct LockSummary<W> {
    out: W,
    format: Format,
    groups: BoundedMap<GroupKey, GroupBy, Group>,
}

impl<W: Write> LockSummary<W> {
    /// Creates a summary to this output.
    pub fn new(out: W, format: Format) -> Self {
        Self { out, format, groups: BoundedMap::new(MAX_GROUPS) }
    }

    /// The groups by lock and then by holder, the longest wait first.
    fn sums(&mut self) -> Vec<LockGroup> {
        let groups = std::mem::replace(&mut self.groups, BoundedMap::new(0)).into_groups();
        let mut sums: Vec<_> = groups.map(|(key, by, group)| LockGroup { by, key, group }).collect();
        sums.sort_by(|a, b| {
            let order = a.by.cmp(&b.by).then_with(|| b.group.latency.sum().cmp(&a.group.latency.sum()));
            order.then_with(|| a.key.cmp(&b.key))
        });
        sums
    }
}

impl<W: Write> Sink<LockWaits> for LockSummary<W> {
    fn row(&mut self, row: &LockRow) -> io::Result<()> {
        let lock = (lock_name(row), row.partition.as_ref().map(ToString::to_string));
        self.groups.of(lock, GroupBy::Lock).add(row);
        if let Some(holder) = &row.holder {
            let key = (holder.thread.to_string(), holder.tid.map(|tid| tid.to_string()));
            self.groups.of(key, GroupBy::Holder).add(row);
        }
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        let sums = self.sums();
        let (format, by) = (self.format.aligned(), GroupBy::Lock);
        if !matches!(format, Format::Table(_)) {
            return Writer::new(&mut self.out, &LockGroups { by }, &format).write_all(&sums);
        }
        for by in GroupBy::ALL {
            if by != GroupBy::Lock {
                writeln!(self.out)?;
            }
            let of = sums.iter().filter(|sum| sum.by == by);
            Writer::new(&mut self.out, &LockGroups { by }, &format).write_all(of)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::role;

    #[test]
    fn thread_role_is_the_name_without_its_number() {
        for (name, expected) in [
            ("data-plane-kafka-request-handler-24", "data-plane-kafka-request-handler"),
            ("kafka-log-cleaner-thread-0", "kafka-log-cleaner-thread"),
            ("main", "main"),
            ("-7", "-7"),
            ("jdk17", "jdk17"),
        ] {
            assert_eq!(role(name), expected);
        }
    }
}
