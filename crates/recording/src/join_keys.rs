//! Keys that join produce requests with the writes of their batches.
//! Threads read them from ten columns instead of seventy, without making events. Does not join.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use ahash::RandomState;
use arrow_array::RecordBatch;
use model::api_key::PRODUCE;
use model::row::ByName;
use model::row_summary::{ProduceKey, WriteKey};
use model::{FileKind, FileOpKind, Nanos, Table};

use crate::cells::{BadRow, Cells, ColumnError, Texts};
use crate::notes::Notes;
use crate::part::Part;
use crate::rows::{Read, read_row};
use crate::selection::subset;
use crate::summaries::ColumnBatches;
use crate::text::TextPool;

/// Topics beyond this many get no number. Their requests and writes join nothing.
const MAX_TOPICS: usize = 1 << 20;

subset! {
    /// The columns that join a write with a request.
    #[allow(dead_code, reason = "read column by column")]
    pub struct WriteColumns {
        start: Nanos as "start_ns",
        end: Nanos as "end_ns",
        op: FileOpKind,
        kind: FileKind,
        topic: Option<Arc<str>>,
        partition: Option<i32>,
        crc: Option<u32> as "batch_crc",
        bytes: Option<u32> as "batch_bytes",
        base_offset: Option<i64>,
    }
}

subset! {
    /// The columns that join a request with writes.
    #[allow(dead_code, reason = "read column by column")]
    pub struct RequestColumns {
        arrival: Nanos as "arrival_ns",
        arrival_end: Nanos as "arrival_end_ns",
        response: Option<Nanos> as "response_ns",
        end: Option<Nanos> as "end_ns",
        api_key: i16,
        partitions: Vec<PartitionColumns>,
    }
}

subset! {
    /// A partition of a request.
    #[allow(dead_code, reason = "read column by column")]
    pub struct PartitionColumns {
        topic: Option<Arc<str>>,
        partition: i32,
        bytes: u32,
        error_code: Option<i16>,
        base_offset: Option<i64>,
        batches: Vec<BatchColumns>,
    }
}

subset! {
    /// A batch of a partition.
    pub struct BatchColumns {
        crc: u32,
        bytes: u32,
    }
}

/// Keys of requests, batch after batch: the number of requests, and the partitions of produce requests.
pub type ProduceKeys = ColumnBatches<(u64, Vec<ProduceKey>)>;

/// Keys of writes, batch after batch.
pub type WriteKeys = ColumnBatches<Vec<WriteKey>>;

/// Reads the parts of both tables ahead.
///
/// # Errors
/// The operating system's error, if it cannot start a thread.
pub(crate) fn read(
    requests: Vec<Part>,
    file_ops: Vec<Part>,
    notes: &Arc<Notes>,
) -> std::io::Result<(ProduceKeys, WriteKeys)> {
    let mut of_requests = TopicNumbers::default();
    let mut of_writes = TopicNumbers { all: Arc::clone(&of_requests.all), ..TopicNumbers::default() };
    let produced =
        ColumnBatches::start::<RequestColumns>(Table::Requests.as_str(), requests, notes, move |batch| {
            produce_keys(batch, &mut of_requests)
        })?;
    let written =
        ColumnBatches::start::<WriteColumns>(Table::FileOps.as_str(), file_ops, notes, move |batch| {
            write_keys(batch, &mut of_writes)
        })?;
    Ok((produced, written))
}

/// Numbers of topics, the same for both tables.
#[derive(Default)]
struct TopicNumbers {
    all: Arc<Mutex<HashMap<Arc<str>, u32, RandomState>>>,
    /// Numbers that this table has used, so that neither table waits for the other.
    known: HashMap<Arc<str>, Option<u32>, RandomState>,
    /// Numbers that this batch has used, by the index of their topics in it.
    known_places: Vec<Option<u32>>,
}

impl TopicNumbers {
    /// Number of the topic in row `i`. `None` if the row has no topic, or the topic no number.
    fn at(&mut self, topics: &Cells<Texts>, i: usize, pool: &mut TextPool) -> Option<u32> {
        let place = topics.place(i)?;
        if let Some(Some(number)) = self.known_places.get(place) {
            return Some(*number);
        }
        let number = self.number(&topics.text(i, pool)?)?;
        if self.known_places.len() <= place {
            self.known_places.resize(place + 1, None);
        }
        if let Some(known) = self.known_places.get_mut(place) {
            *known = Some(number);
        }
        Some(number)
    }

