//! Divides events between the always-on sources and those of an escalation.
//! Each event is delivered once.
//!
//! Kernel events are divided by time: the escalation's probes deliver those that lie within it, the always-on sources those that
//! began before or ended after it. Requests are divided by whether packets showed them, because a request may arrive seconds
//! before the broker reads it, and there is no common time. Requests that packets did not show, such as those that were in the
//! socket before the capture began, come from the always-on source.

use std::collections::HashSet;
use std::sync::Mutex;
use std::thread::Thread;

use ahash::RandomState;
use model::{Event, Nanos, Request};

use crate::queue::lock;

/// Requests are remembered for one to two times this long after their responses.
const REMEMBER: Nanos = Nanos::from_millis(10_000);
/// Limit of remembered requests in that time, of 16 bytes each.
const MAX_REMEMBERED: usize = 1 << 17;
/// Longest delay from a packet to its reader (`capture::live`: 80 ms) and to the return of the call that sent it.
const LATENESS_NS: u64 = 500_000_000;
/// How long after an escalation the broker may read a captured request.
/// Packets showed the request during the escalation.
const AFTER: Nanos = Nanos::from_millis(1_000);

/// The sources that an event comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The always-on sources.
    AlwaysOn,
    /// The sources of an escalation.
    Full,
}

/// State shared by all sources of an always-on watch.
#[derive(Default)]
pub(crate) struct Handover(Mutex<State>);

#[derive(Default)]
struct State {
    /// Slow requests that the policy has not counted yet.
    slow: u64,
    /// The thread that counts them, if it is to be woken.
    counter: Option<Thread>,
    /// When the probes of the last escalation were attached.
    attached: Option<Nanos>,
    /// From when on their events are ignored.
    detached: Option<Nanos>,
    /// When the last escalation ended.
    ended: Option<Nanos>,
    /// All packets before this time have been read; `None` while no packets are captured.
    packets_read_ns: Option<u64>,
    /// Requests that packets showed recently.
    requests: HashSet<u64, RandomState>,
    /// Requests that packets showed before those.
    earlier: HashSet<u64, RandomState>,
    /// When the first of `requests` ended.
    since: Nanos,
    hasher: RandomState,
}

impl Handover {
    /// Adds to the number of slow requests, and wakes the thread that counts them.
    pub(crate) fn add_slow(&self, count: u64) {
        let mut state = lock(&self.0);
        if state.slow == 0 && count > 0 {
            state.counter.iter().for_each(Thread::unpark);
        }
        state.slow += count;
    }

    /// Wakes the calling thread when requests are slow.
    pub(super) fn count_slow_here(&self) {
        lock(&self.0).counter = Some(std::thread::current());
    }

    /// Returns the number of slow requests since the last call.
    pub(super) fn take_slow(&self) -> u64 {
        std::mem::take(&mut lock(&self.0).slow)
    }

    /// Begins an escalation.
    pub(super) fn begin(&self) {
        let mut state = lock(&self.0);
        (state.attached, state.detached, state.ended) = (None, None, None);
    }

    /// Records that the escalation's probes are attached.
    pub(super) fn attach(&self, at: Nanos) {
        lock(&self.0).attached = Some(at);
    }

    /// Records that all packets before this time have been read.
    /// Called before the capture begins and after each read.
    pub(crate) fn set_packets_read(&self, until_ns: u64) {
        lock(&self.0).packets_read_ns = Some(until_ns);
    }

    /// Assigns kernel events from now on to the always-on sources.
    /// Called after the capture ends, so that the probes see the writes of each request that packets showed.
    pub(super) fn detach(&self, at: Nanos) {
        lock(&self.0).detached = Some(at);
    }

    /// Assigns requests from now on to the always-on source.
    pub(super) fn end(&self, at: Nanos) {
        lock(&self.0).ended = Some(at);
    }

    /// Records that all requests that packets showed are delivered.
    pub(super) fn end_packets(&self) {
        lock(&self.0).packets_read_ns = None;
    }

    /// Time until which it is known which requests packets showed.
    /// `None` while no packets are captured.
    pub(crate) fn known_until_ns(&self) -> Option<u64> {
        lock(&self.0).packets_read_ns.map(|read| read.saturating_sub(LATENESS_NS))
    }

