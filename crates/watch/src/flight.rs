//! The flight recorder: buffers detailed events for some seconds and passes on only those near something slow. A pure function of
//! its input events: reads no clock and writes nothing.
//!
//! Requests, host samples, losses and changes of the broker's process pass at once. All other events (file and socket
//! operations, off-CPU intervals, block requests, commits …) wait in a bounded ring until they are decided: an event passes
//! if it overlaps the margins of a slow request or a slow file operation; otherwise it is left out. Deciding as late as
//! possible keeps every kind of event in its original order.
//!
//! The events that a verdict may use are within [`Margins`] of its request, or further back if the request was queued behind
//! others of its connection (`diagnose` follows those). If an event was left out early, for lack of memory or before a long
//! request ended, and something slow turns out to reach back to it, a [`Loss`] reports that.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

use model::{Event, Loss, LossKind, Nanos, Request};

/// Configuration: what is slow, and how much to buffer.
#[derive(Clone, Debug)]
pub struct Flight {
    /// Requests and file operations that take at least this long are slow.
    pub slower_than: Nanos,
    /// Kafka's names of the APIs whose requests count: requests of other APIs wait on purpose.
    pub apis: Vec<&'static str>,
    /// How long events are buffered, in event time: for a request that took longer, the beginning is missing.
    pub hold: Nanos,
    /// Limit of the buffered events' memory; the oldest are decided early.
    pub max_bytes: usize,
}

/// The time around something slow whose events are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Margins {
    /// Time before its start.
    pub before: Nanos,
    /// Time after its end.
    pub after: Nanos,
}

impl Margins {
    /// Chooses margins for a threshold.
    /// The holder of a lock, or the request served first, began earlier by less than the threshold (otherwise it is
    /// slow itself); what it waited for began earlier still. After the end come only events that report the end.
    fn of(slower_than: Nanos) -> Self {
        let before = Nanos(slower_than.0.saturating_mul(3)).max(Nanos::from_millis(1_000));
        Self { before, after: slower_than.max(Nanos::from_millis(500)) }
    }
}

/// Buffers events and decides which to keep.
/// Feed it with [`FlightRecorder::push`], end with [`FlightRecorder::finish`].
#[derive(Debug)]
pub struct FlightRecorder {
    flight: Flight,
    margins: Margins,
    buffer: VecDeque<(Event, u32)>,
    buffered_bytes: usize,
    newest: Nanos,
    retained: Intervals,
    queues: Queues,
    left_out: LeftOut,
}

impl FlightRecorder {
    /// Creates an empty recorder.
    pub fn new(flight: Flight) -> Self {
        let margins = Margins::of(flight.slower_than);
        Self {
            flight,
            margins,
            buffer: VecDeque::new(),
            buffered_bytes: 0,
            newest: Nanos::MIN,
            retained: Intervals::default(),
            queues: Queues::default(),
            left_out: LeftOut::default(),
        }
    }

    /// Adds an event; passes decided events to `out`.
    pub fn push(&mut self, event: Event, out: &mut dyn FnMut(Event)) {
        self.newest = self.newest.max(event.time());
        self.look_for_slowness(&event, out);
        if passes_at_once(&event) {
            out(event);
        } else {
            let bytes = weight_of(&event);
            self.buffered_bytes += bytes as usize;
            self.buffer.push_back((event, bytes));
        }
        while self.is_due() {
            self.decide_oldest(out);
        }
    }

    /// Decides all buffered events. Returns how many events were left out.
    pub fn finish(mut self, out: &mut dyn FnMut(Event)) -> u64 {
        while !self.buffer.is_empty() {
            self.decide_oldest(out);
        }
        self.left_out.total
    }

    /// Memory of the buffered events.
    pub fn buffered_bytes(&self) -> usize {
        self.buffered_bytes
    }

    fn look_for_slowness(&mut self, event: &Event, out: &mut dyn FnMut(Event)) {
        match event {
            Event::Request(request) => {
                let began = self.queues.push(request);
                if self.is_slow(request) {
                    self.keep(began, request.last_seen(), out);
                }
            }
            Event::FileOp(op) if op.latency() >= self.flight.slower_than => self.keep(op.start, op.end, out),
            _ => {}
        }
    }

    fn is_slow(&self, request: &Request) -> bool {
        let time = || request.latency().map(|latency| latency - request.max_data_wait());
        self.flight.apis.contains(&request.api)
            && request.intended_wait().is_none()
            && time().is_some_and(|time| time >= self.flight.slower_than)
    }

