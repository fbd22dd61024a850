//! What totals are told apart by, and what comes first. Adds nothing up.

use super::Traffic;

/// What to tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupBy {
    /// Files, on each device.
    File,
    /// Kinds of files.
    Kind,
    /// Topics.
    Topic,
    /// Partitions.
    Partition,
}

impl GroupBy {
    /// Every way.
    pub const ALL: [Self; 4] = [Self::File, Self::Kind, Self::Topic, Self::Partition];

    /// The name on the command line and in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Kind => "kind",
            Self::Topic => "topic",
            Self::Partition => "partition",
        }
    }

    /// The way of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|by| by.as_str() == name)
    }
}

/// What to put first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// What moved the most bytes to and from devices: read from disk and written.
    Bytes,
    /// The most read operations.
    Reads,
    /// The most bytes read.
    Read,
    /// The most bytes read from disk.
    Disk,
    /// The most reads that had to wait for the disk.
    DiskReads,
    /// The most write operations.
    Writes,
    /// The most bytes written.
    Written,
    /// The most fsyncs.
    Fsyncs,
    /// The most block requests.
    Block,
    /// The longest time.
    Time,
}

impl Sort {
    /// Every order.
    pub const ALL: [Self; 10] = [
        Self::Bytes,
        Self::Reads,
        Self::Read,
        Self::Disk,
        Self::DiskReads,
        Self::Writes,
        Self::Written,
        Self::Fsyncs,
        Self::Block,
        Self::Time,
    ];

    /// The name on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Bytes => "bytes",
            Self::Reads => "reads",
            Self::Read => "read",
            Self::Disk => "disk",
            Self::DiskReads => "disk-reads",
            Self::Writes => "writes",
            Self::Written => "written",
            Self::Fsyncs => "fsyncs",
            Self::Block => "block",
            Self::Time => "time",
        }
    }

    /// The order of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|sort| sort.as_str() == name)
    }

    pub(super) fn key(self, traffic: &Traffic) -> u64 {
        match self {
            Self::Bytes => traffic.disk_bytes.unwrap_or(0).saturating_add(traffic.written_bytes),
            Self::Reads => traffic.reads,
            Self::Read => traffic.read_bytes,
            Self::Disk => traffic.disk_bytes.unwrap_or(0),
            Self::DiskReads => traffic.disk_reads,
            Self::Writes => traffic.writes,
            Self::Written => traffic.written_bytes,
            Self::Fsyncs => traffic.fsyncs,
            Self::Block => traffic.block_reads + traffic.block_writes,
            Self::Time => u64::try_from(traffic.time.0).unwrap_or(0),
        }
    }
}
