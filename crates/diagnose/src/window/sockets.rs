//! The broker's calls on its connections, and samples of threads on a CPU.
//! Calls are found by TCP sequence number and by thread.
//!
//! A connection has few calls between a request's arrival and its read, so a call is searched step by step from a
//! moment on: sequence numbers wrap, and a later connection may have the same addresses as an earlier one.

use std::cmp::Ordering;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use ahash::RandomState;
use model::{CpuSample, Nanos, SocketOp, SocketOpKind, Tid};

use crate::time::{Span, TimeSpan};
use crate::window::Connection;
use crate::window::search::CachedSearch;
use crate::window::timeline::{forget_first, insert_sorted};

/// Calls around the expected moment that are searched at most.
const MAX_STEPS: usize = 4_096;

/// A call that moved bytes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SocketCall {
    pub(crate) start: Nanos,
    pub(crate) end: Nanos,
    pub(crate) tid: Tid,
    pub(crate) kind: SocketOpKind,
    /// The window that the peer offered when a write began.
    pub(crate) peer_window: Option<u32>,
    /// The sequence number of the first byte, and the one after the last byte.
    first: u32,
    next: u32,
}

/// Calls in the order of their ends.
#[derive(Debug, Default)]
struct CallTimeline {
    entries: VecDeque<SocketCall>,
    near: CachedSearch,
}

/// The calls on one connection.
#[derive(Debug, Default)]
struct Streams {
    reads: CallTimeline,
    writes: CallTimeline,
}

/// The calls and samples of one thread.
#[derive(Debug, Default)]
struct NetworkThread {
    calls: CallTimeline,
    samples: CpuSamples,
    name: Arc<str>,
}

/// The calls of all connections.
#[derive(Debug, Default)]
pub(crate) struct Sockets {
    connections: HashMap<Connection, Streams, RandomState>,
    threads: HashMap<Tid, NetworkThread, RandomState>,
}

impl Sockets {
    pub(crate) fn push(&mut self, op: &SocketOp) {
        let call = SocketCall {
            start: op.start,
            end: op.end,
            tid: op.tid,
            kind: op.op,
            peer_window: op.peer_window,
            first: op.sequence,
            next: op.sequence_end,
        };
        let streams = self.connections.entry((op.remote, op.local)).or_default();
        let stream = if op.op == SocketOpKind::Read { &mut streams.reads } else { &mut streams.writes };
        stream.insert(call);
        let thread = self.threads.entry(op.tid).or_default();
        thread.calls.insert(call);
        if thread.name != op.thread {
            thread.name = Arc::clone(&op.thread);
        }
    }

    /// Records that a thread was on a CPU, if it makes calls.
    pub(crate) fn sample(&mut self, sample: &CpuSample) {
        if let Some(thread) = self.threads.get_mut(&sample.tid) {
            thread.samples.push(sample);
        }
    }

    /// The stretches around samples of a thread on a CPU.
    pub(crate) fn on_cpu(&self, tid: Tid, span: TimeSpan) -> impl Iterator<Item = TimeSpan> {
        self.threads.get(&tid).into_iter().flat_map(move |thread| thread.samples.on_cpu(span))
    }

    /// The read that took the byte with this sequence number from a connection. Searches near a moment.
    pub(crate) fn read_of(&self, connection: Connection, byte: u32, near: Nanos) -> Option<SocketCall> {
        self.connections.get(&connection)?.reads.covering(byte, near)
    }

    /// The write or sendfile that gave a connection the byte with this sequence number. Searches near a moment.
    pub(crate) fn write_of(&self, connection: Connection, byte: u32, near: Nanos) -> Option<SocketCall> {
        self.connections.get(&connection)?.writes.covering(byte, near)
    }

    /// The last read of a connection within a stretch.
    pub(crate) fn last_read_within(&self, connection: Connection, span: TimeSpan) -> Option<SocketCall> {
        self.connections.get(&connection)?.reads.last_within(span)
    }

