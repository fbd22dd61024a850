//! What `tune` can change: each setting's name, its value out of the box, and the values worth trying. Measures nothing.

use std::collections::BTreeMap;

use crate::experiment::setup::{Ground, Load, Network, Setup, pairs};
use crate::volume::FileSystem;

/// Until the JVMs' compilers have done most of their work.
const WARM_UP_S: u64 = 6;
const PRODUCERS: u32 = 2;
const RECORD_BYTES: u32 = 100;
const SIZE_BYTES: u64 = 4 << 30;

/// One setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Knob {
    Topics,
    /// Of each topic.
    Partitions,
    /// `log.dirs`, each on a device of its own.
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

impl Knob {
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
pub(super) struct Tuned(BTreeMap<Knob, u32>);

impl Tuned {
    pub(super) fn out_of_the_box() -> Self {
        Self(Knob::ALL.into_iter().map(|knob| (knob, knob.default())).collect())
    }

    pub(super) fn of(&self, knob: Knob) -> u32 {
        self.0.get(&knob).copied().unwrap_or_else(|| knob.default())
    }

    /// The same with one of another value.
    pub(super) fn with(mut self, knob: Knob, value: u32) -> Self {
        self.0.insert(knob, value);
        self
    }

    /// A name for a directory: it says all.
    pub(super) fn id(&self) -> String {
        let said = self.0.iter().map(|(knob, value)| format!("{}{value}", knob.about().letter));
        said.collect::<Vec<_>>().join("-")
    }

    /// What is other than out of the box.
    pub(super) fn described(&self) -> String {
        let other = self.0.iter().filter(|(knob, value)| **value != knob.default());
        let said: Vec<String> =
            other.map(|(knob, value)| format!("{} {}", knob.name(), knob.shown(*value))).collect();
        if said.is_empty() { "out of the box".to_owned() } else { said.join(", ") }
    }

    /// What is other than there: `batch.size 16 KiB -> 64 KiB`.
    pub(super) fn changed_from(&self, before: &Self) -> String {
        let other = Knob::ALL.into_iter().filter(|knob| self.of(*knob) != before.of(*knob));
        let said = other.map(|knob| {
            format!("{} {} -> {}", knob.name(), knob.shown(before.of(knob)), knob.shown(self.of(knob)))
        });
        said.collect::<Vec<_>>().join(", ")
    }

    /// Which are.
    pub(super) fn knobs_changed_from(&self, before: &Self) -> Vec<Knob> {
        Knob::ALL.into_iter().filter(|knob| self.of(*knob) != before.of(*knob)).collect()
    }

    /// As a run of an experiment, on devices like this one.
    pub(super) fn setup(&self, id: &str, name: &str, builds_on: Option<&str>, device: &Ground) -> Setup {
        let producer = [
            "acks=1".to_owned(),
            format!("batch.size={}", self.of(Knob::Batch)),
            format!("linger.ms={}", self.of(Knob::Linger)),
            format!("buffer.memory={}", self.of(Knob::Buffer)),
        ];
        let threads = [Knob::IoThreads, Knob::NetworkThreads];
        let partitions = self.of(Knob::Partitions);
        Setup {
            id: id.to_owned(),
            name: name.to_owned(),
            ground: Ground { volumes: self.of(Knob::Devices), ..device.clone() },
            properties: threads.map(|knob| (knob.name().to_owned(), self.of(knob).to_string())).to_vec(),
            topics: (1..=self.of(Knob::Topics))
                .map(|number| (format!("topic{number}"), partitions))
                .collect(),
            topic_configs: pairs(&[]),
            sysctls: pairs(&[]),
            network: Network::Link { mtu: self.of(Knob::Mtu) },
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
pub(super) fn device(pace: crate::device::Pace, dirty_bytes: u64) -> Ground {
    Ground {
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
        for knob in Knob::ALL {
            let (least, most) = knob.within();
            assert!(knob.searched().contains(&knob.default()), "{knob:?}");
            assert!(knob.searched().iter().all(|value| (least..=most).contains(value)), "{knob:?}");
        }
    }

    #[test]
    fn two_configurations_have_one_name_only_where_they_are_one() {
        let start = Tuned::out_of_the_box();
        let other = start.clone().with(Knob::Batch, 65_536).with(Knob::Devices, 2);
        assert_ne!(start.id(), other.id());
        assert_eq!(start.id(), other.clone().with(Knob::Batch, 16_384).with(Knob::Devices, 1).id());
        assert_eq!(start.described(), "out of the box");
        assert_eq!(other.described(), "log.dirs' devices 2, batch.size 64 KiB");
        assert_eq!(other.changed_from(&start), "log.dirs' devices 1 -> 2, batch.size 16 KiB -> 64 KiB");
        assert_eq!(other.knobs_changed_from(&start), [Knob::Devices, Knob::Batch]);
    }
}
