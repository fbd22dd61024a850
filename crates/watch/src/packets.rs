//! Requests on the wire: reads the capture ring and puts requests onto the recording's clock. Follows the broker into other
//! network namespaces and to other ports. Decoding is `capture`'s business.

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use broker::topic_ids::TopicIds;
use capture::live::{Live, LiveConfig};
use capture::{Analyzer, Counters, Packet};
use model::clock::ClockPair;
use model::{ClockOffset, Event, LossKind, Nanos, PartitionState, TlsTraffic, TopicId};
use probes::Slice;

use crate::escalation::Share;
use crate::network::{self, CaptureOpener};
use crate::queue::{Batch, lock};
use crate::source::{BrokerProcess, Feed, LossCount, Pace, Running, Source, WatchSummary};

/// About how long a source runs before it is first asked what it counted.
const FIRST_COUNT: Nanos = Nanos::from_millis(1_000);
/// The longest a full block of packets waits.
const WAIT: Duration = Duration::from_millis(100);
/// After so long it is known at the latest that the broker runs again ([`crate::supervisor`]), or that a capture has ended.
const KNOWN_LATE: Nanos = Nanos::from_millis(1_000);

/// How packets are captured, wherever the broker is.
#[derive(Clone)]
pub(crate) struct Capture {
    pub(crate) interface: String,
    pub(crate) message_id_header: Option<Vec<u8>>,
    pub(crate) ring_bytes: usize,
    /// What is kept of connections takes at most so many bytes.
    pub(crate) memory_bytes: usize,
    pub(crate) opener: CaptureOpener,
}

impl Capture {
    pub(crate) fn open(&self, broker: &BrokerProcess) -> Result<Live, capture::Error> {
        let config = LiveConfig {
            interface: self.interface.clone(),
            ports: broker.ports.clone(),
            ring_bytes: self.ring_bytes,
            ..LiveConfig::default()
        };
        self.opener.open(broker.pid, &config)
    }
}

/// Requests on the wire.
pub(crate) struct PacketSource {
    capture: Capture,
    /// None once it has ended, until it can be opened again.
    live: Option<Live>,
    place: Place,
    /// Why there is no capture where the broker is.
    outage: Option<capture::Error>,
    /// Until when no packet of the broker can have passed unseen.
    covered_until: Option<Nanos>,
    analyzer: Analyzer,
    /// Not yet begun; then who finds them, and what was found.
    topics: Option<TopicSource>,
    finder: Option<Running>,
    new_topics: NewTopics,
    clock: PacketClock,
    /// Packets that the kernel dropped of this capture, as far as the analyzer knows.
    drops: u64,
    /// When TLS was last counted.
    tls_counted: Option<Nanos>,
    share: Share,
}

/// Where a broker's packets pass.
#[derive(PartialEq, Eq)]
struct Place {
    namespace: Option<PathBuf>,
    ports: Vec<u16>,
}

impl Place {
    fn of(broker: &BrokerProcess) -> Self {
        Self { namespace: network::namespace(&broker.pid.to_string()), ports: broker.ports.clone() }
    }
}

impl PacketSource {
    /// Begins to capture a broker's packets.
    pub(crate) fn open(
        capture: Capture,
        broker: &BrokerProcess,
        share: Share,
    ) -> Result<Self, capture::Error> {
        let live = Some(capture.open(broker)?);
        let (mut ids, new_topics) = (TopicIds::default(), NewTopics::default());
        let analyzer = Analyzer::new(capture::Config {
            ports: broker.ports.clone(),
            message_id_header: capture.message_id_header.clone(),
            topics: ids.changes(&broker.log_dirs, &mut || ()).into_iter().collect(),
            both_directions: true,
            limits: capture::Limits::within(capture.memory_bytes),
        });
        Ok(Self {
            capture,
            live,
            place: Place::of(broker),
            outage: None,
            covered_until: None,
            analyzer,
            topics: Some(TopicSource { ids, new: Arc::clone(&new_topics) }),
            finder: None,
            new_topics,
            clock: PacketClock::default(),
            drops: 0,
            tls_counted: None,
            share,
        })
    }

    /// Hands over the packets there are. Rests after each [`Slice`], unless the ring fills up.
    fn read(&mut self, feed: &Feed, timeout: Duration) -> Result<(), capture::Error> {
        let Some(live) = &mut self.live else { return Ok(()) };
        let mut batch = Batch::of(&feed.sender);
        let mut turn = None;
        let stopping = feed.is_stopped();
        let began_ns = crate::now().monotonic_ns;
        let read = live.next_packets(timeout, &mut |packet, is_filling| {
            // When there are packets: the wall clock may have been stepped while this waited for them.
            let begin = || (self.clock.at(feed.clock, crate::now()), Slice::new(Slice::SHORT));
            let (clock, slice) = turn.get_or_insert_with(begin);
            let packet = Packet { time_ns: clock.time_of(packet.time_ns).0, ..*packet };
            self.analyzer.packet(&packet, &mut |request| {
                let event = Event::Request(request);
                if self.share.has(&event) {
                    batch.push(event);
                }
            });
            if slice.rest_if_over(|| is_filling || stopping) {
                clock.near = crate::now();
            }
        });
        batch.send();
        self.share.packets_read(began_ns);
        read.map(drop)
    }

