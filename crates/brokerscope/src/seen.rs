//! What was seen of a broker, for commands that read it live or from a recording alike. Does not know what they make
//! of it.

#[cfg(feature = "live")]
mod live;

use std::path::{Path, PathBuf};

use model::{Event, Nanos};
use recording::{Manifest, Table};

use crate::commands::record;
use crate::failure;
use crate::input;
use crate::options::{Presentation, Source, Target};
use crate::output::{self, Pace};

/// What the plan calls it that threads off the CPU are seen, and how it says so.
const OFF_CPU: &str = "off-cpu";
const SEEN: &str = "seen: ";

/// What is known before the first event.
#[derive(Clone, Debug)]
pub(crate) struct About {
    /// The broker's log dirs.
    pub(crate) log_dirs: Vec<PathBuf>,
    /// Whether threads off the CPU were watched.
    pub(crate) off_cpu: bool,
    /// Whether rows are waited for.
    pub(crate) pace: Pace,
    /// How long a recording lasted, where it says so; of a live watch nobody knows yet.
    pub(crate) span: Option<Nanos>,
    /// Whether a recorder left out on purpose what was not near anything slow.
    pub(crate) partial: bool,
}

/// Who makes something of events.
pub(crate) trait Reader {
    /// Takes one, nearly in the order of [`Event::time`]; losses of a recording come first.
    fn event(&mut self, event: Event) -> anyhow::Result<()>;

    /// Takes what to say beside the data, when there are no more events.
    fn finish(self, notes: &[String]) -> anyhow::Result<()>;
}

/// Reads the recording that the user named, or watches the broker until it is time to stop.
pub(crate) fn read<R: Reader>(
    source: &Source,
    target: &Target,
    presentation: &Presentation,
    tables: &[Table],
    start: impl FnOnce(&About) -> R,
) -> anyhow::Result<()> {
    match source.recording()? {
        Some(dir) => from_recording(dir, target, presentation, tables, start),
        None => live(source, target, presentation, tables, start),
    }
}

fn from_recording<R: Reader>(
    dir: &Path,
    target: &Target,
    presentation: &Presentation,
    tables: &[Table],
    start: impl FnOnce(&About) -> R,
) -> anyhow::Result<()> {
    let recording = input::open_recording(dir)?;
    let manifest = recording.manifest();
    let own = manifest.broker.as_ref().map(|broker| broker.log_dirs.as_slice()).unwrap_or_default();
    let off_cpu = manifest.plan.iter().any(|(what, outcome)| what == OFF_CPU && outcome.starts_with(SEEN));
    let mut reader = start(&About {
        log_dirs: log_dirs(target, own),
        off_cpu,
        pace: Pace::AllThere,
        span: manifest.ended_ns.map(|ended| Nanos(ended) - Nanos(manifest.started_ns)),
        partial: record::partial::threshold(&manifest.settings).is_some(),
    });
    let (mut seen, mut damaged) = (false, 0);
    // A loss is known later than what it leaves in doubt.
    for event in recording.events_of(&[Table::Losses]).chain(recording.events_of(tables)) {
        match event {
            Ok(event) => {
                // Those stand beside what was asked for.
                seen |= !matches!(event, Event::HostSample(_) | Event::SocketOp(_));
                reader.event(event)?;
            }
            // The other parts still tell.
            Err(error) => {
                damaged += 1;
                output::warn(&error.to_string());
            }
        }
    }
    let mut notes = recording.notes();
    notes.extend(record::notes(recording.manifest(), presentation));
    if !seen && damaged == 0 {
        notes.extend(why_nothing(recording.manifest()));
    }
    reader.finish(&notes)?;
    failure::of_parts(dir, damaged)
}

/// What to know where nothing of what was asked for is in a recording.
fn why_nothing(manifest: &Manifest) -> Vec<String> {
    let missing = record::missing(&manifest.plan).into_iter();
    let missing =
        missing.map(|missing| format!("not seen when this was recorded: {}: {}", missing.what, missing.why));
    let mut why = vec!["the recording holds nothing of this".to_owned()];
    why.extend(missing);
    why
}

fn log_dirs(target: &Target, own: &[PathBuf]) -> Vec<PathBuf> {
    if target.log_dirs.is_empty() { own.to_vec() } else { target.log_dirs.clone() }
}

#[cfg(feature = "live")]
fn live<R: Reader>(
    source: &Source,
    target: &Target,
    presentation: &Presentation,
    tables: &[Table],
    start: impl FnOnce(&About) -> R,
) -> anyhow::Result<()> {
    live::read(source, target, presentation, tables.contains(&Table::LockWaits), start)
}

#[cfg(not(feature = "live"))]
fn live<R: Reader>(
    _source: &Source,
    _target: &Target,
    _presentation: &Presentation,
    _tables: &[Table],
    _start: impl FnOnce(&About) -> R,
) -> anyhow::Result<()> {
    Err(crate::options::cannot_watch().into())
}
