//! File operations of the broker: one by one, or summed up by operation and kind of file. Does not determine why one
//! was slow: `diagnose::Reasons` does.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::Arc;

use diagnose::Reason;
use model::{FileKind, FileOp, FileOpKind, Nanos, TopicPartition, Waker};
use serde_json::Value;

use crate::distribution::Distribution;
use crate::errno;
use crate::escape::escape;
use crate::files::add_known;
use crate::quantity::NONE;
use crate::rows::{Cell, Column, Format, Report, Sink, Writer};
use crate::slowest::Slowest;

/// One operation with its reasons and message ids.
#[derive(Clone, Copy, Debug)]
pub struct FileOpRow<'a> {
    /// The operation.
    pub op: &'a FileOp,
    /// What its time was spent on, longest first.
    pub reasons: &'a [Reason],
    /// Message ids of the records it wrote, if they were looked for.
    pub message_ids: &'a [Arc<str>],
}

/// File operations: one row each or, in tables by message, one per message id.
#[derive(Clone, Copy, Debug)]
pub struct FileOps {
    /// Whether tables show message ids instead of threads.
    pub by_message: bool,
}

type Col = Column<FileOps>;

impl Report for FileOps {
    type Row<'a> = FileOpRow<'a>;
    const TYPE: &'static str = "file-op";

    fn columns(&self) -> Vec<Col> {
        let mut columns = vec![
            Col::row(|row| Some(row.op))
                .replace("errno", |row| row.op.errno.map(errno::name).into())
                .replace("device", |row| Cell::display(&row.op.device)),
            Col::text("START TIME", 12, "", |row| Cell::Time(row.op.start)),
            Col::text("END TIME", 12, "", |row| Cell::Time(row.op.end)),
            Col::text("LATENCY", 7, "", |row| Cell::WholeMillis(row.op.latency())),
        ];
        // Readers who look for a message want the file first; those who look for a write want its offset.
        columns.push(if self.by_message {
            Col::text("MESSAGE_ID", 10, "", |row| row.message_ids.first().map(|id| &**id).into())
        } else {
            Col::text("TID", 6, "", |row| row.op.tid.into())
        });
        let place = u8::from(self.by_message);
        columns.extend([
            Col::text("BYTES", 7, "", |row| row.op.bytes.into()).place(place),
            Col::text("OFF_KB", 9, "", |row| (row.op.offset / 1024).into()).place(place),
            Col::text("FILE", 32, "", |row| (&*row.op.file).into()),
            Col::text("TOPIC", 12, "", |row| topic(row.op.topic_partition.as_ref())),
            Col::text("PARTITION", 0, "", |row| partition(row.op.topic_partition.as_ref())),
            Col::text("OP", 5, "", |row| row.op.op.as_str().into()).place(1),
            Col::text("REASON", 0, "", |row| Cell::Escaped(longest_reason(row.reasons))).place(1),
            Col::text("THREAD", 15, "", |row| (&*row.op.thread).into()).wide(),
            Col::text("KIND", 9, "", |row| row.op.kind.as_str().into()).wide(),
            Col::text("DEVICE", 0, "", |row| Cell::display(&row.op.device)).wide(),
            Col::text("FS", 4, "", |row| (&*row.op.fs).into()).wide(),
            Col::text("BATCH_CRC", 10, "", |row| {
                row.op.batch.map(|batch| Cell::Hex(batch.crc.into())).into()
            })
            .wide(),
            Col::number("BASE_OFFSET", 0, "", |row| row.op.batch.map(|batch| batch.base_offset).into())
                .wide(),
            Col::number("DISK", 0, "", |row| row.op.disk_bytes.into()).wide(),
            Col::number("READAHEAD", 0, "", |row| row.op.readahead_bytes.into()).wide(),
            Col::text("ERRNO", 0, "", |row| row.op.errno.map(errno::name).into()).wide(),
            Col::text("RENAMED_TO", 0, "", |row| row.op.renamed_to.as_deref().into()).wide(),
            Col::text("WOKEN_BY", 0, "", |row| {
                waker(row).map(|by| format!("{} {}", by.thread, by.tid)).into()
            })
            .wide(),
            Col::text("REASONS", 0, "", |row| Cell::Escaped(all_reasons(row.reasons))).wide(),
            Col::data("reasons", |row| pairs(row, |reason| Some(reason.time.0.into()))),
            Col::data("functions", |row| pairs(row, |reason| Some(reason.function.as_deref()?.into()))),
            Col::data("message_ids", |row| {
                Cell::List(row.message_ids.iter().map(|id| (&**id).into()).collect())
            }),
            Col::data("woken_by_tid", |row| waker(row).map(|by| by.tid).into()),
            Col::data("woken_by_thread", |row| waker(row).map(|by| &*by.thread).into()),
            Col::data("woken_by_stack", |row| waker(row).map(|by| &*by.stack).into()).not_in_csv(),
        ]);
        columns
    }
}