    fn number(&mut self, name: &Arc<str>) -> Option<u32> {
        if let Some(known) = self.known.get(name) {
            return *known;
        }
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let next = all.len() as u32;
        let number = match all.get(name) {
            Some(number) => Some(*number),
            None if all.len() >= MAX_TOPICS => None,
            None => {
                all.insert(Arc::clone(name), next);
                Some(next)
            }
        };
        if self.known.len() < MAX_TOPICS {
            self.known.insert(Arc::clone(name), number);
        }
        number
    }
}

/// Makes keys of writes to partitions' logs only. Rows that cannot be decoded join nothing.
fn write_keys(batch: &RecordBatch, topics: &mut TopicNumbers) -> Result<Vec<WriteKey>, ColumnError> {
    let cells = WriteColumns::cells(batch, "", false)?;
    topics.known_places.clear();
    let mut pool = TextPool::default();
    let mut key = |i: usize| -> Result<Option<WriteKey>, BadRow> {
        let pool = &mut pool;
        if ByName::<FileOpKind>::read(&cells.op, i, pool)? != FileOpKind::Write
            || ByName::<FileKind>::read(&cells.kind, i, pool)? != FileKind::Log
        {
            return Ok(None);
        }
        let Some(crc) = cells.crc.number(i) else { return Ok(None) };
        let Some(topic) = topics.at(&cells.topic, i, pool) else { return Ok(None) };
        Ok(Some(WriteKey {
            start: Nanos::read(&cells.start, i, pool)?,
            end: Nanos::read(&cells.end, i, pool)?,
            topic,
            partition: i32::read(&cells.partition, i, pool)?,
            crc,
            bytes: u32::read(&cells.bytes, i, pool)?,
            base_offset: i64::read(&cells.base_offset, i, pool)?,
        }))
    };
    Ok((0..batch.num_rows()).filter_map(|i| key(i).ok().flatten()).collect())
}

fn produce_keys(
    batch: &RecordBatch,
    topics: &mut TopicNumbers,
) -> Result<(u64, Vec<ProduceKey>), ColumnError> {
    let cells = RequestColumns::cells(batch, "", false)?;
    topics.known_places.clear();
    let of = &cells.partitions.rows;
    let mut pool = TextPool::default();
    let mut keys = Vec::with_capacity(batch.num_rows());
    let mut read = |i: usize| -> Result<(), BadRow> {
        let pool = &mut pool;
        let arrival = Nanos::read(&cells.arrival, i, pool)?;
        let arrival_end = Nanos::read(&cells.arrival_end, i, pool)?;
        let response = cells.response.number(i).map(Nanos);
        let last_seen = cells.end.number(i).map_or(arrival_end, Nanos);
        let partitions = cells.partitions.range(i)?;
        if i16::read(&cells.api_key, i, pool)? != PRODUCE {
            return Ok(());
        }
        for p in partitions {
            let first = of.batches.range(p)?.next();
            let first = first.map(|b| BatchColumns::read(&of.batches.rows, b, pool)).transpose()?;
            keys.push(ProduceKey {
                arrival,
                response,
                last_seen,
                topic: topics.at(&of.topic, p, pool),
                partition: i32::read(&of.partition, p, pool)?,
                bytes: u32::read(&of.bytes, p, pool)?,
                error_code: of.error_code.number(p),
                batch: first.map(|batch| (batch.crc, batch.bytes)),
                base_offset: of.base_offset.number(p),
            });
        }
        Ok(())
    };
    let requests = (0..batch.num_rows()).filter(|i| read(*i).is_ok()).count() as u64;
    Ok((requests, keys))
}

#[cfg(test)]
mod tests {
    use super::{RequestColumns, WriteColumns};
    use crate::selection::assert_subset;
    use model::{FileOp, Request, Row as _};

    #[test]
    fn join_key_columns_are_subsets_of_their_tables() {
        assert_subset(&WriteColumns::columns(), &FileOp::columns());
        assert_subset(&RequestColumns::columns(), &Request::columns());
    }
}
