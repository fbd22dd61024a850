//! One request to a block device, from its queue to its completion. Does not know who waits for it.

use std::sync::Arc;

use crate::{Device, Nanos, Tid};

/// A block request.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockIo {
    /// When its first part entered the device's queue (`block_bio_queue`), where that was seen: from there to
    /// `start` it waited for its thread's plug, the scheduler, a free tag or a limit that counts requests. What
    /// blk-throttle (`io.max`) holds back has not entered yet.
    pub queued: Option<Nanos>,
    /// When it was handed to the driver (`block_rq_issue`).
    pub start: Nanos,
    /// When it was done (`block_rq_complete`).
    pub end: Nanos,
    /// The device.
    pub device: Device,
    /// Read or write.
    pub direction: Direction,
    /// First sector (512 bytes).
    pub sector: u64,
    /// Bytes; none for a flush without data.
    pub bytes: u32,
    /// The thread that issued it: often a kernel worker.
    pub tid: Tid,
    /// Its name.
    pub thread: Arc<str>,
    /// The kernel's flags (`rwbs`): `W` write, `R` read, `F` flush or FUA, `S` sync, `M` metadata, …
    pub flags: Arc<str>,
    /// The inode whose page its first part holds; none for metadata, journals and what does not come from the
    /// page cache.
    pub inode: Option<u64>,
    /// That inode's file as file operations named it, where they did.
    pub file: Option<Arc<str>>,
}

impl BlockIo {
    /// How long it waited before the driver had it.
    pub fn queue_time(&self) -> Option<Nanos> {
        self.queued.map(|queued| self.start - queued)
    }

    /// How long the device took: its service time.
    pub fn latency(&self) -> Nanos {
        self.end - self.start
    }
}

/// Which way the data went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the device.
    Read,
    /// To the device.
    Write,
    /// Neither: a flush or a discard.
    Other,
}

impl Direction {
    /// The name in tables and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Other => "other",
        }
    }

    /// The direction of that name.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Read, Self::Write, Self::Other].into_iter().find(|direction| direction.as_str() == name)
    }
}
