//! Waits and stops from files that the JVM wrote: its flight recorder's, its collector's log. Does not parse them, nor
//! join them with anything: a file knows nothing of the kernel's side.

use std::io::BufReader;

use anyhow::Context as _;
use jvm::gc_log::GcLog;
use model::Event;

use super::Shown;
use crate::cli::Locks as Args;
use crate::failure::{self, Usage};
use crate::flight_recordings;
use crate::output::Pace;
use crate::seen::{About, Reader as _};

/// Shows what is in the files that the user named.
pub(super) fn read(args: &Args) -> anyhow::Result<()> {
    if args.source.duration.is_some() {
        return Err(Usage("--for is for live input; a file is read to its end".to_owned()).into());
    }
    let (pace, span, partial) = (Pace::AllThere, None, false);
    let about = About { log_dirs: Vec::new(), off_cpu: false, pace, span, partial };
    let mut shown = Shown::new(args, &about);
    let mut notes = Vec::new();
    for path in &args.jfr {
        let mut told = Ok(());
        notes.extend(flight_recordings::read(path, args.target.pid, &mut |event| {
            if told.is_ok() {
                told = shown.event(event);
            }
        })?);
        told?;
    }
    for path in &args.gc_log {
        for pause in GcLog::new(BufReader::new(failure::open(path)?), None) {
            let pause = pause.with_context(|| path.display().to_string())?;
            shown.event(Event::JvmPause(Box::new(pause)))?;
        }
    }
    shown.finish(&notes)
}
