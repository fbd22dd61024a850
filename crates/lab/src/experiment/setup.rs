//! One configuration of an experiment as data: the broker's storage, settings and load. Runs are repetitions only if
//! all of this is equal. Sets nothing up itself.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::device::Pace;
use crate::kafka::DEFAULT_VERSION;
use crate::volume::FileSystem;

/// A configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Setup {
    /// Its directory's name: letters, digits, `-` and `_`.
    pub(crate) id: String,
    /// Its name for people.
    pub(crate) name: String,
    pub(crate) ground: Storage,
    /// Lines of server.properties.
    pub(crate) properties: Vec<(String, String)>,
    /// Names and numbers of partitions.
    pub(crate) topics: Vec<(String, u32)>,
    /// Settings of each topic.
    pub(crate) topic_configs: Vec<(String, String)>,
    /// Kernel settings while it runs.
    pub(crate) sysctls: Vec<(String, String)>,
    pub(crate) network: Network,
    pub(crate) load: Load,
    /// How long load runs before the recording, in seconds: the JVM's compiler settles, and so does write-back.
    pub(crate) warm_up_s: u64,
    /// The id of the configuration that it changes in one point. `None` if it is not one of several steps.
    pub(crate) builds_on: Option<String>,
}

/// Storage of the broker's partitions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Storage {
    pub(crate) file_system: FileSystem,
    pub(crate) mount_options: String,
    /// How many volumes, each a log directory on its own device.
    pub(crate) volumes: u32,
    pub(crate) size_bytes: u64,
    /// Write speed of each device.
    pub(crate) pace: Pace,
    /// How many bytes of each may wait in memory to be written; beyond that, writers are throttled. The kernel's share
    /// if `None`.
    pub(crate) dirty_bytes: Option<u64>,
}

/// Network between the clients and the broker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Network {
    /// The machine's loopback interface.
    Loopback,
    /// A pair of virtual interfaces without offloads: packets are no larger than this MTU, as on a wire.
    Link { mtu: u32 },
}

/// Load on the broker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Load {
    /// The lab's own producers, each at its pace: one record per request, `acks=1`.
    Paced { producers: u32, per_second: u32, record_bytes: u32, in_flight: u32 },
    /// Some processes of Kafka's `ProducerPerformance`, as fast as they can.
    Flat { producers: u32, record_bytes: u32, properties: Vec<String> },
}

impl Load {
    /// Describes the load.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Paced { producers, per_second, record_bytes, in_flight } => format!(
                "{producers} producers × {per_second} requests/s of one record of {record_bytes} B, acks=1, at most \
                 {in_flight} of a connection unanswered"
            ),
            Self::Flat { producers, record_bytes, properties } => format!(
                "{producers} × ProducerPerformance as fast as they can, records of {record_bytes} B, {}",
                properties.join(" ")
            ),
        }
    }
}

impl Storage {
    /// Describes the device, which is the same for everything on it.
    pub(crate) fn describe_device(&self) -> String {
        let Pace { write_us, bytes_per_second } = self.pace;
        let limit = self
            .dirty_bytes
            .map_or(String::new(), |bytes| format!("; at most {} MiB of it may wait in memory", bytes >> 20));
        format!(
            "a device of {} MiB that does one write after the other, {:.1} ms + {:.1} MB/s each{limit}; reads are quick",
            self.size_bytes >> 20,
            write_us as f64 / 1e3,
            bytes_per_second as f64 / 1e6
        )
    }
}

/// Owned pairs, from literals.
pub(crate) fn pairs(of: &[(&str, &str)]) -> Vec<(String, String)> {
    of.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// Arguments that all experiments have.
#[derive(Clone, Debug, clap::Args)]
pub struct ExperimentArguments {
    /// How often to run each configuration
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repetitions: u32,
    /// How long to measure each run (each experiment has its own default)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub seconds: Option<u64>,
    /// Latency above which a request counts as a miss, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 65, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    pub slo: u64,
    /// Run only these
    #[arg(long, value_name = "CONFIGURATION", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Print the configurations and exit
    #[arg(long)]
    pub list: bool,
    /// Keep recordings and results in DIR; runs that are there already are not repeated
    #[arg(long, value_name = "DIR")]
    pub keep: Option<PathBuf>,
    /// Drop what an earlier experiment left in DIR
    #[arg(long)]
    pub fresh: bool,
    /// Write an HTML page of the comparison to FILE
    #[arg(short = 'o', long, value_name = "FILE")]
    pub page: Option<PathBuf>,
    /// Seed of the load
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// Version of Kafka to run
    #[arg(long, value_name = "VERSION", default_value = DEFAULT_VERSION)]
    pub kafka: String,
}
