//! `fs`: the same broker under the same load on the same slow device, on one file system after the other.
//!
//! Only the device is injected, the same for all: it does one write after the other. What a file system makes its
//! callers wait for is its own affair, and is measured.

use std::path::Path;

use crate::device::Pace;
use crate::error::Result;
use crate::experiment::setup::{Load, Network, Setup, Storage, pairs};
use crate::experiment::{ExperimentArguments, Subject, run as run_experiment};
use crate::volume::FileSystem;

/// The device: a disk that seeks, so that commits are noticeable; reads come from the page cache anyway.
const PACE: Pace = Pace { write_us: 16_000, bytes_per_second: 25_000_000 };
const SIZE_BYTES: u64 = 2 << 30;
/// Measured time of each run: with the rest, 21 runs fit into a quarter of an hour.
const SECONDS: u64 = 22;
/// Few partitions, so that producers meet at their locks.
const TOPIC: (&str, u32) = ("orders", 4);
/// Segments roll every few seconds, as on a broker with many partitions: rolls create files and sync them.
const TOPIC_CONFIGS: &[(&str, &str)] = &[("segment.bytes", "4194304")];
/// Settings that write pages back after two seconds instead of thirty. A run of seconds then has as many rounds of
/// write-back as minutes of a broker (Documentation/admin-guide/sysctl/vm.rst).
const SYSCTLS: &[(&str, &str)] =
    &[("vm.dirty_writeback_centisecs", "100"), ("vm.dirty_expire_centisecs", "200")];

/// Id, name, file system, mount options.
const CONFIGURATIONS: &[(&str, &str, FileSystem, &str)] = &[
    ("ext4", "ext4 data=ordered", FileSystem::Ext4, "data=ordered"),
    ("ext4-commit-1", "ext4 commit=1", FileSystem::Ext4, "data=ordered,commit=1"),
    ("ext4-commit-3", "ext4 commit=3", FileSystem::Ext4, "data=ordered,commit=3"),
    ("ext4-writeback", "ext4 data=writeback", FileSystem::Ext4, "data=writeback"),
    ("ext4-fast-commit", "ext4 fast_commit", FileSystem::Ext4FastCommit, "data=ordered"),
    ("ext4-no-journal", "ext4 without journal", FileSystem::Ext4WithoutJournal, ""),
    ("xfs", "XFS", FileSystem::Xfs, ""),
];
const BTRFS: (&str, &str, FileSystem, &str) = ("btrfs", "btrfs", FileSystem::Btrfs, "");

/// Arguments of `fs`.
#[derive(Clone, Debug, clap::Args)]
pub struct FsArguments {
    /// Try btrfs too
    #[arg(long)]
    pub btrfs: bool,
    #[command(flatten)]
    pub experiment: ExperimentArguments,
}

/// Runs the experiment.
///
/// # Errors
/// Runs failed or were interrupted; finished ones are kept.
pub(crate) fn run(arguments: &FsArguments, brokerscope: Option<&Path>) -> Result<()> {
    let subject = Subject { name: "fs", directory: "lab-fs", seconds: SECONDS, explained_ms: None };
    let configurations = CONFIGURATIONS.iter().chain(arguments.btrfs.then_some(&BTRFS));
    let setups = configurations.map(|&(id, name, kind, options)| setup(id, name, kind, options)).collect();
    run_experiment(&subject, setups, &arguments.experiment, brokerscope)
}

fn setup(id: &str, name: &str, file_system: FileSystem, mount_options: &str) -> Setup {
    Setup {
        id: id.to_owned(),
        name: name.to_owned(),
        ground: Storage {
            file_system,
            mount_options: mount_options.to_owned(),
            volumes: 1,
            size_bytes: SIZE_BYTES,
            pace: PACE,
            dirty_bytes: None,
        },
        properties: Vec::new(),
        topics: vec![(TOPIC.0.to_owned(), TOPIC.1)],
        topic_configs: pairs(TOPIC_CONFIGS),
        sysctls: pairs(SYSCTLS),
        network: Network::Loopback,
        load: Load::Paced { producers: 8, per_second: 120, record_bytes: 2048, in_flight: 5 },
        warm_up_s: 4,
        builds_on: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configurations_differ_only_in_their_file_system() {
        let all: Vec<Setup> =
            CONFIGURATIONS.iter().map(|&(id, name, kind, options)| setup(id, name, kind, options)).collect();
        let base = &all[0];
        for other in &all[1..] {
            assert_ne!(other.ground, base.ground, "{}", other.name);
            let Setup { id, name, ground, .. } = base.clone();
            let ground = Storage {
                file_system: ground.file_system,
                mount_options: ground.mount_options,
                ..other.ground.clone()
            };
            assert_eq!(Setup { id, name, ground, ..other.clone() }, *base, "{}", other.name);
        }
    }

    #[test]
    fn ids_are_unique_directory_names() {
        let plain = |character: char| character.is_ascii_alphanumeric() || matches!(character, '-' | '_');
        let mut ids: Vec<&str> = CONFIGURATIONS.iter().map(|&(id, ..)| id).chain([BTRFS.0]).collect();
        assert!(ids.iter().all(|id| !id.is_empty() && id.chars().all(plain)));
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), CONFIGURATIONS.len() + 1);
    }
}
