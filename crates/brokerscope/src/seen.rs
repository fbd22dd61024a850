//! What was seen of a broker, for commands that read it live or from a recording alike. Does not know what they make
//! of it.

use std::path::{Path, PathBuf};

use model::Event;
use recording::{Recording, Table};

use crate::commands::record;
#[cfg(feature = "live")]
use crate::options::{Filter, LEAST_LOCK_WAIT};
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
        None => live(source, target, presentation, tables.contains(&Table::LockWaits), start),
    }
}

fn from_recording<R: Reader>(
    dir: &Path,
    target: &Target,
    presentation: &Presentation,
    tables: &[Table],
    start: impl FnOnce(&About) -> R,
) -> anyhow::Result<()> {
    let recording = Recording::open(dir)?;
    let manifest = recording.manifest();
    let own = manifest.broker.as_ref().map(|broker| broker.log_dirs.as_slice()).unwrap_or_default();
    let off_cpu = manifest.plan.iter().any(|(what, outcome)| what == OFF_CPU && outcome.starts_with(SEEN));
    let mut reader = start(&About { log_dirs: log_dirs(target, own), off_cpu, pace: Pace::AllThere });
    // A loss is known later than what it leaves in doubt.
    for event in recording.events_of(&[Table::Losses]).chain(recording.events_of(tables)) {
        match event {
            Ok(event) => reader.event(event)?,
            // The other parts still tell.
            Err(error) => output::warn(&error.to_string()),
        }
    }
    let mut notes = recording.notes();
    notes.extend(record::notes(recording.manifest(), presentation));
    reader.finish(&notes)
}

fn log_dirs(target: &Target, own: &[PathBuf]) -> Vec<PathBuf> {
    if target.log_dirs.is_empty() { own.to_vec() } else { target.log_dirs.clone() }
}

#[cfg(feature = "live")]
fn live<R: Reader>(
    source: &Source,
    target: &Target,
    presentation: &Presentation,
    locks: bool,
    start: impl FnOnce(&About) -> R,
) -> anyhow::Result<()> {
    use crate::stop::Stop;
    use crate::watched;
    use watch::Outcome;
    const WAIT: std::time::Duration = std::time::Duration::from_millis(100);

    let stop = Stop::after(None)?;
    let broker = watched::broker(target)?;
    let jfr = if locks { source.flight_recorder.into() } else { watch::Jfr::Never };
    let jvm = (!source.no_attach).then_some(jfr);
    // Since when a thread could have waited is known of its request only.
    let packets = locks.then(|| watched::packets(&Filter::default(), &broker, "any"));
    let mut watch = watched::start(target, &broker, packets, true, jvm, watch::Memory::default())?;
    if locks {
        watched::probe_jvm(&mut watch, broker.pid, LEAST_LOCK_WAIT);
        say_what_is_inferred(&watch);
    }
    watched::drop_privileges(None);
    let stop = stop.within(source.duration);
    let off_cpu = watch
        .plan()
        .iter()
        .any(|purpose| purpose.purpose == OFF_CPU && matches!(purpose.outcome, Outcome::Seen(_)));
    let mut reader =
        start(&About { log_dirs: log_dirs(target, &broker.log_dirs), off_cpu, pace: Pace::AsTheyCome });
    let until = if source.duration.is_some() { "" } else { "; Ctrl-C ends it" };
    presentation.say(&format!("watching broker {}{until}", broker.pid));
    let mut notes = Vec::new();
    let mut event = |event: Event| {
        if let Event::BrokerChange(change) = &event {
            presentation.say_change(change, broker.pid);
        }
        notes.extend(lost(&event));
        reader.event(event)
    };
    while !stop.asked() {
        watch.next(WAIT).map_or(Ok(()), &mut event)?;
    }
    let mut last = Ok(());
    let ended = watch.stop(&mut |rest| {
        if last.is_ok() {
            last = event(rest);
        }
    });
    last?;
    if let Some(error) = ended.kernel {
        notes.push(format!("the probes ended early: {error}"));
    }
    notes.extend(ended.trouble);
    if ended.dropped > 0 {
        let dropped = report::numbers::counted(ended.dropped, "event");
        notes.push(format!("{dropped} came faster than they could be shown"));
    }
    reader.finish(&notes)
}

/// Where neither of the JVM's means tells of waits.
#[cfg(feature = "live")]
fn say_what_is_inferred(watch: &watch::Watch) {
    let untold = crate::watched::unseen(watch, &["lock-waits", "monitor-waits"]);
    let unseen = crate::watched::unseen(watch, &["requests"]);
    for line in untold.iter().chain(&unseen) {
        output::warn(line);
    }
    if !untold.is_empty() && unseen.is_empty() {
        output::warn(
            "waits for a partition's log are inferred from the order of its appends; others are not seen",
        );
    }
}

#[cfg(feature = "live")]
fn lost(event: &Event) -> Option<String> {
    let Event::Loss(loss) = event else { return None };
    // They are said in one at the end.
    if loss.kind == model::LossKind::EventsDropped {
        return None;
    }
    let count = report::numbers::grouped(loss.count);
    Some(format!("lost {count} {}: {}", loss.kind.as_str(), loss.detail))
}

#[cfg(not(feature = "live"))]
fn live<R: Reader>(
    _source: &Source,
    _target: &Target,
    _presentation: &Presentation,
    _locks: bool,
    _start: impl FnOnce(&About) -> R,
) -> anyhow::Result<()> {
    Err(crate::options::cannot_watch().into())
}
