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

mod intervals;
mod queues;
mod weight;

use std::collections::VecDeque;
use std::sync::Arc;

use model::{Event, Loss, LossKind, Nanos, Request};

use intervals::Intervals;
use queues::Queues;

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
            let bytes = weight::of(&event);
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
                detail: Arc::from("the flight recorder held less than something slow reached back"),
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
        let (start, end) = weight::span(&event);
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
    matches!(event, Event::Request(_) | Event::HostSample(_) | Event::BrokerChange(_) | Event::Loss(_))
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
