//! The flight recorder: holds the last seconds of fine events and lets through only those near something slow. A
//! pure function of the events it is given: reads no clock and writes nothing.
//!
//! Requests, host samples, losses and the broker's coming and going pass at once. Everything else (file and
//! socket operations, off-CPU intervals, block requests, commits …) waits in a bounded ring until it is
//! decided: it passes if it shares time with the margins of a slow request or of a slow file operation,
//! else it is left out. Deciding at the last moment keeps every kind of event in the order in which it came.
//!
//! What a verdict may look at is within [`Margins`] of its request, further back where the request stood
//! in a queue behind others of its connection (`diagnose` follows those). An event that had to make room before
//! it was due, or was due before a long request ended, is missed only if something slow reaches back to it:
//! then a [`Loss`] says so.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

use model::{Event, Loss, LossKind, Nanos, Request};

/// What counts as slow and how much is kept.
#[derive(Clone, Debug)]
pub struct Flight {
    /// Requests and file operations of at least this length are slow.
    pub slower_than: Nanos,
    /// The Kafka names of the APIs whose requests count: others wait on purpose.
    pub apis: Vec<&'static str>,
    /// How long events are held, in recorded time: a request that took longer lacks its beginning.
    pub hold: Nanos,
    /// The most that the held events may weigh; the oldest make room.
    pub max_bytes: usize,
}

/// The stretch of time around something slow that may bear on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Margins {
    /// Before it began.
    pub before: Nanos,
    /// After it ended.
    pub after: Nanos,
}

impl Margins {
    /// Who held a lock, or was served first, began earlier by less than what counts as slow (else it is slow
    /// itself); what it waited for began earlier still. After the end comes only what tells that it ended.
    fn of(slower_than: Nanos) -> Self {
        let before = Nanos(slower_than.0.saturating_mul(3)).max(Nanos::from_millis(1_000));
        Self { before, after: slower_than.max(Nanos::from_millis(500)) }
    }
}

/// Holds events back and decides. Feed it with [`FlightRecorder::push`], end with [`FlightRecorder::finish`].
#[derive(Debug)]
pub struct FlightRecorder {
    flight: Flight,
    margins: Margins,
    held: VecDeque<(Event, u32)>,
    held_bytes: usize,
    newest: Nanos,
    kept: Intervals,
    queues: Queues,
    left_out: LeftOut,
}

impl FlightRecorder {
    /// A recorder that has seen nothing.
    pub fn new(flight: Flight) -> Self {
        let margins = Margins::of(flight.slower_than);
        Self {
            flight,
            margins,
            held: VecDeque::new(),
            held_bytes: 0,
            newest: Nanos::MIN,
            kept: Intervals::default(),
            queues: Queues::default(),
            left_out: LeftOut::default(),
        }
    }

    /// Takes an event; what it decides goes out.
    pub fn push(&mut self, event: Event, out: &mut dyn FnMut(Event)) {
        self.newest = self.newest.max(event.time());
        self.look_for_slowness(&event, out);
        if passes_at_once(&event) {
            out(event);
        } else {
            let bytes = weight_of(&event);
            self.held_bytes += bytes as usize;
            self.held.push_back((event, bytes));
        }
        while self.is_due() {
            self.decide_oldest(out);
        }
    }

    /// Decides all that is still held. How many events there were that were near nothing slow.
    pub fn finish(mut self, out: &mut dyn FnMut(Event)) -> u64 {
        while !self.held.is_empty() {
            self.decide_oldest(out);
        }
        self.left_out.total
    }

    /// What the held events weigh.
    pub fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    fn look_for_slowness(&mut self, event: &Event, out: &mut dyn FnMut(Event)) {
        match event {
            Event::Request(request) => {
                let began = self.queues.joined(request);
                if self.is_slow(request) {
                    self.keep(began, request.last_seen(), out);
                }
            }
            Event::FileOp(op) if op.latency() >= self.flight.slower_than => self.keep(op.start, op.end, out),
            _ => {}
        }
    }

    fn is_slow(&self, request: &Request) -> bool {
        let time = || request.latency().map(|latency| latency - request.may_have_waited());
        self.flight.apis.contains(&request.api)
            && request.intended_wait().is_none()
            && time().is_some_and(|time| time >= self.flight.slower_than)
    }

    /// Keeps what surrounds a stretch of time, and says what of it is gone already.
    fn keep(&mut self, start: Nanos, end: Nanos, out: &mut dyn FnMut(Event)) {
        let Margins { before, after } = self.margins;
        let (start, end) = (start - before, end + after);
        self.kept.add(start, end);
        if let Some((missed, until)) = self.left_out.within(start, end) {
            out(Event::Loss(Loss {
                start,
                end: until,
                kind: LossKind::EventsDropped,
                count: missed,
                detail: Arc::from("the flight recorder was too small for the time of something slow"),
            }));
        }
    }

