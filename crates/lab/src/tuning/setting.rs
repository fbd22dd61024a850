//! What `tune` can change: each setting's name, its value out of the box, and the values worth trying. Measures nothing.

use std::collections::BTreeMap;

use crate::experiment::setup::{Load, Network, Setup, Storage, pairs};
use crate::volume::FileSystem;

/// Until the JVMs' compilers have done most of their work.
const WARM_UP_S: u64 = 6;
const PRODUCERS: u32 = 2;
const RECORD_BYTES: u32 = 100;
const SIZE_BYTES: u64 = 4 << 30;

/// One setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Setting {
    Topics,
    /// Of each topic.
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
    /// The link's largest packet, bytes.
    Mtu,
    /// `buffer.memory`, bytes.
    Buffer,
}

/// What there is to know of one.
struct About {
    name: &'static str,
    /// In a directory's name.
    letter: &'static str,
    /// Kafka's own (`ProducerConfig`, `ServerConfigs`, `SocketServerConfigs`; `linger.ms` before Kafka 4), and Ethernet's.
    default: u32,
    /// The least and the most that it may be here.
    within: (u32, u32),
    /// Those that a search tries.
    searched: &'static [u32],
}

impl Setting {
    pub(super) const ALL: [Self; 9] = [
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
        let (name, letter, default, within, searched): (_, _, _, _, &[u32]) = match self {
            Self::Topics => ("topics", "t", 1, (1, 2), &[1]),
            Self::Partitions => ("partitions", "p", 1, (1, 16), &[1, 4, 16]),
            Self::Devices => ("log.dirs' devices", "dev", 1, (1, 4), &[1, 2, 4]),
            Self::Batch => ("batch.size", "b", 16_384, (16_384, 1 << 20), &[16_384, 65_536, 262_144]),
            Self::Linger => ("linger.ms", "l", 0, (0, 100), &[0, 5]),
            Self::IoThreads => ("num.io.threads", "io", 8, (1, 64), &[2, 4, 8]),
            Self::NetworkThreads => ("num.network.threads", "net", 3, (1, 64), &[1, 3, 4]),
            Self::Mtu => ("MTU", "mtu", 1_500, (1_500, 9_000), &[1_500, 9_000]),
            Self::Buffer => {
                ("buffer.memory", "buf", 33_554_432, (1 << 24, 1 << 27), &[33_554_432, 67_108_864])
            }
        };
        About { name, letter, default, within, searched }
    }

    /// The one that advice names so, if the lab has it.
    pub(super) fn named(of: &str, name: &str) -> Option<Self> {
        Some(match (of, name) {
            ("topics", "partitions") => Self::Partitions,
            ("log-dirs", "devices") => Self::Devices,
            ("producers", "batch.size") => Self::Batch,
            ("producers", "linger.ms") => Self::Linger,
            ("producers", "buffer.memory") => Self::Buffer,
            ("broker", "num.io.threads") => Self::IoThreads,
            ("broker", "num.network.threads") => Self::NetworkThreads,
            ("interface", "mtu") => Self::Mtu,
            _ => return None,
        })
    }

    pub(super) fn name(self) -> &'static str {
        self.about().name
    }

    pub(super) fn default(self) -> u32 {
        self.about().default
    }

    /// The least and the most that it may be here.
    pub(super) fn within(self) -> (u32, u32) {
        self.about().within
    }

    pub(super) fn searched(self) -> &'static [u32] {
        self.about().searched
    }

    /// A value of it for people.
    pub(super) fn shown(self, value: u32) -> String {
        match self {
            Self::Batch => format!("{} KiB", value >> 10),
            Self::Buffer => format!("{} MiB", value >> 20),
            _ => value.to_string(),
        }
    }
}

/// A value of each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Configuration(BTreeMap<Setting, u32>);

impl Configuration {
    pub(super) fn out_of_the_box() -> Self {
        Self(Setting::ALL.into_iter().map(|setting| (setting, setting.default())).collect())
    }

    pub(super) fn of(&self, setting: Setting) -> u32 {
        self.0.get(&setting).copied().unwrap_or_else(|| setting.default())
    }

