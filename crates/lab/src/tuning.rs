//! `tune`: makes one change after the other to a broker and its producers, which send as fast as they can, and measures
//! what each does to the throughput: the steps of a published investigation (IBM zSystems, 2022), on this machine.
//!
//! Each step keeps the changes before it, except those tried aside. What `explain` showed before a step is reported
//! with it. With `--follow-advice`, the steps are those that `advise` suggests (`following`).

mod following;
mod report;
mod tuning_loop;

use std::collections::BTreeMap;
use std::path::Path;

use crate::device::Pace;
use crate::error::Result;
use crate::experiment::setup::{Load, Network, Setup, Storage};
use crate::experiment::{ExperimentArguments, Subject, run as run_experiment};
use crate::volume::FileSystem;

/// A disk that small records keep busy, with little memory in front of it.
const DEVICE: Storage = Storage {
    file_system: FileSystem::Xfs,
    mount_options: String::new(),
    volumes: 1,
    size_bytes: 4 << 30,
    pace: Pace { write_us: 500, bytes_per_second: 15_000_000 },
    dirty_bytes: Some(32 << 20),
};
const SECONDS: u64 = 16;
/// Requests at least this slow are explained: with producers that fill the broker, most are.
const EXPLAINED_MS: u64 = 10;

/// Id, name, and changes.
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
/// Later steps do not keep it: the lock is a partition's, no matter of which topic, so this should make no difference.
const ASIDE: &str = "topics-2x8";

/// Arguments of `tune`.
#[derive(Clone, Debug, clap::Args)]
pub struct TuneArguments {
    /// Take the steps that `advise` suggests, each from the recording of the one before; then search, and compare
    #[arg(long, conflicts_with = "only")]
    pub follow_advice: bool,
    /// Follow at most N pieces of advice
    #[arg(long, value_name = "N", default_value_t = 8, requires = "follow_advice", value_parser = clap::value_parser!(u32).range(1..=50))]
    pub steps: u32,
    /// Try N further configurations in the search, once each
    #[arg(long, value_name = "N", default_value_t = 20, requires = "follow_advice", value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub search: u32,
    #[command(flatten)]
    pub experiment: ExperimentArguments,
}

/// Runs the experiment.
///
/// # Errors
/// Runs failed or were interrupted; finished ones are kept.
pub(crate) fn run(arguments: &TuneArguments, brokerscope: Option<&Path>) -> Result<()> {
    if arguments.follow_advice {
        return following::run(arguments, brokerscope);
    }
    let (seconds, explained_ms) = (SECONDS, Some(EXPLAINED_MS));
    let subject = Subject { name: "tune", directory: "lab-tune", seconds, explained_ms };
    run_experiment(&subject, setups(), &arguments.experiment, brokerscope)
}

/// The configurations of all steps, after the one before them.
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

/// The configuration after all steps.
fn after_all_steps() -> Configuration {
    let steps = STEPS.iter().filter(|(id, ..)| *id != ASIDE);
    steps.fold(Configuration::out_of_the_box(), |tuned, (_, _, changes)| tuned.with_all(changes))
}

/// How long until the JVMs' compilers have done most of their work, in seconds.
const WARM_UP_S: u64 = 6;
const PRODUCERS: u32 = 2;
const RECORD_BYTES: u32 = 100;

/// A setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Setting {
    Topics,
    /// Per topic.
    Partitions,
    /// `log.dirs`, each on its own device.
    Devices,
    /// `batch.size`, bytes.
    Batch,
    /// `linger.ms`.
    Linger,
    /// `num.io.threads`.
    IoThreads,
    /// `num.network.threads`.
    NetworkThreads,
    /// The link's MTU, bytes.
    Mtu,
    /// `buffer.memory`, bytes.
    Buffer,
}

