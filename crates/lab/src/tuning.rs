//! `tune`: one change after the other to a broker and its producers that send as fast as they can, and what each
//! does to the throughput: the steps of a published investigation (IBM zSystems, 2022), on this machine.
//!
//! Each step keeps the changes before it, but for those tried aside. What `explain` saw before a step is said with it. With
//! `--follow-advice` the steps are those that `advise` says, of which `following` knows.

mod advice;
mod following;
mod report;
mod search;
mod setting;
mod tuning_loop;

use std::path::Path;

use crate::device::Pace;
use crate::error::Error;
use crate::experiment::setup::{Setup, Storage};
use crate::experiment::{ExperimentArguments, Subject, run as run_experiment};
use crate::volume::FileSystem;

use setting::{Configuration, Setting};

/// A disk that small records keep busy, with little memory before it.
const DEVICE: Storage = Storage {
    file_system: FileSystem::Xfs,
    mount_options: String::new(),
    volumes: 1,
    size_bytes: 4 << 30,
    pace: Pace { write_us: 500, bytes_per_second: 15_000_000 },
    dirty_bytes: Some(32 << 20),
};
const SECONDS: u64 = 16;
/// Requests of at least so long are explained: with producers that fill the broker, most are.
const EXPLAINED_MS: u64 = 10;

/// Id, name, and what it changes.
type Step = (&'static str, &'static str, &'static [(Setting, u32)]);

const STEPS: &[Step] = &[
    ("partitions-2", "2 partitions", &[(Setting::Partitions, 2)]),
    ("partitions-16", "16 partitions", &[(Setting::Partitions, 16)]),
    (ASIDE, "aside: 2 topics × 8", &[(Setting::Topics, 2), (Setting::Partitions, 8)]),
    ("batch-64k", "batch.size 64 KiB", &[(Setting::Batch, 65_536)]),
    ("linger-5", "linger.ms 5", &[(Setting::Linger, 5)]),
    ("io-threads-3", "num.io.threads 3", &[(Setting::IoThreads, 3)]),
    ("network-threads-4", "num.network.threads 4", &[(Setting::NetworkThreads, 4)]),
    ("buffer-64m", "buffer.memory 64 MiB", &[(Setting::Buffer, 64 << 20)]),
    ("mtu-9000", "MTU 9000", &[(Setting::Mtu, 9000)]),
    ("log-dirs-3", "3 log.dirs", &[(Setting::Devices, 3)]),
];
/// Later steps do not keep it: the lock is a partition's, no matter what topic that is of, so this should make no difference.
const ASIDE: &str = "topics-2x8";

/// Arguments of `tune`.
#[derive(Clone, Debug, clap::Args)]
pub struct TuneArguments {
    /// Take the steps that `advise` says, each from the recording of the one before; then search, and compare
    #[arg(long, conflicts_with = "only")]
    pub follow_advice: bool,
    /// Follow so many pieces of advice at most
    #[arg(long, value_name = "N", default_value_t = 8, requires = "follow_advice", value_parser = clap::value_parser!(u32).range(1..=50))]
    pub steps: u32,
    /// Try so many further configurations in the search, once each
    #[arg(long, value_name = "N", default_value_t = 20, requires = "follow_advice", value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub search: u32,
    #[command(flatten)]
    pub experiment: ExperimentArguments,
}

/// Runs the experiment.
///
/// # Errors
/// Where runs failed, or were interrupted: what was measured is kept.
pub(crate) fn run(arguments: &TuneArguments, brokerscope: Option<&Path>) -> Result<(), Error> {
    if arguments.follow_advice {
        return following::run(arguments, brokerscope);
    }
    let (seconds, explained_ms) = (SECONDS, Some(EXPLAINED_MS));
    let subject = Subject { name: "tune", directory: "lab-tune", seconds, explained_ms };
    run_experiment(&subject, setups(), &arguments.experiment, brokerscope)
}

/// All steps' configurations, the one before them first.
fn setups() -> Vec<Setup> {
    let (mut tuned, mut before) = (Configuration::out_of_the_box(), "base");
    let mut setups = vec![tuned.setup("base", "out of the box", None)];
    for &(id, name, changes) in STEPS {
        let changed = tuned.clone().with_all(changes);
        setups.push(changed.setup(id, name, Some(before)));
        if id != ASIDE {
            (tuned, before) = (changed, id);
        }
    }
    setups
}

/// What all steps together make of it.
fn after_all_steps() -> Configuration {
    let kept = STEPS.iter().filter(|(id, ..)| *id != ASIDE);
    kept.fold(Configuration::out_of_the_box(), |tuned, (_, _, changes)| tuned.with_all(changes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::setup::{Load, Network, pairs};

    #[test]
    fn each_step_changes_one_thing_and_keeps_those_before_it() {
        let setups = setups();
        assert_eq!(setups.len(), STEPS.len() + 1);
        let at = |id: &str| setups.iter().find(|setup| setup.id == id).unwrap();
        assert_eq!(at("partitions-16").topics, [("topic1".to_owned(), 16)]);
        assert_eq!(at("topics-2x8").topics, [("topic1".to_owned(), 8), ("topic2".to_owned(), 8)]);
        // What was tried aside is not kept.
        assert_eq!(at("batch-64k").topics, [("topic1".to_owned(), 16)]);
        assert_eq!(at("batch-64k").builds_on.as_deref(), Some("partitions-16"));
        let last = setups.last().unwrap();
        assert_eq!((last.ground.volumes, &last.network), (3, &Network::Link { mtu: 9000 }));
        assert_eq!(last.properties, pairs(&[("num.io.threads", "3"), ("num.network.threads", "4")]));
        let Load::Flat { properties, .. } = &last.load else { panic!("as fast as they can") };
        assert_eq!(properties, &["acks=1", "batch.size=65536", "linger.ms=5", "buffer.memory=67108864"]);
        for setup in &setups[1..] {
            let before = at(setup.builds_on.as_deref().unwrap());
            let as_before = Setup {
                id: before.id.clone(),
                name: before.name.clone(),
                builds_on: before.builds_on.clone(),
                ..setup.clone()
            };
            assert_ne!(as_before, *before, "{} changes nothing", setup.id);
        }
    }
}