    /// The first write to a connection within a stretch.
    pub(crate) fn first_write_within(&self, connection: Connection, span: TimeSpan) -> Option<SocketCall> {
        let writes = &self.connections.get(&connection)?.writes;
        let after = writes.entries.range(writes.first_after(span.start)..);
        after.copied().take_while(|call| call.end <= span.end).find(|call| call.start >= span.start)
    }

    /// The last write to a connection within a stretch.
    pub(crate) fn last_write_within(&self, connection: Connection, span: TimeSpan) -> Option<SocketCall> {
        self.connections.get(&connection)?.writes.last_within(span)
    }

    /// The writes to a connection from `from` on that began before `until`.
    pub(crate) fn writes_within(
        &self,
        connection: Connection,
        from: SocketCall,
        until: Nanos,
    ) -> impl Iterator<Item = &SocketCall> {
        let writes = self.connections.get(&connection).into_iter().map(|streams| &streams.writes);
        writes
            .flat_map(move |writes| writes.entries.range(writes.first_after(from.start)..))
            .take_while(move |call| call.start < until)
    }

    /// A thread's calls that share time with a stretch, in the order of their ends.
    pub(crate) fn of_thread(&self, tid: Tid, span: TimeSpan) -> impl Iterator<Item = &SocketCall> {
        let calls = self.threads.get(&tid).into_iter().map(|thread| &thread.calls);
        calls
            .flat_map(move |calls| calls.entries.range(calls.first_after(span.start)..))
            .take_while(move |call| call.start < span.end)
    }

    /// When the first call of any thread between two moments began.
    pub(crate) fn first_begun(&self, after: Nanos, before: Nanos) -> Option<Nanos> {
        let begun = self.threads.values().filter_map(|thread| thread.calls.first_begun(after));
        begun.min().filter(|at| *at < before)
    }

    /// The name of a thread that made calls: a network thread.
    pub(crate) fn thread(&self, tid: Tid) -> Option<&Arc<str>> {
        self.threads.get(&tid).map(|thread| &thread.name)
    }

    /// The number of stored calls, each counted once.
    pub(crate) fn len(&self) -> usize {
        self.threads.values().map(|thread| thread.calls.entries.len()).sum()
    }

    pub(crate) fn forget(&mut self, horizon: Nanos) {
        self.connections.retain(|_, streams| streams.reads.forget(horizon) | streams.writes.forget(horizon));
        self.threads.retain(|_, thread| {
            thread.samples.forget(horizon);
            thread.calls.forget(horizon)
        });
    }
}

impl CallTimeline {
    fn insert(&mut self, call: SocketCall) {
        insert_sorted(&mut self.entries, call, |call| call.end);
    }

    /// Returns whether any is left.
    fn forget(&mut self, horizon: Nanos) -> bool {
        forget_first(&mut self.entries, |call| call.end < horizon);
        !self.entries.is_empty()
    }

    /// When the first call after `time` began: a thread's calls begin in the order in which they end.
    fn first_begun(&self, time: Nanos) -> Option<Nanos> {
        self.entries.range(self.first_after(time)..).map(|call| call.start).find(|start| *start > time)
    }

    /// The index of the first call that ended after `time`.
    fn first_after(&self, time: Nanos) -> usize {
        self.near.partition_point(&self.entries, |call| call.end <= time)
    }

    /// The last call that lies within a stretch.
    fn last_within(&self, span: TimeSpan) -> Option<SocketCall> {
        let before = self.entries.range(..self.first_after(span.end));
        before.rev().copied().take_while(|call| call.end > span.start).find(|call| call.start >= span.start)
    }

