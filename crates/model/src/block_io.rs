//! One request to a block device, from its queue to its completion. Does not know who waits for it.

use std::sync::Arc;

use crate::{Device, Nanos, Tid};

row! {
    block_io_row =>
    /// A block request.
    #[derive(Clone, Debug, PartialEq)]
    pub struct BlockIo {
        /// When its first part entered the device's queue (`block_bio_queue`), where that was seen: from there to
        /// `start` it waited for its thread's plug, the scheduler, a free tag or a limit that counts requests. What
        /// blk-throttle (`io.max`) holds back has not entered yet.
        queued: Option<Nanos> as "queued_ns",
        /// When it was handed to the driver (`block_rq_issue`).
        start: Nanos as "start_ns",
        /// When it was done (`block_rq_complete`).
        end: Nanos as "end_ns" => latency: Nanos as "latency_ns" "From start to end.",
        /// The device.
        device: Device,
        /// Read or write.
        direction: Direction,
        /// First sector (512 bytes).
        sector: u64,
        /// Bytes; none for a flush without data.
        bytes: u32,
        /// The thread that issued it: often a kernel worker.
        tid: Tid,
        /// Its name.
        thread: Arc<str>,
        /// The kernel's flags (`rwbs`): `W` write, `R` read, `F` flush or FUA, `S` sync, `M` metadata, …
        flags: Arc<str>,
        /// The inode whose page its first part holds; none for metadata, journals and what does not come from the
        /// page cache.
        inode: Option<u64>,
        /// That inode's file as file operations named it, where they did.
        file: Option<Arc<str>>,
    }
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

named! {
    /// Which way the data went.
    pub enum Direction {
        /// From the device.
        Read = "read",
        /// To the device.
        Write = "write",
        /// Neither: a flush or a discard.
        Other = "other",
    }
}
