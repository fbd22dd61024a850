//! Recordings of JDK Flight Recorder, as events, alone or among those of a recording of ours. Does not parse them.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use jvm::jfr;
use model::{Event, Pid};
use report::quantity::format_count_of;

use crate::failure;

/// Tells what is in a recording; what to say of it beside.
pub(crate) fn read(
    path: &Path,
    pid: Option<Pid>,
    tell: &mut dyn FnMut(Event),
) -> anyhow::Result<Vec<String>> {
    let file = failure::open(path)?;
    let mut recording = jfr::Recording::of(pid.unwrap_or(0));
    let read = recording.read(&file, &mut |observed| tell(observed.into()));
    let summary = recording.summary();
    let path = path.display();
    let mut notes = Vec::new();
    match read {
        // What came before is told: a recording that was cut off is worth reading.
        Err(error) if summary.events > 0 => notes.push(format!("{path}: not read to its end: {error}")),
        Err(error) => return Err(error).context(path.to_string()),
        Ok(()) => {}
    }
    if summary.damaged > 0 {
        let first = summary.first_damage.map(|error| format!(" ({error})")).unwrap_or_default();
        notes.push(format!("{path}: {} could not be read{first}", format_count_of(summary.damaged, "event")));
    }
    if summary.lost > 0 {
        notes.push(format!("{path}: {} found no room", format_count_of(summary.lost, "name or stack")));
    }
    Ok(notes)
}

/// The events of several, held to be told among others by their times.
#[derive(Default)]
pub(crate) struct Beside {
    events: VecDeque<Event>,
    notes: Vec<String>,
}

impl Beside {
    /// Reads all of them.
    pub(crate) fn read(paths: &[PathBuf], pid: Option<Pid>) -> anyhow::Result<Self> {
        let mut events = Vec::new();
        let mut notes = Vec::new();
        for path in paths {
            notes.extend(read(path, pid, &mut |event| events.push(event))?);
        }
        events.sort_by_key(Event::time);
        Ok(Self { events: events.into(), notes })
    }

    /// Whether nothing is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// The next that is due before an event of the others.
    pub(crate) fn before(&mut self, other: &Event) -> Option<Event> {
        // A loss is told before everything else, whenever it was.
        let due = !matches!(other, Event::Loss(_)) && self.events.front()?.time() <= other.time();
        due.then(|| self.events.pop_front()).flatten()
    }

    /// The next, when there are no others any more.
    pub(crate) fn next(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// What to say beside the data.
    pub(crate) fn notes(&self) -> &[String] {
        &self.notes
    }
}
