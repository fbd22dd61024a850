//! The events of one table, batch after batch, part after part; read where they are asked for, or ahead of that on a
//! thread of their own. Does not put them in order.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};

use arrow_array::RecordBatch;
use model::Event;
use model::row_summary::RowFilter;

use crate::Error;
use crate::cells::BadRow;
use crate::fence::fenced;
use crate::notes::Notes;
use crate::parquet_part::{ParquetFile, ParquetPart, Rows, Wanted};
use crate::part::Part;
use crate::stream_part::StreamPart;
use crate::table::Table;
use crate::text::TextPool;

/// Batches that are read ahead of whoever takes them, beside the one that is being read.
const BATCHES_AHEAD: usize = 2;

/// What was read of a table; never empty.
type Read = Result<Vec<Event>, Error>;
pub(crate) type Batches = Box<dyn Iterator<Item = Result<RecordBatch, Error>> + Send>;

/// Where a table's events come from.
pub(crate) enum TableEvents {
    /// Read here.
    Here(Box<Reading>),
    /// Read by a thread, which ends when there is nothing more, or nobody takes it.
    Ahead(Receiver<Read>),
}

impl TableEvents {
    /// Read where they are asked for.
    pub(crate) fn here(table: Table, parts: Vec<Part>, notes: &Arc<Notes>) -> Self {
        Self::Here(Box::new(Reading::of(table, parts, notes)))
    }

    /// Read by a thread; where there can be none, as [`TableEvents::here`].
    pub(crate) fn ahead(table: Table, parts: Vec<Part>, notes: &Arc<Notes>) -> Self {
        Self::chosen_ahead(table, parts, notes, None)
    }

    /// The same of rows that were chosen; all of those of a part that is not Parquet yet.
    pub(crate) fn chosen_ahead(
        table: Table,
        parts: Vec<Part>,
        notes: &Arc<Notes>,
        choose: Option<Arc<dyn RowFilter>>,
    ) -> Self {
        let (sender, batches) = sync_channel(BATCHES_AHEAD);
        let reading = Reading { choose, ..Reading::of(table, parts.clone(), notes) };
        let read = move || {
            for read in reading {
                if sender.send(read).is_err() {
                    return;
                }
            }
        };
        match std::thread::Builder::new().name(format!("read-{}", table.folder())).spawn(read) {
            Ok(_) => Self::Ahead(batches),
            Err(_) => Self::here(table, parts, notes),
        }
    }
}

impl Iterator for TableEvents {
    type Item = Read;

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::Here(reading) => reading.next(),
            Self::Ahead(batches) => batches.recv().ok(),
        }
    }
}

/// Reads a table's parts.
pub(crate) struct Reading {
    table: Table,
    parts: VecDeque<Part>,
    /// Who chooses rows, where not all are read.
    choose: Option<Arc<dyn RowFilter>>,
    /// The part being read.
    batches: Option<(PathBuf, Batches)>,
    bad_rows: BTreeMap<BadRow, u64>,
    /// What was read of a batch before an error in it, and the error.
    failed: Option<Error>,
    pool: TextPool,
    notes: Arc<Notes>,
}

impl Reading {
    fn of(table: Table, parts: Vec<Part>, notes: &Arc<Notes>) -> Self {
        Self {
            table,
            parts: parts.into(),
            choose: None,
            batches: None,
            bad_rows: BTreeMap::new(),
            failed: None,
            pool: TextPool::default(),
            notes: Arc::clone(notes),
        }
    }

    /// Reads on until there are events; none at the end of the table.
    fn advance(&mut self) -> Result<Option<Vec<Event>>, Error> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        loop {
            let Some((path, batches)) = &mut self.batches else {
                let Some(part) = self.parts.pop_front() else { return Ok(None) };
                self.bad_rows.clear();
                self.batches = Some(self.open(&part)?);
                continue;
            };
            match batches.next().transpose() {
                Ok(Some(batch)) => {
                    let path = path.clone();
                    let mut events = Vec::with_capacity(batch.num_rows());
                    if let Err(error) = self.decode(&path, &batch, &mut events) {
                        // A part ends with its first error.
                        self.batches = None;
                        self.failed = Some(error);
                    }
                    if !events.is_empty() {
                        return Ok(Some(events));
                    }
                    if let Some(error) = self.failed.take() {
                        return Err(error);
                    }
                }
                ended => {
                    self.batches = None;
                    ended?;
                }
            }
        }
    }

    fn open(&self, part: &Part) -> Result<(PathBuf, Batches), Error> {
        open(part, &self.notes, |path| match &self.choose {
            Some(choose) => ParquetPart::open_chosen(path, self.table, &**choose),
            None => ParquetPart::open(path, &self.table.unread()),
        })
    }

    fn decode(&mut self, path: &Path, batch: &RecordBatch, events: &mut Vec<Event>) -> Result<(), Error> {
        let damaged = |why: String| Error::Part { path: path.to_owned(), why };
        let cells = fenced(|| self.table.cells(batch)).map_err(damaged)?.map_err(|e| damaged(e.0))?;
        let pool = &mut self.pool;
        let mut bad_rows = Vec::new();
        let decoded = fenced(|| {
            for i in 0..batch.num_rows() {
                match cells.event(i, pool) {
                    Ok(event) => events.push(event),
                    Err(fault) => bad_rows.push(fault),
                }
            }
        });
        for fault in bad_rows {
            let count = self.bad_rows.entry(fault).or_default();
            *count += 1;
            self.notes.bad_rows(path, fault, *count);
        }
        decoded.map_err(damaged)
    }
}

impl Iterator for Reading {
    type Item = Read;

    fn next(&mut self) -> Option<Self::Item> {
        self.advance().transpose()
    }
}

/// Some columns of a part, in batches of so many rows, of its stream of any number.
pub(crate) fn open_columns(
    part: &Part,
    notes: &Arc<Notes>,
    wanted: Wanted<'_>,
    batch_rows: usize,
) -> Result<Batches, Error> {
    let open = open(part, notes, |path| ParquetFile::open(path)?.read(wanted, Rows::All, batch_rows))?;
    Ok(open.1)
}

/// Opens a part: its Parquet where there is one (it is whole once it has its name), else its stream. A
/// machine that lost power may have kept the name and not the bytes: then the stream may still be there.
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
