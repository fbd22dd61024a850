//! One operation of the broker on a file. Does not say why it was slow; see [`crate::OffCpu`].

use std::fmt;
use std::sync::Arc;

use crate::row::NonEmpty;
use crate::{Nanos, Pid, Tid, TopicPartition};

row! {
    file_op_row =>
    /// A file operation, from entry into the kernel to return.
    #[derive(Clone, Debug, PartialEq)]
    pub struct FileOp {
        /// Entry of the system call.
        start: Nanos as "start_ns",
        /// Its return.
        end: Nanos as "end_ns" => latency: Nanos as "latency_ns" "From start to end.",
        /// The operation.
        op: FileOpKind,
        /// The process.
        pid: Pid,
        /// The thread.
        tid: Tid,
        /// The thread's name, as far as it is known (the kernel keeps 15 characters).
        thread: Arc<str>,
        /// Bytes transferred; none if the call failed, 0 for operations that transfer none.
        bytes: Option<u64>,
        /// The error (`errno`) of a call that failed.
        errno: Option<i32>,
        /// The part of a read's `bytes` that was not in the page cache and came from the device; none if that was not
        /// watched or nothing was read.
        disk_bytes: Option<u64>,
        /// Bytes beyond `bytes` that a read had the kernel read ahead.
        readahead_bytes: Option<u64>,
        /// Where the operation began in the file: the position at entry, or the offset in the call; the new length for
        /// a truncation.
        offset: u64,
        /// The file: relative to its log dir where that is known (`topicA-0/00000000000000000000.log`), else as much of
        /// the path as was seen.
        file: Arc<str>,
        /// The new name after a rename, in the form of `file`.
        renamed_to: Option<Arc<str>>,
        /// The partition the file belongs to.
        topic_partition: Option<TopicPartition>,
        /// The kind of file it is to the broker.
        kind: FileKind,
        /// The block device that holds the file system.
        device: Device,
        /// The file's inode number.
        inode: u64,
        /// The file system's type (`ext4`, `xfs`).
        fs: Arc<str>,
        /// The head of the record batch that was written, if the bytes were one.
        batch: Option<BatchHead>,
        /// The jbd2 transaction that the operation's last handle joined: a handle that had to wait waited for the
        /// transaction before it (`fs/jbd2/transaction.c`).
        journal_transaction: Option<u32>,
    }
}

named! {
    /// The operations brokerscope watches.
    pub enum FileOpKind {
        /// `write`, `pwrite64`, `writev`, `pwritev`, `pwritev2`.
        Write = "write",
        /// `read`, `pread64`, `readv`, `preadv`, `preadv2`.
        Read = "read",
        /// `sendfile` from a file to a socket.
        Sendfile = "sendfile",
        /// `splice` from or to a file.
        Splice = "splice",
        /// `copy_file_range`.
        Copy = "copy",
        /// `fsync`.
        Fsync = "fsync",
        /// `fdatasync`.
        Fdatasync = "fdatasync",
        /// `msync` of a mapped file.
        Msync = "msync",
        /// `ftruncate`, `truncate`.
        Truncate = "truncate",
        /// `fallocate`.
        Allocate = "allocate",
        /// `rename`, `renameat`, `renameat2`.
        Rename = "rename",
        /// `unlink`, `unlinkat` of a file.
        Unlink = "unlink",
        /// `open`, `openat`, `openat2`, `creat`.
        Open = "open",
        /// A fault on a page of a mapped file that had to be read from the device.
        MmapFault = "mmap-fault",
    }
}

named! {
    /// The kind of file to the broker, from its name.
    pub enum FileKind {
        /// A segment's records.
        Log = "log",
        /// A segment's offset index.
        Index = "index",
        /// A segment's time index.
        TimeIndex = "timeindex",
        /// A segment's aborted transactions.
        TxnIndex = "txnindex",
        /// A producer-state snapshot, or a KRaft one.
        Snapshot = "snapshot",
        /// A checkpoint of offsets.
        Checkpoint = "checkpoint",
        /// Tiered storage's state.
        TierState = "tierstate",
        /// `partition.metadata`, `meta.properties`, `quorum-state`, leader epochs.
        Metadata = "metadata",
        /// Anything else.
        Other = "other",
    }
}

row! {
    device_row =>
    /// A block device's number. Has the name too, where it was looked up.
    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    pub struct Device {
        /// The kernel's name (`loop0`, `dm-17`), or empty.
        name: Arc<str> as "device" in NonEmpty,
        /// Major number.
        major: u32 as "device_major",
        /// Minor number.
        minor: u32 as "device_minor",
    }
}

impl Device {
    /// Whether both are the same device, even if their names differ.
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

row! {
    batch_head_row =>
    /// The first fields of a record batch as they were handed to `write`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct BatchHead {
        /// The offset the broker assigned to the first record.
        base_offset: i64,
        /// Bytes of the batch, its 12 leading bytes included.
        bytes: u32 as "batch_bytes",
        /// Message format.
        magic: i8 as "batch_magic",
        /// The CRC: see [`crate::Batch::crc`].
        crc: u32 as "batch_crc",
        /// The idempotent producer's id, or -1.
        producer_id: i64,
        /// Its sequence number of the first record, or -1.
        base_sequence: i32,
        /// Records in the batch; 0 if its head does not say: for a compressed message of magic 0 or 1.
        records: u32,
    }
}

lengths! {
    /// How long it took.
    FileOp::latency;
}
