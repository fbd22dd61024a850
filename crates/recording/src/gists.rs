//! Events without all that figures of many are not made of; here requests, some twenty columns instead of seventy. Does not count.

mod file_ops;
pub(crate) mod ranges;
mod samples;
mod verdicts;

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use arrow_array::RecordBatch;
use arrow_schema::DataType;
use model::{Nanos, Partition, Request};

use crate::Error;
use crate::address::Address;
use crate::cells::{BadRow, ColumnError, RowCells as _, RowLists, cells};
use crate::columns::{I16, I32, I64, Maybe, Name, Text, U32};
use crate::columns_ahead;
use crate::notes::Notes;
use crate::part::Part;
use crate::table::Table;
use crate::text::{ApiName, TextPool};
use crate::topic_id::Id;

/// What stands for a connection's end that is not read.
const NOT_READ: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0));

cells! {
    RequestCells {
        arrival_ns: I64,
        arrival_end_ns: I64,
        response_ns: Maybe<I64>,
        end_ns: Maybe<I64>,
        head_of_line_ns: Maybe<I64>,
        data_ns: Maybe<I64>,
        api: Name<ApiName>,
        api_key: I16,
        client_id: Maybe<Text>,
        client: Address,
        acks: Maybe<I16>,
        min_bytes: Maybe<I32>,
        max_wait_ms: Maybe<I32>,
        error_code: Maybe<I16>,
        error: Maybe<Text>,
    }
}

cells! {
    PartitionCells {
        topic: Maybe<Text>,
        topic_id: Maybe<Id>,
        partition: I32,
        bytes: U32,
        records: Maybe<U32>,
        error_code: Maybe<I16>,
        newest_record_ns: Maybe<I64>,
    }
}

/// Events, batch after batch, of which only some columns were read; all else is empty, zero, or an address that nobody has.
///
/// Of requests: when they were, whose, their API, acks, terms and errors; and of their partitions topic, number, bytes, records,
/// error and when the newest record was made. Of file operations: when they were, what was moved, file, kind, and the device's name. Of verdicts: the cause and the request's
/// latency.
pub struct Gists<T = Request>(Receiver<Result<Vec<T>, Error>>);

impl<T> Iterator for Gists<T> {
    type Item = Result<Vec<T>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.recv().ok()
    }
}

impl Gists {
    /// Those of these parts, read ahead by a thread.
    ///
    /// # Errors
    /// The operating system's, where it gives no thread.
    pub(crate) fn of(parts: Vec<Part>, notes: &Arc<Notes>) -> std::io::Result<Self> {
        let mut pool = TextPool::default();
        let convert = move |batch: &RecordBatch| requests(batch, &mut pool);
        columns_ahead::read(Table::Requests.folder(), parts, notes, is_read, convert).map(Self)
    }
}

fn is_read(column: &str) -> bool {
    match column.strip_prefix("partitions.") {
        Some(inner) => PartitionCells::NAMES.contains(&inner),
        None => RequestCells::NAMES.contains(&column),
    }
}

/// A row that lacks one of them cannot be an event and is left out: who reads the events says so.
fn requests(batch: &RecordBatch, pool: &mut TextPool) -> Result<Vec<Request>, ColumnError> {
    let cells = RequestCells::of(batch)?;
    let partitions = RowLists::<PartitionCells>::find(batch, "partitions", &DataType::Null)?;
    Ok((0..batch.num_rows()).filter_map(|i| request(&cells, &partitions, i, pool).ok()).collect())
}

fn request(
    cells: &RequestCells,
    partitions: &RowLists<PartitionCells>,
    i: usize,
    pool: &mut TextPool,
) -> Result<Request, BadRow> {
    Ok(Request {
        arrival: Nanos(cells.arrival_ns.at(i)?),
        arrival_end: Nanos(cells.arrival_end_ns.at(i)?),
        response: cells.response_ns.maybe(i).map(Nanos),
        end: cells.end_ns.maybe(i).map(Nanos),
        head_of_line: cells.head_of_line_ns.maybe(i).map(Nanos),
        data: cells.data_ns.maybe(i).map(Nanos),
        api_key: cells.api_key.at(i)?,
        api: cells.api.at(i)?.0,
        acks: cells.acks.maybe(i),
        min_bytes: cells.min_bytes.maybe(i),
        max_wait_ms: cells.max_wait_ms.maybe(i),
        error_code: cells.error_code.maybe(i),
        error: cells.error.maybe(i, pool),
        partitions: partitions.range(i)?.map(|p| partitions.rows.read(p, pool)).collect::<Result<_, _>>()?,
        client_id: cells.client_id.maybe(i, pool),
        client: cells.client.at(i)?,
        api_version: 0,
        correlation_id: 0,
        broker: NOT_READ,
        request_bytes: 0,
        response_bytes: None,
        sequence: None,
        response_sequence: None,
        transactional_id: None,
        group_id: None,
        throttle_ms: None,
    })
}

impl PartitionCells {
    fn read(&self, i: usize, pool: &mut TextPool) -> Result<Partition, BadRow> {
        Ok(Partition {
            topic: self.topic.maybe(i, pool),
            topic_id: self.topic_id.maybe(i)?,
            partition: self.partition.at(i)?,
            bytes: self.bytes.at(i)?,
            records: self.records.maybe(i),
            error_code: self.error_code.maybe(i),
            newest_record: self.newest_record_ns.maybe(i).map(Nanos),
            ..Partition::default()
        })
    }
}
