//! What joins produce requests with the writes of their batches, read by threads without making events: of ten columns
//! instead of seventy. Does not join.

use std::collections::HashMap;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, PoisonError};

use ahash::RandomState;
use arrow_array::RecordBatch;
use model::api_key::PRODUCE;
use model::row_summary::{ProduceKey, WriteKey};
use model::{FileKind, FileOpKind, Nanos};

use crate::Error;
use crate::cells::{BadRow, Cells, ColumnError, RowCells as _, RowLists, Source, cells};
use crate::columns::{I16, I32, I64, Maybe, Name, Text, U32};
use crate::columns_ahead;
use crate::notes::Notes;
use crate::part::Part;
use crate::table::Table;
use crate::text::TextPool;
use crate::text_cells::Texts;

/// Topics beyond this many have no number, and what is theirs joins nothing.
const MOST_TOPICS: usize = 1 << 20;

cells! {
    WrittenCells {
        start_ns: I64,
        end_ns: I64,
        op: Name<FileOpKind>,
        kind: Name<FileKind>,
        topic: Maybe<Text>,
        partition: Maybe<I32>,
        batch_crc: Maybe<U32>,
        batch_bytes: Maybe<U32>,
        base_offset: Maybe<I64>,
    }
}

cells! {
    RequestCells {
        arrival_ns: I64,
        arrival_end_ns: I64,
        response_ns: Maybe<I64>,
        end_ns: Maybe<I64>,
        api_key: I16,
    }
}

cells! {
    PartitionCells {
        topic: Maybe<Text>,
        partition: I32,
        bytes: U32,
        error_code: Maybe<I16>,
        base_offset: Maybe<I64>,
    }
}

cells! {
    BatchCells {
        crc: U32,
        bytes: U32,
    }
}

/// Keys of requests, batch after batch: how many requests there were, and the partitions of those that produce.
pub struct ProduceKeys(Receiver<Result<(u64, Vec<ProduceKey>), Error>>);

/// Keys of writes, batch after batch.
pub struct WriteKeys(Receiver<Result<Vec<WriteKey>, Error>>);

impl Iterator for ProduceKeys {
    type Item = Result<(u64, Vec<ProduceKey>), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.recv().ok()
    }
}

impl Iterator for WriteKeys {
    type Item = Result<Vec<WriteKey>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.recv().ok()
    }
}

/// The parts of both tables, read ahead.
///
/// # Errors
/// The operating system's, where it gives no thread.
pub(crate) fn read(
    requests: Vec<Part>,
    file_ops: Vec<Part>,
    notes: &Arc<Notes>,
) -> std::io::Result<(ProduceKeys, WriteKeys)> {
    let topics = Topics::default();
    let (of_requests, mut of_sent) = (Arc::clone(&topics), HashMap::default());
    let sent = columns_ahead::read(Table::Requests.folder(), requests, notes, is_of_request, move |batch| {
        sent_of(batch, (&of_requests, &mut of_sent))
    })?;
    let mut of_written = HashMap::default();
    let is_of_write = |column: &str| WrittenCells::NAMES.contains(&column);
    let written = columns_ahead::read(Table::FileOps.folder(), file_ops, notes, is_of_write, move |batch| {
        written_of(batch, (&topics, &mut of_written))
    })?;
    Ok((ProduceKeys(sent), WriteKeys(written)))
}

/// Numbers of topics, the same for both tables.
type Topics = Arc<Mutex<HashMap<Arc<str>, u32, RandomState>>>;
/// Numbers of topics by where a table's pool has their names, so that both need not wait for each other.
type Known<'t> = (&'t Topics, &'t mut HashMap<Arc<str>, Option<u32>, RandomState>);

fn is_of_request(column: &str) -> bool {
    match column.strip_prefix("partitions.") {
        Some(inner) => match inner.strip_prefix("batches.") {
            Some(inner) => BatchCells::NAMES.contains(&inner),
            None => PartitionCells::NAMES.contains(&inner),
        },
        None => RequestCells::NAMES.contains(&column),
    }
}

fn number(name: &Arc<str>, (topics, known): Known<'_>) -> Option<u32> {
    if let Some(known) = known.get(name) {
        return *known;
    }
    let mut all = topics.lock().unwrap_or_else(PoisonError::into_inner);
    let next = all.len() as u32;
    let number = match all.get(name) {
        Some(number) => Some(*number),
        None if all.len() >= MOST_TOPICS => None,
        None => {
            all.insert(Arc::clone(name), next);
            Some(next)
        }
    };
    if known.len() < MOST_TOPICS {
        known.insert(Arc::clone(name), number);
    }
    number
}

