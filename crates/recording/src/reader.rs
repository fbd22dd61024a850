//! Opening a recording, finished or not. Does not load it: events are streamed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::notes::Notes;
use crate::part::{self, Part};
use crate::table::Table;
use crate::table_events::TableEvents;
use crate::{Error, Events, Manifest};

/// A recording that was opened.
pub struct Recording {
    dir: PathBuf,
    manifest: Manifest,
    notes: Arc<Notes>,
}

impl Recording {
    /// Opens the recording in a directory: reads its manifest, nothing else.
    ///
    /// # Errors
    /// [`Error::NotARecording`], [`Error::Manifest`], [`Error::Version`] or [`Error::Io`].
    pub fn open(dir: &Path) -> Result<Self, Error> {
        let manifest = Manifest::read(dir)?;
        let notes = Notes::on(dir);
        if manifest.ended_ns.is_none() {
            notes.line("the recording was not finished: up to its last second is missing".to_owned());
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
