//! Opening a recording, finished or not. Does not load it: events are streamed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::row_summary::{RowFilter, RowSummary};
use model::{Cause, FileOp, HostSample, HostScope, Nanos};

use crate::gists::Gists;
use crate::gists::ranges::has_gists;
use crate::join_keys::{self, ProduceKeys, WriteKeys};
use crate::notes::Notes;
use crate::outlines;
use crate::part::{self, Part};
use crate::table::Table;
use crate::table_events::TableEvents;
use crate::{Error, Events, Manifest, verdicts};

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

    /// The same, for who reads nothing but gists: no other table needs to be there.
    ///
    /// # Errors
    /// As [`Recording::open`].
    pub fn open_for_gists(dir: &Path) -> Result<Self, Error> {
        Self::opened(dir, |table| has_gists(table.folder()))
    }

    fn opened(dir: &Path, is_read: impl Fn(Table) -> bool) -> Result<Self, Error> {
        let manifest = Manifest::read(dir)?;
        let notes = Notes::on(dir);
        if manifest.ended_ns.is_none() {
            notes.line("the recording was not finished: up to its last second is missing".to_owned());
        }
        for table in Table::ALL.into_iter().filter(|table| is_read(*table)) {
            let rows = manifest.rows.get(table.folder()).copied().unwrap_or(0);
            if part::list(&table.path(dir))?.is_empty() && rows > 0 {
                notes.line(format!("{}/ is missing: {rows} rows were recorded there", table.folder()));
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

    /// Whether its recorder was killed, or is still running.
    pub fn unfinished(&self) -> bool {
        self.manifest.ended_ns.is_none()
    }

    /// All events, roughly in the order of [`model::Event::time`]: the tables are merged by it, each in
    /// the order in which it was written.
    ///
    /// An error item tells of a damaged part; the items after it are the events of the other parts.
    pub fn events(&self) -> impl Iterator<Item = Result<model::Event, Error>> + Send + use<> {
        self.events_of(&Table::ALL)
    }

    /// The events of some tables only, otherwise as [`Recording::events`].
    pub fn events_of(&self, tables: &[Table]) -> Events {
        Events::of(self.listed(tables).map(|(table, parts)| TableEvents::here(table, parts, &self.notes)))
    }

    /// The same events in the same order, each table read ahead by a thread of its own: for who makes much of each.
    pub fn events_ahead(&self, tables: &[Table]) -> Events {
        Events::of(self.listed(tables).map(|(table, parts)| TableEvents::ahead(table, parts, &self.notes)))
    }

    /// The same, of the tables of which each request leaves rows, only those that `choose` wants by their outlines, and
    /// beside them the first and the last of each kind in each gap: see [`model::row_summary::RowChoice`]. The others are read whole; so is a part
    /// that is not Parquet yet.
    pub fn events_chosen(&self, choose: &Arc<dyn RowFilter>) -> Events {
        Events::of(self.listed(&Table::ALL).map(|(table, parts)| {
            let choose = Self::OUTLINED.contains(&table).then(|| Arc::clone(choose));
            TableEvents::chosen_ahead(table, parts, &self.notes, choose)
        }))
    }

    /// Tables with outlines of their own.
    const OUTLINED: [Table; 4] = [Table::Requests, Table::FileOps, Table::OffCpu, Table::SocketOps];

    /// A table's rows in outline, at least those that took so long. Rows without an outline are passed over, a part
    /// ends with its first error: whoever reads the events hears of both. Of a table whose rows have no length, an error.
    ///
    /// # Errors
    /// A part that cannot be read: the outlines are not all there.
    pub fn outlines(
        &self,
        table: Table,
        least: Nanos,
        tell: &mut dyn FnMut(&RowSummary),
    ) -> Result<(), Error> {
        for part in part::list(&table.path(&self.dir))? {
            outlines::each(table, &part, least, &self.notes, tell)?;
        }
        Ok(())
    }

    /// What joins produce requests with the writes of their batches, each read ahead by a thread.
    ///
    /// # Errors
    /// [`Error::Io`] where there can be no threads or a folder cannot be listed.
    pub fn join_keys(&self) -> Result<(ProduceKeys, WriteKeys), Error> {
        let parts = |table: Table| part::list(&table.path(&self.dir));
        join_keys::read(parts(Table::Requests)?, parts(Table::FileOps)?, &self.notes)
            .map_err(Error::io("start a thread for", &self.dir))
    }

    /// All requests, without what figures of many are not made of; read ahead by a thread.
    ///
    /// # Errors
    /// [`Error::Io`] where there can be no thread or the folder cannot be listed.
    pub fn gists(&self) -> Result<Gists, Error> {
        let parts = part::list(&Table::Requests.path(&self.dir))?;
        Gists::of(parts, &self.notes).map_err(Error::io("start a thread for", &self.dir))
    }

    /// All file operations, without what figures of many are not made of; read ahead by a thread.
    ///
    /// # Errors
    /// As [`Recording::gists`].
    pub fn file_gists(&self) -> Result<Gists<FileOp>, Error> {
        let parts = part::list(&Table::FileOps.path(&self.dir))?;
        Gists::of_file_ops(parts, &self.notes).map_err(Error::io("start a thread for", &self.dir))
    }

    /// The figures of the host that are wanted, by their scope and name; read ahead by a thread.
    ///
    /// # Errors
    /// As [`Recording::gists`].
    pub fn samples(&self, wanted: fn(HostScope, &str) -> bool) -> Result<Gists<HostSample>, Error> {
        let parts = part::list(&Table::HostSamples.path(&self.dir))?;
        Gists::of_samples(parts, &self.notes, wanted).map_err(Error::io("start a thread for", &self.dir))
    }

    /// Cause and latency of each verdict; none where no verdicts were saved. Read ahead by a thread.
    ///
    /// # Errors
    /// As [`Recording::gists`].
    pub fn verdict_gists(&self) -> Result<Option<Gists<(Cause, Nanos)>>, Error> {
        let parts = part::list(&self.dir.join(verdicts::FOLDER))?;
        if parts.is_empty() {
            return Ok(None);
        }
        let gists = Gists::of_verdicts(parts, &self.notes);
        gists.map(Some).map_err(Error::io("start a thread for", &self.dir))
    }

    /// The parts of these tables.
    fn listed<'a>(&'a self, tables: &'a [Table]) -> impl Iterator<Item = (Table, Vec<Part>)> + 'a {
        tables.iter().filter_map(|&table| match part::list(&table.path(&self.dir)) {
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
