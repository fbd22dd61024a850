//! Which rows of a part are read, where not all are: those that a [`RowFilter`] selects by their summaries, and of each kind
//! the last before a stretch of which everything is read, and the first after one. Does not know what stretches those are.
//!
//! Parquet's own `RowFilter` and `RowSelection` evaluate predicates batch by batch on one column after the other, and cannot
//! say "the last of its kind before row n": a selection is made here first, and Parquet's `RowSelection` then skips the
//! rest. Between two stretches there are many row groups of which nothing else is wanted: of these only what tells kinds
//! apart is looked at, and not when each row was.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasher as _, Hasher as _};
use std::net::SocketAddr;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use ahash::RandomState;
use arrow_array::RecordBatch;
use model::row_summary::{
    FileOpSummary, OffCpuSummary, RequestPosition, RequestTiming, RowChoice, RowFilter, RowSummary,
};
#[cfg(test)]
use model::{Column, ColumnType};
use model::{FileKind, FileOpKind, Nanos, Table, Tid};
use parquet::arrow::arrow_reader::RowSelection;

use crate::Error;
use crate::cells::BadRow;
use crate::columns::Projection;
use crate::events::open;
use crate::notes::{Notes, fenced};
use crate::parquet_part::{ParquetFile, Rows, SUMMARIES_AT_ONCE};
use crate::part::Part;
use crate::rows::{ReadRow, read_row};
use crate::text::TextPool;

/// More kinds than this are not told apart: then everything is read.
const MAX_KINDS: usize = 1 << 20;

model::request_timing_row!(read_row);
model::file_op_summary_row!(read_row);
model::off_cpu_summary_row!(read_row);

/// Declares a subset of a table's columns.
macro_rules! subset {
    ($($row:tt)*) => {
        model::declare_row! { $($row)* }
        read_row! { $($row)* }
    };
}
pub(crate) use subset;

subset! {
    /// Where a request lies, and whose it is.
    pub struct RequestPlace {
        arrival: Nanos as "arrival_ns",
        arrival_end: Nanos as "arrival_end_ns",
        end: Option<Nanos> as "end_ns",
        api_key: i16,
        client_id: Option<Arc<str>>,
        client: SocketAddr,
        broker: SocketAddr,
    }
}

subset! {
    /// What tells kinds of file operations apart.
    pub struct FileOpKey {
        op: FileOpKind,
        kind: FileKind,
        tid: Tid,
    }
}

subset! {
    /// What tells kinds of operations on connections apart.
    pub struct ThreadKey {
        tid: Tid,
    }
}

subset! {
    /// When a thread did something.
    pub struct ThreadSpan {
        start: Nanos as "start_ns",
        end: Nanos as "end_ns",
        tid: Tid,
    }
}

subset! {
    /// When something was.
    pub struct TimeSpan {
        start: Nanos as "start_ns",
        end: Nanos as "end_ns",
    }
}

/// From when until when.
type Stretch = (Nanos, Nanos);

/// What summaries are for.
#[derive(Clone, Copy)]
enum Purpose {
    /// Whether rows took long, and why that may be intended.
    Lengths,
    /// Where rows lie.
    Places,
    /// The same of rows within a stretch in which none is wanted for itself: all get its ends for their own.
    Within(Stretch),
}

/// Columns of a table that a summary is made of.
trait Summarize: ReadRow {
    /// The summary; of columns that do not say when it was, within a stretch.
    fn summarize(self, stretch: Stretch, numbers: &RandomState) -> RowSummary;
}

/// Declares which columns are read for which summary.
macro_rules! summarize {
    ($($Columns:ident: $row:ident, $stretch:ident, $numbers:ident => $summary:expr;)*) => {$(
        impl Summarize for $Columns {
            fn summarize(self, $stretch: Stretch, $numbers: &RandomState) -> RowSummary {
                let $row = self;
                $summary
            }
        }
    )*};
}

