//! Writing a recording: buffering rows briefly, flushing them, rotating parts. Does not read clocks:
//! the caller says what time it is ([`Writer::tick`]).

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use model::{Event, Table};

use crate::convert::{Converter, write_empty};
use crate::intake::{Intake, Waiting, lock};
use crate::part::Part;
use crate::stream::OpenPart;
use crate::table::schema;
use crate::{Directory, Error, Manifest};

/// A killed recorder loses at most its last second: half of it here, the rest for the caller's ticks.
const MAX_FLUSH_EVERY: Duration = Duration::from_millis(500);
/// Rows encoded and written at a time: less than half a millisecond of a processor. Each piece has a cost that does not depend on
/// its rows.
const MAX_ROWS_AT_ONCE: usize = 2_048;

/// How a recording is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriterOptions {
    /// A part is full with this many rows.
    pub rotate_rows: u64,
    /// A part is full with this many bytes of Arrow stream; the Parquet made of it is far smaller.
    pub rotate_bytes: u64,
    /// Rows are written out this often, given ticks that are more frequent; at most every 0.5 s counts.
    pub flush_every: Duration,
}

impl Default for WriterOptions {
    fn default() -> Self {
        Self { rotate_rows: 1_000_000, rotate_bytes: 64 << 20, flush_every: Duration::from_millis(500) }
    }
}

/// Writes a recording. Dropped without [`Writer::finish`], it leaves an unfinished one.
pub struct Writer {
    directory: Arc<Directory>,
    options: WriterOptions,
    waiting: Arc<Mutex<Waiting>>,
    tables: Vec<TableWriter>,
    flushed: Option<Instant>,
    converter: Converter,
    dropped_rows: u64,
}

/// One table's open part.
struct TableWriter {
    table: Table,
    open: Option<(Part, OpenPart)>,
    last_number: u32,
}

impl Writer {
    /// Starts a recording in a new or empty directory and writes its manifest.
    ///
    /// # Errors
    /// As [`Directory::create`], and [`Error::Io`] where the directory cannot be written.
    pub fn create(dir: &Path, manifest: &Manifest, options: WriterOptions) -> Result<Self, Error> {
        Self::create_in(Directory::create(dir)?, manifest, options)
    }

    /// Starts a recording in a directory that was made for it.
    ///
    /// # Errors
    /// [`Error::Io`] where the directory cannot be written.
    pub fn create_in(
        directory: Directory,
        manifest: &Manifest,
        options: WriterOptions,
    ) -> Result<Self, Error> {
        manifest.write(&directory)?;
        for table in Table::ALL {
            directory.folder(table.as_str())?;
        }
        let directory = Arc::new(directory);
        Ok(Self {
            converter: Converter::start(&directory)?,
            directory,
            options,
            waiting: Arc::default(),
            tables: Table::ALL.into_iter().map(TableWriter::new).collect(),
            flushed: None,
            dropped_rows: 0,
        })
    }

    /// Another way in, for other threads, with room for so many bytes.
    pub fn intake(&self, most_bytes: usize) -> Intake {
        Intake::new(&self.waiting, most_bytes)
    }

    /// Adds an event. It is buffered; a full buffer is written out at once.
    ///
    /// # Errors
    /// The write failed: the rows that were buffered for that table are lost and counted in
    /// [`Writer::dropped_rows`]. Later events may well succeed (room on the disk again).
    pub fn write(&mut self, event: &Event) -> Result<(), Error> {
        let full = lock(&self.waiting).append(event);
        full.map_or(Ok(()), |at| self.flush_table(at, &mut || ()))
    }

    /// Writes out what is buffered if the last time is [`WriterOptions::flush_every`] ago, and else the buffers that
    /// others have filled. Call it several times a second.
    ///
    /// # Errors
    /// As [`Writer::write`]; every table was tried.
    pub fn tick(&mut self, now: Instant) -> Result<(), Error> {
        self.tick_with(now, &mut || ())
    }

    /// As [`Writer::tick`]; calls `rest` often, for a caller that gives the processor away between.
    ///
    /// # Errors
    /// As [`Writer::write`]; every table was tried.
    pub fn tick_with(&mut self, now: Instant, rest: &mut dyn FnMut()) -> Result<(), Error> {
        let every = self.options.flush_every.min(MAX_FLUSH_EVERY);
        let due = self.flushed.is_none_or(|then| now.saturating_duration_since(then) >= every);
        if due {
            self.flushed = Some(now);
            return self.flush_tables(0..self.tables.len(), rest);
        }
        let full = lock(&self.waiting).full();
        self.flush_tables(full, rest)
    }

