//! Selects the rows of a part to read: those that a [`RowFilter`] selects by their summaries and, of each kind, the
//! last before and the first after each stretch that is read whole. Does not know which stretches those are.
//!
//! Parquet's own `RowFilter` and `RowSelection` evaluate predicates batch by batch on one column after the other, and cannot
//! express "the last of its kind before row n". So this module first makes a selection, and Parquet's `RowSelection`
//! then skips the rest. Many row groups lie between two stretches, where nothing else is selected: of these only the
//! columns that tell kinds apart are read, not the times of rows.

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
use crate::notes::{Notes, catch_panics};
use crate::parquet_part::{ParquetFile, Rows, SUMMARIES_AT_ONCE};
use crate::part::Part;
use crate::rows::{ReadRow, read_row};
use crate::text::TextPool;

/// With more kinds than this, everything is read.
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
    /// The time of a request, its client and its connection.
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
    /// The columns that tell kinds of file operations apart.
    pub struct FileOpKey {
        op: FileOpKind,
        kind: FileKind,
        tid: Tid,
    }
}

subset! {
    /// The column that tells kinds of operations on connections apart.
    pub struct ThreadKey {
        tid: Tid,
    }
}

subset! {
    /// The time and the thread of an operation.
    pub struct ThreadSpan {
        start: Nanos as "start_ns",
        end: Nanos as "end_ns",
        tid: Tid,
    }
}

subset! {
    /// The time of an event.
    pub struct TimeSpan {
        start: Nanos as "start_ns",
        end: Nanos as "end_ns",
    }
}

/// Start and end.
type Stretch = (Nanos, Nanos);

/// The purpose of summaries.
#[derive(Clone, Copy)]
enum Purpose {
    /// To find which rows took long, and whether that may be intended.
    Lengths,
    /// To find the times of rows.
    Places,
    /// Like `Places`, for rows within a stretch in which none is selected for itself: all get the stretch's ends as
    /// theirs.
    Within(Stretch),
}

/// The columns of a table that make up a summary.
trait Summarize: ReadRow {
    /// Makes the summary; columns without times take those of `stretch`.
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

/// Receives the summary of each row.
type Take<'t> = &'t mut dyn FnMut(Result<RowSummary, BadRow>);

/// Summarizes the rows of batches.
struct Summarizer {
    projection: Projection,
    /// Passes on the summary of each row of a batch.
    summarize: fn(&mut Self, &RecordBatch, Take<'_>) -> Result<(), String>,
    stretch: Stretch,
    pool: TextPool,
    numbers: RandomState,
}

impl Summarizer {
    fn new(table: Table, purpose: Purpose, numbers: &RandomState) -> Self {
        let stretch = if let Purpose::Within(stretch) = purpose { stretch } else { (Nanos::MIN, Nanos::MAX) };
        let of = match (table, purpose) {
            (Table::Requests, Purpose::Lengths) => Self::with_columns::<RequestTiming>,
            (Table::Requests, _) => Self::with_columns::<RequestPlace>,
            (Table::FileOps, Purpose::Within(_)) => Self::with_columns::<FileOpKey>,
            (Table::FileOps, _) => Self::with_columns::<FileOpSummary>,
            (Table::OffCpu, _) => Self::with_columns::<OffCpuSummary>,
            (Table::SocketOps, Purpose::Within(_)) => Self::with_columns::<ThreadKey>,
            (Table::SocketOps, _) => Self::with_columns::<ThreadSpan>,
            _ => Self::with_columns::<TimeSpan>,
        };
        of(stretch, numbers.clone())
    }

    fn with_columns<S: Summarize>(stretch: Stretch, numbers: RandomState) -> Self {
        let projection = Projection::of(&S::columns());
        Self {
            projection,
            summarize: Self::summarize_batch::<S>,
            stretch,
            pool: TextPool::default(),
            numbers,
        }
    }