/// Properties of a setting.
struct About {
    name: &'static str,
    /// What it is a setting of in advice, and its name there; empty if it is never advised.
    advice_name: (&'static str, &'static str),
    /// Its abbreviation in a directory's name.
    letter: &'static str,
    /// Kafka's default (`ProducerConfig`, `ServerConfigs`, `SocketServerConfigs`; `linger.ms` before Kafka 4), or
    /// Ethernet's.
    default: u32,
    /// The least and the most that it may be here.
    within: (u32, u32),
    /// The values that a search tries.
    search_values: &'static [u32],
}

impl Setting {
    const ALL: [Self; 9] = [
        Self::Topics,
        Self::Partitions,
        Self::Devices,
        Self::Batch,
        Self::Linger,
        Self::IoThreads,
        Self::NetworkThreads,
        Self::Mtu,
        Self::Buffer,
    ];

    const fn about(self) -> About {
        let (advice_name, letter, default, within, search_values): ((_, &str), _, _, _, &[u32]) = match self {
            Self::Topics => (("", "topics"), "t", 1, (1, 2), &[1]),
            Self::Partitions => (("topics", "partitions"), "p", 1, (1, 16), &[1, 4, 16]),
            Self::Devices => (("log-dirs", "devices"), "dev", 1, (1, 4), &[1, 2, 4]),
            Self::Batch => {
                (("producers", "batch.size"), "b", 16_384, (16_384, 1 << 20), &[16_384, 65_536, 262_144])
            }
            Self::Linger => (("producers", "linger.ms"), "l", 0, (0, 100), &[0, 5]),
            Self::IoThreads => (("broker", "num.io.threads"), "io", 8, (1, 64), &[2, 4, 8]),
            Self::NetworkThreads => (("broker", "num.network.threads"), "net", 3, (1, 64), &[1, 3, 4]),
            Self::Mtu => (("interface", "mtu"), "mtu", 1_500, (1_500, 9_000), &[1_500, 9_000]),
            Self::Buffer => {
                let (least, most) = (1 << 24, 1 << 27);
                (("producers", "buffer.memory"), "buf", 1 << 25, (least, most), &[1 << 25, 1 << 26])
            }
        };
        let name = match self {
            Self::Devices => "log.dirs' devices",
            Self::Mtu => "MTU",
            _ => advice_name.1,
        };
        About { name, advice_name, letter, default, within, search_values }
    }

    /// The setting that advice names so, if the lab has it.
    fn find(of: &str, name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|setting| !of.is_empty() && setting.about().advice_name == (of, name))
    }

    /// Formats a value for people.
    fn format_value(self, value: u32) -> String {
        match self {
            Self::Batch => format!("{} KiB", value >> 10),
            Self::Buffer => format!("{} MiB", value >> 20),
            _ => value.to_string(),
        }
    }
}

/// A value of each setting.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Configuration(BTreeMap<Setting, u32>);

impl Configuration {
    fn out_of_the_box() -> Self {
        Self(Setting::ALL.into_iter().map(|setting| (setting, setting.about().default)).collect())
    }

    fn of(&self, setting: Setting) -> u32 {
        self.0.get(&setting).copied().unwrap_or_else(|| setting.about().default)
    }

    /// Changes one setting.
    fn with(mut self, setting: Setting, value: u32) -> Self {
        self.0.insert(setting, value);
        self
    }

    /// Changes some settings.
    fn with_all(self, changes: &[(Setting, u32)]) -> Self {
        changes.iter().fold(self, |tuned, &(setting, value)| tuned.with(setting, value))
    }

    /// A directory name with all values.
    fn id(&self) -> String {
        let parts = self.0.iter().map(|(setting, value)| format!("{}{value}", setting.about().letter));
        parts.collect::<Vec<_>>().join("-")
    }

    /// Lists the settings that are not at their defaults.
    fn describe(&self) -> String {
        let other = self.0.iter().filter(|(setting, value)| **value != setting.about().default);
        let parts: Vec<String> = other
            .map(|(setting, value)| format!("{} {}", setting.about().name, setting.format_value(*value)))
            .collect();
        if parts.is_empty() { "out of the box".to_owned() } else { parts.join(", ") }
    }

