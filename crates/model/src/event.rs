//! Anything that was seen. Does not order events: sources deliver them roughly by [`Event::time`].

use crate::{BlockIo, DirtyThrottle, FileOp, JournalCommit, Loss, Nanos, OffCpu, Request};

/// One thing seen by one source.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A request on the wire.
    Request(Box<Request>),
    /// A file operation of the broker.
    FileOp(Box<FileOp>),
    /// A thread off the CPU.
    OffCpu(Box<OffCpu>),
    /// A journal's commit.
    JournalCommit(Box<JournalCommit>),
    /// A request to a block device.
    BlockIo(Box<BlockIo>),
    /// A writer paused for dirty pages.
    DirtyThrottle(DirtyThrottle),
    /// Something not seen.
    Loss(Loss),
}

impl Event {
    /// The moment at which the event was complete and could be delivered.
    pub fn time(&self) -> Nanos {
        match self {
            Self::Request(request) => request.last_seen(),
            Self::FileOp(op) => op.end,
            Self::OffCpu(interval) => interval.end,
            Self::JournalCommit(commit) => commit.end,
            Self::BlockIo(io) => io.end,
            // Known when it begins: the kernel says how long it will be.
            Self::DirtyThrottle(pause) => pause.start,
            Self::Loss(loss) => loss.end,
        }
    }
}