/// Numbers of a batch's topics, by their places.
#[derive(Default)]
struct Numbered(Vec<Option<u32>>);

impl Numbered {
    /// The number of the topic in row `i`, if it has both.
    fn at(&mut self, topics: &Cells<Texts>, i: usize, pool: &mut TextPool, known: Known<'_>) -> Option<u32> {
        let place = topics.place(i)?;
        if let Some(Some(number)) = self.0.get(place) {
            return Some(*number);
        }
        let number = number(&topics.maybe(i, pool)?, known)?;
        if self.0.len() <= place {
            self.0.resize(place + 1, None);
        }
        if let Some(kept) = self.0.get_mut(place) {
            *kept = Some(number);
        }
        Some(number)
    }
}

/// Only what wrote to a partition's log.
fn written_of(batch: &RecordBatch, (topics, known): Known<'_>) -> Result<Vec<WriteKey>, ColumnError> {
    let cells = WrittenCells::of(batch)?;
    let (mut pool, mut numbered) = (TextPool::default(), Numbered::default());
    let mut all = Vec::with_capacity(batch.num_rows());
    for i in 0..batch.num_rows() {
        if cells.op.at(i) != Ok(FileOpKind::Write) || cells.kind.at(i) != Ok(FileKind::Log) {
            continue;
        }
        let Some(crc) = cells.batch_crc.maybe(i) else { continue };
        let Some(topic) = numbered.at(&cells.topic, i, &mut pool, (topics, &mut *known)) else { continue };
        let key = || -> Result<WriteKey, BadRow> {
            Ok(WriteKey {
                start: Nanos(cells.start_ns.at(i)?),
                end: Nanos(cells.end_ns.at(i)?),
                topic,
                partition: cells.partition.at(i)?,
                crc,
                bytes: cells.batch_bytes.at(i)?,
                base_offset: cells.base_offset.at(i)?,
            })
        };
        // A row that cannot be an event joins nothing.
        all.extend(key());
    }
    Ok(all)
}

fn sent_of(batch: &RecordBatch, (topics, known): Known<'_>) -> Result<(u64, Vec<ProduceKey>), ColumnError> {
    let cells = RequestCells::of(batch)?;
    let partitions = Nested::of(batch)?;
    let (mut pool, mut numbered) = (TextPool::default(), Numbered::default());
    let mut all = Vec::with_capacity(batch.num_rows());
    let mut requests = 0;
    for i in 0..batch.num_rows() {
        let mut row = || -> Result<(), BadRow> {
            let (arrival, arrival_end) = (Nanos(cells.arrival_ns.at(i)?), Nanos(cells.arrival_end_ns.at(i)?));
            let response = cells.response_ns.maybe(i).map(Nanos);
            let last_seen = cells.end_ns.maybe(i).map_or(arrival_end, Nanos);
            let range = partitions.lists.range(i)?;
            if cells.api_key.at(i)? != PRODUCE {
                return Ok(());
            }
            for p in range {
                let of = &partitions.lists.rows;
                let first = of.batches.range(p)?.next();
                let batch = match first {
                    Some(b) => Some((of.batches.rows.crc.at(b)?, of.batches.rows.bytes.at(b)?)),
                    None => None,
                };
                all.push(ProduceKey {
                    arrival,
                    response,
                    last_seen,
                    topic: numbered.at(&of.own.topic, p, &mut pool, (topics, &mut *known)),
                    partition: of.own.partition.at(p)?,
                    bytes: of.own.bytes.at(p)?,
                    error_code: of.own.error_code.maybe(p),
                    batch,
                    base_offset: of.own.base_offset.maybe(p),
                });
            }
            Ok(())
        };
        requests += u64::from(row().is_ok());
    }
    Ok((requests, all))
}

/// The partitions of requests, and the batches of partitions.
struct Nested {
    lists: RowLists<WithBatches>,
}

struct WithBatches {
    own: PartitionCells,
    batches: RowLists<BatchCells>,
}

impl crate::cells::RowCells for WithBatches {
    fn of(source: &dyn Source) -> Result<Self, ColumnError> {
        let wanted = arrow_schema::DataType::Null;
        Ok(Self { own: PartitionCells::of(source)?, batches: RowLists::find(source, "batches", &wanted)? })
    }
}

impl Nested {
    fn of(source: &dyn Source) -> Result<Self, ColumnError> {
        Ok(Self { lists: RowLists::find(source, "partitions", &arrow_schema::DataType::Null)? })
    }
}