    /// Captures where the broker is, if that is elsewhere by now or the capture has ended. What passed meanwhile is a loss.
    fn follow(&mut self, broker: &BrokerProcess, feed: &Feed) {
        let place = Place::of(broker);
        // A process whose namespace cannot be read has ended.
        if self.live.is_some() && (place == self.place || place.namespace.is_none()) {
            self.cover(feed);
            return;
        }
        let opened = self.reopen(broker);
        let why = match (&opened, &self.outage) {
            (Err(error), _) | (Ok(_), Some(error)) => format!("no packets were captured: {error}"),
            (Ok(_), None) => "the broker came back in another network, or with other ports".to_owned(),
        };
        let start = self.covered_until.unwrap_or_else(|| feed.now() - FIRST_COUNT);
        self.covered_until = Some(feed.report_off(LossKind::SourceDown, start, &why));
        // The last packets of the old one; why that ended is known.
        let _ = self.read(feed, Duration::ZERO).and_then(|()| self.count_losses());
        self.drops = 0;
        match opened {
            Ok(live) => {
                self.analyzer.set_ports(place.ports.clone());
                (self.live, self.place, self.outage) = (Some(live), place, None);
            }
            Err(error) => (self.live, self.outage) = (None, Some(error)),
        }
    }

    fn reopen(&self, broker: &BrokerProcess) -> Result<Live, capture::Error> {
        if self.live.is_none() {
            // Tried each second, perhaps for days: a ring is made only where it can be used.
            Capture { ring_bytes: 0, ..self.capture.clone() }.open(broker)?;
        }
        self.capture.open(broker)
    }

    /// Notes that no packet of the broker has passed unseen so far, but for what is known late.
    fn cover(&mut self, feed: &Feed) {
        self.covered_until = Some(feed.now() - KNOWN_LATE);
    }

    /// Delivers what passed as TLS since the last time.
    fn count_tls(&mut self, feed: &Feed) {
        let end = feed.now();
        let start = self.tls_counted.replace(end).unwrap_or(end - FIRST_COUNT);
        for (listener, count) in self.analyzer.take_tls().iter() {
            let (connections, bytes) = (count.connections, count.bytes);
            feed.sender.send(TlsTraffic { start, end, listener, connections, bytes }.into());
        }
    }

    /// Delivers what Metadata responses said of partitions since the last time.
    fn tell_replicas(&mut self, feed: &Feed) {
        let at = feed.now();
        let states = self.analyzer.take_replicas().into_iter().map(|(topic, partition, replicas)| {
            Event::PartitionState(PartitionState { at, topic, partition, replicas })
        });
        feed.sender.send_all(states.collect());
    }
}

impl Source for PacketSource {
    type Error = capture::Error;

    const NAME: &'static str = "packets";
    const PACE: Pace = Pace::Blocking(WAIT);

    fn is_up(&self) -> bool {
        self.live.is_some()
    }

    fn why_down(&self) -> Option<String> {
        self.outage.as_ref().map(ToString::to_string)
    }

    fn start(&mut self, feed: &Feed) {
        // Without a thread for it, new topics are not named.
        let start = |topics| Running::start(topics, &feed.with_own_stop()).ok();
        self.finder = self.topics.take().and_then(start);
    }

    /// A block that is not full is read when it is old enough, also at the end.
    fn poll(&mut self, feed: &Feed, _: Duration) -> Result<(), capture::Error> {
        if let Err(error) = self.read(feed, WAIT) {
            self.cover(feed);
            (self.live, self.outage) = (None, Some(error));
        }
        Ok(())
    }

    /// Learns topics that are new, and says what was TLS and how many replicas there are.
    fn check(&mut self, feed: &Feed) -> Result<bool, capture::Error> {
        self.count_tls(feed);
        self.tell_replicas(feed);
        self.analyzer.learn_topics(std::mem::take(&mut *lock(&self.new_topics)));
        match feed.current.get() {
            Some(broker) => self.follow(&broker, feed),
            None => self.cover(feed),
        }
        Ok(false)
    }

    fn count_losses(&mut self) -> Result<(), capture::Error> {
        let Some(live) = &mut self.live else { return Ok(()) };
        let drops = live.drops()?;
        self.analyzer.count_kernel_drops(drops.saturating_sub(self.drops));
        self.drops = drops;
        Ok(())
    }

