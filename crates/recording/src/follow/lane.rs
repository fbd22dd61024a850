//! One table of a recording that is being written: part after part, as far as there is any. Does not put events in order.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::RecordBatch;
use model::{Event, Nanos};

use crate::Error;
use crate::cells::BadRow;
use crate::fence::fenced;
use crate::growing_part::GrowingPart;
use crate::notes::Notes;
use crate::parquet_part::ParquetPart;
use crate::part::Part;
use crate::table::Table;
use crate::text::TextPool;

/// A table and how far it was read.
pub(super) struct Lane {
    table: Table,
    folder: PathBuf,
    /// The number of the part that is being read, or comes next.
    number: u32,
    open: Option<Open>,
    /// Up to here everything there is was read.
    known_until: Nanos,
    /// What the newest event of all was when there was no more here.
    dry_at: Option<Nanos>,
    bad_rows: BTreeMap<BadRow, u64>,
    pool: TextPool,
    notes: Arc<Notes>,
}

/// A part that is being read.
enum Open {
    /// Still written, as far as is known.
    Growing(GrowingPart),
    /// Nobody adds to it any more.
    Closed(GrowingPart),
    Whole(PathBuf, ParquetPart),
}

impl Lane {
    /// A table of the recording at `dir`, from its beginning.
    pub(super) fn of(table: Table, dir: &Path, notes: &Arc<Notes>) -> Self {
        Self {
            table,
            folder: table.path(dir),
            number: 1,
            open: None,
            known_until: Nanos::MIN,
            dry_at: None,
            bad_rows: BTreeMap::new(),
            pool: TextPool::default(),
            notes: Arc::clone(notes),
        }
    }

    /// Up to which time everything there is was read; [`Nanos::MAX`] where nothing can come any more.
    pub(super) fn known_until(&self) -> Nanos {
        self.known_until
    }

    /// Whether it is worth looking, if the newest event of all tables is this one.
    pub(super) fn may_have_more(&self, newest: Nanos) -> bool {
        self.known_until < Nanos::MAX && self.dry_at.is_none_or(|at| at < newest)
    }

    /// Has it looked at again.
    pub(super) fn look_again(&mut self) {
        self.dry_at = None;
    }

    /// Reads the next events. Where there are none now, everything up to `certain` was written, and where the recording has
    /// `ended`, there will be none.
    pub(super) fn read(&mut self, ended: bool, newest: Nanos, certain: Nanos) -> Result<Vec<Event>, Error> {
        // A part ends with its first error.
        self.next_events(ended, newest, certain).inspect_err(|_| self.next_part())
    }

    fn next_events(&mut self, ended: bool, newest: Nanos, certain: Nanos) -> Result<Vec<Event>, Error> {
        while let Some((path, batch)) = self.next_batch(ended)? {
            let events = self.decode(&path, &batch)?;
            if let Some(last) = events.iter().map(Event::time).max() {
                self.known_until = self.known_until.max(last);
                self.dry_at = None;
                return Ok(events);
            }
        }
        self.known_until = if ended { Nanos::MAX } else { self.known_until.max(certain) };
        self.dry_at = Some(newest);
        Ok(Vec::new())
    }

    fn next_batch(&mut self, ended: bool) -> Result<Option<(PathBuf, RecordBatch)>, Error> {
        loop {
            let Some(open) = &mut self.open else {
                self.open = self.open()?;
                if self.open.is_none() {
                    return Ok(None);
                }
                continue;
            };
            let next = match open {
                Open::Growing(part) | Open::Closed(part) => {
                    part.next_batch().map(|batch| batch.map(|batch| (part.path().to_owned(), batch)))
                }
                Open::Whole(path, part) => {
                    part.next().transpose().map(|batch| batch.map(|batch| (path.clone(), batch)))
                }
            };
            if let Some(batch) = next? {
                return Ok(Some(batch));
            }
            if !self.go_on(ended) {
                return Ok(None);
            }
        }
    }

    /// What to read when a part has no more for now; whether there is anything.
    fn go_on(&mut self, ended: bool) -> bool {
        match self.open.take() {
            Some(Open::Growing(part)) if ended || self.is_closed() => {
                // Once more: the last of it may have been written since.
                self.open = Some(Open::Closed(part));
                true
            }
            Some(Open::Growing(part)) => {
                self.open = Some(Open::Growing(part));
                false
            }
            _ => {
                self.next_part();
                true
            }
        }
    }

    fn next_part(&mut self) {
        self.open = None;
        self.number = self.number.saturating_add(1);
        self.bad_rows.clear();
    }

    /// Whether the writer has turned to another part, or made Parquet of this one.
    fn is_closed(&self) -> bool {
        let later = self.part(self.number.saturating_add(1));
        [self.part(self.number).parquet(), later.stream(), later.parquet()].iter().any(|path| path.exists())
    }

    /// The next part, if there is any.
    fn open(&self) -> Result<Option<Open>, Error> {
        let part = self.part(self.number);
        let (stream, parquet) = (part.stream(), part.parquet());
        // The stream first: it goes when its Parquet is there.
        if let Ok(growing) = GrowingPart::open(&stream) {
            return Ok(Some(Open::Growing(growing)));
        }
        if !parquet.exists() {
            return Ok(None);
        }
        let whole = ParquetPart::open(&parquet, &self.table.unread())?;
        Ok(Some(Open::Whole(parquet, whole)))
    }

    fn part(&self, number: u32) -> Part {
        Part::new(self.folder.clone(), number)
    }

    fn decode(&mut self, path: &Path, batch: &RecordBatch) -> Result<Vec<Event>, Error> {
        let damaged = |why: String| Error::Part { path: path.to_owned(), why };
        let cells = fenced(|| self.table.cells(batch)).map_err(damaged)?.map_err(|e| damaged(e.0))?;
        let pool = &mut self.pool;
        let rows = fenced(|| (0..batch.num_rows()).map(|i| cells.event(i, pool)).collect::<Vec<_>>());
        let mut events = Vec::with_capacity(batch.num_rows());
        for row in rows.map_err(damaged)? {
            match row {
                Ok(event) => events.push(event),
                Err(fault) => {
                    let count = self.bad_rows.entry(fault).or_default();
                    *count += 1;
                    self.notes.bad_rows(path, fault, *count);
                }
            }
        }
        Ok(events)
    }
}