    /// The same with one of another value.
    pub(super) fn with(mut self, setting: Setting, value: u32) -> Self {
        self.0.insert(setting, value);
        self
    }

    /// A name for a directory: it says all.
    pub(super) fn id(&self) -> String {
        let said = self.0.iter().map(|(setting, value)| format!("{}{value}", setting.about().letter));
        said.collect::<Vec<_>>().join("-")
    }

    /// What is other than out of the box.
    pub(super) fn described(&self) -> String {
        let other = self.0.iter().filter(|(setting, value)| **value != setting.default());
        let said: Vec<String> =
            other.map(|(setting, value)| format!("{} {}", setting.name(), setting.shown(*value))).collect();
        if said.is_empty() { "out of the box".to_owned() } else { said.join(", ") }
    }

    /// What is other than there: `batch.size 16 KiB -> 64 KiB`.
    pub(super) fn changed_from(&self, before: &Self) -> String {
        let other = Setting::ALL.into_iter().filter(|setting| self.of(*setting) != before.of(*setting));
        let said = other.map(|setting| {
            format!(
                "{} {} -> {}",
                setting.name(),
                setting.shown(before.of(setting)),
                setting.shown(self.of(setting))
            )
        });
        said.collect::<Vec<_>>().join(", ")
    }

    /// Which are.
    pub(super) fn settings_changed_from(&self, before: &Self) -> Vec<Setting> {
        Setting::ALL.into_iter().filter(|setting| self.of(*setting) != before.of(*setting)).collect()
    }

    /// As a run of an experiment, on devices like this one.
    pub(super) fn setup(&self, id: &str, name: &str, builds_on: Option<&str>, device: &Storage) -> Setup {
        let producer = [
            "acks=1".to_owned(),
            format!("batch.size={}", self.of(Setting::Batch)),
            format!("linger.ms={}", self.of(Setting::Linger)),
            format!("buffer.memory={}", self.of(Setting::Buffer)),
        ];
        let threads = [Setting::IoThreads, Setting::NetworkThreads];
        let partitions = self.of(Setting::Partitions);
        Setup {
            id: id.to_owned(),
            name: name.to_owned(),
            ground: Storage { volumes: self.of(Setting::Devices), ..device.clone() },
            properties: threads
                .map(|setting| (setting.name().to_owned(), self.of(setting).to_string()))
                .to_vec(),
            topics: (1..=self.of(Setting::Topics))
                .map(|number| (format!("topic{number}"), partitions))
                .collect(),
            topic_configs: pairs(&[]),
            sysctls: pairs(&[]),
            network: Network::Link { mtu: self.of(Setting::Mtu) },
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

/// One device: a disk of this pace with little memory before it.
pub(super) fn device(pace: crate::device::Pace, dirty_bytes: u64) -> Storage {
    Storage {
        file_system: FileSystem::Xfs,
        mount_options: String::new(),
        volumes: 1,
        size_bytes: SIZE_BYTES,
        pace,
        dirty_bytes: Some(dirty_bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_that_is_tried_is_one_that_may_be() {
        for setting in Setting::ALL {
            let (least, most) = setting.within();
            assert!(setting.searched().contains(&setting.default()), "{setting:?}");
            assert!(setting.searched().iter().all(|value| (least..=most).contains(value)), "{setting:?}");
        }
    }

    #[test]
    fn two_configurations_have_one_name_only_where_they_are_one() {
        let start = Configuration::out_of_the_box();
        let other = start.clone().with(Setting::Batch, 65_536).with(Setting::Devices, 2);
        assert_ne!(start.id(), other.id());
        assert_eq!(start.id(), other.clone().with(Setting::Batch, 16_384).with(Setting::Devices, 1).id());
        assert_eq!(start.described(), "out of the box");
        assert_eq!(other.described(), "log.dirs' devices 2, batch.size 64 KiB");
        assert_eq!(other.changed_from(&start), "log.dirs' devices 1 -> 2, batch.size 16 KiB -> 64 KiB");
        assert_eq!(other.settings_changed_from(&start), [Setting::Devices, Setting::Batch]);
    }
}