    /// Keeps events around an interval, and reports those that were already left out.
    fn keep(&mut self, start: Nanos, end: Nanos, out: &mut dyn FnMut(Event)) {
        let Margins { before, after } = self.margins;
        let (start, end) = (start - before, end + after);
        self.retained.add(start, end);
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
        self.buffered_bytes > self.flight.max_bytes
            || self.buffer.front().is_some_and(|(oldest, _)| self.newest - oldest.time() > self.flight.hold)
    }

    fn decide_oldest(&mut self, out: &mut dyn FnMut(Event)) {
        let Some((event, bytes)) = self.buffer.pop_front() else { return };
        self.buffered_bytes -= bytes as usize;
        let (start, end) = span(&event);
        let passes = match event {
            // Whole or not at all: without the events that delayed it, its time would look like work. An operation that is cut
            // off is not slow, or it would have margins too.
            Event::FileOp(_) => self.retained.covers(start, end),
            _ => self.retained.touches(start, end),
        };
        if passes {
            out(event);
        } else {
            self.left_out.count(end);
            self.retained.forget_before(start.min(self.newest - self.flight.hold) - self.flight.hold);
        }
    }
}

/// Whether an event is always recorded.
/// Such an event is rare or the purpose of the recording.
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

/// Events that were left out, counted by their end.
#[derive(Debug, Default)]
struct LeftOut {
    total: u64,
    /// (tenth of a second, number of events), in order.
    recent: VecDeque<(i64, u64)>,
}

/// Ten minutes: clients do not wait longer for a response.
const MAX_TENTHS: usize = 6_000;
const TENTH_NS: i64 = 100_000_000;

impl LeftOut {
    fn count(&mut self, end: Nanos) {
        self.total += 1;
        let tenth = end.0.div_euclid(TENTH_NS);
        // Events are slightly out of order: a late one counts in the newest tenth.
        match self.recent.back_mut() {
            Some((last, count)) if *last >= tenth => *count += 1,
            _ => self.recent.push_back((tenth, 1)),
        }
        if self.recent.len() > MAX_TENTHS {
            self.recent.pop_front();
        }
    }

    /// Takes the number of events that ended within an interval.
    /// Also returns the time by which the last had ended. They are not reported again.
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

/// Sorted, disjoint intervals.
#[derive(Debug, Default)]
struct Intervals(Vec<(Nanos, Nanos)>);

impl Intervals {
    /// Adds an interval.
    fn add(&mut self, start: Nanos, end: Nanos) {
        let first = self.0.partition_point(|&(_, kept_end)| kept_end < start);
        let last = self.0.partition_point(|&(kept_start, _)| kept_start <= end);
        let overlapping = self.0.drain(first..last.max(first));
        let whole = overlapping.fold((start, end), |whole, kept| (whole.0.min(kept.0), whole.1.max(kept.1)));
        self.0.insert(first, whole);
    }

    /// Whether an interval, which may be a single moment, overlaps any of them.
    fn touches(&self, start: Nanos, end: Nanos) -> bool {
        let first = self.0.partition_point(|&(_, kept_end)| kept_end < start);
        self.0.get(first).is_some_and(|&(kept_start, _)| kept_start <= end)
    }

    /// Whether an interval lies within one of them.
    fn covers(&self, start: Nanos, end: Nanos) -> bool {
        let first = self.0.partition_point(|&(_, kept_end)| kept_end < end);
        self.0.get(first).is_some_and(|&(kept_start, _)| kept_start <= start)
    }

    /// Removes intervals that ended earlier.
    fn forget_before(&mut self, time: Nanos) {
        if self.0.first().is_some_and(|&(_, end)| end < time) {
            self.0.retain(|&(_, end)| end >= time);
        }
    }
}

/// Requests of a connection to remember: as far as verdicts follow a queue (`diagnose`), and one more.
const MAX_QUEUE: usize = 17;
/// Limit of connections, after which all are dropped: clients come and go.
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
    /// Adds a request, in the order of the connection's responses.
    /// Returns the arrival of the first request that it was queued behind, or its own arrival if there was none.
    fn push(&mut self, request: &Request) -> Nanos {
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

/// Overhead of an allocation, and an event's entry in the ring.
const PLACE: usize = 16 + size_of::<(Event, u32)>();

/// Approximate memory of an event, in bytes.
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

/// Start and end of an event.
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
    fn touching_intervals_are_merged() {
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
    fn intervals_touch_and_cover_times() {
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
