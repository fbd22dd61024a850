//! Opening a recording, finished or not. Does not load it: events are streamed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::notes::Notes;
use crate::table::Table;
use crate::{Error, Events, Manifest, part};

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
        let mut listed = Vec::new();
        for &table in tables {
            match part::list(&table.path(&self.dir)) {
                Ok(parts) => listed.push((table, parts)),
                Err(error) => self.notes.line(error.to_string()),
            }
        }
        Events::of(listed, &self.notes)
    }

    /// What to know beside the events, one line each: complete once the events have been read.
    pub fn notes(&self) -> Vec<String> {
        self.notes.all()
    }
}