summarize! {
    RequestTiming: row, _stretch, _numbers => RowSummary::LongRequest(row);
    RequestPlace: row, _stretch, numbers => RowSummary::Request(RequestPosition {
        arrival: row.arrival,
        arrival_end: row.arrival_end,
        end: row.end,
        api_key: row.api_key,
        client_id: row.client_id,
        connection: number(numbers, row.client, row.broker),
    });
    FileOpSummary: row, _stretch, _numbers => RowSummary::FileOp(row);
    FileOpKey: row, stretch, _numbers => RowSummary::FileOp(FileOpSummary {
        start: stretch.0, end: stretch.1, op: row.op, kind: row.kind, tid: row.tid,
    });
    OffCpuSummary: row, _stretch, _numbers => RowSummary::OffCpu(row);
    ThreadSpan: row, _stretch, _numbers => RowSummary::SocketOp { start: row.start, end: row.end, tid: row.tid };
    ThreadKey: row, stretch, _numbers => RowSummary::SocketOp { start: stretch.0, end: stretch.1, tid: row.tid };
    TimeSpan: row, _stretch, _numbers => RowSummary::Span { start: row.start, end: row.end };
}

/// Takes the summary of each row.
type Take<'t> = &'t mut dyn FnMut(Result<RowSummary, BadRow>);

/// Makes summaries of batches.
struct Summarizer {
    projection: Projection,
    /// Hands out the summary of each row of a batch.
    summarize: fn(&mut Self, &RecordBatch, Take<'_>) -> Result<(), String>,
    stretch: Stretch,
    pool: TextPool,
    numbers: RandomState,
}

impl Summarizer {
    fn new(table: Table, purpose: Purpose, numbers: &RandomState) -> Self {
        let stretch = if let Purpose::Within(stretch) = purpose { stretch } else { (Nanos::MIN, Nanos::MAX) };
        let of = match (table, purpose) {
            (Table::Requests, Purpose::Lengths) => Self::reading::<RequestTiming>,
            (Table::Requests, _) => Self::reading::<RequestPlace>,
            (Table::FileOps, Purpose::Within(_)) => Self::reading::<FileOpKey>,
            (Table::FileOps, _) => Self::reading::<FileOpSummary>,
            (Table::OffCpu, _) => Self::reading::<OffCpuSummary>,
            (Table::SocketOps, Purpose::Within(_)) => Self::reading::<ThreadKey>,
            (Table::SocketOps, _) => Self::reading::<ThreadSpan>,
            _ => Self::reading::<TimeSpan>,
        };
        of(stretch, numbers.clone())
    }

    fn reading<S: Summarize>(stretch: Stretch, numbers: RandomState) -> Self {
        let projection = Projection::of(&S::columns());
        Self { projection, summarize: Self::of_batch::<S>, stretch, pool: TextPool::default(), numbers }
    }