    fn losses(&self) -> Vec<LossCount> {
        let counters = self.analyzer.counters();
        vec![
            (LossKind::PacketsDropped, "the capture ring was full", counters.kernel_drops),
            (LossKind::StreamGapBytes, "bytes of a stream were in no packet", counters.gap_bytes),
            (LossKind::FramesUndecodable, "frames could not be read", counters.undecodable_frames),
            (
                LossKind::EventsDropped,
                "requests of one packet were too many, or no side acknowledged them",
                counters.dropped_requests,
            ),
        ]
    }

    fn finish(&mut self, feed: &Feed) -> Result<(), capture::Error> {
        self.analyzer.finish(&mut |request| {
            let event = Event::Request(request);
            if self.share.has(&event) {
                feed.sender.send(event);
            }
        });
        self.count_tls(feed);
        self.tell_replicas(feed);
        Ok(())
    }

    fn summarize(self, ended: Result<(), capture::Error>) -> WatchSummary {
        if let Some(finder) = self.finder {
            finder.stop();
            finder.join();
        }
        let counters: Counters = self.analyzer.counters();
        let ended = ended.and(self.outage.map_or(Ok(counters), Err));
        WatchSummary { packets: Some(ended), ..WatchSummary::default() }
    }
}

/// Puts times of packets onto the recording's clock, each by itself: between a request and its response the wall clock may be
/// stepped, as it is after a pause of the machine.
#[derive(Default)]
pub(crate) struct PacketClock {
    /// How the wall clock stood when packets were read last.
    before: Option<ClockPair>,
}

/// For the packets that are read together.
struct ReadingClock {
    clock: ClockOffset,
    /// At the reading before: no packet of this one was there then.
    before: ClockPair,
    /// At the last look, some of the packets ago.
    near: ClockPair,
}

impl PacketClock {
    fn at(&mut self, clock: ClockOffset, near: ClockPair) -> ReadingClock {
        let before = self.before.replace(near).unwrap_or(near);
        ReadingClock { clock, before, near }
    }
}

impl ReadingClock {
    /// A packet may have come before a step of the wall clock or after it: the later of both that is not yet to come.
    fn time_of(&self, realtime_ns: i64) -> Nanos {
        let now = self.clock.from_monotonic(self.near.monotonic_ns);
        let by = |pair| self.clock.from_realtime(realtime_ns, pair);
        let (old, new) = (by(self.before), by(self.near));
        let possible = [old, new].into_iter().filter(|time| *time <= now);
        possible.max().unwrap_or(new)
    }
}

/// Names of topics on their way to the thread that reads packets.
type NewTopics = Arc<Mutex<Vec<(TopicId, Arc<str>)>>>;

/// Looks for names of topics in the log dirs, which takes too long beside packets.
struct TopicSource {
    ids: TopicIds,
    new: NewTopics,
}

impl Source for TopicSource {
    type Error = Infallible;

    const NAME: &'static str = "topics";
    const PACE: Pace = Pace::Every(Duration::from_secs(1));

    fn poll(&mut self, feed: &Feed, _: Duration) -> Result<(), Infallible> {
        if let Some(broker) = feed.current.get() {
            let mut slice = Slice::new(Slice::LONG);
            let mut rest = || {
                slice.rest_if_over(|| feed.is_stopped());
            };
            let new = self.ids.changes(&broker.log_dirs, &mut rest);
            lock(&self.new).extend(new);
        }
        Ok(())
    }

    fn summarize(self, _: Result<(), Infallible>) -> WatchSummary {
        WatchSummary::default()
    }
}

#[cfg(test)]
mod tests {
    use super::{ClockOffset, ClockPair, Nanos, PacketClock};

    fn pair(monotonic_ns: u64, realtime_ns: i64) -> ClockPair {
        ClockPair { monotonic_ns, realtime_ns }
    }

    /// The wall clock was stepped by so much between two readings of packets, 100 apart; a packet came 40 after the first.
    fn time_of_packet(step: i64, before_the_step: bool) -> Nanos {
        let mut clock = PacketClock::default();
        let offset = ClockOffset::at(pair(1_000, 50_000));
        clock.at(offset, pair(1_000, 50_000));
        let reading = clock.at(offset, pair(1_100, 50_100 + step));
        reading.time_of(if before_the_step { 50_040 } else { 50_040 + step })
    }

    #[test]
    fn a_stepped_wall_clock_moves_no_packet() {
        for step in [0, 9_000, -9_000] {
            for before_the_step in [true, false] {
                assert_eq!(time_of_packet(step, before_the_step), Nanos(50_040), "{step}, {before_the_step}");
            }
        }
    }

    #[test]
    fn the_packets_between_two_readings_of_the_clock_have_the_newer_one() {
        let mut clock = PacketClock::default();
        let offset = ClockOffset::at(pair(1_000, 50_000));
        // Slewed by 5, and it came while the packets were read.
        clock.at(offset, pair(1_000, 50_000));
        assert_eq!(clock.at(offset, pair(1_100, 50_105)).time_of(50_107), Nanos(50_102));
    }
}
