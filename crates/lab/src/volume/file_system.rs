//! The file systems that a volume can hold, made so that nothing but the experiment writes to them.

use std::path::Path;
use std::process::Command;

use super::journal;
use super::journal::{Extent, journal_extents};
use crate::error::Error;
use crate::process;

/// Few inodes: making them takes as long as writing them does.
const EXT4: &[&str] = &["-q", "-F", "-b", "4096", "-N", "16384"];

/// What a volume holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum FileSystem {
    /// ext4 with a journal of 64 MiB.
    Ext4,
    /// ext4 with a journal of 64 MiB and room for fast commits beside it (Linux 5.10).
    Ext4FastCommit,
    /// ext4 without a journal.
    Ext4WithoutJournal,
    /// XFS with a log as small as mkfs.xfs makes it: it fills soonest.
    Xfs,
    /// btrfs.
    Btrfs,
}

impl FileSystem {
    /// As mount(2) calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ext4 | Self::Ext4FastCommit | Self::Ext4WithoutJournal => "ext4",
            Self::Xfs => "xfs",
            Self::Btrfs => "btrfs",
        }
    }

    pub(super) fn make(self, device: &Path) -> Result<(), Error> {
        // Initialised now rather than by a kernel thread later, whose writes would be in the measurements.
        let initialised = "nodiscard,lazy_itable_init=0,lazy_journal_init=0";
        let (all, own): (&[&str], &[&str]) = match self {
            Self::Ext4 => (EXT4, &["-J", "size=64", "-E", initialised]),
            Self::Ext4FastCommit => (EXT4, &["-O", "fast_commit", "-J", "size=64", "-E", initialised]),
            Self::Ext4WithoutJournal => (EXT4, &["-O", "^has_journal", "-E", "nodiscard,lazy_itable_init=0"]),
            Self::Xfs => (&["-q", "-f", "-K"], &["-l", journal::XFS_LOG]),
            Self::Btrfs => (&["-q", "-f", "-K"], &[]),
        };
        let mut command = Command::new(format!("mkfs.{}", self.name()));
        process::output(command.args(all).args(own).arg(device)).map(drop)
    }

    pub(super) fn journal_extents(self, device: &Path) -> Result<Vec<Extent>, Error> {
        match self {
            Self::Ext4 | Self::Ext4FastCommit => journal_extents(device),
            Self::Ext4WithoutJournal | Self::Btrfs => Ok(Vec::new()),
            Self::Xfs => Ok(vec![journal::xfs_log(device)?]),
        }
    }
}
