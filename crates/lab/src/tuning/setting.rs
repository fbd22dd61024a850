//! What `tune` can change: each setting's name, its value out of the box, and the values worth trying. Measures nothing.

use std::collections::BTreeMap;

use super::DEVICE;
use crate::experiment::setup::{Load, Network, Setup, Storage};

/// Until the JVMs' compilers have done most of their work.
const WARM_UP_S: u64 = 6;
const PRODUCERS: u32 = 2;
const RECORD_BYTES: u32 = 100;

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
pub(super) struct About {
    pub(super) name: &'static str,
    /// What advice calls it, and what it is a setting of; nothing of one that nobody advises.
    advised: (&'static str, &'static str),
    /// In a directory's name.
    letter: &'static str,
    /// Kafka's own (`ProducerConfig`, `ServerConfigs`, `SocketServerConfigs`; `linger.ms` before Kafka 4), and Ethernet's.
    pub(super) default: u32,
    /// The least and the most that it may be here.
    pub(super) within: (u32, u32),
    /// Those that a search tries.
    pub(super) searched: &'static [u32],
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

    pub(super) const fn about(self) -> About {
        let (advised, letter, default, within, searched): ((_, &str), _, _, _, &[u32]) = match self {
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
            _ => advised.1,
        };
        About { name, advised, letter, default, within, searched }
    }

    /// The one that advice names so, if the lab has it.
    pub(super) fn named(of: &str, name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|setting| !of.is_empty() && setting.about().advised == (of, name))
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
        Self(Setting::ALL.into_iter().map(|setting| (setting, setting.about().default)).collect())
    }

    pub(super) fn of(&self, setting: Setting) -> u32 {
        self.0.get(&setting).copied().unwrap_or_else(|| setting.about().default)
    }

    /// The same with one of another value.
    pub(super) fn with(mut self, setting: Setting, value: u32) -> Self {
        self.0.insert(setting, value);
        self
    }

    /// The same with some of other values.
    pub(super) fn with_all(self, changes: &[(Setting, u32)]) -> Self {
        changes.iter().fold(self, |tuned, &(setting, value)| tuned.with(setting, value))
    }

    /// A name for a directory: it says all.
    pub(super) fn id(&self) -> String {
        let said = self.0.iter().map(|(setting, value)| format!("{}{value}", setting.about().letter));
        said.collect::<Vec<_>>().join("-")
    }

    /// What is other than out of the box.
    pub(super) fn described(&self) -> String {
        let other = self.0.iter().filter(|(setting, value)| **value != setting.about().default);
        let said: Vec<String> = other
            .map(|(setting, value)| format!("{} {}", setting.about().name, setting.shown(*value)))
            .collect();
        if said.is_empty() { "out of the box".to_owned() } else { said.join(", ") }
    }

    /// What is other than there: `batch.size 16 KiB -> 64 KiB`.
    pub(super) fn changed_from(&self, before: &Self) -> String {
        let said = self.settings_changed_from(before).into_iter().map(|setting| {
            let [from, to] = [before, self].map(|tuned| setting.shown(tuned.of(setting)));
            format!("{} {from} -> {to}", setting.about().name)
        });
        said.collect::<Vec<_>>().join(", ")
    }

    /// Which are.
    pub(super) fn settings_changed_from(&self, before: &Self) -> Vec<Setting> {
        Setting::ALL.into_iter().filter(|setting| self.of(*setting) != before.of(*setting)).collect()
    }

    /// As a run of an experiment, on devices that are all alike.
    pub(super) fn setup(&self, id: &str, name: &str, builds_on: Option<&str>) -> Setup {
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

    /// As a run of an experiment whose configurations follow from each other.
    pub(super) fn to_setup(&self) -> Setup {
        self.setup(&self.id(), &self.described(), None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_that_is_tried_is_one_that_may_be() {
        for setting in Setting::ALL {
            let (least, most) = setting.about().within;
            assert!(setting.about().searched.contains(&setting.about().default), "{setting:?}");
            assert!(
                setting.about().searched.iter().all(|value| (least..=most).contains(value)),
                "{setting:?}"
            );
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