    /// Only reading is fenced, not what is made of the rows.
    fn of_batch<S: Summarize>(&mut self, batch: &RecordBatch, take: Take<'_>) -> Result<(), String> {
        let cells = fenced(|| S::cells(batch, "", false))?.map_err(|error| error.0)?;
        for i in 0..batch.num_rows() {
            let row = fenced(|| S::read(&cells, i, &mut self.pool))?;
            take(row.map(|row| row.summarize(self.stretch, &self.numbers)));
        }
        Ok(())
    }
}

/// A number for a connection; hardly any other two ends give the same.
fn number(numbers: &RandomState, client: SocketAddr, broker: SocketAddr) -> u64 {
    let mut hasher = numbers.build_hasher();
    for end in [client, broker] {
        match end {
            SocketAddr::V4(end) => hasher.write_u32(end.ip().to_bits()),
            SocketAddr::V6(end) => hasher.write_u128(end.ip().to_bits()),
        }
        hasher.write_u16(end.port());
    }
    hasher.finish()
}

/// Hands out the summaries of a part's rows, at least of those that took so long, by what its statistics say.
pub(crate) fn summaries(
    table: Table,
    part: &Part,
    min_latency: Nanos,
    notes: &Arc<Notes>,
    take: &mut dyn FnMut(&RowSummary),
) -> Result<(), Error> {
    let mut summarizer = Summarizer::new(table, Purpose::Lengths, &RandomState::new());
    let long = |path: &Path| {
        let rows = Rows::WithAtLeast("latency_ns", min_latency.0);
        ParquetFile::open(path)?.read(&summarizer.projection, rows, SUMMARIES_AT_ONCE)
    };
    let (path, batches) = open(part, notes, long)?;
    for batch in batches {
        let each =
            (summarizer.summarize)(&mut summarizer, &batch?, &mut |row| row.iter().for_each(&mut *take));
        each.map_err(|why| Error::Part { path: path.clone(), why })?;
    }
    Ok(())
}

/// The rows of a part that are read; none where all of them are: also where summaries cannot be had of it, so that its
/// faults are found where they always are.
pub(crate) fn rows(
    file: &ParquetFile,
    table: Table,
    filter: &dyn RowFilter,
) -> Result<Option<RowSelection>, Error> {
    let total = file.rows();
    let (mut selected, mut row) = (SelectedRows::default(), 0);
    let numbers = RandomState::new();
    for Run { groups, within } in runs(file, table, filter) {
        let purpose = within.map_or(Purpose::Places, |within| Purpose::Within(within.stretch));
        let mut summarizer = Summarizer::new(table, purpose, &numbers);
        for batch in file.read(&summarizer.projection, Rows::OfGroups(groups), SUMMARIES_AT_ONCE)? {
            let Ok(batch) = batch else { return Ok(None) };
            let each = (summarizer.summarize)(&mut summarizer, &batch, &mut |summary| {
                match summary.map(|summary| filter.choose(&summary)) {
                    Ok(RowChoice::Edge { kind, gap }) => selected.edge(row, kind, gap),
                    // What is wrong with it is said when it is read.
                    Ok(RowChoice::Read) | Err(_) => selected.read(row),
                }
                row += 1;
            });
            if each.is_err() || selected.last.len() > MAX_KINDS {
                return Ok(None);
            }
        }
    }
    // A footer that says otherwise is not to be trusted with a selection.
    Ok((row == total).then(|| RowSelection::from_consecutive_ranges(selected.ranges(), total)))
}

/// Row groups one after the other.
struct Run {
    groups: Range<usize>,
    /// Where all of them lie in one gap.
    within: Option<Within>,
}

/// A stretch of time of which no row is wanted for itself.
#[derive(Clone, Copy)]
struct Within {
    gap: u32,
    stretch: Stretch,
}

/// A file's row groups; those that lie in the same gap together.
fn runs(file: &ParquetFile, table: Table, filter: &dyn RowFilter) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for group in 0..file.groups() {
        let within = within(file, group, table, filter);
        let gap = |within: Option<Within>| within.map(|within| within.gap);
        match runs.last_mut().filter(|run| gap(run.within) == gap(within)) {
            Some(run) => run.groups.end = group + 1,
            None => runs.push(Run { groups: group..group + 1, within }),
        }
    }
    runs
}

/// The gap that a row group lies in, where its statistics say so, and where they can.
fn within(file: &ParquetFile, group: usize, table: Table, filter: &dyn RowFilter) -> Option<Within> {
    let (starts, ends) = (file.bounds(group, "start_ns")?, file.bounds(group, "end_ns")?);
    // Of what ends before it begins nothing can be said.
    let is_whole = starts.0 <= ends.0 && starts.1 <= ends.1;
    let stretch = (Nanos(starts.0), Nanos(ends.1));
    let summary = most_wanted(table, stretch).filter(|_| is_whole)?;
    match filter.choose(&summary) {
        RowChoice::Edge { gap, .. } => Some(Within { gap, stretch }),
        RowChoice::Read => None,
    }
}

/// What would be wanted of a stretch if any of a table's rows is; none where more than the time makes a row wanted.
fn most_wanted(table: Table, (start, end): Stretch) -> Option<RowSummary> {
    match table {
        Table::FileOps => {
            // Writes to logs bear on others from afar.
            let (op, kind) = (FileOpKind::Write, FileKind::Log);
            Some(RowSummary::FileOp(FileOpSummary { start, end, op, kind, tid: 0 }))
        }
        Table::SocketOps => Some(RowSummary::SocketOp { start, end, tid: 0 }),
        _ => None,
    }
}

/// Rows that are read.
#[derive(Default)]
struct SelectedRows {
    /// In order, each as long as may be.
    runs: Vec<Range<usize>>,
    /// Others, in no order.
    single: Vec<usize>,
    /// The last row of each kind that was not wanted for itself, and its gap; whether it was chosen all the same.
    last: HashMap<u64, (usize, u32, bool), RandomState>,
}

