//! `record`: collects everything that can be seen of a broker, to be explained later.

pub(crate) mod in_force;
#[cfg(feature = "live")]
mod intake;
#[cfg(feature = "live")]
mod live;
#[cfg(feature = "live")]
pub(crate) mod manifest;
pub(crate) mod partial;
mod processes;
pub(crate) mod runs_on;

use std::collections::BTreeMap;

use recording::Manifest;
use report::explanation::Unobservable;

use crate::cli::Record;
use crate::failure::Usage;
use crate::options::{Filter, Presentation};

/// The manifest's setting that says why a recording ended before it was told to.
const ENDED_BECAUSE: &str = "ended_because";
/// How the manifest's plan marks what was seen and what could not be.
pub(crate) const SEEN: &str = "seen: ";
const MISSING: &str = "missing: ";
/// What a plan calls it that writes to files are seen.
const WRITES: &str = "file-writes";

/// Records until it is time to stop.
#[cfg(feature = "live")]
pub(crate) fn run(args: &Record) -> anyhow::Result<()> {
    refuse_filters(args)?;
    live::run(args)
}

/// Says that nothing can be recorded.
#[cfg(not(feature = "live"))]
pub(crate) fn run(args: &Record) -> anyhow::Result<()> {
    refuse_filters(args)?;
    anyhow::bail!(
        "{}: this brokerscope was built without the feature `live` and can only read; build it with that feature, \
         on Linux",
        args.output.display()
    )
}

/// A request is slow because of what others did: a recording of one topic could not say why.
fn refuse_filters(args: &Record) -> anyhow::Result<()> {
    let Filter { topics, apis, .. } = &args.filter;
    let given = [("--topic", !topics.is_empty()), ("--api", !apis.is_empty())];
    match given.iter().find(|(_, given)| *given) {
        Some((flag, _)) => Err(Usage(format!(
            "record takes no {flag}: what slowed a request is often another's; give it to explain"
        ))
        .into()),
        None => Ok(()),
    }
}

/// What a reader should know of how a recording was made.
pub(crate) fn notes(manifest: &Manifest, presentation: &Presentation) -> Vec<String> {
    let zone = presentation.zone();
    let mut notes = processes::notes(manifest.broker.as_ref(), &|time| zone.time_of_day(time));
    notes.extend(partial::note(&manifest.settings));
    notes.extend(early_end(&manifest.settings));
    notes
}

/// How it ended, where it was not told to.
fn early_end(settings: &BTreeMap<String, String>) -> Option<String> {
    settings.get(ENDED_BECAUSE).map(|why| format!("the recording ended by itself: {why}"))
}

/// Whether a recording's plan says that writes to files were seen.
pub(crate) fn sees_files(plan: &[(String, String)]) -> bool {
    plan.iter().any(|(what, outcome)| what == WRITES && outcome.starts_with(SEEN))
}

/// What a recording's plan says could not be observed.
pub(crate) fn missing(plan: &[(String, String)]) -> Vec<Unobservable> {
    let missing = plan.iter().filter_map(|(what, outcome)| Some((what, outcome.strip_prefix(MISSING)?)));
    missing.map(|(what, why)| Unobservable { what: what.clone(), why: why.to_owned() }).collect()
}
