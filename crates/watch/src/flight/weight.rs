//! What an event weighs in memory and how long it lasted. Text that events share is not weighed: the sources keep
//! one copy of each name and stack.

use model::{Event, Nanos};

/// An allocation's own cost, and an event's place in the ring.
const PLACE: usize = 16 + size_of::<(Event, u32)>();

/// About how many bytes an event takes.
pub(super) fn of(event: &Event) -> u32 {
    let boxed = match event {
        Event::Request(request) => size_of_val(&**request) + 256 * request.partitions.len(),
        Event::FileOp(op) => size_of_val(&**op),
        Event::OffCpu(interval) => size_of_val(&**interval),
        Event::JournalCommit(commit) => size_of_val(&**commit),
        Event::BlockIo(io) => size_of_val(&**io),
        Event::Reclaim(reclaim) => size_of_val(&**reclaim),
        Event::KernelSpan(span) => size_of_val(&**span),
        Event::SocketOp(op) => size_of_val(&**op),
        Event::TcpEvent(trouble) => size_of_val(&**trouble),
        Event::HostSample(sample) => size_of_val(&**sample),
        Event::CpuSample(sample) => size_of_val(&**sample),
        Event::LockWait(wait) => size_of_val(&**wait),
        Event::JvmPause(pause) => size_of_val(&**pause),
        Event::DirtyThrottle(_) | Event::BrokerChange(_) | Event::Loss(_) => 0,
    };
    u32::try_from(PLACE + boxed).unwrap_or(u32::MAX)
}

/// When an event began and ended.
pub(super) fn span(event: &Event) -> (Nanos, Nanos) {
    let moment = (event.time(), event.time());
    match event {
        Event::Request(request) => (request.arrival, request.last_seen()),
        Event::FileOp(op) => (op.start, op.end),
        Event::OffCpu(interval) => (interval.start, interval.end),
        Event::JournalCommit(commit) => (commit.start, commit.end),
        Event::BlockIo(io) => (io.queued.unwrap_or(io.start).min(io.start), io.end),
        Event::DirtyThrottle(pause) => (pause.start, pause.end),
        Event::Reclaim(reclaim) => (reclaim.start, reclaim.end),
        Event::KernelSpan(span) => (span.start, span.end),
        Event::SocketOp(op) => (op.start, op.end),
        Event::HostSample(sample) => (sample.start, sample.end),
        Event::LockWait(wait) => (wait.start, wait.end),
        Event::JvmPause(pause) => (pause.start, pause.end),
        Event::Loss(loss) => (loss.start, loss.end),
        Event::TcpEvent(_) | Event::CpuSample(_) | Event::BrokerChange(_) => moment,
    }
}
