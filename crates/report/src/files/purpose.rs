//! The purposes that counts of files depend on, and which of them were watched. A count that was not watched is unknown,
//! never 0.

use model::named;

named! {
    /// A purpose that must be watched for a count, by its name in a plan.
    pub enum FilePurpose {
        /// `write` and similar calls.
        Writes = "file-writes",
        /// `read` and similar calls.
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
        /// How many of the bytes read come from the device.
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
    /// The purposes whose names `is_watched` accepts.
    pub fn by(mut is_watched: impl FnMut(&str) -> bool) -> Self {
        let watched = FilePurpose::ALL.into_iter().filter(|purpose| is_watched(purpose.as_str()));
        Self(watched.fold(0, |bits, purpose| bits | bit(purpose)))
    }

    /// Whether any of these was watched.
    pub(super) fn has_any(self, purposes: &[FilePurpose]) -> bool {
        purposes.iter().any(|purpose| self.0 & bit(*purpose) != 0)
    }
}

fn bit(purpose: FilePurpose) -> u16 {
    1 << purpose as u16
}
