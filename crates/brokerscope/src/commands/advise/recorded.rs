//! What a recording, or a capture, says for rules to look at. Advises nothing.

use std::path::Path;

use advise::Inputs;

use super::seen::Seen;
use super::{Gathered, dumps};
use crate::advising;
use crate::cli::Advise;
use crate::commands::record::in_force;
use crate::grounds::Grounds;
use crate::options::Filter;

/// Reads all of it.
pub(super) fn gather(args: &Advise, input: &Path) -> anyhow::Result<Gathered> {
    let mut grounds = Grounds::open(&[input.to_owned()], &[], &Filter::default(), &args.target)?;
    let mut seen = Seen::new(grounds.config(args.slower_than));
    grounds.read(&mut |event| {
        seen.event(event);
        Ok(())
    })?;
    let (advising, requests) = seen.finish();
    let known = advising::inputs(advising, requests, input, grounds.recording(), args.slower_than);
    let inputs = Inputs { dumps: Err(dumps::NONE.into()), ..known };
    let what = if grounds.recording().is_some() { "recording" } else { "capture" };
    let known = grounds.known(args.slower_than, &args.presentation);
    let mut notes = known.notes;
    notes.extend(grounds.recording().and_then(|recording| in_force::note(recording.manifest())));
    notes.extend(
        known
            .losses
            .iter()
            .filter(|(_, lost)| *lost > 0)
            .map(|(kind, lost)| format!("lost {lost} {}", kind.as_str())),
    );
    let subject = format!("{what} {}", input.display());
    Ok(Gathered { inputs, blocked: Vec::new(), subject, notes, whole: grounds.check() })
}
