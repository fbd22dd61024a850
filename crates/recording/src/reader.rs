//! Opening a recording, finished or not. Does not load it: events are streamed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::row_summary::{FileOpColumns, RequestColumns, RowFilter, RowSummary};
use model::{Cause, HostSample, HostScope, Nanos, Table};

use crate::events::{Events, TableEvents};
use crate::join_keys::{self, ProduceKeys, WriteKeys};
use crate::notes::Notes;
use crate::part::{self, Part};
use crate::rows::ReadRow;
use crate::summaries::{self, Summaries, VerdictColumns, has_summaries};
use crate::table::folder;
use crate::{Error, Manifest, selection, verdicts};

/// An open recording.
pub struct Recording {
    dir: PathBuf,
    manifest: Manifest,
    notes: Arc<Notes>,
}

impl Recording {
    /// Opens the recording in a directory: reads its manifest and lists its parts, nothing else.
    ///
    /// # Errors
    /// [`Error::NotARecording`], [`Error::Manifest`], [`Error::Version`] or [`Error::Io`].
    pub fn open(dir: &Path) -> Result<Self, Error> {
        Self::open_tables(dir, |_| true)
    }

    /// Like [`Recording::open`], for reading only summaries: other tables may be missing.
    ///
    /// # Errors
    /// As [`Recording::open`].
    pub fn open_for_summaries(dir: &Path) -> Result<Self, Error> {
        Self::open_tables(dir, |table| has_summaries(table.as_str()))
    }

    fn open_tables(dir: &Path, is_read: impl Fn(Table) -> bool) -> Result<Self, Error> {
        let manifest = Manifest::read(dir)?;
        let notes = Notes::on(dir);
        if manifest.ended_ns.is_none() {
            let missing = "up to its last second is missing, after a power cut up to its last minute";
            notes.line(format!("the recording was not finished: {missing}"));
        }
        for table in Table::ALL.into_iter().filter(|table| is_read(*table)) {
            let rows = manifest.rows.get(table.as_str()).copied().unwrap_or(0);
            if part::list(&folder(table, dir))?.is_empty() && rows > 0 {
                notes.line(format!("{table}/ is missing: {rows} rows were recorded there"));
            }
        }
        Ok(Self { dir: dir.to_owned(), manifest, notes: Arc::new(notes) })
    }

    /// Path of the recording's directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The recording's manifest.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// All events, roughly in the order of [`model::Event::time`]: the tables are merged by it, each in
    /// the order in which it was written.
    ///
    /// An error item names a damaged part; the items after it are the events of the other parts.
    pub fn events(&self) -> impl Iterator<Item = Result<model::Event, Error>> + Send + use<> {
        self.events_of(&Table::ALL)
    }

    /// Like [`Recording::events`], for some tables only.
    pub fn events_of(&self, tables: &[Table]) -> Events {
        Events::of(self.list_parts(tables).map(|(table, parts)| TableEvents::here(table, parts, &self.notes)))
    }

    /// Like [`Recording::events_of`], with each table read ahead by a thread.
    pub fn prefetch_events(&self, tables: &[Table]) -> Events {
        Events::of(
            self.list_parts(tables).map(|(table, parts)| TableEvents::ahead(table, parts, &self.notes, None)),
        )
    }

    /// Like [`Recording::prefetch_events`] for all tables, with a filter.
    /// Reads only the rows that `filter` selects (see [`RowChoice`]) from tables that have summaries. Reads the other
    /// tables whole, and parts that are not Parquet yet.
    ///
    /// [`RowChoice`]: model::row_summary::RowChoice
    pub fn events_selected(&self, filter: &Arc<dyn RowFilter>) -> Events {
        Events::of(self.list_parts(&Table::ALL).map(|(table, parts)| {
            let filter = Self::SUMMARIZED.contains(&table).then(|| Arc::clone(filter));
            TableEvents::ahead(table, parts, &self.notes, filter)
        }))
    }