    /// The call that moved this byte, if it is near the moment.
    fn covering(&self, byte: u32, near: Nanos) -> Option<SocketCall> {
        let mut at = self.first_after(near).min(self.entries.len().checked_sub(1)?);
        let mut came_from = None;
        for _ in 0..MAX_STEPS {
            let call = self.entries.get(at)?;
            let next = match call.place_of(byte) {
                Ordering::Equal => return Some(*call),
                Ordering::Less => at.checked_sub(1)?,
                Ordering::Greater => at + 1,
            };
            // The byte lies between two calls: the call that moved it was not seen.
            if came_from == Some(next) {
                return None;
            }
            came_from = Some(at);
            at = next;
        }
        None
    }
}

impl Span for SocketCall {
    fn span(&self) -> TimeSpan {
        TimeSpan::new(self.start, self.end)
    }
}

impl SocketCall {
    /// The bytes from the call's first byte to a sequence number after it.
    pub(crate) fn left_until(&self, number: u32) -> u32 {
        number.wrapping_sub(self.first)
    }

    /// The sequence number after the last byte that it moved.
    pub(crate) fn next(&self) -> u32 {
        self.next
    }

    /// The bytes from a sequence number on that had been moved when the call returned.
    pub(crate) fn moved_since(&self, number: u32) -> u32 {
        self.next.wrapping_sub(number)
    }

    /// Whether a byte lies before, within or after a call: modulo 2^32, as sequence numbers are compared (RFC 9293,
    /// 3.4).
    fn place_of(&self, byte: u32) -> Ordering {
        let distance = byte.wrapping_sub(self.first);
        if distance < self.next.wrapping_sub(self.first) {
            Ordering::Equal
        } else if (distance as i32) < 0 {
            Ordering::Less
        } else {
            Ordering::Greater
        }
    }
}

/// One sample may have hit a thread by chance.
pub(crate) const MIN_SAMPLES: usize = 2;
/// A thread found on a CPU for this share of a stretch was at work for all of it: in the time that the samples do not
/// cover, others had the CPUs. A quarter.
const WORK_SHARE: i64 = 4;

/// The samples of one thread, in the order of time.
#[derive(Debug, Default)]
pub(crate) struct CpuSamples(VecDeque<(Nanos, Nanos)>);

impl CpuSamples {
    pub(crate) fn push(&mut self, sample: &CpuSample) {
        self.0.push_back((sample.at, sample.period));
    }

    /// The stretches that samples near a stretch stand for.
    pub(crate) fn on_cpu(&self, TimeSpan { start, end }: TimeSpan) -> impl Iterator<Item = TimeSpan> {
        let half = |period: Nanos| Nanos(period.0 / 2);
        let first = self.0.partition_point(|&(at, period)| at + half(period) <= start);
        self.0
            .range(first..)
            .map(move |&(at, period)| TimeSpan::new(at - half(period), at + half(period)))
            .take_while(move |sample| sample.start < end)
    }

    /// Whether samples show the thread at work during a whole stretch; `unknown` is the time of it that has no other
    /// explanation.
    pub(crate) fn show_work(&self, span: TimeSpan, unknown: Nanos) -> bool {
        let parts = self.on_cpu(span).map(|sample| sample.within(span).length());
        let (count, time) = parts.fold((0, Nanos::ZERO), |(count, time), part| (count + 1, time + part));
        count >= MIN_SAMPLES && time.0.saturating_mul(WORK_SHARE) >= unknown.0
    }