    /// Writes out everything that is buffered, now.
    ///
    /// # Errors
    /// As [`Writer::write`]; every table was tried.
    pub fn flush(&mut self) -> Result<(), Error> {
        self.flush_tables(0..self.tables.len(), &mut || ())
    }

    /// Replaces the manifest of the running recording: clock pairs and losses so far.
    pub fn update(&mut self, manifest: &Manifest) -> Result<(), Error> {
        manifest.write(&self.directory)
    }

    /// Rows of each table that has any, those included that wait for a flush.
    pub fn rows(&self) -> BTreeMap<String, u64> {
        let waiting = lock(&self.waiting);
        let taken = waiting.taken().filter(|(_, rows)| *rows > 0);
        taken.map(|(table, rows)| (table.to_string(), rows)).collect()
    }

    /// Rows that could not be written.
    pub fn dropped_rows(&self) -> u64 {
        self.dropped_rows
    }

    /// Ends the recording: every part becomes Parquet, and `manifest` (with its `ended_ns`) the manifest.
    ///
    /// # Errors
    /// The first thing that could not be written. The recording is readable all the same.
    pub fn finish(mut self, manifest: &Manifest) -> Result<(), Error> {
        let flushed = self.flush();
        for writer in &mut self.tables {
            writer.retire(&self.converter);
        }
        let converted = self.converter.finish();
        let emptied = self.fill_empty_tables();
        let described = manifest.write(&self.directory);
        flushed.and(converted).and(emptied).and(described)
    }

    fn flush_tables(
        &mut self,
        places: impl IntoIterator<Item = usize>,
        rest: &mut dyn FnMut(),
    ) -> Result<(), Error> {
        let mut outcome = Ok(());
        for at in places {
            outcome = outcome.and(self.flush_table(at, rest));
        }
        outcome
    }

    fn flush_table(&mut self, at: usize, rest: &mut dyn FnMut()) -> Result<(), Error> {
        let Some(writer) = self.tables.get_mut(at) else { return Ok(()) };
        // Not longer than this: others go on while it is written.
        let taken = lock(&self.waiting).take(writer.table);
        let Some((rows, batch)) = taken else { return Ok(()) };
        let batch = batch.map_err(|source| Error::Encode {
            path: self.directory.path().join(writer.table.as_str()),
            source,
        });
        let mut left = rows as u64;
        let written = batch.and_then(|batch| {
            pieces(&batch).try_for_each(|piece| {
                writer.append(&self.directory, &piece)?;
                left -= piece.num_rows() as u64;
                rest();
                Ok(())
            })
        });
        self.dropped_rows += left;
        if written.is_err() || writer.is_full(&self.options) {
            writer.retire(&self.converter);
        }
        written
    }

    /// A table without a part gets one without rows, so that a query over all tables finds them.
    fn fill_empty_tables(&self) -> Result<(), Error> {
        let mut without_parts = self.tables.iter().filter(|writer| writer.last_number == 0);
        without_parts.try_for_each(|writer| {
            write_empty(&self.directory, writer.table, &Part::new(writer.table.as_str().into(), 1))
        })
    }
}

/// A batch in pieces of [`MAX_ROWS_AT_ONCE`].
fn pieces(batch: &RecordBatch) -> impl Iterator<Item = RecordBatch> {
    let rows = batch.num_rows();
    let starts = (0..rows).step_by(MAX_ROWS_AT_ONCE);
    starts.map(move |start| batch.slice(start, MAX_ROWS_AT_ONCE.min(rows - start)))
}

/// What is buffered goes out; there is nobody left to tell if that fails.
impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.flush();
    }
}

impl TableWriter {
    fn new(table: Table) -> Self {
        Self { table, open: None, last_number: 0 }
    }

    fn append(&mut self, directory: &Directory, batch: &RecordBatch) -> Result<(), Error> {
        if self.open.is_none() {
            let part = Part::new(self.table.as_str().into(), self.last_number + 1);
            let open = OpenPart::create(directory, &part.stream(), &schema(self.table))?;
            self.last_number += 1;
            self.open = Some((part, open));
        }
        match &mut self.open {
            Some((_, open)) => open.append(batch),
            None => Ok(()),
        }
    }

    fn is_full(&self, options: &WriterOptions) -> bool {
        self.open
            .as_ref()
            .is_some_and(|(_, open)| open.rows >= options.rotate_rows || open.bytes >= options.rotate_bytes)
    }

    /// Closes the open part and has it converted.
    fn retire(&mut self, converter: &Converter) {
        if let Some((part, open)) = self.open.take() {
            drop(open);
            converter.take(self.table, part);
        }
    }
}
