//! What was moved of one file or of several.

use model::{BlockIo, Direction, FileOp, FileOpKind, Nanos};

/// Operations and block requests added up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Reads: `read` and its like, and `sendfile`.
    pub reads: u64,
    /// Bytes that they read.
    pub read_bytes: u64,
    /// Reads that had the device bring something, also what was read ahead.
    pub disk_reads: u64,
    /// Bytes of reads that were in the page cache; none where no operation told.
    pub cached_bytes: Option<u64>,
    /// Bytes that `sendfile` sent to connections.
    pub sent_bytes: u64,
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
                self.read(op, bytes);
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

    fn read(&mut self, op: &FileOp, bytes: u64) {
        self.reads += 1;
        self.read_bytes = self.read_bytes.saturating_add(bytes);
        if op.op == FileOpKind::Sendfile {
            self.sent_bytes = self.sent_bytes.saturating_add(bytes);
        }
        let Some(disk_bytes) = op.disk_bytes else { return };
        self.disk_reads += u64::from(disk_bytes > 0 || op.readahead_bytes.is_some_and(|bytes| bytes > 0));
        let cached = self.cached_bytes.unwrap_or(0).saturating_add(bytes.saturating_sub(disk_bytes));
        self.cached_bytes = Some(cached);
    }

    /// What the device had to bring for it, what was read ahead included: as the operations tell, else by block requests.
    pub fn from_device(&self) -> u64 {
        self.disk_bytes.map_or(self.block_read_bytes, |bytes| bytes.saturating_add(self.readahead_bytes))
    }

    /// Requests to devices.
    pub fn block_requests(&self) -> u64 {
        self.block_reads + self.block_writes
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
    pub(super) fn add_blocks(&mut self, other: &Self) {
        self.block_reads += other.block_reads;
        self.block_read_bytes += other.block_read_bytes;
        self.block_writes += other.block_writes;
        self.block_written_bytes += other.block_written_bytes;
    }
}
