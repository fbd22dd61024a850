//! Connections that found the broker's accept queue full, as events: the kernel counts them by network namespace
//! and forgets which they were.

use model::{Nanos, TcpEvent, TcpEventKind};

use super::text::{self, Kernel};

/// What the kernel had counted when last asked, and of which process's namespace.
#[derive(Default)]
pub(super) struct AcceptQueue(Option<(u32, u64)>);

impl AcceptQueue {
    /// Overflows since the last call, if any; the first call of a process only looks where the counter stands.
    pub(super) fn sample(&mut self, kernel: &Kernel, pid: u32, at: Nanos) -> Option<TcpEvent> {
        let netstat = text::read(&kernel.of_process(pid, "net/netstat"))?;
        let overflows = text::counter(&netstat, "TcpExt: ListenOverflows")?;
        let (_, before) = self.0.replace((pid, overflows)).filter(|(process, _)| *process == pid)?;
        let count = overflows.saturating_sub(before);
        let kind = TcpEventKind::AcceptQueueOverflow;
        (count > 0).then_some(TcpEvent { at, kind, local: None, remote: None, count })
    }
}

#[cfg(test)]
mod tests {
    use super::AcceptQueue;
    use crate::host::tests::fixture::Fixture;
    use model::{Nanos, TcpEventKind};

    fn seen(queue: &mut AcceptQueue, fixture: &Fixture, pid: u32, overflows: u64) -> Option<u64> {
        let netstat = format!("TcpExt: ListenDrops ListenOverflows\nTcpExt: 90 {overflows}\n");
        fixture.file(&format!("proc/{pid}/net/netstat"), &netstat);
        let trouble = queue.sample(&fixture.kernel(), pid, Nanos(7))?;
        assert_eq!((trouble.at, trouble.kind), (Nanos(7), TcpEventKind::AcceptQueueOverflow));
        assert_eq!((trouble.local, trouble.remote), (None, None));
        Some(trouble.count)
    }

    #[test]
    fn what_was_counted_before_is_not_reported() {
        let (fixture, mut queue) = (Fixture::new("accept-queue"), AcceptQueue::default());
        let counts = [5, 5, 12, 12, 3, 4].map(|overflows| seen(&mut queue, &fixture, 11, overflows));
        assert_eq!(counts, [None, None, Some(7), None, None, Some(1)]);
        let counts = [40, 41].map(|overflows| seen(&mut queue, &fixture, 12, overflows));
        assert_eq!(counts, [None, Some(1)], "another process may be in another namespace");
        assert_eq!(queue.sample(&fixture.kernel(), 13, Nanos(8)), None, "no such process");
    }
}
