//! The cells of a table that an event's outline is read from: a few columns of each. Does not say which outlines matter.

use std::hash::{BuildHasher as _, Hasher as _};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use ahash::RandomState;
use arrow_array::RecordBatch;
use model::row_summary::{FileOpSummary, OffCpuSummary, RequestPosition, RequestTiming, RowSummary};
use model::{FileKind, FileOpKind, Nanos};

use crate::Error;
use crate::address::Address;
use crate::cells::{BadRow, ColumnError, RowCells as _, cells};
use crate::chosen::OUTLINES_AT_ONCE;
use crate::columns::{Flag, I16, I32, I64, Maybe, Name, Text, U32};
use crate::fence::fenced;
use crate::notes::Notes;
use crate::parquet_part::{ParquetFile, Rows};
use crate::part::Part;
use crate::table::Table;
use crate::table_events::open;
use crate::text::{ApiName, TextPool};

cells! {
    RequestPlaces {
        arrival_ns: I64,
        arrival_end_ns: I64,
        end_ns: Maybe<I64>,
        api_key: I16,
        client_id: Maybe<Text>,
        client: Address,
        broker: Address,
    }
}

cells! {
    RequestLengths {
        arrival_ns: I64,
        arrival_end_ns: I64,
        response_ns: Maybe<I64>,
        end_ns: Maybe<I64>,
        head_of_line_ns: Maybe<I64>,
        data_ns: Maybe<I64>,
        api: Name<ApiName>,
        api_key: I16,
        correlation_id: I32,
        min_bytes: Maybe<I32>,
        max_wait_ms: Maybe<I32>,
    }
}

cells! {
    FileOpOutlines {
        start_ns: I64,
        end_ns: I64,
        op: Name<FileOpKind>,
        kind: Name<FileKind>,
        tid: U32,
    }
}

cells! {
    OffCpuOutlines {
        start_ns: I64,
        end_ns: I64,
        woken_ns: Maybe<I64>,
        preempted: Flag,
        tid: U32,
    }
}

cells! {
    SocketOpOutlines {
        start_ns: I64,
        end_ns: I64,
        tid: U32,
    }
}

cells! {
    Spans {
        start_ns: I64,
        end_ns: I64,
    }
}

cells! {
    FileOpsWithin {
        op: Name<FileOpKind>,
        kind: Name<FileKind>,
        tid: U32,
    }
}

cells! {
    SocketOpsWithin {
        tid: U32,
    }
}

/// From when until when.
pub(crate) type Stretch = (Nanos, Nanos);

/// What outlines are for.
#[derive(Clone, Copy)]
pub(crate) enum Purpose {
    /// Whether rows took long, and for what.
    Lengths,
    /// Where rows lie.
    Places,
    /// The same of rows that lie within a stretch in which none is wanted for itself: that is told for each row's own ends.
    Within(Stretch),
}

/// The outlines of a batch's rows.
pub(crate) enum Outlines {
    Lengths(Box<RequestLengths>),
    Requests(Box<RequestPlaces>),
    FileOps(Box<FileOpOutlines>),
    OffCpu(Box<OffCpuOutlines>),
    SocketOps(Box<SocketOpOutlines>),
    Spans(Box<Spans>),
    FileOpsWithin(Box<FileOpsWithin>, Stretch),
    SocketOpsWithin(Box<SocketOpsWithin>, Stretch),
}

