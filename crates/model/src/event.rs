//! Anything that was seen. Does not order events: sources deliver them roughly by [`Event::time`].

use crate::{
    BlockIo, BrokerChange, CpuSample, DirtyThrottle, FileOp, HostSample, JournalCommit, JvmPause, KernelSpan,
    LockWait, Loss, Nanos, OffCpu, Reclaim, Request, SocketOp, TcpEvent,
};

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
    /// A thread that had to free memory.
    Reclaim(Box<Reclaim>),
    /// A call of a kernel function.
    KernelSpan(Box<KernelSpan>),
    /// An operation of the broker on a connection.
    SocketOp(Box<SocketOp>),
    /// Trouble of a connection.
    TcpEvent(Box<TcpEvent>),
    /// A figure of the host.
    HostSample(Box<HostSample>),
    /// A thread on the CPU.
    CpuSample(Box<CpuSample>),
    /// A thread that waited for a Java lock.
    LockWait(Box<LockWait>),
    /// The JVM stopped its threads.
    JvmPause(Box<JvmPause>),
    /// The broker's process came or went.
    BrokerChange(BrokerChange),
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
            Self::Reclaim(reclaim) => reclaim.end,
            Self::KernelSpan(span) => span.end,
            Self::SocketOp(op) => op.end,
            Self::TcpEvent(trouble) => trouble.at,
            Self::HostSample(sample) => sample.end,
            Self::CpuSample(sample) => sample.at,
            Self::LockWait(wait) => wait.end,
            Self::JvmPause(pause) => pause.end,
            Self::BrokerChange(change) => change.at,
            Self::Loss(loss) => loss.end,
        }
    }
}