    /// Lists the changes from another configuration: `batch.size 16 KiB -> 64 KiB`.
    fn changed_from(&self, before: &Self) -> String {
        let parts = self.settings_changed_from(before).into_iter().map(|setting| {
            let [from, to] = [before, self].map(|tuned| setting.format_value(tuned.of(setting)));
            format!("{} {from} -> {to}", setting.about().name)
        });
        parts.collect::<Vec<_>>().join(", ")
    }

    /// The settings that differ from another configuration.
    fn settings_changed_from(&self, before: &Self) -> Vec<Setting> {
        Setting::ALL.into_iter().filter(|setting| self.of(*setting) != before.of(*setting)).collect()
    }

    /// Converts it to a run of an experiment, on devices that are all alike.
    fn setup(&self, id: &str, name: &str, builds_on: Option<&str>) -> Setup {
        let of = |setting: Setting| format!("{}={}", setting.about().name, self.of(setting));
        let properties = [Setting::Batch, Setting::Linger, Setting::Buffer].map(of);
        let properties = ["acks=1".to_owned()].into_iter().chain(properties).collect();
        let threads = [Setting::IoThreads, Setting::NetworkThreads];
        let threads = threads.map(|setting| (setting.about().name.to_owned(), self.of(setting).to_string()));
        let topics = 1..=self.of(Setting::Topics);
        Setup {
            id: id.to_owned(),
            name: name.to_owned(),
            ground: Storage { volumes: self.of(Setting::Devices), ..DEVICE },
            properties: threads.to_vec(),
            topics: topics.map(|number| (format!("topic{number}"), self.of(Setting::Partitions))).collect(),
            topic_configs: Vec::new(),
            sysctls: Vec::new(),
            network: Network::Link { mtu: self.of(Setting::Mtu) },
            load: Load::Flat { producers: PRODUCERS, record_bytes: RECORD_BYTES, properties },
            warm_up_s: WARM_UP_S,
            builds_on: builds_on.map(str::to_owned),
        }
    }

    /// Converts it to a run of an experiment. The experiment's configurations follow from each other.
    fn to_setup(&self) -> Setup {
        self.setup(&self.id(), &self.describe(), None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::setup::{Load, Network, pairs};

    #[test]
    fn each_step_adds_a_change_to_the_step_it_builds_on() {
        let setups = setups();
        assert_eq!(setups.len(), STEPS.len() + 1);
        let at = |id: &str| setups.iter().find(|setup| setup.id == id).unwrap();
        assert_eq!(at("partitions-16").topics, [("topic1".to_owned(), 16)]);
        assert_eq!(at("topics-2x8").topics, [("topic1".to_owned(), 8), ("topic2".to_owned(), 8)]);
        // The step that was tried aside is not kept.
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

#[cfg(test)]
mod setting_tests {
    use super::*;

    #[test]
    fn search_values_are_within_bounds() {
        for setting in Setting::ALL {
            let (least, most) = setting.about().within;
            assert!(setting.about().search_values.contains(&setting.about().default), "{setting:?}");
            assert!(
                setting.about().search_values.iter().all(|value| (least..=most).contains(value)),
                "{setting:?}"
            );
        }
    }

    #[test]
    fn only_equal_configurations_have_equal_ids() {
        let start = Configuration::out_of_the_box();
        let other = start.clone().with(Setting::Batch, 65_536).with(Setting::Devices, 2);
        assert_ne!(start.id(), other.id());
        assert_eq!(start.id(), other.clone().with(Setting::Batch, 16_384).with(Setting::Devices, 1).id());
        assert_eq!(start.describe(), "out of the box");
        assert_eq!(other.describe(), "log.dirs' devices 2, batch.size 64 KiB");
        assert_eq!(other.changed_from(&start), "log.dirs' devices 1 -> 2, batch.size 16 KiB -> 64 KiB");
        assert_eq!(other.settings_changed_from(&start), [Setting::Devices, Setting::Batch]);
    }
}