    /// Catches panics of reading, not of `take`.
    fn summarize_batch<S: Summarize>(&mut self, batch: &RecordBatch, take: Take<'_>) -> Result<(), String> {
        let cells = catch_panics(|| S::cells(batch, "", false))?.map_err(|error| error.0)?;
        for i in 0..batch.num_rows() {
            let row = catch_panics(|| S::read(&cells, i, &mut self.pool))?;
            take(row.map(|row| row.summarize(self.stretch, &self.numbers)));
        }
        Ok(())
    }
}

/// A hash of a connection's ends.
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

/// Passes summaries of a part's rows to `take`; skips row groups whose statistics show that no row took `min_latency`.
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

/// The rows of a part to read; `None` to read all.
/// Also `None` if the part cannot be summarized, so that its faults are found where they always are.
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
                    // Its fault is reported when it is read.
                    Ok(RowChoice::Read) | Err(_) => selected.read(row),
                }
                row += 1;
            });
            if each.is_err() || selected.last.len() > MAX_KINDS {
                return Ok(None);
            }
        }
    }
    // A footer with another number of rows must not be used with a selection.
    Ok((row == total).then(|| RowSelection::from_consecutive_ranges(selected.ranges(), total)))
}

/// Consecutive row groups.
struct Run {
    groups: Range<usize>,
    /// The gap, if all of them lie in one.
    within: Option<Within>,
}

/// A stretch of time in which no row is selected for itself.
#[derive(Clone, Copy)]
struct Within {
    gap: u32,
    stretch: Stretch,
}

/// Groups a file's row groups into runs that lie in the same gap.
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

/// The gap in which a row group lies, if its statistics show that.
fn within(file: &ParquetFile, group: usize, table: Table, filter: &dyn RowFilter) -> Option<Within> {
    let (starts, ends) = (file.bounds(group, "start_ns")?, file.bounds(group, "end_ns")?);
    // If an end is before its start, the statistics show nothing.
    let is_whole = starts.0 <= ends.0 && starts.1 <= ends.1;
    let stretch = (Nanos(starts.0), Nanos(ends.1));
    let summary = widest_summary(table, stretch).filter(|_| is_whole)?;
    match filter.choose(&summary) {
        RowChoice::Edge { gap, .. } => Some(Within { gap, stretch }),
        RowChoice::Read => None,
    }
}

/// The summary that a filter selects from a stretch if it selects any of the table; `None` if more than the time
/// matters.
fn widest_summary(table: Table, (start, end): Stretch) -> Option<RowSummary> {
    match table {
        Table::FileOps => {
            // Writes to logs affect other rows at the greatest distance.
            let (op, kind) = (FileOpKind::Write, FileKind::Log);
            Some(RowSummary::FileOp(FileOpSummary { start, end, op, kind, tid: 0 }))
        }
        Table::SocketOps => Some(RowSummary::SocketOp { start, end, tid: 0 }),
        _ => None,
    }
}

/// Rows to read.
#[derive(Default)]
struct SelectedRows {
    /// In order, each as long as possible.
    runs: Vec<Range<usize>>,
    /// Other rows, in any order.
    single: Vec<usize>,
    /// The last row of each kind that was not selected for itself.
    /// Holds the row, its gap, and whether it was selected as an edge.
    last: HashMap<u64, (usize, u32, bool), RandomState>,
}

impl SelectedRows {
    fn read(&mut self, row: usize) {
        match self.runs.last_mut().filter(|run| run.end == row) {
            Some(run) => run.end += 1,
            None => self.runs.push(row..row + 1),
        }
    }

    /// Selects the first and the last row of a kind in a gap: the rows between them are alike.
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
        // The next part is not known here, so every last row counts as an edge.
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

/// Asserts that columns match those of a table: names, types and which are nullable.
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
    fn selects_first_and_last_row_of_each_kind_per_gap() {
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
        // 0, 3: the first and last of kind 1 before what is read; 1: the only one of kind 2; 6, 7: its next gap; 8, 9:
        // after that.
        assert_eq!(selected.ranges().collect::<Vec<_>>(), [0..2, 3..10]);
    }

    #[test]
    fn skips_rows_between_the_edges_of_a_gap() {
        let mut selected = SelectedRows::default();
        (0..10).for_each(|row| selected.edge(row, 7, 0));
        (10..12).for_each(|row| selected.read(row));
        (12..20).for_each(|row| selected.edge(row, 7, 1));
        assert_eq!(selected.ranges().collect::<Vec<_>>(), [0..1, 9..13, 19..20]);
    }

    #[test]
    fn row_summary_columns_are_subsets_of_their_tables() {
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
