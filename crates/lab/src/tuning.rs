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
use crate::experiment::setup::Setup;
use crate::experiment::{Experiment, ExperimentArguments, run as run_experiment};

use setting::{Configuration, Setting};

/// A disk that small records keep busy, with little memory before it.
const PACE: Pace = Pace { write_us: 500, bytes_per_second: 15_000_000 };
const DIRTY_BYTES: u64 = 32 << 20;
const SECONDS: u64 = 16;
/// Requests of at least so long are explained: with producers that fill the broker, most are.
const EXPLAINED_MS: u64 = 10;

struct Step {
    id: &'static str,
    name: &'static str,
    changes: &'static [(Setting, u32)],
    /// Whether later steps keep it.
    kept: bool,
}

const fn step(id: &'static str, name: &'static str, changes: &'static [(Setting, u32)]) -> Step {
    Step { id, name, changes, kept: true }
}

const STEPS: &[Step] = &[
    step("partitions-2", "2 partitions", &[(Setting::Partitions, 2)]),
    step("partitions-16", "16 partitions", &[(Setting::Partitions, 16)]),
    // The lock is a partition's, no matter what topic that is of: this should make no difference.
    Step {
        kept: false,
        ..step("topics-2x8", "aside: 2 topics × 8", &[(Setting::Topics, 2), (Setting::Partitions, 8)])
    },
    step("batch-64k", "batch.size 64 KiB", &[(Setting::Batch, 65_536)]),
    step("linger-5", "linger.ms 5", &[(Setting::Linger, 5)]),
    step("io-threads-3", "num.io.threads 3", &[(Setting::IoThreads, 3)]),
    step("network-threads-4", "num.network.threads 4", &[(Setting::NetworkThreads, 4)]),
    step("buffer-64m", "buffer.memory 64 MiB", &[(Setting::Buffer, 64 << 20)]),
    step("mtu-9000", "MTU 9000", &[(Setting::Mtu, 9000)]),
    step("log-dirs-3", "3 log.dirs", &[(Setting::Devices, 3)]),
];

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
    #[expect(missing_docs, reason = "flattened into this command's own help")]
    pub experiment: ExperimentArguments,
}

/// Runs the experiment.
///
/// # Errors
/// Where runs failed, or were interrupted: what was measured is kept.
pub fn run(arguments: &TuneArguments, brokerscope: Option<&Path>) -> Result<(), Error> {
    if arguments.follow_advice {
        return following::run(arguments, brokerscope);
    }
    let experiment = Experiment {
        name: "tune",
        directory: "lab-tune",
        setups: setups(),
        seconds: SECONDS,
        explained_ms: Some(EXPLAINED_MS),
    };
    run_experiment(experiment, &arguments.experiment, brokerscope)
}

/// All steps' configurations, the one before them first.
fn setups() -> Vec<Setup> {
    let device = setting::device(PACE, DIRTY_BYTES);
    let (mut tuned, mut before) = (Configuration::out_of_the_box(), "base");
    let mut setups = vec![tuned.setup("base", "out of the box", None, &device)];
    for step in STEPS {
        let changed = changed(&tuned, step);
        setups.push(changed.setup(step.id, step.name, Some(before), &device));
        if step.kept {
            (tuned, before) = (changed, step.id);
        }
    }
    setups
}

fn changed(before: &Configuration, step: &Step) -> Configuration {
    step.changes.iter().fold(before.clone(), |tuned, &(setting, value)| tuned.with(setting, value))
}

/// What all steps together make of it.
fn after_all_steps() -> Configuration {
    let kept = STEPS.iter().filter(|step| step.kept);
    kept.fold(Configuration::out_of_the_box(), |tuned, step| changed(&tuned, step))
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
