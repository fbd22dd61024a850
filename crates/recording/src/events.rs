//! A recording's events.
//! Reads each table batch after batch, part after part, in the calling thread or ahead of it in another, and merges the
//! tables by time, as far as each table is in that order itself. Streams: keeps a few batches of each table in memory.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;
use std::vec::IntoIter;

use arrow_array::RecordBatch;
use model::row_summary::RowFilter;
use model::{Event, Nanos, Table};

use crate::cells::BadRow;
use crate::columns::Projection;
use crate::notes::{Notes, catch_panics};
use crate::parquet_part::{EVENTS_AT_ONCE, ParquetFile, ParquetPart, Rows};
use crate::part::Part;
use crate::stream::StreamPart;
use crate::table::{self, projection};
use crate::text::TextPool;
use crate::{Error, selection};

/// Batches read ahead of the consumer, besides the one being read.
pub(crate) const BATCHES_AHEAD: usize = 2;

pub(crate) type Batches = Box<dyn Iterator<Item = Result<RecordBatch, Error>> + Send>;

/// Decodes a table's batches into events, and notes rows that cannot be decoded.
pub(crate) struct Decoder {
    pub(crate) table: Table,
    bad_rows: BTreeMap<BadRow, u64>,
    pool: TextPool,
    notes: Arc<Notes>,
}

impl Decoder {
    pub(crate) fn new(table: Table, notes: &Arc<Notes>) -> Self {
        Self { table, bad_rows: BTreeMap::new(), pool: TextPool::default(), notes: Arc::clone(notes) }
    }

    /// Starts another part.
    pub(crate) fn next_part(&mut self) {
        self.bad_rows.clear();
    }

    /// Decodes the events of a batch; an error ends its part.
    pub(crate) fn decode(&mut self, path: &Path, batch: &RecordBatch) -> (Vec<Event>, Option<Error>) {
        let (mut events, mut bad_rows) = (Vec::with_capacity(batch.num_rows()), Vec::new());
        let decoded =
            catch_panics(|| table::decode(self.table, batch, &mut self.pool, &mut events, &mut bad_rows));
        for fault in bad_rows {
            let count = self.bad_rows.entry(fault).or_default();
            *count += 1;
            self.notes.bad_rows(path, fault, *count);
        }
        let why = decoded.map_or_else(Some, |found| found.err().map(|error| error.0));
        (events, why.map(|why| Error::Part { path: path.to_owned(), why }))
    }
}

/// Events read from a table; never empty.
type Read = Result<Vec<Event>, Error>;

/// The source of a table's events.
pub(crate) enum TableEvents {
    /// Read in this thread.
    Here(Box<Reading>),
    /// Read by another thread. The thread ends with the table or when the receiver is dropped.
    Ahead(Receiver<Read>, Option<JoinHandle<()>>),
}

impl TableEvents {
    /// Reads in the thread that iterates.
    pub(crate) fn here(table: Table, parts: Vec<Part>, notes: &Arc<Notes>) -> Self {
        Self::Here(Box::new(Reading::new(table, parts, notes)))
    }

    /// Reads ahead in another thread. If none can be started, reads like [`TableEvents::here`].
    /// With a filter, reads only the rows that it selects, but all rows of a part that is not Parquet yet.
    pub(crate) fn ahead(
        table: Table,
        parts: Vec<Part>,
        notes: &Arc<Notes>,
        filter: Option<Arc<dyn RowFilter>>,
    ) -> Self {
        let (sender, batches) = sync_channel(BATCHES_AHEAD);
        let reading = Reading { filter, ..Reading::new(table, parts.clone(), notes) };
        let read = move || {
            for read in reading {
                if sender.send(read).is_err() {
                    return;
                }
            }
        };
        match std::thread::Builder::new().name(format!("read-{table}")).spawn(read) {
            Ok(thread) => Self::Ahead(batches, Some(thread)),
            Err(_) => Self::here(table, parts, notes),
        }
    }
}

impl Iterator for TableEvents {
    type Item = Read;

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::Here(reading) => reading.next(),
            Self::Ahead(batches, thread) => {
                let read = batches.recv().ok();
                if let Some(Err(panic)) = thread.take_if(|_| read.is_none()).map(JoinHandle::join) {
                    // A filter's panic must not look like the end of the table.
                    std::panic::resume_unwind(panic);
                }
                read
            }
        }
    }
}

/// Reads a table's parts.
pub(crate) struct Reading {
    projection: Projection,
    parts: VecDeque<Part>,
    /// Selects rows; `None` to read all.
    filter: Option<Arc<dyn RowFilter>>,
    /// The part being read.
    batches: Option<(PathBuf, Batches)>,
    /// The error that follows the events returned last.
    failed: Option<Error>,
    decoder: Decoder,
}

impl Reading {
    fn new(table: Table, parts: Vec<Part>, notes: &Arc<Notes>) -> Self {
        Self {
            projection: projection(table),
            parts: parts.into(),
            filter: None,
            batches: None,
            failed: None,
            decoder: Decoder::new(table, notes),
        }
    }

