//! Waits and stops from files that the JVM wrote: its flight recorder's, its collector's log. Does not parse them.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use anyhow::Context as _;
use jvm::gc_log::GcLog;
use jvm::jfr;
use model::Event;
use report::numbers::counted;

use super::Shown;
use crate::cli::Locks as Args;
use crate::failure::Usage;
use crate::output::Pace;
use crate::seen::{About, Reader as _};

/// Shows what is in the files that the user named.
pub(super) fn read(args: &Args) -> anyhow::Result<()> {
    if args.source.duration.is_some() {
        return Err(Usage("--for is for live input; a file is read to its end".to_owned()).into());
    }
    let about = About { log_dirs: Vec::new(), off_cpu: false, pace: Pace::AllThere };
    let mut shown = Shown::new(args, &about);
    let mut notes = Vec::new();
    for path in &args.jfr {
        notes.extend(recording(args, path, &mut shown)?);
    }
    for path in &args.gc_log {
        for pause in GcLog::new(BufReader::new(open(path)?), None) {
            let pause = pause.with_context(|| path.display().to_string())?;
            shown.event(Event::JvmPause(Box::new(pause)))?;
        }
    }
    shown.finish(&notes)
}

/// Shows what is in a recording; what to say of it beside.
fn recording(args: &Args, path: &Path, shown: &mut Shown<'_>) -> anyhow::Result<Vec<String>> {
    let mut recording = jfr::Recording::of(args.target.pid.unwrap_or(0));
    let mut told = Ok(());
    let read = recording.read(&open(path)?, &mut |observed| {
        if told.is_ok() {
            told = shown.event(observed.into());
        }
    });
    told?;
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
        notes.push(format!("{path}: {} could not be read{first}", counted(summary.damaged, "event")));
    }
    if summary.lost > 0 {
        notes.push(format!("{path}: {} found no room", counted(summary.lost, "name or stack")));
    }
    Ok(notes)
}

fn open(path: &Path) -> anyhow::Result<File> {
    File::open(path).with_context(|| path.display().to_string())
}
