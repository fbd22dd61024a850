//! What was watched of what files are counted by. What was not is not known: it is never 0.

use model::named;

named! {
    /// What has to be watched for a count, by the name that a plan has for it.
    pub enum FilePurpose {
        /// `write` and its like.
        Writes = "file-writes",
        /// `read` and its like.
        Reads = "file-reads",
        /// `sendfile`, `splice`, `copy_file_range`.
        Transfers = "file-transfers",
        /// `fsync`, `fdatasync`.
        Syncs = "file-syncs",
        /// Truncation and allocation.
        Sizes = "file-sizes",
        /// Renames and removals.
        Names = "file-names",
        /// Opens.
        Opens = "file-opens",
        /// How much of what is read comes from the device.
        DiskReads = "disk-reads",
        /// Faults on mapped files.
        Faults = "mmap-faults",
        /// Requests to block devices.
        BlockIo = "block-io",
    }
}

/// Which purposes were watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchedPurposes(u16);

impl Default for WatchedPurposes {
    /// All of them.
    fn default() -> Self {
        Self::by(|_| true)
    }
}

impl WatchedPurposes {
    /// Those whose names this accepts.
    pub fn by(mut is_watched: impl FnMut(&str) -> bool) -> Self {
        let watched = FilePurpose::ALL.into_iter().filter(|purpose| is_watched(purpose.as_str()));
        Self(watched.fold(0, |bits, purpose| bits | bit(purpose)))
    }

    /// Whether one of these was watched.
    pub(super) fn has_any(self, purposes: &[FilePurpose]) -> bool {
        purposes.iter().any(|purpose| self.0 & bit(*purpose) != 0)
    }
}

fn bit(purpose: FilePurpose) -> u16 {
    1 << purpose as u16
}
