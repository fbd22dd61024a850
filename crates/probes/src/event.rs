//! What the probes report. Operations on files and block requests name files by numbers and by paths as far as the kernel's
//! side knows them; everything else is complete but for the full names of threads and the names of devices. Devices are
//! (major, minor), ids those that this process's `/proc` shows. Nothing is interpreted: no topics, no causes.

use std::sync::Arc;

use model::FileOpKind;

/// One thing seen by a probe.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// An operation on a file ended.
    FileOp(FileOp),
    /// A block request was completed.
    BlockIo(BlockIo),
    /// Anything else. Threads have the kernel's names, devices none.
    Row(model::Event),
}

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

/// Bytes of a written buffer that are kept: the fixed head of a magic-2 record batch.
pub const HEAD_BYTES: usize = 61;

/// An operation of the target on a file, from the entry of the system call to its return.
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
    /// The file descriptor; that of the starting directory for operations on names.
    pub fd: i32,
    /// As the call returned it: bytes, a descriptor or 0; or a negative errno.
    pub result: i64,
    /// The file position at entry, the call's own offset, or the file's size with `O_APPEND`; the new length
    /// for a truncation.
    pub offset: u64,
    /// The file system's device, as the kernel numbers it; (0, 0) where only a name is known.
    pub device: (u32, u32),
    /// The file's inode number; 0 where only a name is known.
    pub inode: u64,
    /// Its generation: tells apart files that had the same inode number one after the other.
    pub generation: u32,
    /// The file system's type (`ext4`); empty where the path is unknown.
    pub fs: Arc<str>,
    /// Where the file is in its file system; none where that was lost or only a name is known.
    pub path: Option<FilePath>,
    /// What operations on names were given: renames, removals, truncations by path, opens that failed.
    pub given: Option<Box<PathArguments>>,
    /// Bytes of the range asked for that this call added to the page cache; none where not watched.
    pub disk_bytes: Option<u64>,
    /// Bytes outside that range that it added.
    pub readahead_bytes: Option<u64>,
    /// The first bytes of the buffer (of the first one, for a vectored write); the first
    /// [`FileOp::head_len`] are valid.
    pub head: [u8; HEAD_BYTES],
    /// Valid bytes of `head`: 0 for all but writes, after a failed one, or where it could not be read.
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

/// Where a file or directory is in its file system, as it was at most about a second before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePath {
    /// Components from the file system's root on, joined by `/`, without a leading one; empty for the root.
    /// Mount points are not crossed.
    pub path: Arc<str>,
    /// Whether the path starts at the root; deeper ones lack their outer components.
    pub whole: bool,
}

/// The paths that a system call was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathArguments {
    /// The path, or a rename's first one.
    pub from: PathArgument,
    /// A rename's second path.
    pub to: Option<PathArgument>,
    /// A rename by which both change places (`RENAME_EXCHANGE`).
    pub exchange: bool,
}

/// A path as a program wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathArgument {
    /// The text; none where it could not be read or is too long.
    pub text: Option<Arc<str>>,
    /// Where a relative one starts; none for one that starts at the process's root.
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
