//! Recordings of JDK Flight Recorder, as events: alone, or merged into those of a recording. Does not parse them.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use jvm::jfr;
use model::{Event, Pid};
use report::quantity::format_count_of;

use crate::{Error, open_file};

/// Reads the events of a file; what to say beside them.
///
/// # Errors
/// The file holds no event that can be read.
pub fn read_flight_recording(
    path: &Path,
    pid: Option<Pid>,
    tell: &mut dyn FnMut(Event),
) -> Result<Vec<String>, Error> {
    let file = open_file(path)?;
    let mut recording = jfr::Recording::of(pid.unwrap_or(0));
    let read = recording.read(&file, &mut |observed| tell(observed.into()));
    let summary = recording.summary();
    let mut notes = Vec::new();
    match read {
        // A recording that was cut off is worth reading up to there.
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

/// The events of several files, merged into others by their times.
#[derive(Default)]
pub(crate) struct FlightRecordings {
    /// Whether there were events at all.
    pub(crate) any: bool,
    events: VecDeque<Event>,
    /// What to say beside the data.
    pub(crate) notes: Vec<String>,
}

impl FlightRecordings {
    /// Reads all of them.
    pub(crate) fn read(paths: &[PathBuf], pid: Option<Pid>) -> Result<Self, Error> {
        let mut events = Vec::new();
        let mut notes = Vec::new();
        for path in paths {
            notes.extend(read_flight_recording(path, pid, &mut |event| events.push(event))?);
        }
        events.sort_by_key(Event::time);
        Ok(Self { any: !events.is_empty(), events: events.into(), notes })
    }

    /// The next that is due before this event.
    pub(crate) fn before(&mut self, other: &Event) -> Option<Event> {
        // Losses come before everything else.
        let due = !matches!(other, Event::Loss(_)) && self.events.front()?.time() <= other.time();
        due.then(|| self.events.pop_front()).flatten()
    }

    /// Forgets those that were not handed out.
    pub(crate) fn clear(&mut self) {
        self.events.clear();
    }

    /// The next, after the others have ended.
    pub(crate) fn next(&mut self) -> Option<Event> {
        self.events.pop_front()
    }
}