/// The thread that ended the longest reason.
fn waker<'a>(row: &FileOpRow<'a>) -> Option<&'a Waker> {
    row.reasons.first()?.woken_by.as_ref()
}

/// A value of each reason, by the reason's name.
fn pairs<'a>(row: &FileOpRow<'_>, of: impl Fn(&Reason) -> Option<Value>) -> Cell<'a> {
    let pairs = row.reasons.iter().filter_map(|reason| Some((reason.name.into(), of(reason)?)));
    Cell::Pairs(pairs.collect())
}

/// Times by their names.
pub(crate) fn time_by_name<K: AsRef<str> + Ord>(times: &HashMap<K, Nanos>) -> Cell<'_> {
    let mut pairs =
        times.iter().map(|(name, time)| (name.as_ref().into(), time.0.into())).collect::<Vec<_>>();
    pairs.sort_by(|(a, _): &(Cow<'_, str>, Value), (b, _)| a.cmp(b));
    Cell::Pairs(pairs)
}

/// The topic of a file or a lock.
pub(crate) fn topic(of: Option<&TopicPartition>) -> Cell<'_> {
    of.map(|of| &*of.topic).into()
}

/// The partition of a file or a lock.
pub(crate) fn partition(of: Option<&TopicPartition>) -> Cell<'_> {
    of.map(|of| of.partition).into()
}

/// The longest of an operation's reasons. Escaped.
pub(crate) fn longest_reason(reasons: &[Reason]) -> String {
    reasons.first().map_or_else(|| NONE.to_owned(), describe)
}

/// All of an operation's reasons, the longest first. Escaped.
pub(crate) fn all_reasons(reasons: &[Reason]) -> String {
    if reasons.is_empty() {
        NONE.to_owned()
    } else {
        reasons.iter().map(describe).collect::<Vec<_>>().join(", ")
    }
}

/// A reason with its time, and with the kernel function if the wait has no name.
fn describe(Reason { name, time, function, .. }: &Reason) -> String {
    match function {
        Some(function) if *name == OTHER => format!("{name} {time} in {}", escape(function)),
        _ => format!("{name} {time}"),
    }
}

/// The name of unnamed waits: the function says more.
const OTHER: &str = "other";

/// File operations in any format. Tables by message have one row per message id.
pub struct FileOpWriter<W> {
    writer: Writer<FileOps, W>,
    by_message: bool,
}

impl<W: Write> FileOpWriter<W> {
    /// Creates a writer to this output.
    pub fn new(out: W, by_message: bool, format: &Format) -> Self {
        Self { writer: Writer::new(out, &FileOps { by_message }, format), by_message }
    }
}

impl<W: Write> Sink<FileOps> for FileOpWriter<W> {
    fn row<'a>(&mut self, row: &'a FileOpRow<'a>) -> io::Result<()> {
        if !(self.by_message && self.writer.is_table()) || row.message_ids.is_empty() {
            return self.writer.row(row);
        }
        let of_message = |message_ids| FileOpRow { message_ids, ..*row };
        row.message_ids.chunks(1).try_for_each(|id| self.writer.row(&of_message(id)))
    }

    fn finish(&mut self) -> io::Result<()> {
        self.writer.finish()
    }
}

/// Passes on the slowest operations, slowest first, when the input ends.
pub struct TopFileOps {
    to: Box<dyn Sink<FileOps>>,
    slowest: Slowest<(FileOp, Vec<Reason>, Vec<Arc<str>>)>,
}

impl TopFileOps {
    /// Passes the slowest `max` operations to this output.
    pub fn new(max: usize, to: Box<dyn Sink<FileOps>>) -> Self {
        Self { to, slowest: Slowest::new(max) }
    }
}

impl Sink<FileOps> for TopFileOps {
    fn row<'a>(&mut self, row: &'a FileOpRow<'a>) -> io::Result<()> {
        let copy = || (row.op.clone(), row.reasons.to_vec(), row.message_ids.to_vec());
        self.slowest.offer(row.op.latency(), copy);
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        for (op, reasons, message_ids) in self.slowest.take() {
            self.to.row(&FileOpRow { op: &op, reasons: &reasons, message_ids: &message_ids })?;
        }
        self.to.finish()
    }
}

