//! The file systems that a volume can hold, made so that nothing but the experiment writes to them.

use std::path::Path;
use std::process::Command;

use super::journal::{Extent, journal_extents};
use super::xfs_log;
use crate::error::Error;
use crate::tool;

/// What a volume holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSystem {
    /// ext4 with a journal of 64 MiB.
    Ext4,
    /// ext4 without a journal.
    Ext4WithoutJournal,
    /// XFS with a log as small as mkfs.xfs makes it: it fills soonest.
    Xfs,
}

impl FileSystem {
    /// As mount(2) calls it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ext4 | Self::Ext4WithoutJournal => "ext4",
            Self::Xfs => "xfs",
        }
    }

    pub(super) fn make(self, device: &Path) -> Result<(), Error> {
        let mut command = Command::new(match self {
            Self::Ext4 | Self::Ext4WithoutJournal => "mkfs.ext4",
            Self::Xfs => "mkfs.xfs",
        });
        // Initialised now rather than by a kernel thread later, whose writes would be in the measurements.
        let initialised = "nodiscard,lazy_itable_init=0,lazy_journal_init=0";
        match self {
            Self::Ext4 => {
                command.args(["-q", "-F", "-b", "4096", "-N", "16384", "-J", "size=64", "-E", initialised])
            }
            Self::Ext4WithoutJournal => {
                command.args(["-q", "-F", "-b", "4096", "-N", "16384", "-O", "^has_journal"]);
                command.args(["-E", "nodiscard,lazy_itable_init=0"])
            }
            Self::Xfs => command.args(["-q", "-f", "-K", "-l", xfs_log::SIZE]),
        };
        tool::output(command.arg(device)).map(drop)
    }

    pub(super) fn journal_extents(self, device: &Path) -> Result<Vec<Extent>, Error> {
        match self {
            Self::Ext4 => journal_extents(device),
            Self::Ext4WithoutJournal => Ok(Vec::new()),
            Self::Xfs => xfs_log::extent(device).map(|extent| vec![extent]),
        }
    }
}