    fn is_due(&self) -> bool {
        self.held_bytes > self.flight.max_bytes
            || self.held.front().is_some_and(|(oldest, _)| self.newest - oldest.time() > self.flight.hold)
    }

    fn decide_oldest(&mut self, out: &mut dyn FnMut(Event)) {
        let Some((event, bytes)) = self.held.pop_front() else { return };
        self.held_bytes -= bytes as usize;
        let (start, end) = span(&event);
        let passes = match event {
            // Whole or not at all: without what held it up, its time would seem to be spent at work. One that
            // is cut off is not slow, or it would have margins too.
            Event::FileOp(_) => self.kept.covers(start, end),
            _ => self.kept.touches(start, end),
        };
        if passes {
            out(event);
        } else {
            self.left_out.count(end);
            self.kept.forget_before(start.min(self.newest - self.flight.hold) - self.flight.hold);
        }
    }
}

/// What is always recorded: seldom, or the reason for a recording.
fn passes_at_once(event: &Event) -> bool {
    matches!(
        event,
        Event::Request(_)
            | Event::RequestLatencies(_)
            | Event::HostSample(_)
            | Event::BrokerChange(_)
            | Event::ProcessStop(_)
            | Event::CpuGap(_)
            | Event::TlsTraffic(_)
            | Event::PartitionState(_)
            | Event::Loss(_)
    )
}

/// Events that were decided and did not pass, counted by when they ended.
#[derive(Debug, Default)]
struct LeftOut {
    total: u64,
    /// (which tenth of a second, how many), in order.
    recent: VecDeque<(i64, u64)>,
}

/// Ten minutes: no request takes longer than its client waits.
const MAX_TENTHS: usize = 6_000;
const TENTH_NS: i64 = 100_000_000;

impl LeftOut {
    fn count(&mut self, end: Nanos) {
        self.total += 1;
        let tenth = end.0.div_euclid(TENTH_NS);
        // Events are a little out of order: a late one counts where it came.
        match self.recent.back_mut() {
            Some((last, count)) if *last >= tenth => *count += 1,
            _ => self.recent.push_back((tenth, 1)),
        }
        if self.recent.len() > MAX_TENTHS {
            self.recent.pop_front();
        }
    }

    /// How many ended within a stretch, and by when the last of them had. They are not told again.
    fn within(&mut self, start: Nanos, end: Nanos) -> Option<(u64, Nanos)> {
        let (from, until) = (start.0.div_euclid(TENTH_NS), end.0.div_euclid(TENTH_NS));
        let first = self.recent.partition_point(|(tenth, _)| *tenth <= from);
        let mut missed = (0, from);
        for (tenth, count) in self.recent.range_mut(first..).take_while(|(tenth, _)| *tenth <= until) {
            if *count > 0 {
                missed = (missed.0 + std::mem::take(count), *tenth);
            }
        }
        (missed.0 > 0).then(|| (missed.0, Nanos((missed.1 + 1).saturating_mul(TENTH_NS)).min(end)))
    }
}

/// Stretches in order, none touching another.
#[derive(Debug, Default)]
struct Intervals(Vec<(Nanos, Nanos)>);

impl Intervals {
    /// Adds a stretch.
    fn add(&mut self, start: Nanos, end: Nanos) {
        let first = self.0.partition_point(|&(_, kept_end)| kept_end < start);
        let last = self.0.partition_point(|&(kept_start, _)| kept_start <= end);
        let joined = self.0.drain(first..last.max(first));
        let whole = joined.fold((start, end), |whole, kept| (whole.0.min(kept.0), whole.1.max(kept.1)));
        self.0.insert(first, whole);
    }

    /// Whether a stretch, which may be a moment, shares a moment with any.
    fn touches(&self, start: Nanos, end: Nanos) -> bool {
        let first = self.0.partition_point(|&(_, kept_end)| kept_end < start);
        self.0.get(first).is_some_and(|&(kept_start, _)| kept_start <= end)
    }

    /// Whether a stretch lies within one of them.
    fn covers(&self, start: Nanos, end: Nanos) -> bool {
        let first = self.0.partition_point(|&(_, kept_end)| kept_end < end);
        self.0.get(first).is_some_and(|&(kept_start, _)| kept_start <= start)
    }

    /// Forgets those that ended before.
    fn forget_before(&mut self, time: Nanos) {
        if self.0.first().is_some_and(|&(_, end)| end < time) {
            self.0.retain(|&(_, end)| end >= time);
        }
    }
}

/// As far as verdicts follow a queue (`diagnose`), and one more.
const MAX_QUEUE: usize = 17;
/// Clients come and go: past this many connections, all are forgotten and learnt again.
const MAX_CONNECTIONS: usize = 65_536;

/// The last requests of each connection.
#[derive(Debug, Default)]
struct Queues(HashMap<(SocketAddr, SocketAddr), VecDeque<Stay>>);

