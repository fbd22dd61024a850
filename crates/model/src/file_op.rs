//! One operation of the broker on a file. Does not say why it took long; see [`crate::OffCpu`].

use std::fmt;
use std::sync::Arc;

use crate::{Nanos, Pid, Tid, TopicPartition};

/// A file operation, from entering the kernel to leaving it.
#[derive(Clone, Debug, PartialEq)]
pub struct FileOp {
    /// Entry of the system call.
    pub start: Nanos,
    /// Its return.
    pub end: Nanos,
    /// What was done.
    pub op: FileOpKind,
    /// The process.
    pub pid: Pid,
    /// The thread.
    pub tid: Tid,
    /// The thread's name, as far as it is known (the kernel keeps 15 characters).
    pub thread: Arc<str>,
    /// Bytes done; none where the call failed, 0 for operations that move no bytes.
    pub bytes: Option<u64>,
    /// The error (`errno`) of a call that failed.
    pub errno: Option<i32>,
    /// Of a read's `bytes`, those that were not in the page cache and came from the device; none where that
    /// was not watched or nothing was read.
    pub disk_bytes: Option<u64>,
    /// Bytes beyond `bytes` that a read had the kernel read ahead.
    pub readahead_bytes: Option<u64>,
    /// Where the operation began in the file: the position at entry, or the call's own offset; the new length
    /// for a truncation.
    pub offset: u64,
    /// The file: below its log dir where one is known (`topicA-0/00000000000000000000.log`), else as far
    /// as the path was seen.
    pub file: Arc<str>,
    /// What a rename made of it, named as `file` is.
    pub renamed_to: Option<Arc<str>>,
    /// The partition the file belongs to.
    pub topic_partition: Option<TopicPartition>,
    /// What kind of file it is to the broker.
    pub kind: FileKind,
    /// The block device that holds the file system.
    pub device: Device,
    /// The file's inode number.
    pub inode: u64,
    /// The file system's type (`ext4`, `xfs`).
    pub fs: Arc<str>,
    /// The head of the record batch that was written, where the bytes were one.
    pub batch: Option<BatchHead>,
    /// The jbd2 transaction that the operation's last handle joined: a handle that had to wait, waited
    /// for the one before it (`fs/jbd2/transaction.c`).
    pub journal_transaction: Option<u32>,
}

impl FileOp {
    /// How long it took.
    pub fn latency(&self) -> Nanos {
        self.end - self.start
    }
}

/// The operations brokerscope watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FileOpKind {
    /// `write`, `pwrite64`, `writev`, `pwritev`, `pwritev2`.
    Write,
    /// `read`, `pread64`, `readv`, `preadv`, `preadv2`.
    Read,
    /// `sendfile` from a file to a socket.
    Sendfile,
    /// `splice` from or to a file.
    Splice,
    /// `copy_file_range`.
    Copy,
    /// `fsync`.
    Fsync,
    /// `fdatasync`.
    Fdatasync,
    /// `msync` of a mapped file.
    Msync,
    /// `ftruncate`, `truncate`.
    Truncate,
    /// `fallocate`.
    Allocate,
    /// `rename`, `renameat`, `renameat2`.
    Rename,
    /// `unlink`, `unlinkat` of a file.
    Unlink,
    /// `open`, `openat`, `openat2`, `creat`.
    Open,
    /// A fault on a page of a mapped file that had to be read from the device.
    MmapFault,
}

impl FileOpKind {
    /// Every kind.
    pub const ALL: [Self; 14] = [
        Self::Write,
        Self::Read,
        Self::Sendfile,
        Self::Splice,
        Self::Copy,
        Self::Fsync,
        Self::Fdatasync,
        Self::Msync,
        Self::Truncate,
        Self::Allocate,
        Self::Rename,
        Self::Unlink,
        Self::Open,
        Self::MmapFault,
    ];

    /// The name in tables and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Read => "read",
            Self::Sendfile => "sendfile",
            Self::Splice => "splice",
            Self::Copy => "copy",
            Self::Fsync => "fsync",
            Self::Fdatasync => "fdatasync",
            Self::Msync => "msync",
            Self::Truncate => "truncate",
            Self::Allocate => "allocate",
            Self::Rename => "rename",
            Self::Unlink => "unlink",
            Self::Open => "open",
            Self::MmapFault => "mmap-fault",
        }
    }

    /// The kind of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

/// What a file is to the broker, from its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileKind {
    /// A segment's records.
    Log,
    /// A segment's offset index.
    Index,
    /// A segment's time index.
    TimeIndex,
    /// A segment's aborted transactions.
    TxnIndex,
    /// A producer-state snapshot, or a KRaft one.
    Snapshot,
    /// A checkpoint of offsets.
    Checkpoint,
    /// Tiered storage's state.
    TierState,
    /// `partition.metadata`, `meta.properties`, `quorum-state`, leader epochs.
    Metadata,
    /// Anything else.
    Other,
}

impl FileKind {
    /// Every kind.
    pub const ALL: [Self; 9] = [
        Self::Log,
        Self::Index,
        Self::TimeIndex,
        Self::TxnIndex,
        Self::Snapshot,
        Self::Checkpoint,
        Self::TierState,
        Self::Metadata,
        Self::Other,
    ];

    /// The name in tables and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::Index => "index",
            Self::TimeIndex => "timeindex",
            Self::TxnIndex => "txnindex",
            Self::Snapshot => "snapshot",
            Self::Checkpoint => "checkpoint",
            Self::TierState => "tierstate",
            Self::Metadata => "metadata",
            Self::Other => "other",
        }
    }

    /// The kind of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

/// A block device's number. The name lives beside it where somebody looked it up.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Device {
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
    /// The kernel's name (`loop0`, `dm-17`), or empty.
    pub name: Arc<str>,
}

impl Device {
    /// Whether both are the same device, whatever they are called.
    pub fn is(&self, other: &Self) -> bool {
        self.number() == other.number()
    }

    /// Major and minor number.
    pub fn number(&self) -> (u32, u32) {
        (self.major, self.minor)
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.name.is_empty() {
            write!(f, "{}:{}", self.major, self.minor)
        } else {
            f.write_str(&self.name)
        }
    }
}

/// The first fields of a record batch as they were handed to `write`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BatchHead {
    /// The offset the broker assigned to the first record.
    pub base_offset: i64,
    /// Bytes of the batch, its 12 leading bytes included.
    pub bytes: u32,
    /// Message format.
    pub magic: i8,
    /// The CRC: see [`crate::Batch::crc`].
    pub crc: u32,
    /// The idempotent producer's id, or -1.
    pub producer_id: i64,
    /// Its sequence number of the first record, or -1.
    pub base_sequence: i32,
    /// Records in the batch.
    pub records: u32,
}