/// What would be wanted of a stretch if any of a table's rows is; none where more than the time makes a row wanted.
pub(crate) fn most_wanted(table: Table, (start, end): Stretch) -> Option<RowSummary> {
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

impl Outlines {
    /// Whether a table's outlines need a column.
    pub(crate) fn need(table: Table, purpose: Purpose, column: &str) -> bool {
        let names = match (table, purpose) {
            (Table::Requests, Purpose::Lengths) => RequestLengths::NAMES,
            (Table::Requests, _) => RequestPlaces::NAMES,
            (Table::FileOps, Purpose::Within(_)) => FileOpsWithin::NAMES,
            (Table::FileOps, _) => FileOpOutlines::NAMES,
            (Table::OffCpu, _) => OffCpuOutlines::NAMES,
            (Table::SocketOps, Purpose::Within(_)) => SocketOpsWithin::NAMES,
            (Table::SocketOps, _) => SocketOpOutlines::NAMES,
            _ => Spans::NAMES,
        };
        names.contains(&column)
    }

    pub(crate) fn of(table: Table, purpose: Purpose, batch: &RecordBatch) -> Result<Self, ColumnError> {
        Ok(match (table, purpose) {
            (Table::Requests, Purpose::Lengths) => Self::Lengths(Box::new(RequestLengths::of(batch)?)),
            (Table::Requests, _) => Self::Requests(Box::new(RequestPlaces::of(batch)?)),
            (Table::FileOps, Purpose::Within(stretch)) => {
                Self::FileOpsWithin(Box::new(FileOpsWithin::of(batch)?), stretch)
            }
            (Table::FileOps, _) => Self::FileOps(Box::new(FileOpOutlines::of(batch)?)),
            (Table::OffCpu, _) => Self::OffCpu(Box::new(OffCpuOutlines::of(batch)?)),
            (Table::SocketOps, Purpose::Within(stretch)) => {
                Self::SocketOpsWithin(Box::new(SocketOpsWithin::of(batch)?), stretch)
            }
            (Table::SocketOps, _) => Self::SocketOps(Box::new(SocketOpOutlines::of(batch)?)),
            _ => Self::Spans(Box::new(Spans::of(batch)?)),
        })
    }

    /// The outline of row `i`. Connections are numbered by `numbers`.
    pub(crate) fn at(
        &self,
        i: usize,
        pool: &mut TextPool,
        numbers: &RandomState,
    ) -> Result<RowSummary, BadRow> {
        Ok(match self {
            Self::Lengths(cells) => RowSummary::LongRequest(cells.at(i)?),
            Self::Requests(cells) => RowSummary::Request(cells.at(i, pool, numbers)?),
            Self::FileOps(cells) => RowSummary::FileOp(FileOpSummary {
                start: Nanos(cells.start_ns.at(i)?),
                end: Nanos(cells.end_ns.at(i)?),
                op: cells.op.at(i)?,
                kind: cells.kind.at(i)?,
                tid: cells.tid.at(i)?,
            }),
            Self::OffCpu(cells) => RowSummary::OffCpu(OffCpuSummary {
                start: Nanos(cells.start_ns.at(i)?),
                end: Nanos(cells.end_ns.at(i)?),
                woken: cells.woken_ns.maybe(i).map(Nanos),
                preempted: cells.preempted.at(i)?,
                tid: cells.tid.at(i)?,
            }),
            Self::SocketOps(cells) => RowSummary::SocketOp {
                start: Nanos(cells.start_ns.at(i)?),
                end: Nanos(cells.end_ns.at(i)?),
                tid: cells.tid.at(i)?,
            },
            Self::Spans(cells) => {
                RowSummary::Span { start: Nanos(cells.start_ns.at(i)?), end: Nanos(cells.end_ns.at(i)?) }
            }
            Self::FileOpsWithin(cells, stretch) => {
                let (start, end) = *stretch;
                let (op, kind, tid) = (cells.op.at(i)?, cells.kind.at(i)?, cells.tid.at(i)?);
                RowSummary::FileOp(FileOpSummary { start, end, op, kind, tid })
            }
            Self::SocketOpsWithin(cells, stretch) => {
                let (start, end) = *stretch;
                RowSummary::SocketOp { start, end, tid: cells.tid.at(i)? }
            }
        })
    }
}

impl RequestPlaces {
    fn at(&self, i: usize, pool: &mut TextPool, numbers: &RandomState) -> Result<RequestPosition, BadRow> {
        Ok(RequestPosition {
            arrival: Nanos(self.arrival_ns.at(i)?),
            arrival_end: Nanos(self.arrival_end_ns.at(i)?),
            end: self.end_ns.maybe(i).map(Nanos),
            api_key: self.api_key.at(i)?,
            client_id: self.client_id.maybe(i, pool),
            connection: number(numbers, self.client.at(i)?, self.broker.at(i)?),
        })
    }
}

impl RequestLengths {
    fn at(&self, i: usize) -> Result<RequestTiming, BadRow> {
        Ok(RequestTiming {
            arrival: Nanos(self.arrival_ns.at(i)?),
            arrival_end: Nanos(self.arrival_end_ns.at(i)?),
            response: self.response_ns.maybe(i).map(Nanos),
            end: self.end_ns.maybe(i).map(Nanos),
            head_of_line: self.head_of_line_ns.maybe(i).map(Nanos),
            data: self.data_ns.maybe(i).map(Nanos),
            api: self.api.at(i)?.0,
            api_key: self.api_key.at(i)?,
            correlation_id: self.correlation_id.at(i)?,
            min_bytes: self.min_bytes.maybe(i),
            max_wait_ms: self.max_wait_ms.maybe(i),
        })
    }
}

/// Tells the outlines of a part's rows, at least of those that took so long, by what its statistics say.
pub(crate) fn each(
    table: Table,
    part: &Part,
    least: Nanos,
    notes: &Arc<Notes>,
    tell: &mut dyn FnMut(&RowSummary),
) -> Result<(), Error> {
    let long = |path: &Path| {
        let rows = Rows::WithAtLeast("latency_ns", least.0);
        ParquetFile::open(path)?.read(
            &|column| Outlines::need(table, Purpose::Lengths, column),
            rows,
            OUTLINES_AT_ONCE,
        )
    };
    let (path, batches) = open(part, notes, long)?;
    let (mut pool, numbers) = (TextPool::default(), RandomState::new());
    let damaged = |why: String| Error::Part { path: path.clone(), why };
    for batch in batches {
        let batch = batch?;
        let outlines = fenced(|| Outlines::of(table, Purpose::Lengths, &batch))
            .map_err(damaged)?
            .map_err(|e| damaged(e.0))?;
        for i in 0..batch.num_rows() {
            if let Ok(sketch) = outlines.at(i, &mut pool, &numbers) {
                tell(&sketch);
            }
        }
    }
    Ok(())
}

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
