//! A request to a block device. Does not know who waits for it.

use std::sync::Arc;

use super::FilePath;

/// A request to a block device, by whichever process.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockIo {
    /// `block_bio_queue` of its first part, where that was seen.
    pub queued_ns: Option<u64>,
    /// `block_rq_issue`.
    pub start_ns: u64,
    /// `block_rq_complete` of its last part.
    pub end_ns: u64,
    /// The whole disk, not the partition.
    pub device: (u32, u32),
    /// First sector (512 bytes) on the disk; 0 for a flush without data.
    pub sector: u64,
    /// Bytes; 0 for a flush without data.
    pub bytes: u32,
    /// The kernel's flags: `W` write, `R` read, `D` discard, `F` flush or FUA, `S` sync, `M` metadata, …
    pub rwbs: Arc<str>,
    /// The thread that handed it to the driver.
    pub tid: u32,
    /// Its name.
    pub comm: Arc<str>,
    /// The regular file whose page its first part holds.
    pub file: Option<BlockFile>,
}

/// A file as a block request's page names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockFile {
    /// Its file system's device.
    pub device: (u32, u32),
    /// Its inode number.
    pub inode: u64,
    /// Where it was when last told, if an operation on it was seen.
    pub path: Option<FilePath>,
}