    /// Tables in which each request leaves rows.
    const SUMMARIZED: [Table; 4] = [Table::Requests, Table::FileOps, Table::OffCpu, Table::SocketOps];

    /// Passes summaries of a table's rows to `take`: of all rows that took at least `min_latency`, and maybe of others.
    /// Skips rows without a summary and ends a part at its first error: reading the events notes both. A table whose
    /// rows have no length is an error.
    ///
    /// # Errors
    /// A part cannot be read: summaries are missing.
    pub fn row_summaries(
        &self,
        table: Table,
        min_latency: Nanos,
        take: &mut dyn FnMut(&RowSummary),
    ) -> Result<(), Error> {
        for part in part::list(&folder(table, &self.dir))? {
            selection::summaries(table, &part, min_latency, &self.notes, take)?;
        }
        Ok(())
    }

    /// Keys that join produce requests with the writes of their batches. A thread reads each of the two ahead.
    ///
    /// # Errors
    /// [`Error::Io`] if a thread cannot be started or a folder cannot be listed.
    pub fn join_keys(&self) -> Result<(ProduceKeys, WriteKeys), Error> {
        let parts = |table| part::list(&folder(table, &self.dir));
        join_keys::read(parts(Table::Requests)?, parts(Table::FileOps)?, &self.notes)
            .map_err(Error::io("start a thread for", &self.dir))
    }

    /// All requests, with only the columns that aggregates need; read ahead by a thread.
    ///
    /// # Errors
    /// [`Error::Io`] if a thread cannot be started or the folder cannot be listed.
    pub fn request_columns(&self) -> Result<Summaries<RequestColumns>, Error> {
        self.read_summaries(Table::Requests.as_str(), Some)
    }

    /// All file operations, with only the columns that aggregates need; read ahead by a thread.
    ///
    /// # Errors
    /// As [`Recording::request_columns`].
    pub fn file_op_columns(&self) -> Result<Summaries<FileOpColumns>, Error> {
        self.read_summaries(Table::FileOps.as_str(), Some)
    }

    /// Host samples, selected by scope and metric; read ahead by a thread.
    ///
    /// # Errors
    /// As [`Recording::request_columns`].
    pub fn host_samples(
        &self,
        is_selected: fn(HostScope, &str) -> bool,
    ) -> Result<Summaries<HostSample>, Error> {
        self.read_summaries(Table::HostSamples.as_str(), move |row: HostSample| {
            is_selected(row.scope, &row.metric).then_some(row)
        })
    }

    /// Cause and latency of each verdict on an answered request; `None` if no verdicts were saved.
    /// Read ahead by a thread.
    ///
    /// # Errors
    /// As [`Recording::request_columns`].
    pub fn causes(&self) -> Result<Option<Summaries<(Cause, Nanos)>>, Error> {
        let is_saved = !part::list(&self.dir.join(verdicts::FOLDER))?.is_empty();
        let latency = |row: VerdictColumns| Some((row.cause, row.end? - row.arrival));
        is_saved.then(|| self.read_summaries(verdicts::FOLDER, latency)).transpose()
    }

    fn read_summaries<R: ReadRow, T: Send + 'static>(
        &self,
        folder: &str,
        convert: impl Fn(R) -> Option<T> + Send + 'static,
    ) -> Result<Summaries<T>, Error> {
        summaries::summaries(folder, part::list(&self.dir.join(folder))?, &self.notes, convert)
            .map_err(Error::io("start a thread for", &self.dir))
    }

    /// The parts of these tables.
    fn list_parts<'a>(&'a self, tables: &'a [Table]) -> impl Iterator<Item = (Table, Vec<Part>)> + 'a {
        tables.iter().filter_map(|&table| match part::list(&folder(table, &self.dir)) {
            Ok(parts) => Some((table, parts)),
            Err(error) => {
                self.notes.line(error.to_string());
                None
            }
        })
    }

    /// Notes on the recording, one line each; complete once the events have been read.
    pub fn notes(&self) -> Vec<String> {
        self.notes.all()
    }
}
