//! A recording as a source: all events, a selection, or some tables, merged with Flight Recorder's files of the same broker.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use diagnose::Config;
use model::{Event, Nanos};
use recording::{Error as ReadError, Recording as Reader, Table};

use super::growing::Growing;
use super::{EventSource, ReadOptions, Step};
use crate::bucket::{Copy, with_urls};
use crate::flight_recordings::FlightRecordings;
use crate::gaps::{self, Gaps, RestCounts};
use crate::recorder::plan::{self, Plan};
use crate::recorder::{self, always_on, partial};
use crate::selective_read::SelectiveRead;
use crate::{Error, Stop, input};

/// Whether an event is only supplementary to the requested tables.
const BESIDE: fn(&Event) -> bool = |event| matches!(event, Event::HostSample(_) | Event::SocketOp(_));

/// State of reading.
enum Reading {
    /// Not started.
    Ahead,
    /// All events, or those of some tables.
    Events(Box<dyn Iterator<Item = Result<Event, ReadError>> + Send>),
    /// Events that verdicts depend on.
    Selected(SelectiveRead),
    /// Events of a growing recording.
    Growing(Growing),
    /// Finished.
    Done,
}

/// A recording as a source.
pub struct Recording {
    /// The reader, with the manifest.
    pub reader: Reader,
    /// The local copy, if the recording is in a bucket.
    _copy: Option<Copy>,
    reading: Reading,
    /// Requested tables, if not all.
    pub(super) tables: Option<Vec<Table>>,
    /// An event that was read while Flight Recorder has earlier ones.
    pending: Option<Event>,
    flight_recordings: FlightRecordings,
    zone: report::Zone,
    any: bool,
    rest: Option<RestCounts>,
    /// Notes on the growing recording.
    growth_notes: Vec<String>,
    /// Distinct errors about parts that could not be read.
    damaged: BTreeSet<String>,
}

impl Recording {
    pub(super) fn new(reader: Reader, options: &ReadOptions) -> Result<Self, Error> {
        Ok(Self {
            reader,
            _copy: None,
            reading: Reading::Ahead,
            tables: None,
            pending: None,
            flight_recordings: FlightRecordings::read(&options.jfr, options.pid)?,
            zone: options.zone.clone(),
            any: false,
            rest: None,
            growth_notes: Vec::new(),
            damaged: BTreeSet::new(),
        })
    }

    pub(super) fn of_copy(copy: Copy, options: &ReadOptions) -> Result<Self, Error> {
        let reader = input::open_recording(copy.path()).map_err(name_by_url)?;
        Ok(Self { _copy: Some(copy), ..Self::new(reader, options)? })
    }

    /// Reads the recording while it grows.
    pub(super) fn growing(self, stop: Stop) -> Self {
        Self { reading: Reading::Growing(Growing::new(&self.reader, stop)), ..self }
    }

    /// Reads the manifest again at the end.
    /// If the recording is not finished, drops Flight Recorder's later events.
    fn end_growth(&mut self, growing: &Growing) {
        self.growth_notes = growing.notes();
        if !growing.is_finished() {
            self.flight_recordings.clear();
        }
        match Reader::open(self.reader.dir()) {
            Ok(reader) => self.reader = reader,
            Err(error) => self.note_damage(&error),
        }
    }

    /// Returns this event, or first an earlier one of Flight Recorder's.
    fn in_order(&mut self, event: Event) -> Event {
        match self.flight_recordings.before(&event) {
            Some(earlier) => {
                self.pending = Some(event);
                earlier
            }
            None => event,
        }
    }

    /// The broker's log dirs, from the manifest.
    pub fn log_dirs(&self) -> Vec<PathBuf> {
        self.reader.manifest().broker.as_ref().map(|broker| broker.log_dirs.clone()).unwrap_or_default()
    }

    /// Length of the recording, if the manifest has its end.
    pub fn span(&self) -> Option<Nanos> {
        let manifest = self.reader.manifest();
        manifest.ended_ns.map(|ended| Nanos(ended) - Nanos(manifest.started_ns))
    }

    /// Threshold of a partial recording; `None` if the recording is not partial.
    /// A partial recording holds kernel events only around what took at least as long.
    pub fn partial_from(&self) -> Option<Nanos> {
        partial::threshold(&self.reader.manifest().settings)
    }

    fn has(&self, tables: &[Table]) -> bool {
        self.reader.events_of(tables).next().is_some()
    }

    fn start(&self) -> Reading {
        Reading::Events(match &self.tables {
            Some(tables) => {
                Box::new(self.reader.events_of(&[Table::Losses]).chain(self.reader.events_of(tables)))
            }
            None => Box::new(self.reader.prefetch_events(&Table::ALL)),
        })
    }

