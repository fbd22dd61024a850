//! Writes a recording: buffers rows briefly, flushes them, rotates parts.
//! Does not read clocks: the caller passes the time ([`Writer::tick`]).

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use model::{Event, Loss, Table};

use crate::closed::{ClosedPart, ClosedParts, is_removable};
use crate::convert::{Converter, write_empty};
use crate::intake::{Intake, RowSpan, Waiting, lock};
use crate::part::Part;
use crate::space::{DiskLimit, Space};
use crate::stream::OpenPart;
use crate::table::schema;
use crate::{Directory, Error, Manifest};

/// A killed recorder loses at most its last second: half of it here, the rest between the caller's ticks.
const MAX_FLUSH_EVERY: Duration = Duration::from_millis(500);
/// Rows encoded and written at a time: less than half a millisecond of CPU time.
/// Each piece also has a fixed cost.
const MAX_ROWS_AT_ONCE: usize = 2_048;

/// Options for writing a recording.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WriterOptions {
    /// A part is full with this many rows.
    pub rotate_rows: u64,
    /// A part is full with this many bytes of Arrow stream; the Parquet made of it is far smaller.
    pub rotate_bytes: u64,
    /// Rows are written this often if ticks are more frequent; more than 0.5 s counts as 0.5 s.
    pub flush_every: Duration,
    /// Maximum size of the recording in bytes.
    pub max_bytes: u64,
    /// This share of its file system stays free, even when others fill it.
    pub min_free: f64,
    /// Whether the oldest parts are removed to stay within both limits.
    /// If not, or if none is left, no rows are written.
    pub removes_oldest: bool,
}

impl Default for WriterOptions {
    fn default() -> Self {
        Self {
            rotate_rows: 1_000_000,
            rotate_bytes: 64 << 20,
            flush_every: Duration::from_millis(500),
            max_bytes: u64::MAX,
            min_free: 0.0,
            removes_oldest: false,
        }
    }
}

/// Reasons why rows are not in a recording.
const NOT_WRITTEN: &str = "they could not be written to the disk";
const REMOVED: &str = "the oldest parts of the recording were removed to make room on the disk";

/// Writes a recording. Dropped without [`Writer::finish`], it leaves an unfinished one.
pub struct Writer {
    directory: Arc<Directory>,
    options: WriterOptions,
    waiting: Arc<Mutex<Waiting>>,
    tables: Vec<TableWriter>,
    flushed: Option<Instant>,
    closed: Arc<ClosedParts>,
    converter: Converter,
    space: Space,
    limit: Option<DiskLimit>,
    manifest_bytes: u64,
    /// Rows that could not be written since the last successful flush.
    unwritten: RowSpan,
    losses: Vec<Loss>,
}

/// One table's open part.
struct TableWriter {
    table: Table,
    open: Option<(Part, OpenPart, RowSpan)>,
    last_number: u32,
    /// Number of parts.
    parts: u32,
    /// Rows that are missing from the table.
    lost_rows: u64,
}

impl Writer {
    /// Starts a recording in a new or empty directory and writes its manifest.
    ///
    /// # Errors
    /// As [`Directory::create`], and [`Error::Io`] if the directory cannot be written.
    pub fn create(dir: &Path, manifest: &Manifest, options: WriterOptions) -> Result<Self, Error> {
        Self::create_in(Directory::create(dir)?, manifest, options)
    }

    /// Starts a recording in a directory that was created for it.
    ///
    /// # Errors
    /// [`Error::Io`] if the directory cannot be written, [`Error::NoRoom`] if too little is free for
    /// [`WriterOptions::min_free`].
    pub fn create_in(
        directory: Directory,
        manifest: &Manifest,
        mut options: WriterOptions,
    ) -> Result<Self, Error> {
        let space = Space::within(&mut options, &directory)?;
        for table in Table::ALL {
            directory.folder(table.as_str())?;
        }
        let manifest_bytes = manifest.write_start(&directory)?;
        let (directory, closed) = (Arc::new(directory), Arc::default());
        Ok(Self {
            converter: Converter::start(&directory, &closed)?,
            directory,
            closed,
            options,
            waiting: Arc::default(),
            tables: Table::ALL.into_iter().map(TableWriter::new).collect(),
            flushed: None,
            space,
            limit: None,
            manifest_bytes,
            unwritten: RowSpan::NONE,
            losses: Vec::new(),
        })
    }

    /// An intake for other threads, with room for `max_bytes`.
    pub fn intake(&self, max_bytes: usize) -> Intake {
        Intake::new(&self.waiting, max_bytes)
    }

