//! Recordings of JDK Flight Recorder as events: alone, or merged into the events of a recording.
//! Does not parse them.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use jvm::jfr;
use model::{Event, Pid};
use report::quantity::format_count_of;

use crate::{Error, open_file};

/// Reads the events of a file; returns notes on them.
///
/// # Errors
/// The file cannot be opened, or no event of it can be read.
pub fn read_flight_recording(
    path: &Path,
    pid: Option<Pid>,
    sink: &mut dyn FnMut(Event),
) -> Result<Vec<String>, Error> {
    let file = open_file(path)?;
    let mut recording = jfr::Recording::of(pid.unwrap_or(0));
    let read = recording.read(&file, &mut |observed| sink(observed.into()));
    let summary = recording.summary();
    let mut notes = Vec::new();
    match read {
        // A truncated recording is still useful up to its end.
        Err(error) if summary.events > 0 => {
            notes.push(format!("{}: not read to its end: {error}", path.display()));
        }
        Err(error) => return Err(Error::Jfr { path: path.to_owned(), error }),
        Ok(()) => {}
    }
    let path = path.display();
    if summary.damaged > 0 {
        let first = summary.first_damage.map(|error| format!(" ({error})")).unwrap_or_default();
        notes.push(format!("{path}: {} could not be read{first}", format_count_of(summary.damaged, "event")));
    }
    if summary.lost > 0 {
        notes.push(format!(
            "{path}: {} dropped: too many to hold",
            format_count_of(summary.lost, "name or stack")
        ));
    }
    Ok(notes)
}

/// The events of several files, to be merged into other events by time.
#[derive(Default)]
pub(crate) struct FlightRecordings {
    /// Whether there were any events.
    pub(crate) any: bool,
    events: VecDeque<Event>,
    /// Notes on the files.
    pub(crate) notes: Vec<String>,
}

impl FlightRecordings {
    /// Reads all files.
    pub(crate) fn read(paths: &[PathBuf], pid: Option<Pid>) -> Result<Self, Error> {
        let mut events = Vec::new();
        let mut notes = Vec::new();
        for path in paths {
            notes.extend(read_flight_recording(path, pid, &mut |event| events.push(event))?);
        }
        events.sort_by_key(Event::time);
        Ok(Self { any: !events.is_empty(), events: events.into(), notes })
    }

    /// The next event that is due before this one.
    pub(crate) fn before(&mut self, other: &Event) -> Option<Event> {
        // Losses come before all other events.
        let due = !matches!(other, Event::Loss(_)) && self.events.front()?.time() <= other.time();
        due.then(|| self.events.pop_front()).flatten()
    }

    /// Drops the remaining events.
    pub(crate) fn clear(&mut self) {
        self.events.clear();
    }

    /// The next event, after the other events have ended.
    pub(crate) fn next(&mut self) -> Option<Event> {
        self.events.pop_front()
    }
}