    /// Reads until there are events; `None` at the end of the table.
    fn advance(&mut self) -> Result<Option<Vec<Event>>, Error> {
        loop {
            if let Some(error) = self.failed.take() {
                return Err(error);
            }
            let Some((path, batches)) = &mut self.batches else {
                let Some(part) = self.parts.pop_front() else { return Ok(None) };
                self.decoder.next_part();
                self.batches = Some(self.open(&part)?);
                continue;
            };
            let Some(batch) = batches.next() else {
                self.batches = None;
                continue;
            };
            let (events, failed) = match batch {
                Ok(batch) => self.decoder.decode(path, &batch),
                Err(error) => (Vec::new(), Some(error)),
            };
            if failed.is_some() {
                // A part ends with its first error.
                (self.batches, self.failed) = (None, failed);
            }
            if !events.is_empty() {
                return Ok(Some(events));
            }
        }
    }

    fn open(&self, part: &Part) -> Result<(PathBuf, Batches), Error> {
        open(part, &self.decoder.notes, |path| {
            let file = ParquetFile::open(path)?;
            let rows = match &self.filter {
                Some(filter) => {
                    selection::rows(&file, self.decoder.table, &**filter)?.map_or(Rows::All, Rows::Of)
                }
                None => Rows::All,
            };
            file.read(&self.projection, rows, EVENTS_AT_ONCE)
        })
    }
}

impl Iterator for Reading {
    type Item = Read;

    fn next(&mut self) -> Option<Self::Item> {
        self.advance().transpose()
    }
}

/// Opens a part: its Parquet file if it exists (it is complete once it has its name), else its stream.
/// After a power cut the file may have its name but not its bytes: then the stream may still exist.
pub(crate) fn open(
    part: &Part,
    notes: &Arc<Notes>,
    parquet_part: impl FnOnce(&Path) -> Result<ParquetPart, Error>,
) -> Result<(PathBuf, Batches), Error> {
    let (parquet, stream) = (part.parquet(), part.stream());
    if !parquet.exists() {
        match StreamPart::open(&stream, Arc::clone(notes)) {
            Ok(batches) => return Ok((stream, Box::new(batches))),
            // Converted since the folder was listed: the recording is still running.
            Err(_) if parquet.exists() => {}
            Err(error) => return Err(Error::io("read", stream)(error)),
        }
    }
    match parquet_part(&parquet) {
        Ok(batches) => Ok((parquet, Box::new(batches))),
        Err(error) => match StreamPart::open(&stream, Arc::clone(notes)) {
            Ok(batches) => Ok((stream, Box::new(batches))),
            Err(_) => Err(error),
        },
    }
}

/// Events of several tables, merged by [`Event::time`].
///
/// A damaged part yields one error and ends there; further iteration yields the events of the others. Rows that cannot
/// be decoded are left out and counted in [`crate::Recording::notes`].
pub struct Events {
    lanes: Vec<Lane>,
    /// The time of each lane's next event, and the lane; except the lane that was taken from last.
    heads: BinaryHeap<Reverse<(Nanos, usize)>>,
    /// Lanes whose next event is not known yet.
    unread: Vec<usize>,
}

/// The events of one table.
struct Lane {
    events: TableEvents,
    /// Events read and not yet returned.
    ready: IntoIter<Event>,
}

impl Events {
    /// The events of these tables.
    pub(crate) fn of(tables: impl Iterator<Item = TableEvents>) -> Self {
        let lanes: Vec<_> = tables.map(|events| Lane { events, ready: Vec::new().into_iter() }).collect();
        let unread = (0..lanes.len()).collect();
        Self { lanes, heads: BinaryHeap::new(), unread }
    }
}

impl Lane {
    /// The time of the next event; `None` at the end.
    fn next_time(&mut self) -> Result<Option<Nanos>, Error> {
        if self.ready.as_slice().is_empty() {
            let Some(read) = self.events.next().transpose()? else { return Ok(None) };
            self.ready = read.into_iter();
        }
        Ok(self.ready.as_slice().first().map(Event::time))
    }
}

impl Iterator for Events {
    type Item = Result<Event, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        while let Some(&at) = self.unread.last() {
            match self.lanes.get_mut(at)?.next_time() {
                // The lane that was taken from last usually has the next event too: then the heap need not change.
                Ok(Some(time)) if self.unread.len() == 1 && self.is_first(time, at) => {
                    return self.lanes.get_mut(at)?.ready.next().map(Ok);
                }
                Ok(Some(time)) => self.heads.push(Reverse((time, at))),
                Ok(None) => {}
                // After an error the table continues with its next part: it stays unread.
                Err(error) => return Some(Err(error)),
            }
            self.unread.pop();
        }
        let Reverse((_, at)) = self.heads.pop()?;
        self.unread.push(at);
        self.lanes.get_mut(at)?.ready.next().map(Ok)
    }
}

impl Events {
    fn is_first(&self, time: Nanos, at: usize) -> bool {
        self.heads.peek().is_none_or(|Reverse(head)| (time, at) <= *head)
    }
}
