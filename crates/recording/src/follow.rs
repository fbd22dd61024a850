//! Reading a recording while it is written: its events in the order of their times, as soon as none can come before them
//! any more. Does not wait: whoever asks decides how often.
//!
//! The recorder writes what it has of every table at least twice a second (`Writer::tick`), so what is later than that is
//! not to be expected. Where it is all the same, it is told when it comes.

mod lane;

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use model::{Event, Nanos};

use crate::manifest::Manifest;
use crate::notes::Notes;
use crate::{Error, Recording, Table};
use lane::Lane;

/// How much later than others of the same time an event may be written: half a second in its table, 0.2 s in its source,
/// and as much again for a recorder that has no processor.
const WRITTEN_WITHIN: Nanos = Nanos::from_millis(1_500);

/// A recording that is being read as it grows.
pub struct Tail {
    dir: PathBuf,
    lanes: Vec<Lane>,
    /// Read, and not told yet.
    held: BinaryHeap<Reverse<Held>>,
    /// The time of the newest event that was read.
    newest: Nanos,
    /// How many were read.
    count: u64,
    /// Whether the recorder had ended when the tables were looked at.
    finished: bool,
    /// What the manifest's file was when it was read last.
    manifest: Option<(SystemTime, u64)>,
    notes: Arc<Notes>,
}

/// An event by its time, and of the same time the one that was read first.
struct Held {
    time: Nanos,
    count: u64,
    event: Event,
}

impl Tail {
    /// Begins at the recording's beginning.
    pub fn start(recording: &Recording) -> Self {
        let dir = recording.dir();
        let notes = Arc::new(Notes::on(dir));
        Self {
            dir: dir.to_owned(),
            lanes: Table::ALL.into_iter().map(|table| Lane::of(table, dir, &notes)).collect(),
            held: BinaryHeap::new(),
            newest: Nanos::MIN,
            count: 0,
            finished: false,
            manifest: None,
            notes,
        }
    }

    /// The next event; none where nothing is certain to be the next for now, or where the recording has ended and all of it
    /// was told ([`Tail::is_finished`]).
    ///
    /// # Errors
    /// A part is damaged. Asking on gives what the other parts hold.
    pub fn next_event(&mut self) -> Result<Option<Event>, Error> {
        if let Some(event) = self.certain() {
            return Ok(Some(event));
        }
        // Asked first: what was written before it says that it has ended is all there is.
        self.finished = self.finished || self.has_ended();
        self.lanes.iter_mut().for_each(Lane::look_again);
        while self.read()? {
            if let Some(event) = self.certain() {
                return Ok(Some(event));
            }
        }
        Ok(self.certain())
    }

    /// Whether the recorder has ended, and everything was told.
    pub fn is_finished(&self) -> bool {
        self.finished
            && self.held.is_empty()
            && self.lanes.iter().all(|lane| lane.known_until() == Nanos::MAX)
    }

    /// What to know beside the events, one line each.
    pub fn notes(&self) -> Vec<String> {
        self.notes.all()
    }

    /// Whether the manifest says that the recorder has ended. One that is as it was is not read again.
    fn has_ended(&mut self) -> bool {
        let found = Manifest::version_in(&self.dir);
        if found.is_some() && found == self.manifest {
            return false;
        }
        self.manifest = found;
        Manifest::read(&self.dir).is_ok_and(|manifest| manifest.ended_ns.is_some())
    }

    /// The next event before which no other can come.
    fn certain(&mut self) -> Option<Event> {
        let known_until = self.lanes.iter().map(Lane::known_until).min()?;
        let next = self.held.peek().is_some_and(|Reverse(held)| held.time <= known_until);
        next.then(|| self.held.pop().map(|Reverse(held)| held.event)).flatten()
    }

    /// Reads some more of the table that is furthest behind; whether there is any use in going on.
    fn read(&mut self) -> Result<bool, Error> {
        let newest = self.newest;
        let behind = self.lanes.iter_mut().filter(|lane| lane.may_have_more(newest));
        let Some(lane) = behind.min_by_key(|lane| lane.known_until()) else { return Ok(false) };
        let events = lane.read(self.finished, newest, newest - WRITTEN_WITHIN)?;
        for event in events {
            self.newest = self.newest.max(event.time());
            self.held.push(Reverse(Held { time: event.time(), count: self.count, event }));
            self.count += 1;
        }
        Ok(true)
    }
}

impl Held {
    fn key(&self) -> (Nanos, u64) {
        (self.time, self.count)
    }
}

impl Ord for Held {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl PartialOrd for Held {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Held {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Held {}