/// A request's time at the broker.
#[derive(Clone, Copy, Debug)]
struct Stay {
    arrival: Nanos,
    complete: Nanos,
    end: Nanos,
}

impl Queues {
    /// Notes a request, in the order in which their connection answered them. When the first of those arrived
    /// that it stood behind: its own arrival where it stood behind none.
    fn joined(&mut self, request: &Request) -> Nanos {
        let connection = (request.client, request.broker);
        if self.0.len() >= MAX_CONNECTIONS && !self.0.contains_key(&connection) {
            self.0.clear();
        }
        let queue = self.0.entry(connection).or_default();
        let stay = Stay { arrival: request.arrival, complete: request.arrival_end, end: request.last_seen() };
        let mut behind = stay;
        for ahead in queue.iter().rev() {
            if ahead.end <= behind.complete || ahead.arrival > behind.arrival {
                break;
            }
            behind = *ahead;
        }
        queue.push_back(stay);
        if queue.len() > MAX_QUEUE {
            queue.pop_front();
        }
        behind.arrival
    }
}

/// An allocation's own cost, and an event's place in the ring.
const PLACE: usize = 16 + size_of::<(Event, u32)>();

/// About how many bytes an event takes.
fn weight_of(event: &Event) -> u32 {
    let boxed = match event {
        Event::Request(request) => request.memory_bytes(),
        Event::RequestLatencies(latencies) => size_of_val(&**latencies) + size_of_val(&*latencies.latencies),
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
        Event::HandlerCall(call) => size_of_val(&**call),
        Event::JvmPause(pause) => size_of_val(&**pause),
        Event::ProcessStop(stop) => size_of_val(&**stop),
        Event::CpuGap(gap) => size_of_val(&**gap),
        Event::DirtyThrottle(_)
        | Event::BrokerChange(_)
        | Event::TlsTraffic(_)
        | Event::PartitionState(_)
        | Event::Loss(_) => 0,
    };
    u32::try_from(PLACE + boxed).unwrap_or(u32::MAX)
}

/// When an event began and ended.
fn span(event: &Event) -> (Nanos, Nanos) {
    let moment = (event.time(), event.time());
    match event {
        Event::Request(request) => (request.arrival, request.last_seen()),
        Event::RequestLatencies(latencies) => (latencies.start, latencies.end),
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
        Event::HandlerCall(call) => (call.start, call.end),
        Event::JvmPause(pause) => (pause.start, pause.end),
        Event::ProcessStop(stop) => (stop.start, stop.end),
        Event::CpuGap(gap) => (gap.start, gap.end),
        Event::TlsTraffic(traffic) => (traffic.start, traffic.end),
        Event::Loss(loss) => (loss.start, loss.end),
        Event::TcpEvent(_) | Event::CpuSample(_) | Event::PartitionState(_) | Event::BrokerChange(_) => {
            moment
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Intervals;
    use model::Nanos;

    fn of(stretches: &[(i64, i64)]) -> Intervals {
        let mut intervals = Intervals::default();
        for &(start, end) in stretches {
            intervals.add(Nanos(start), Nanos(end));
        }
        intervals
    }

    #[test]
    fn stretches_that_touch_become_one() {
        for (stretches, expected) in [
            (vec![(1, 3), (5, 7)], vec![(1, 3), (5, 7)]),
            (vec![(5, 7), (1, 3)], vec![(1, 3), (5, 7)]),
            (vec![(1, 3), (5, 7), (3, 5)], vec![(1, 7)]),
            (vec![(1, 9), (2, 3)], vec![(1, 9)]),
            (vec![(4, 5), (6, 7), (8, 9), (0, 8)], vec![(0, 9)]),
        ] {
            let found: Vec<_> = of(&stretches).0.iter().map(|(start, end)| (start.0, end.0)).collect();
            assert_eq!(found, expected, "{stretches:?}");
        }
    }

    #[test]
    fn a_stretch_touches_what_it_shares_a_moment_with() {
        let mut intervals = of(&[(10, 20), (30, 40)]);
        for (start, end, touches) in
            [(0, 9, false), (0, 10, true), (20, 20, true), (21, 29, false), (25, 35, true), (41, 50, false)]
        {
            assert_eq!(intervals.touches(Nanos(start), Nanos(end)), touches, "{start} to {end}");
        }
        for (start, end, covers) in
            [(10, 20, true), (12, 13, true), (9, 12, false), (18, 31, false), (41, 42, false)]
        {
            assert_eq!(intervals.covers(Nanos(start), Nanos(end)), covers, "{start} to {end}");
        }
        intervals.forget_before(Nanos(21));
        assert!(!intervals.touches(Nanos(15), Nanos(15)));
        assert!(intervals.touches(Nanos(30), Nanos(30)));
    }
}