impl SelectedRows {
    fn read(&mut self, row: usize) {
        match self.runs.last_mut().filter(|run| run.end == row) {
            Some(run) => run.end += 1,
            None => self.runs.push(row..row + 1),
        }
    }

    /// Two of a kind in one gap are alike but for its first and last.
    fn edge(&mut self, row: usize, kind: u64, gap: u32) {
        let is_first = match self.last.entry(kind) {
            Entry::Occupied(mut last) => {
                let (before, known, chosen) = *last.get();
                let is_first = known != gap;
                if is_first && !chosen {
                    self.single.push(before);
                }
                last.insert((row, gap, is_first));
                is_first
            }
            Entry::Vacant(none) => {
                none.insert((row, gap, true));
                true
            }
        };
        if is_first {
            self.single.push(row);
        }
    }

    fn ranges(mut self) -> impl Iterator<Item = Range<usize>> {
        // Of the next part nothing is known here.
        self.single.extend(self.last.values().filter(|(_, _, chosen)| !chosen).map(|(row, _, _)| *row));
        self.runs.extend(self.single.into_iter().map(|row| row..row + 1));
        self.runs.sort_unstable_by_key(|run| run.start);
        self.runs.dedup_by(|run, last| {
            let touches = last.end >= run.start;
            last.end = if touches { last.end.max(run.end) } else { last.end };
            touches
        });
        self.runs.into_iter()
    }
}

/// Holds columns to those of a table: names, types and which may be empty.
#[cfg(test)]
pub(crate) fn assert_subset(subset: &[Column], table: &[Column]) {
    for column in subset {
        let of_table = table.iter().find(|known| known.name == column.name).expect(column.name);
        assert_eq!(column.nullable, of_table.nullable, "{}", column.name);
        match (&column.column_type, &of_table.column_type) {
            (ColumnType::Rows(subset), ColumnType::Rows(table)) => assert_subset(subset, table),
            (subset, table) => assert_eq!(subset, table, "{}", column.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{FileOpKey, RequestPlace, SelectedRows, ThreadKey, ThreadSpan, TimeSpan, assert_subset};
    use model::row_summary::{FileOpSummary, OffCpuSummary, RequestTiming};
    use model::{FileOp, JvmPause, LockWait, OffCpu, Request, Row as _, SocketOp};

    #[test]
    fn of_each_kind_the_first_and_the_last_in_a_gap_are_read() {
        let mut selected = SelectedRows::default();
        for (row, choice) in [
            Some((1, 0)),
            Some((2, 0)),
            Some((1, 0)),
            Some((1, 0)),
            None,
            None,
            Some((1, 1)),
            Some((1, 1)),
            Some((1, 2)),
            Some((2, 2)),
        ]
        .into_iter()
        .enumerate()
        {
            match choice {
                Some((kind, gap)) => selected.edge(row, kind, gap),
                None => selected.read(row),
            }
        }
        // 0, 3: the first and last of kind 1 before what is read; 1: all there is of kind 2; 6, 7: its next gap; 8, 9: after that.
        assert_eq!(selected.ranges().collect::<Vec<_>>(), [0..2, 3..10]);
    }

    #[test]
    fn what_is_in_between_is_not() {
        let mut selected = SelectedRows::default();
        (0..10).for_each(|row| selected.edge(row, 7, 0));
        (10..12).for_each(|row| selected.read(row));
        (12..20).for_each(|row| selected.edge(row, 7, 1));
        assert_eq!(selected.ranges().collect::<Vec<_>>(), [0..1, 9..13, 19..20]);
    }

    #[test]
    fn a_subset_has_columns_of_its_table() {
        assert_subset(&RequestTiming::columns(), &Request::columns());
        assert_subset(&RequestPlace::columns(), &Request::columns());
        assert_subset(&FileOpSummary::columns(), &FileOp::columns());
        assert_subset(&FileOpKey::columns(), &FileOp::columns());
        assert_subset(&OffCpuSummary::columns(), &OffCpu::columns());
        assert_subset(&ThreadSpan::columns(), &SocketOp::columns());
        assert_subset(&ThreadKey::columns(), &SocketOp::columns());
        assert_subset(&TimeSpan::columns(), &LockWait::columns());
        assert_subset(&TimeSpan::columns(), &JvmPause::columns());
    }
}
