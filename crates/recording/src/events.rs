//! A recording's events in the order of their times, as far as each table is in that order itself.
//! Streams: of each table one batch is in memory.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::RecordBatch;
use model::{Event, Nanos};

use crate::Error;
use crate::cells::BadRow;
use crate::fence::fenced;
use crate::notes::Notes;
use crate::parquet_part::ParquetPart;
use crate::part::Part;
use crate::stream_part::StreamPart;
use crate::table::Table;
use crate::text::TextPool;

/// Events of several tables, merged by [`Event::time`].
///
/// A damaged part gives one error and ends there; iterating on gives the events of the others. Rows that
/// cannot be events are left out and counted in [`crate::Recording::notes`].
pub struct Events {
    tables: Vec<TableEvents>,
    /// The time of each table's next event, and the table.
    heads: BinaryHeap<Reverse<(Nanos, usize)>>,
    /// Those events.
    waiting: Vec<Option<Event>>,
    /// Tables whose next event is not known yet.
    unread: Vec<usize>,
}

impl Events {
    /// The events of these tables' parts.
    pub(crate) fn of(tables: Vec<(Table, Vec<Part>)>, notes: &Arc<Notes>) -> Self {
        let tables: Vec<_> =
            tables.into_iter().map(|(table, parts)| TableEvents::of(table, parts, notes)).collect();
        let unread = (0..tables.len()).collect();
        let waiting = tables.iter().map(|_| None).collect();
        Self { tables, heads: BinaryHeap::new(), waiting, unread }
    }

    /// Reads one table's next event into its place.
    fn refill(&mut self, at: usize) -> Result<(), Error> {
        let Some(event) = self.tables.get_mut(at).and_then(Iterator::next).transpose()? else {
            return Ok(());
        };
        self.heads.push(Reverse((event.time(), at)));
        if let Some(slot) = self.waiting.get_mut(at) {
            *slot = Some(event);
        }
        Ok(())
    }
}

impl Iterator for Events {
    type Item = Result<Event, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        while let Some(&at) = self.unread.last() {
            // After an error the table has another part to go on with: it stays unread.
            if let Err(error) = self.refill(at) {
                return Some(Err(error));
            }
            self.unread.pop();
        }
        let Reverse((_, at)) = self.heads.pop()?;
        self.unread.push(at);
        self.waiting.get_mut(at)?.take().map(Ok)
    }
}

type Batches = Box<dyn Iterator<Item = Result<RecordBatch, Error>> + Send>;

/// The events of one table, part after part.
struct TableEvents {
    table: Table,
    parts: VecDeque<Part>,
    /// The part being read.
    batches: Option<(PathBuf, Batches)>,
    /// What was read of its current batch.
    ready: VecDeque<Event>,
    bad_rows: BTreeMap<BadRow, u64>,
    pool: TextPool,
    notes: Arc<Notes>,
}

impl TableEvents {
    fn of(table: Table, parts: Vec<Part>, notes: &Arc<Notes>) -> Self {
        Self {
            table,
            parts: parts.into(),
            batches: None,
            ready: VecDeque::new(),
            bad_rows: BTreeMap::new(),
            pool: TextPool::default(),
            notes: Arc::clone(notes),
        }
    }

    /// Reads on until an event is ready; false at the end of the table.
    fn advance(&mut self) -> Result<bool, Error> {
        while self.ready.is_empty() {
            let Some((path, batches)) = &mut self.batches else {
                let Some(part) = self.parts.pop_front() else { return Ok(false) };
                self.bad_rows.clear();
                self.batches = Some(open(&part, &self.notes)?);
                continue;
            };
            match batches.next().transpose() {
                Ok(Some(batch)) => {
                    let path = path.clone();
                    if let Err(error) = self.decode(&path, &batch) {
                        self.batches = None;
                        return Err(error);
                    }
                }
                ended => {
                    self.batches = None;
                    ended?;
                }
            }
        }
        Ok(true)
    }

    fn decode(&mut self, path: &Path, batch: &RecordBatch) -> Result<(), Error> {
        let damaged = |why: String| Error::Part { path: path.to_owned(), why };
        let cells = fenced(|| self.table.cells(batch)).map_err(damaged)?.map_err(|e| damaged(e.0))?;
        for i in 0..batch.num_rows() {
            match fenced(|| cells.event(i, &mut self.pool)).map_err(damaged)? {
                Ok(event) => self.ready.push_back(event),
                Err(fault) => {
                    let count = self.bad_rows.entry(fault).or_default();
                    *count += 1;
                    self.notes.bad_rows(path, fault, *count);
                }
            }
        }
        Ok(())
    }
}

impl Iterator for TableEvents {
    type Item = Result<Event, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.advance() {
            Ok(true) => self.ready.pop_front().map(Ok),
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        }
    }
}

/// Opens a part: its Parquet where there is one (it is whole once it has its name), else its stream. A
/// machine that lost power may have kept the name and not the bytes: then the stream may still be there.
fn open(part: &Part, notes: &Arc<Notes>) -> Result<(PathBuf, Batches), Error> {
    let (parquet, stream) = (part.parquet(), part.stream());
    if !parquet.exists() {
        match StreamPart::open(&stream, Arc::clone(notes)) {
            Ok(batches) => return Ok((stream, Box::new(batches))),
            // Converted since the folder was listed: the recording is still running.
            Err(_) if parquet.exists() => {}
            Err(error) => return Err(Error::io("read", stream)(error)),
        }
    }
    match ParquetPart::open(&parquet) {
        Ok(batches) => Ok((parquet, Box::new(batches))),
        Err(error) => match StreamPart::open(&stream, Arc::clone(notes)) {
            Ok(batches) => Ok((stream, Box::new(batches))),
            Err(_) => Err(error),
        },
    }
}