/// Totals by operation and kind of file, the longest total time first.
#[derive(Clone, Copy, Debug)]
pub struct FileOpGroups {
    /// Whether tables show all reasons.
    pub wide: bool,
}

/// The operations of one kind on files of one kind.
#[derive(Default)]
pub struct FileOpGroup {
    errors: u64,
    bytes: u64,
    /// The bytes among them that came from the device, if that was watched.
    disk_bytes: Option<u64>,
    latency: Distribution,
    reasons: HashMap<&'static str, Nanos>,
}

impl Report for FileOpGroups {
    type Row<'a> = (&'a (FileOpKind, FileKind), &'a FileOpGroup);
    const TYPE: &'static str = "file-op-summary";

    fn columns(&self) -> Vec<Column<Self>> {
        type Col = Column<FileOpGroups>;
        let percentile = |heading, field, share| Col::percentile(heading, field, share, |row| &row.1.latency);
        let (heading, max) = if self.wide { ("REASONS", usize::MAX) } else { ("TOP REASON", 1) };
        vec![
            Col::text("OP", 5, "op", |((op, _), _)| op.as_str().into()),
            Col::text("KIND", 5, "kind", |((_, kind), _)| kind.as_str().into()),
            Col::number("COUNT", 7, "count", |(_, group)| Cell::Count(group.latency.count())),
            Col::number("ERRORS", 0, "errors", |(_, group)| Cell::Count(group.errors)).wide().place(3),
            Col::number("BYTES", 8, "bytes", |(_, group)| Cell::Bytes(group.bytes)),
            Col::number("DISK", 0, "disk_bytes", |(_, group)| group.disk_bytes.map(Cell::Bytes).into())
                .wide()
                .place(2),
            Col::number("TIME", 7, "time_ns", |(_, group)| Cell::Length(group.latency.total())).place(1),
            percentile("P50", "latency_p50_ns", 0.5),
            percentile("P99", "latency_p99_ns", 0.99),
            percentile("P999", "latency_p999_ns", 0.999),
            percentile("MAX", "latency_max_ns", 1.0),
            Col::text(heading, 0, "", move |(_, group)| group.top_reasons(max).into()).place(4),
            Col::data("reasons", |(_, group)| time_by_name(&group.reasons)),
        ]
    }
}

impl FileOpGroup {
    fn add(&mut self, row: &FileOpRow<'_>) {
        let FileOp { bytes, disk_bytes, errno, .. } = row.op;
        self.errors += u64::from(errno.is_some());
        self.bytes = self.bytes.saturating_add(bytes.unwrap_or(0));
        if let Some(bytes) = disk_bytes {
            add_known(&mut self.disk_bytes, *bytes);
        }
        self.latency.add_length(row.op.latency());
        for reason in row.reasons {
            *self.reasons.entry(reason.name).or_default() += reason.time;
        }
    }

    /// Its first `max` reasons with their shares of the time, the longest first.
    fn top_reasons(&self, max: usize) -> Option<String> {
        let mut reasons = self.reasons.iter().map(|(&name, &time)| (name, time)).collect::<Vec<_>>();
        reasons.sort_by(|(a, x), (b, y)| y.cmp(x).then_with(|| a.cmp(b)));
        let whole = self.latency.total().0.max(1) as f64;
        let describe =
            |(name, time): (&str, Nanos)| format!("{name} {time} ({:.0} %)", time.0 as f64 / whole * 100.0);
        let texts = reasons.into_iter().take(max).map(describe).collect::<Vec<_>>();
        (!texts.is_empty()).then(|| texts.join(", "))
    }
}

/// Sums up operations, and writes the totals when the input ends.
pub struct FileOpSummary<W> {
    out: W,
    format: Format,
    groups: HashMap<(FileOpKind, FileKind), FileOpGroup>,
}

impl<W: Write> FileOpSummary<W> {
    /// Creates a summary to this output.
    pub fn new(out: W, format: Format) -> Self {
        Self { out, format, groups: HashMap::new() }
    }
}

impl<W: Write> Sink<FileOps> for FileOpSummary<W> {
    fn row<'a>(&mut self, row: &'a FileOpRow<'a>) -> io::Result<()> {
        self.groups.entry((row.op.op, row.op.kind)).or_default().add(row);
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        let mut groups = self.groups.iter().collect::<Vec<_>>();
        groups.sort_by_key(|((op, kind), group)| (Reverse(group.latency.sum()), op.as_str(), kind.as_str()));
        let wide = matches!(&self.format, Format::Table(style) if style.wide);
        Writer::new(&mut self.out, &FileOpGroups { wide }, &self.format.aligned()).write_all(&groups)
    }
}
