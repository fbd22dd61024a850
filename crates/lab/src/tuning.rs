//! `lab tune`: one change after the other to a broker and its producers that send as fast as they can, and what each
//! does to the throughput: the steps of a published investigation (IBM zSystems, 2022), on this machine.
//!
//! Each step keeps the changes before it, but for those tried aside. What `explain` saw before a step is said with it.

use crate::device::Pace;
use crate::error::Error;
use crate::experiment::setup::{Ground, Load, Network, Setup, pairs};
use crate::experiment::{Experiment, ExperimentArguments, run as run_experiment};
use crate::volume::FileSystem;

/// A disk that small records keep busy, with little memory before it.
const PACE: Pace = Pace { write_us: 500, bytes_per_second: 15_000_000 };
const DIRTY_BYTES: u64 = 32 << 20;
const SIZE_BYTES: u64 = 4 << 30;
const SECONDS: u64 = 16;
/// Until the JVMs' compilers have done most of their work.
const WARM_UP_S: u64 = 6;
/// Requests of at least so long are explained: with producers that fill the broker, most are.
const EXPLAINED_MS: u64 = 10;
const PRODUCERS: u32 = 2;
const RECORD_BYTES: u32 = 100;

/// What is changed, from what to what: the first is Kafka's own (`linger.ms` before Kafka 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// Topics, and partitions of each.
    Topics(u32, u32),
    /// `batch.size`, bytes.
    Batch(u32),
    /// `linger.ms`.
    Linger(u32),
    /// `num.io.threads`.
    IoThreads(u32),
    /// `num.network.threads`.
    NetworkThreads(u32),
    /// `buffer.memory`, bytes.
    Buffer(u32),
    /// The link's largest packet.
    Mtu(u32),
    /// `log.dirs`, each on a device of its own.
    LogDirs(u32),
}

struct Step {
    id: &'static str,
    name: &'static str,
    change: Change,
    /// Whether later steps keep it.
    kept: bool,
}

const fn step(id: &'static str, name: &'static str, change: Change) -> Step {
    Step { id, name, change, kept: true }
}

const STEPS: &[Step] = &[
    step("partitions-2", "2 partitions", Change::Topics(1, 2)),
    step("partitions-16", "16 partitions", Change::Topics(1, 16)),
    // The lock is a partition's, whatever topic that is of: this should make no difference.
    Step { kept: false, ..step("topics-2x8", "aside: 2 topics × 8", Change::Topics(2, 8)) },
    step("batch-64k", "batch.size 64 KiB", Change::Batch(65_536)),
    step("linger-5", "linger.ms 5", Change::Linger(5)),
    step("io-threads-3", "num.io.threads 3", Change::IoThreads(3)),
    step("network-threads-4", "num.network.threads 4", Change::NetworkThreads(4)),
    step("buffer-64m", "buffer.memory 64 MiB", Change::Buffer(64 << 20)),
    step("mtu-9000", "MTU 9000", Change::Mtu(9000)),
    step("log-dirs-3", "3 log.dirs", Change::LogDirs(3)),
];

/// Arguments of `lab tune`.
#[derive(Clone, Debug, clap::Args)]
pub struct TuneArguments {
    #[command(flatten)]
    #[expect(missing_docs, reason = "flattened into this command's own help")]
    pub experiment: ExperimentArguments,
}

/// Runs the experiment.
///
/// # Errors
/// Where runs failed, or were interrupted: what was measured is kept.
pub fn run(arguments: &TuneArguments) -> Result<(), Error> {
    let experiment = Experiment {
        name: "tune",
        directory: "lab-tune",
        setups: setups(),
        seconds: SECONDS,
        explained_ms: Some(EXPLAINED_MS),
    };
    run_experiment(experiment, &arguments.experiment)
}

/// All steps' configurations, the one before them first.
fn setups() -> Vec<Setup> {
    let (mut tuned, mut before) = (Tuned::out_of_the_box(), "base");
    let mut setups = vec![tuned.setup("base", "out of the box", None)];
    for step in STEPS {
        let mut changed = tuned;
        changed.apply(step.change);
        setups.push(changed.setup(step.id, step.name, Some(before)));
        if step.kept {
            (tuned, before) = (changed, step.id);
        }
    }
    setups
}

/// All that a step may change.
#[derive(Clone, Copy, Debug)]
struct Tuned {
    topics: u32,
    partitions: u32,
    batch_bytes: u32,
    linger_ms: u32,
    io_threads: u32,
    network_threads: u32,
    buffer_bytes: u32,
    mtu: u32,
    log_dirs: u32,
}

impl Tuned {
    /// Kafka's defaults (`ProducerConfig`, `ServerConfigs`, `SocketServerConfigs`), and Ethernet's.
    fn out_of_the_box() -> Self {
        Self {
            topics: 1,
            partitions: 1,
            batch_bytes: 16_384,
            linger_ms: 0,
            io_threads: 8,
            network_threads: 3,
            buffer_bytes: 32 << 20,
            mtu: 1500,
            log_dirs: 1,
        }
    }

    fn apply(&mut self, change: Change) {
        match change {
            Change::Topics(topics, partitions) => (self.topics, self.partitions) = (topics, partitions),
            Change::Batch(bytes) => self.batch_bytes = bytes,
            Change::Linger(ms) => self.linger_ms = ms,
            Change::IoThreads(count) => self.io_threads = count,
            Change::NetworkThreads(count) => self.network_threads = count,
            Change::Buffer(bytes) => self.buffer_bytes = bytes,
            Change::Mtu(bytes) => self.mtu = bytes,
            Change::LogDirs(count) => self.log_dirs = count,
        }
    }

    fn setup(&self, id: &str, name: &str, builds_on: Option<&str>) -> Setup {
        let producer = [
            "acks=1".to_owned(),
            format!("batch.size={}", self.batch_bytes),
            format!("linger.ms={}", self.linger_ms),
            format!("buffer.memory={}", self.buffer_bytes),
        ];
        let threads = [("num.io.threads", self.io_threads), ("num.network.threads", self.network_threads)];
        Setup {
            id: id.to_owned(),
            name: name.to_owned(),
            ground: Ground {
                file_system: FileSystem::Xfs,
                mount_options: String::new(),
                volumes: self.log_dirs,
                size_bytes: SIZE_BYTES,
                pace: PACE,
                dirty_bytes: Some(DIRTY_BYTES),
            },
            properties: threads.map(|(key, count)| (key.to_owned(), count.to_string())).to_vec(),
            topics: (1..=self.topics).map(|number| (format!("topic{number}"), self.partitions)).collect(),
            topic_configs: pairs(&[]),
            sysctls: pairs(&[]),
            network: Network::Link { mtu: self.mtu },
            load: Load::Flat {
                producers: PRODUCERS,
                record_bytes: RECORD_BYTES,
                properties: producer.to_vec(),
            },
            warm_up_s: WARM_UP_S,
            builds_on: builds_on.map(str::to_owned),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