    /// Adds an event to its table's buffer; a full buffer is written at once.
    ///
    /// # Errors
    /// The write failed: the table's buffered rows are lost, as [`Writer::take_losses`] reports. Later writes may
    /// succeed, once the disk has room again.
    pub fn write(&mut self, event: &Event) -> Result<(), Error> {
        let full = lock(&self.waiting).append(event);
        full.map_or(Ok(()), |at| self.flush_table(at, &mut || ()))
    }

    /// Writes all buffers every [`WriterOptions::flush_every`].
    /// In between, writes the buffers that intakes have filled. Call it several times a second.
    ///
    /// # Errors
    /// As [`Writer::write`]; every table was tried.
    pub fn tick(&mut self, now: Instant) -> Result<(), Error> {
        self.tick_with(now, &mut || ())
    }

    /// Like [`Writer::tick`], but calls `rest` after each piece. The caller can yield the CPU there.
    ///
    /// # Errors
    /// As [`Writer::write`]; every table was tried.
    pub fn tick_with(&mut self, now: Instant, rest: &mut dyn FnMut()) -> Result<(), Error> {
        self.make_room(now);
        let every = self.options.flush_every.min(MAX_FLUSH_EVERY);
        let due = self.flushed.is_none_or(|then| now.saturating_duration_since(then) >= every);
        if due {
            self.flushed = Some(now);
            let flushed = self.flush_tables(0..self.tables.len(), rest);
            if flushed.is_ok() && self.limit.is_none() {
                self.end_outage();
            }
            return flushed;
        }
        let full = lock(&self.waiting).full();
        self.flush_tables(full, rest)
    }

    /// Writes all buffers now, even if a limit is reached.
    ///
    /// # Errors
    /// As [`Writer::write`]; every table was tried.
    pub fn flush(&mut self) -> Result<(), Error> {
        self.limit = None;
        let flushed = self.flush_tables(0..self.tables.len(), &mut || ());
        self.end_outage();
        flushed
    }

    /// Replaces the manifest of the running recording: clock pairs and losses so far.
    pub fn update(&mut self, manifest: &Manifest) -> Result<(), Error> {
        self.manifest_bytes = manifest.write(&self.directory)?;
        Ok(())
    }

    /// Rows of each table that has any, including those that wait for a flush.
    pub fn rows(&self) -> BTreeMap<String, u64> {
        let waiting = lock(&self.waiting);
        let rows = waiting.total_rows().zip(&self.tables);
        let rows = rows.map(|((table, total), writer)| (table.to_string(), total - writer.lost_rows));
        rows.filter(|(_, rows)| *rows > 0).collect()
    }

    /// The limit that keeps rows from being written, if one does.
    pub fn limit(&self) -> Option<DiskLimit> {
        self.limit
    }

    /// Takes the losses since the last call: rows that were removed, and rows that could not be written while the disk
    /// was full. The caller records them.
    pub fn take_losses(&mut self) -> Vec<Loss> {
        std::mem::take(&mut self.losses)
    }

    /// Ends the recording: converts every part to Parquet and writes `manifest`, with its `ended_ns`.
    ///
    /// # Errors
    /// The first failed write. The recording is readable all the same.
    pub fn finish(mut self, manifest: &Manifest) -> Result<(), Error> {
        let flushed = self.flush();
        for at in 0..self.tables.len() {
            self.close_part(at);
        }
        let converted = self.converter.finish();
        let emptied = self.fill_empty_tables();
        let described = manifest.write_end(&self.directory);
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
        // Locks no longer than this: other threads add rows while these are written.
        let taken = lock(&self.waiting).take(writer.table);
        let Some((rows, batch)) = taken else { return Ok(()) };
        if self.limit.is_some() && is_removable(writer.table) {
            self.lose(at, rows);
            return Ok(());
        }
        let path = self.directory.path().join(writer.table.as_str());
        let batch = batch.map_err(|source| Error::Encode { path, source });
        let mut left = rows.rows;
        let written = batch.and_then(|batch| {
            pieces(&batch).try_for_each(|piece| {
                let rows = RowSpan { rows: piece.num_rows() as u64, ..rows };
                writer.append(&self.directory, &piece, rows)?;
                left -= rows.rows;
                rest();
                Ok(())
            })
        });
        let is_full = writer.is_full(&self.options);
        self.lose(at, RowSpan { rows: left, ..rows });
        if written.is_err() || is_full {
            self.close_part(at);
        }
        written
    }