    /// Returns whether any is left.
    pub(crate) fn forget(&mut self, horizon: Nanos) -> bool {
        forget_first(&mut self.0, |(at, _)| *at < horizon);
        !self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use model::{Nanos, Row, SocketOp, SocketOpKind};

    use super::Sockets;
    use crate::time::TimeSpan;

    fn op(tid: u32, start: i64, first: u32, bytes: u32) -> SocketOp {
        SocketOp {
            start: Nanos(start),
            end: Nanos(start + 5),
            op: SocketOpKind::Read,
            pid: 1,
            tid,
            thread: "data-plane-kafk".into(),
            local: "10.0.0.1:9092".parse().unwrap(),
            remote: "10.0.0.7:40000".parse().unwrap(),
            bytes: Some(bytes.into()),
            sequence: first,
            sequence_end: first.wrapping_add(bytes),
            ..Row::empty()
        }
    }

    fn connection() -> super::Connection {
        ("10.0.0.7:40000".parse().unwrap(), "10.0.0.1:9092".parse().unwrap())
    }

    #[test]
    fn finds_a_byte_from_any_start_and_across_wraparound() {
        let mut sockets = Sockets::default();
        let begin = u32::MAX - 150;
        for i in 0..20_u32 {
            sockets.push(&op(7, i64::from(i) * 10, begin.wrapping_add(i * 20), 20));
        }
        for near in [-100, 0, 95, 1_000] {
            for i in 0..20_u32 {
                let found = sockets.read_of(connection(), begin.wrapping_add(i * 20 + 19), Nanos(near));
                assert_eq!(found.unwrap().start, Nanos(i64::from(i) * 10), "{i} from {near}");
            }
            assert_eq!(sockets.read_of(connection(), begin.wrapping_add(400), Nanos(near)), None);
            assert_eq!(sockets.read_of(connection(), begin.wrapping_sub(1), Nanos(near)), None);
        }
        assert_eq!(sockets.write_of(connection(), begin, Nanos(0)), None, "the other direction");
        let elsewhere = ("10.0.0.8:40000".parse().unwrap(), connection().1);
        assert_eq!(sockets.read_of(elsewhere, begin, Nanos(0)), None);
    }

    #[test]
    fn last_read_within_needs_the_whole_read_in_the_stretch() {
        let mut sockets = Sockets::default();
        for start in [0, 10, 20] {
            sockets.push(&op(7, start, start as u32, 10));
        }
        let last = |start, end| {
            let span = TimeSpan::new(Nanos(start), Nanos(end));
            sockets.last_read_within(connection(), span).map(|read| read.start.0)
        };
        assert_eq!([last(0, 100), last(0, 25), last(0, 24)], [Some(20), Some(20), Some(10)]);
        assert_eq!([last(1, 14), last(11, 24), last(26, 100)], [None, None, None]);
        let span = TimeSpan::new(Nanos(0), Nanos(100));
        assert_eq!(sockets.first_write_within(connection(), span), None, "the other direction");
    }

    #[test]
    fn byte_of_a_missing_call_matches_no_other_call() {
        let mut sockets = Sockets::default();
        for i in [0, 1, 2, 4, 5_u32] {
            sockets.push(&op(7, i64::from(i) * 10, i * 20, 20));
        }
        for near in [0, 25, 100] {
            assert_eq!(sockets.read_of(connection(), 65, Nanos(near)), None);
        }
    }

    #[test]
    fn calls_are_ordered_for_any_arrival_and_old_ones_are_dropped() {
        let mut sockets = Sockets::default();
        for start in [20, 0, 10, 40, 30] {
            sockets.push(&op(7, start, start as u32, 10));
        }
        let starts = |sockets: &Sockets| {
            let near = TimeSpan::new(Nanos(5), Nanos(35));
            sockets.of_thread(7, near).map(|call| call.start.0).collect::<Vec<_>>()
        };
        assert_eq!(starts(&sockets), [10, 20, 30]);
        let first_begun = |after| sockets.first_begun(Nanos(after), Nanos(40)).map(|at| at.0);
        assert_eq!([12, 20, 29, 30].map(first_begun), [Some(20), Some(30), Some(30), None]);
        sockets.forget(Nanos(20));
        assert_eq!((starts(&sockets), sockets.len()), (vec![20, 30], 3));
        assert!(sockets.thread(7).is_some());
        sockets.forget(Nanos(900));
        assert!(sockets.len() == 0 && sockets.thread(7).is_none());
    }
}