    fn read(&mut self) -> Option<Result<Event, ReadError>> {
        if matches!(self.reading, Reading::Ahead) {
            self.reading = self.start();
        }
        let read = match &mut self.reading {
            Reading::Events(events) => events.next(),
            Reading::Selected(selected) => selected.events.next(),
            Reading::Growing(growing) => growing.next(&self.reader).map(Ok),
            Reading::Ahead | Reading::Done => None,
        };
        if read.is_none() {
            match std::mem::replace(&mut self.reading, Reading::Done) {
                Reading::Selected(selected) => self.rest = selected.rest(),
                Reading::Growing(growing) => self.end_growth(&growing),
                _ => {}
            }
        }
        read
    }

    /// Notes on the recording.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = self.reader.notes();
        notes.extend_from_slice(&self.growth_notes);
        notes.extend_from_slice(&self.flight_recordings.notes);
        notes.extend(recorder::notes(self.reader.manifest(), &self.zone));
        if self.tables.is_some() && !self.any && self.damaged.is_empty() {
            notes.push("the recording holds no such events".to_owned());
            let missing = plan::missing(self.plan());
            notes.extend(missing.iter().map(|missing| {
                format!("not seen when this was recorded: {}: {}", missing.what, missing.why)
            }));
        }
        notes
    }
}

impl EventSource for Recording {
    fn next(&mut self) -> Step {
        if let Some(event) = self.pending.take() {
            return Step::Event(self.in_order(event));
        }
        while let Some(read) = self.read() {
            match read {
                Ok(event) => {
                    self.any |= !BESIDE(&event);
                    return Step::Event(self.in_order(event));
                }
                Err(error) => self.note_damage(&error),
            }
        }
        self.flight_recordings.next().map_or(Step::End, Step::Event)
    }

    fn config(&self, slower_than: Nanos) -> Config {
        // In a partial recording, quick requests have no file operations to be joined with.
        let file_ops_observed = self.partial_from().is_none()
            && (plan::sees(self.plan(), plan::FILE_WRITES) || self.has(&[Table::FileOps]));
        let replay = Config { file_ops_observed, ..Config::replay(slower_than) };
        if always_on::was_on(self.plan()) { always_on::with_disorder(replay) } else { replay }
    }

    fn plan(&self) -> &Plan {
        &self.reader.manifest().plan
    }

    fn gaps(&mut self, slower_than: Nanos) -> Gaps {
        let jvm_observed = self.flight_recordings.any || self.has(&[Table::LockWaits, Table::JvmPauses]);
        let mut unobservable = plan::missing(self.plan());
        unobservable.push(gaps::unobservable(if jvm_observed { gaps::QUEUES } else { gaps::JVM }));
        let mut notes = self.notes();
        if let Some(threshold) = self.partial_from().filter(|threshold| slower_than < *threshold) {
            notes.push(format!(
                "most of the time of requests faster than {threshold} is therefore unobserved"
            ));
        }
        Gaps { unobservable, notes, rest: self.rest, ..Gaps::default() }
    }

    fn select(&mut self, config: &Config) -> bool {
        // Flight Recorder's events may concern any request; a growing recording is read in order.
        if self.flight_recordings.any || matches!(self.reading, Reading::Growing(_)) {
            return false;
        }
        let selected = SelectiveRead::of(&self.reader, config);
        let how = if selected.is_some() { "what verdicts depend on" } else { "everything" };
        tracing::debug!("{}: reading {how}", self.reader.dir().display());
        selected.map(|selected| self.reading = Reading::Selected(selected)).is_some()
    }

    fn recording(&self) -> Option<&Reader> {
        Some(&self.reader)
    }

    fn note_damage(&mut self, error: &ReadError) {
        let text = error.to_string();
        // A part may be read more than once.
        if self.damaged.insert(text.clone()) {
            tracing::warn!("{text}");
        }
    }

    fn check(&self) -> Result<(), Error> {
        check_parts(self.reader.dir(), self.damaged.len() as u64).map_err(name_by_url)
    }
}

/// Replaces a copy's path in an error by its URL: the copy is gone when the error is printed.
fn name_by_url(error: Error) -> Error {
    match with_urls(&error.to_string()) {
        Cow::Borrowed(_) => error,
        Cow::Owned(text) => Error::input(text),
    }
}

/// Fails if parts of a recording could not be read. Call it after all other output.
///
/// # Errors
/// The number of damaged parts.
pub fn check_parts(recording: &Path, damaged: u64) -> Result<(), Error> {
    if damaged == 0 {
        return Ok(());
    }
    let parts =
        if damaged == 1 { "a part of it is".to_owned() } else { format!("{damaged} parts of it are") };
    let recording = recording.display();
    Err(Error::input(format!(
        "{recording}: {parts} damaged: the output covers the rest; restore the recording from a copy"
    )))
}
