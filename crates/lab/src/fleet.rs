//! `fleet`: the case of mysterious disk reads, from beginning to end. Several real brokers, each on its own device and under
//! the same load; one of them reads large state files of tiered storage for what is appended, and sends nobody what it
//! reads. Each is recorded by brokerscope as a user would, the odd one again after a cleanup of its state; then `fleet`, `files`,
//! `logs` and `advise` are asked, and each has to name what was injected.

mod member;
mod questions;
mod replay;
mod tier_state;

use std::path::{Path, PathBuf};
use std::time::Instant;

use fastrand::Rng;

use crate::error::Error;
use crate::files;
use crate::kafka::{DEFAULT_VERSION, Kafka};
use crate::session::{Session, draw_seed};
use crate::site::Site;

use questions::Operator;
use replay::Replay;

/// The case's own.
const BROKERS: u32 = 9;

/// Arguments of `fleet`.
#[derive(Clone, Debug, clap::Args)]
pub struct FleetArguments {
    /// How many brokers; of fewer than four none can be the odd one
    #[arg(long, value_name = "N", default_value_t = BROKERS, value_parser = clap::value_parser!(u32).range(4..=32))]
    pub brokers: u32,
    /// How long each is recorded
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u64).range(2..=3600))]
    pub seconds: u64,
    /// Size of the largest state file, in MiB; of six, each is larger than the one before
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u64).range(8..=1024))]
    pub state: u64,
    /// Seed of the load, and of which broker is the odd one; a new one is drawn and printed if not given
    #[arg(long, value_name = "S")]
    pub seed: Option<u64>,
    /// Keep recordings, the odd broker's log and what was said in DIR, which must be empty or not there
    #[arg(long, value_name = "DIR")]
    pub keep: Option<PathBuf>,
    /// Version of Kafka to run
    #[arg(long, value_name = "VERSION", default_value = DEFAULT_VERSION)]
    pub kafka: String,
}

/// Replays the case; what the commands say goes to stdout.
///
/// # Errors
/// Where it could not be run to its end; [`Error::Unusable`] where a command does not name what was injected.
pub(crate) fn run(arguments: &FleetArguments, brokerscope: Option<&Path>) -> Result<(), Error> {
    let started = Instant::now();
    let session = Session::start(brokerscope)?;
    let steps = session.steps;
    let kafka = Kafka::prepare(&arguments.kafka, steps)?;
    // What nobody wants to keep goes away with this.
    let site = Site::claim()?;
    let directory = kept(arguments.keep.as_deref(), &site)?;
    let seed = arguments.seed.unwrap_or_else(draw_seed);
    let odd = Rng::with_seed(seed).u32(1..=arguments.brokers);
    steps.say(&format!("{} brokers, one of them the odd one, --seed {seed}", arguments.brokers));
    let (session, kafka, site) = (&session, &kafka, &site);
    let replay = Replay { arguments, session, kafka, site, seed, odd, directory: &directory };
    let watched = replay.watch()?;
    let said = directory.join("said");
    files::make(&said)?;
    let missed = Operator { observer: &session.observer, said: &said }.ask_all(&watched)?;
    if let Some(keep) = &arguments.keep {
        let keep = keep.display();
        steps.say(&format!("all of it is in {keep}; `brokerscope fleet {keep}/before` says it again"));
    }
    steps.took(started, "done");
    match missed {
        0 => Ok(()),
        count => Err(Error::Unusable(format!("{count} answer(s) missed what was injected on broker {odd}"))),
    }
}

/// Where everything goes.
fn kept(keep: Option<&Path>, site: &Site) -> Result<PathBuf, Error> {
    let Some(keep) = keep else { return site.directory("kept") };
    let directory = std::path::absolute(keep).map_err(Error::io("resolve", keep))?;
    files::make(&directory)?;
    if files::list(&directory)?.is_empty() {
        return Ok(directory);
    }
    Err(Error::Unusable(format!("{} is not empty: name another --keep", keep.display())))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn nothing_is_kept_among_what_was_kept_before() {
        let root = tempfile::tempdir().unwrap();
        let site = Site::claim_in(&root.path().join("sites")).unwrap();
        let keep = root.path().join("kept");
        assert_eq!(kept(Some(&keep), &site).unwrap(), keep);
        assert!(keep.is_dir());
        fs::write(keep.join("server.log"), "").unwrap();
        let refused = kept(Some(&keep), &site).unwrap_err().to_string();
        assert!(refused.ends_with("is not empty: name another --keep"), "{refused}");
        assert!(kept(None, &site).unwrap().starts_with(site.path()));
    }
}
