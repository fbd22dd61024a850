//! Manifest entries of the recorder, and the notes that readers make of them.

pub(crate) mod always_on;
pub mod broker_settings;
pub mod host_facts;
pub mod partial;
pub mod plan;
pub mod processes;
pub mod settings;

use recording::Manifest;
use report::Zone;

/// Notes on how a recording was made.
pub fn notes(manifest: &Manifest, zone: &Zone) -> Vec<String> {
    let mut notes = processes::notes(manifest.broker.as_ref(), &|time| zone.time_of_day(time));
    notes.extend(partial::note(&manifest.settings));
    notes.extend(always_on::was_on(&manifest.plan).then(|| always_on::LIMITS.to_owned()));
    let ended = manifest.settings.get(settings::ENDED_BECAUSE);
    notes.extend(ended.map(|why| format!("the recording ended by itself: {why}")));
    notes
}
