//! What the probes report.
//!
//! File operations and block requests name files by numbers, and by paths as far as the BPF programs know them.
//! Everything else is complete except for full thread names and device names. Devices are (major, minor); ids are those
//! in this process's `/proc`. Nothing is interpreted: no topics, no causes.

use std::sync::Arc;

use model::FileOpKind;

/// One event from a probe.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// An operation on a file ended.
    FileOp(FileOp),
    /// A block request was completed.
    BlockIo(BlockIo),
    /// Any other event. Thread names are the kernel's; devices have no names.
    Row(model::Event),
}

/// A request to a block device, by any process.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockIo {
    /// `block_bio_queue` of its first part, if that was seen.
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
    /// The thread that handed the request to the driver.
    pub tid: u32,
    /// The thread's name.
    pub comm: Arc<str>,
    /// The regular file whose page its first part holds.
    pub file: Option<BlockFile>,
}

/// The file whose page a block request holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockFile {
    /// The file system's device.
    pub device: (u32, u32),
    /// The inode number.
    pub inode: u64,
    /// Its last reported path, if an operation on it was seen.
    pub path: Option<FilePath>,
}

/// Bytes kept of a written buffer: the fixed head of a magic-2 record batch.
pub const HEAD_BYTES: usize = 61;

/// A file operation of the target, from the entry of the system call to its return.
#[derive(Clone, Debug, PartialEq)]
pub struct FileOp {
    /// Entry of the system call.
    pub start_ns: u64,
    /// Its return.
    pub end_ns: u64,
    /// What was done.
    pub op: FileOpKind,
    /// The process: the target or a child of it.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// The thread's name; the kernel keeps 15 bytes.
    pub comm: Arc<str>,
    /// The file descriptor; for operations on names, that of the starting directory.
    pub fd: i32,
    /// The call's result: bytes, a descriptor or 0; or a negative errno.
    pub result: i64,
    /// The position at entry, the call's offset, or with `O_APPEND` the file's size. For a truncation, the new length.
    pub offset: u64,
    /// The file system's device, as the kernel numbers it; (0, 0) if only a name is known.
    pub device: (u32, u32),
    /// The file's inode number; 0 if only a name is known.
    pub inode: u64,
    /// The inode's generation, which tells apart files that used the same inode number.
    pub generation: u32,
    /// The file system's type (`ext4`); empty if the path is unknown.
    pub fs: Arc<str>,
    /// Where the file is in its file system; `None` if that was lost or only a name is known.
    pub path: Option<FilePath>,
    /// Path arguments of operations on names: renames, removals, truncations by path, failed opens.
    pub path_arguments: Option<Box<PathArguments>>,
    /// Bytes of the requested range that this call added to the page cache; `None` if not watched.
    pub disk_bytes: Option<u64>,
    /// Bytes outside that range that the call added.
    pub readahead_bytes: Option<u64>,
    /// First bytes of the buffer (for a vectored write, of the first one); the first [`FileOp::head_len`] are valid.
    pub head: [u8; HEAD_BYTES],
    /// Valid bytes of `head`: 0 for all operations but writes, after a failed write, or if it could not be read.
    pub head_len: u8,
    /// The jbd2 transaction of the last handle that the thread started within the call.
    pub journal_transaction: Option<u32>,
}

impl FileOp {
    /// The valid bytes of the head.
    pub fn head(&self) -> &[u8] {
        self.head.get(..usize::from(self.head_len)).unwrap_or_default()
    }
}

/// Where a file or directory is in its file system, at most about a second old.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePath {
    /// Components from the file system's root on, joined by `/`, without a leading one; empty for the root.
    /// Mount points are not crossed.
    pub path: Arc<str>,
    /// Whether the path starts at the root; deeper paths lack their outer components.
    pub whole: bool,
}

/// The path arguments of a system call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathArguments {
    /// The path, or a rename's first one.
    pub from: PathArgument,
    /// A rename's second path.
    pub to: Option<PathArgument>,
    /// Whether both paths are exchanged (`RENAME_EXCHANGE`).
    pub exchange: bool,
}

/// A path as a program wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathArgument {
    /// The path; `None` if it could not be read or is too long.
    pub text: Option<Arc<str>>,
    /// Where a relative path starts; `None` if it starts at the process's root.
    pub start: Option<StartDir>,
}

/// A directory that a relative path starts from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartDir {
    /// The file system's device.
    pub device: (u32, u32),
    /// Where it is in the file system, if known.
    pub path: Option<FilePath>,
}
