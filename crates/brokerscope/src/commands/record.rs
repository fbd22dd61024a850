//! `record`: collects everything that can be seen of a broker, to be explained later.

#[cfg(feature = "live")]
mod live;
#[cfg(feature = "live")]
mod manifest;

use report::explanation::Unobservable;

use crate::cli::Record;

/// How the manifest's plan marks what was seen and what could not be.
#[cfg(feature = "live")]
const SEEN: &str = "seen: ";
const MISSING: &str = "missing: ";

/// Records until it is time to stop.
#[cfg(feature = "live")]
pub(crate) fn run(args: &Record) -> anyhow::Result<()> {
    live::run(args)
}

/// Says that nothing can be recorded.
#[cfg(not(feature = "live"))]
pub(crate) fn run(args: &Record) -> anyhow::Result<()> {
    anyhow::bail!(
        "{}: this brokerscope was built without the feature `live` and can only read; build it with that feature, \
         on Linux",
        args.output.display()
    )
}

/// What a recording's plan says could not be observed.
pub(crate) fn missing(plan: &[(String, String)]) -> Vec<Unobservable> {
    let missing = plan.iter().filter_map(|(what, outcome)| Some((what, outcome.strip_prefix(MISSING)?)));
    missing.map(|(what, why)| Unobservable { what: what.clone(), why: why.to_owned() }).collect()
}