    /// Whether sources of this mode are to deliver an event that they observed.
    pub(crate) fn is_of(&self, mode: Mode, event: &Event) -> bool {
        lock(&self.0).is_of(mode, event)
    }
}

impl State {
    fn is_of(&mut self, mode: Mode, event: &Event) -> bool {
        match (mode, event) {
            // The always-on source observes its end.
            (Mode::Full, Event::Request(request)) if self.ended.is_some() && request.end.is_none() => false,
            (Mode::Full, Event::Request(request)) => {
                self.remember(request);
                true
            }
            (Mode::AlwaysOn, Event::Request(request)) => !self.is_remembered(request),
            (mode, event) => (mode == Mode::Full) == self.is_within(start(event), event.time()),
        }
    }

    /// Whether the escalation's probes observed all of the interval.
    fn is_within(&self, start: Nanos, end: Nanos) -> bool {
        self.attached.is_some_and(|attached| attached <= start)
            && self.detached.is_none_or(|detached| end <= detached)
    }

    fn remember(&mut self, request: &Request) {
        let at = request.last_seen();
        if at - self.since >= REMEMBER || self.requests.len() >= MAX_REMEMBERED {
            self.earlier = std::mem::take(&mut self.requests);
            self.since = at;
        }
        let key = self.key(request);
        self.requests.insert(key);
    }

    fn is_remembered(&self, request: &Request) -> bool {
        let is_later = self.ended.is_some_and(|ended| request.arrival - ended > AFTER);
        let key = self.key(request);
        !is_later && (self.requests.contains(&key) || self.earlier.contains(&key))
    }

    fn key(&self, request: &Request) -> u64 {
        let (client, broker) = (request.client, request.broker);
        let client = (client.ip().to_canonical(), client.port());
        self.hasher.hash_one((client, broker.port(), request.api_key, request.correlation_id))
    }
}

/// The start of an event of a kind that both modes observe.
fn start(event: &Event) -> Nanos {
    match event {
        Event::FileOp(row) => row.start,
        Event::BlockIo(row) => row.start,
        Event::OffCpu(row) => row.start,
        Event::SocketOp(row) => row.start,
        Event::JournalCommit(row) => row.start,
        Event::KernelSpan(row) => row.start,
        Event::DirtyThrottle(row) => row.start,
        Event::Reclaim(row) => row.start,
        Event::CpuGap(row) => row.start,
        Event::ProcessStop(row) => row.start,
        _ => event.time(),
    }
}

/// The events that one mode delivers; all events in a watch with only one mode.
#[derive(Clone, Default)]
pub(crate) struct Share(pub(crate) Option<(Mode, std::sync::Arc<Handover>)>);

impl Share {
    /// Whether an event is to be delivered.
    pub(crate) fn has(&self, event: &Event) -> bool {
        self.0.as_ref().is_none_or(|(mode, handover)| handover.is_of(*mode, event))
    }