    /// Ends a table's open part and queues it for conversion.
    /// Removes a part without rows: else a full disk would get one with every attempt.
    fn close_part(&mut self, at: usize) {
        let Some(writer) = self.tables.get_mut(at) else { return };
        let Some((part, open, rows)) = writer.open.take() else { return };
        if open.bytes == 0 && self.directory.remove(part.stream()).is_ok() {
            // Its number is not used again: a reader that follows the recording has seen the part end.
            writer.parts -= 1;
            return;
        }
        let table = writer.table;
        self.closed.push(ClosedPart { table, part: part.clone(), rows, bytes: open.bytes, is_busy: false });
        drop(open);
        self.converter.take(table, part);
    }

    fn lose(&mut self, at: usize, rows: RowSpan) {
        if let Some(writer) = self.tables.get_mut(at).filter(|_| rows.rows > 0) {
            writer.lost_rows += rows.rows;
            self.unwritten = self.unwritten.and(rows);
        }
    }

    fn end_outage(&mut self) {
        self.losses.extend(std::mem::take(&mut self.unwritten).loss(NOT_WRITTEN));
    }

    /// Keeps within the limits by removing the oldest parts or by writing no more rows.
    fn make_room(&mut self, now: Instant) {
        let open: u64 = self.tables.iter().filter_map(|writer| Some(writer.open.as_ref()?.1.bytes)).sum();
        // While the manifest is replaced, there are two.
        let bytes = open + self.closed.bytes() + 2 * self.manifest_bytes;
        let excess = self.space.excess(bytes, &self.directory, now);
        self.limit = excess.filter(|(excess, _)| !self.remove_oldest(*excess)).map(|(_, limit)| limit);
    }

    /// Removes the oldest parts until `bytes` were freed; returns whether that succeeded.
    fn remove_oldest(&mut self, bytes: u64) -> bool {
        let (mut freed, mut removed) = (0, RowSpan::NONE);
        while freed < bytes && self.options.removes_oldest {
            let Some(oldest) = self.closed.take_oldest() else { break };
            let files = [oldest.part.stream(), oldest.part.temporary(), oldest.part.parquet()];
            if files.iter().any(|file| self.directory.remove(file).is_err()) {
                self.closed.restore(oldest);
                break;
            }
            freed += oldest.bytes;
            removed = removed.and(oldest.rows);
            if let Some(writer) = self.tables.get_mut(oldest.table as usize) {
                writer.parts -= 1;
                writer.lost_rows += oldest.rows.rows;
            }
        }
        self.space.note_removed(freed);
        self.losses.extend(removed.loss(REMOVED));
        freed >= bytes
    }

    /// Gives each table without parts an empty one. A query over all tables finds it then.
    fn fill_empty_tables(&self) -> Result<(), Error> {
        let mut without_parts = self.tables.iter().filter(|writer| writer.parts == 0);
        without_parts.try_for_each(|writer| {
            let part = Part::new(writer.table.as_str().into(), writer.last_number + 1);
            write_empty(&self.directory, writer.table, &part)
        })
    }
}

/// Slices a batch into pieces of [`MAX_ROWS_AT_ONCE`].
fn pieces(batch: &RecordBatch) -> impl Iterator<Item = RecordBatch> {
    let rows = batch.num_rows();
    let starts = (0..rows).step_by(MAX_ROWS_AT_ONCE);
    starts.map(move |start| batch.slice(start, MAX_ROWS_AT_ONCE.min(rows - start)))
}

/// Flushes the buffers; a failure cannot be reported any more.
impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.flush();
    }
}

impl TableWriter {
    fn new(table: Table) -> Self {
        Self { table, open: None, last_number: 0, parts: 0, lost_rows: 0 }
    }

    fn append(&mut self, directory: &Directory, batch: &RecordBatch, rows: RowSpan) -> Result<(), Error> {
        if self.open.is_none() {
            let part = Part::new(self.table.as_str().into(), self.last_number + 1);
            let open = OpenPart::create(directory, &part.stream(), &schema(self.table))?;
            self.last_number += 1;
            self.parts += 1;
            self.open = Some((part, open, RowSpan::NONE));
        }
        let Some((_, open, so_far)) = &mut self.open else { return Ok(()) };
        open.append(batch)?;
        *so_far = so_far.and(rows);
        Ok(())
    }

    fn is_full(&self, options: &WriterOptions) -> bool {
        self.open.as_ref().is_some_and(|(_, open, _)| {
            open.rows >= options.rotate_rows || open.bytes >= options.rotate_bytes
        })
    }
}
