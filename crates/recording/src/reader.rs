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

/// A recording that was opened.
pub struct Recording {
    dir: PathBuf,
    manifest: Manifest,
    notes: Arc<Notes>,
}

impl Recording {
    /// Opens the recording in a directory: reads its manifest and which parts there are, nothing else.
    ///
    /// # Errors
    /// [`Error::NotARecording`], [`Error::Manifest`], [`Error::Version`] or [`Error::Io`].
    pub fn open(dir: &Path) -> Result<Self, Error> {
        Self::opened(dir, |_| true)
    }

    /// The same, for reading nothing but summaries: no other table needs to be there.
    ///
    /// # Errors
    /// As [`Recording::open`].
    pub fn open_for_summaries(dir: &Path) -> Result<Self, Error> {
        Self::opened(dir, |table| has_summaries(table.as_str()))
    }

    fn opened(dir: &Path, is_read: impl Fn(Table) -> bool) -> Result<Self, Error> {
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

    /// Where it is.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// What it is about.
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

    /// The events of some tables only, otherwise as [`Recording::events`].
    pub fn events_of(&self, tables: &[Table]) -> Events {
        Events::of(self.listed(tables).map(|(table, parts)| TableEvents::here(table, parts, &self.notes)))
    }

    /// The same events in the same order, each table read ahead by a thread.
    pub fn events_ahead(&self, tables: &[Table]) -> Events {
        Events::of(
            self.listed(tables).map(|(table, parts)| TableEvents::ahead(table, parts, &self.notes, None)),
        )
    }

    /// The same, but of the tables that have summaries only the rows that `filter` selects: see [`RowChoice`]. The others
    /// are read whole; so is a part that is not Parquet yet.
    ///
    /// [`RowChoice`]: model::row_summary::RowChoice
    pub fn events_selected(&self, filter: &Arc<dyn RowFilter>) -> Events {
        Events::of(self.listed(&Table::ALL).map(|(table, parts)| {
            let filter = Self::SUMMARIZED.contains(&table).then(|| Arc::clone(filter));
            TableEvents::ahead(table, parts, &self.notes, filter)
        }))
    }

    /// Tables of which each request leaves rows.
    const SUMMARIZED: [Table; 4] = [Table::Requests, Table::FileOps, Table::OffCpu, Table::SocketOps];

    /// Hands out the summaries of a table's rows, at least of those that took so long. Rows without one are passed over,
    /// a part ends with its first error: reading the events notes both. A table whose rows have no length is an error.
    ///
    /// # Errors
    /// A part that cannot be read: the summaries are not all there.
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

    /// What joins produce requests with the writes of their batches, each read ahead by a thread.
    ///
    /// # Errors
    /// [`Error::Io`] where there can be no threads or a folder cannot be listed.
    pub fn join_keys(&self) -> Result<(ProduceKeys, WriteKeys), Error> {
        let parts = |table| part::list(&folder(table, &self.dir));
        join_keys::read(parts(Table::Requests)?, parts(Table::FileOps)?, &self.notes)
            .map_err(Error::io("start a thread for", &self.dir))
    }

    /// All requests, by the columns that figures of many are made of; read ahead by a thread.
    ///
    /// # Errors
    /// [`Error::Io`] where there can be no thread or the folder cannot be listed.
    pub fn request_columns(&self) -> Result<Summaries<RequestColumns>, Error> {
        self.summarized(Table::Requests.as_str(), Some)
    }

    /// All file operations, by the columns that figures of many are made of; read ahead by a thread.
    ///
    /// # Errors
    /// As [`Recording::request_columns`].
    pub fn file_op_columns(&self) -> Result<Summaries<FileOpColumns>, Error> {
        self.summarized(Table::FileOps.as_str(), Some)
    }

    /// The figures of the host that are selected by their scope and metric; read ahead by a thread.
    ///
    /// # Errors
    /// As [`Recording::request_columns`].
    pub fn host_samples(
        &self,
        is_selected: fn(HostScope, &str) -> bool,
    ) -> Result<Summaries<HostSample>, Error> {
        self.summarized(Table::HostSamples.as_str(), move |row: HostSample| {
            is_selected(row.scope, &row.metric).then_some(row)
        })
    }

    /// Cause and latency of each verdict on a request that was answered; none where no verdicts were saved. Read ahead by a
    /// thread.
    ///
    /// # Errors
    /// As [`Recording::request_columns`].
    pub fn causes(&self) -> Result<Option<Summaries<(Cause, Nanos)>>, Error> {
        let is_saved = !part::list(&self.dir.join(verdicts::FOLDER))?.is_empty();
        let latency = |row: VerdictColumns| Some((row.cause, row.end? - row.arrival));
        is_saved.then(|| self.summarized(verdicts::FOLDER, latency)).transpose()
    }

    fn summarized<R: ReadRow, T: Send + 'static>(
        &self,
        folder: &str,
        convert: impl Fn(R) -> Option<T> + Send + 'static,
    ) -> Result<Summaries<T>, Error> {
        summaries::summaries(folder, part::list(&self.dir.join(folder))?, &self.notes, convert)
            .map_err(Error::io("start a thread for", &self.dir))
    }

    /// The parts of these tables.
    fn listed<'a>(&'a self, tables: &'a [Table]) -> impl Iterator<Item = (Table, Vec<Part>)> + 'a {
        tables.iter().filter_map(|&table| match part::list(&folder(table, &self.dir)) {
            Ok(parts) => Some((table, parts)),
            Err(error) => {
                self.notes.line(error.to_string());
                None
            }
        })
    }

    /// What to know beside the events, one line each: complete once the events have been read.
    pub fn notes(&self) -> Vec<String> {
        self.notes.all()
    }
}