    /// See [`Handover::set_packets_read`].
    pub(crate) fn set_packets_read(&self, until_ns: u64) {
        if let Some((_, handover)) = &self.0 {
            handover.set_packets_read(until_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{Handover, Mode};
    use model::{Event, Nanos, OffCpu, Request};

    const MODES: [Mode; 2] = [Mode::AlwaysOn, Mode::Full];

    fn request(correlation_id: i32, arrival: i64, end: impl Into<Option<i64>>) -> Event {
        let (client, broker) = ("[::ffff:10.0.0.9]:4711", "10.0.0.1:9092");
        let request = Request::new(client.parse().unwrap(), broker.parse().unwrap());
        let (arrival, end) = (Nanos::from_millis(arrival), end.into().map(Nanos::from_millis));
        Event::Request(Box::new(Request { arrival, end, correlation_id, ..request }))
    }

    #[test]
    fn slow_request_wakes_the_thread_that_counts() {
        let (handover, began) = (Handover::default(), Instant::now());
        handover.count_slow_here();
        handover.add_slow(3);
        std::thread::park_timeout(Duration::from_secs(60));
        assert!(began.elapsed() < Duration::from_secs(30));
        assert_eq!((handover.take_slow(), handover.take_slow()), (3, 0));
    }

    fn wait(start: i64, end: i64) -> Event {
        let (start, end) = (Nanos::from_millis(start), Nanos::from_millis(end));
        let (thread, stack) = ("".into(), "".into());
        let wait =
            OffCpu { start, end, woken: None, pid: 7, tid: 7, thread, preempted: false, stack, waker: None };
        wait.into()
    }

    /// The modes that deliver an event that both observe.
    fn delivering_modes(handover: &Handover, event: &Event) -> Vec<Mode> {
        MODES.into_iter().filter(|mode| handover.is_of(*mode, event)).collect()
    }

    #[test]
    fn events_within_an_escalation_come_from_its_probes_only() {
        let handover = Handover::default();
        assert_eq!(delivering_modes(&handover, &wait(1, 2)), [Mode::AlwaysOn]);
        handover.attach(Nanos::from_millis(1_000));
        assert_eq!(
            delivering_modes(&handover, &wait(999, 1_500)),
            [Mode::AlwaysOn],
            "its start was not seen"
        );
        assert_eq!(delivering_modes(&handover, &wait(1_000, 1_500)), [Mode::Full]);
        handover.end(Nanos::from_millis(1_900));
        assert_eq!(delivering_modes(&handover, &wait(1_500, 2_100)), [Mode::Full], "packets are still read");
        handover.detach(Nanos::from_millis(2_000));
        assert_eq!(
            delivering_modes(&handover, &wait(1_500, 2_000)),
            [Mode::Full],
            "which is delivered later"
        );
        assert_eq!(
            delivering_modes(&handover, &wait(1_500, 2_001)),
            [Mode::AlwaysOn],
            "its end was not seen"
        );
        handover.begin();
        assert_eq!(delivering_modes(&handover, &wait(8_000, 8_100)), [Mode::AlwaysOn]);
        handover.attach(Nanos::from_millis(9_000));
        assert_eq!(delivering_modes(&handover, &wait(8_000, 9_500)), [Mode::AlwaysOn]);
        assert_eq!(delivering_modes(&handover, &wait(9_100, 9_500)), [Mode::Full]);
    }

    #[test]
    fn captured_request_is_delivered_once() {
        let handover = Handover::default();
        let of = |mode, request: &Event| handover.is_of(mode, request);
        assert!(of(Mode::AlwaysOn, &request(1, 10, 20)));
        handover.attach(Nanos::from_millis(1_000));
        // It was in the socket before the capture began, so no packet showed it.
        assert!(of(Mode::AlwaysOn, &request(2, 1_200, 1_300)));
        assert!(of(Mode::Full, &request(3, 1_100, 1_300)));
        assert!(!of(Mode::AlwaysOn, &request(3, 1_250, 1_301)), "and was read later");
        handover.end(Nanos::from_millis(2_000));
        assert!(of(Mode::Full, &request(4, 1_999, 2_002)), "captured before the capture ended");
        assert!(!of(Mode::AlwaysOn, &request(4, 2_001, 2_003)));
        assert!(!of(Mode::Full, &request(5, 1_999, None)), "its answer was not captured");
        assert!(of(Mode::AlwaysOn, &request(5, 1_999, 2_100)));
        assert!(of(Mode::AlwaysOn, &request(3, 60_000, 60_100)), "another one, of the same port");
    }

    #[test]
    fn requests_are_remembered_for_about_ten_seconds() {
        let handover = Handover::default();
        for second in 0..60 {
            assert!(handover.is_of(
                Mode::Full,
                &request(second, 1_000 * i64::from(second), 1_000 * i64::from(second) + 1)
            ));
            let oldest = (second - 10).max(0);
            let again =
                |second: i32| request(second, 1_000 * i64::from(second), 1_000 * i64::from(second) + 1);
            assert!(
                (oldest..=second).all(|second| !handover.is_of(Mode::AlwaysOn, &again(second))),
                "{second}"
            );
            if second > 20 {
                assert!(handover.is_of(Mode::AlwaysOn, &again(second - 21)), "{second}");
            }
        }
    }

    #[test]
    fn known_time_ends_shortly_before_the_last_packet_read() {
        let handover = Handover::default();
        assert_eq!(handover.known_until_ns(), None);
        handover.set_packets_read(3_000_000_000);
        assert_eq!(handover.known_until_ns(), Some(2_500_000_000));
        handover.end_packets();
        assert_eq!(handover.known_until_ns(), None);
    }
}
