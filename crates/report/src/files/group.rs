//! What was moved of one file or of several.

use model::{BlockIo, Direction, FileOp, FileOpKind, Nanos};

/// Operations and block requests added up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Reads: `read` and its like, and `sendfile`.
    pub reads: u64,
    /// Bytes that they read.
    pub read_bytes: u64,
    /// Bytes of reads, and of faults on mapped pages, that came from the device; none where no operation told.
    pub disk_bytes: Option<u64>,
    /// Bytes read ahead beyond what was asked for.
    pub readahead_bytes: u64,
    /// Faults on mapped pages that had to be read.
    pub faults: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes that they wrote.
    pub written_bytes: u64,
    /// `fsync`, `fdatasync` and `msync`.
    pub fsyncs: u64,
    /// Operations of any other kind.
    pub others: u64,
    /// Operations that failed, of whatever kind.
    pub errors: u64,
    /// Block requests that read.
    pub block_reads: u64,
    /// Bytes that they read.
    pub block_read_bytes: u64,
    /// Block requests that wrote.
    pub block_writes: u64,
    /// Bytes that they wrote.
    pub block_written_bytes: u64,
    /// How long the operations took together.
    pub time: Nanos,
}

impl Traffic {
    pub(super) fn op(&mut self, op: &FileOp) {
        let bytes = op.bytes.unwrap_or(0);
        match op.op {
            FileOpKind::Read | FileOpKind::Sendfile => {
                self.reads += 1;
                self.read_bytes = self.read_bytes.saturating_add(bytes);
            }
            FileOpKind::Write => {
                self.writes += 1;
                self.written_bytes = self.written_bytes.saturating_add(bytes);
            }
            FileOpKind::Fsync | FileOpKind::Fdatasync | FileOpKind::Msync => self.fsyncs += 1,
            FileOpKind::MmapFault => self.faults += 1,
            FileOpKind::Splice
            | FileOpKind::Copy
            | FileOpKind::Truncate
            | FileOpKind::Allocate
            | FileOpKind::Rename
            | FileOpKind::Unlink
            | FileOpKind::Open => self.others += 1,
        }
        if let Some(bytes) = op.disk_bytes {
            self.disk_bytes = Some(self.disk_bytes.unwrap_or(0).saturating_add(bytes));
        }
        self.readahead_bytes = self.readahead_bytes.saturating_add(op.readahead_bytes.unwrap_or(0));
        self.errors += u64::from(op.errno.is_some());
        self.time += op.latency().at_least_zero();
    }

    pub(super) fn block_io(&mut self, io: &BlockIo) {
        match io.direction {
            Direction::Read => {
                self.block_reads += 1;
                self.block_read_bytes += u64::from(io.bytes);
            }
            Direction::Write => {
                self.block_writes += 1;
                self.block_written_bytes += u64::from(io.bytes);
            }
            Direction::Other => {}
        }
    }

    /// Adds the block requests of another.
    pub(super) fn add(&mut self, other: &Self) {
        self.block_reads += other.block_reads;
        self.block_read_bytes += other.block_read_bytes;
        self.block_writes += other.block_writes;
        self.block_written_bytes += other.block_written_bytes;
    }
}
