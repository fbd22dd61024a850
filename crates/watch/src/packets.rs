//! Requests from captured packets: opens captures and has a separate process parse them, because anyone who can reach the broker
//! may have sent them. Follows the broker to other network namespaces and ports. The crate `capture` decodes packets.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use broker::topic_ids::TopicIds;
use capture::Counters;
use capture::live::{Live, LiveConfig};
use model::{Event, LossKind, Nanos, PartitionState, TlsCount, TlsTraffic, TopicId};
use probes::Slice;

use crate::escalation::Share;
use crate::network::{self, CaptureOpener};
use crate::parser::channel::{Kind, invalid};
use crate::parser::packets::{Answer, LIST, Order};
use crate::parser::transfer::take_requests;
use crate::parser::{PARSE_PACKETS, Parser, receive_rest};
use crate::queue::{Batch, lock};
use crate::source::{BrokerProcess, Feed, LossCount, Pace, Running, Source, WatchSummary};

/// About how long a source runs before its counters are first read.
const FIRST_COUNT: Nanos = Nanos::from_millis(1_000);
/// The longest wait for a message of the parser.
const WAIT: Duration = Duration::from_millis(100);
/// Timeout for the parser's last messages: more than a full ring takes.
const LAST_TIME: Duration = Duration::from_secs(20);
/// Longest delay until a restart or the end of a capture is known.
/// [`crate::supervisor`] notices a restart of the broker.
const KNOWN_LATE: Nanos = Nanos::from_millis(1_000);

/// How to capture packets, in whichever namespace the broker is.
#[derive(Clone)]
pub(crate) struct Capture {
    pub(crate) interface: String,
    pub(crate) message_id_header: Option<Vec<u8>>,
    pub(crate) ring_bytes: usize,
    /// Limit for the state of connections.
    pub(crate) memory_bytes: usize,
    pub(crate) opener: CaptureOpener,
    /// The program that parses packets.
    pub(crate) parser: PathBuf,
    /// Whether TLS traffic is read elsewhere ([`crate::tls`]).
    pub(crate) tls_is_read: Arc<AtomicBool>,
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

    fn error(&self, step: &'static str, source: io::Error) -> capture::Error {
        capture::Error::Live { interface: self.interface.clone(), step, source }
    }
}

/// Reads requests from packets.
pub(crate) struct PacketSource {
    capture: Capture,
    /// A capture for a broker that was not passed to the parser yet.
    opened: Option<(Live, BrokerProcess)>,
    /// `None` after it has died, until another one is started.
    parser: Option<Parser>,
    /// Whether the parser has a capture that has not ended.
    is_capturing: bool,
    place: Place,
    /// Why there is no capture at the broker's current place.
    outage: Option<capture::Error>,
    /// Time until which no packet of the broker can have been missed.
    covered_until: Option<Nanos>,
    /// Last counters of the running parser; requests by API are counted here.
    counters: Counters,
    requests_by_api: BTreeMap<&'static str, u64>,
    /// Whether the counters start from 0 again.
    is_recounted: bool,
    finder: Option<Running>,
    new_topics: NewTopics,
    /// When TLS traffic was last reported.
    tls_counted: Option<Nanos>,
    share: Share,
}

/// The place where a broker's packets pass: network namespace and ports.
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
    /// Starts to capture a broker's packets.
    pub(crate) fn open(
        capture: Capture,
        broker: &BrokerProcess,
        share: Share,
    ) -> Result<Self, capture::Error> {
        let opened = Some((capture.open(broker)?, broker.clone()));
        let parser =
            Parser::start(&capture.parser, PARSE_PACKETS).map_err(|why| capture.error(PARSING, why))?;
        Ok(Self {
            capture,
            opened,
            parser: Some(parser),
            is_capturing: false,
            place: Place::of(broker),
            outage: None,
            covered_until: None,
            counters: Counters::default(),
            requests_by_api: BTreeMap::new(),
            is_recounted: false,
            finder: None,
            new_topics: NewTopics::default(),
            tls_counted: None,
            share,
        })
    }

    /// Starts the parser with the current topics.
    /// It then knows them before the first packet.
    fn begin(&mut self, broker: &BrokerProcess, feed: &Feed) -> io::Result<()> {
        let Some(parser) = &self.parser else { return Ok(()) };
        let begin = Order::Begin {
            clock: feed.clock,
            memory_bytes: self.capture.memory_bytes,
            message_id_header: self.capture.message_id_header.clone(),
            is_plaintext: false,
        };
        parser.send_order(&begin, None)?;
        let mut ids = TopicIds::default();
        send_topics(parser, &ids.changes(&broker.log_dirs, &mut || ()))?;
        if let Some(finder) = self.finder.take() {
            finder.stop();
            finder.join();
        }
        // Without this thread, new topics have no names.
        let topics = TopicSource { ids, new: Arc::clone(&self.new_topics) };
        self.finder = Running::start(topics, &feed.with_own_stop()).ok();
        Ok(())
    }

    fn hand_over(&mut self, live: &Live, ports: &[u16]) -> io::Result<()> {
        let Some(parser) = &self.parser else { return Ok(()) };
        let (socket, blocks) = live.socket();
        let (interface, ports) = (self.capture.interface.clone(), ports.to_vec());
        parser.send_order(&Order::Capture { interface, blocks, ports }, Some(socket))?;
        self.is_capturing = true;
        Ok(())
    }

    /// Delivers the parser's next message, waiting at most `timeout` for it.
    /// Returns whether it was the last.
    fn receive(&mut self, feed: &Feed, timeout: Duration) -> io::Result<bool> {
        let Some(parser) = &mut self.parser else { return Ok(true) };
        let Some((kind, body)) = parser.receive(timeout)? else { return Ok(false) };
        match kind {
            Kind::Rows => {
                let mut batch = Batch::of(&feed.sender);
                take_requests(body, |request| {
                    *self.requests_by_api.entry(request.api).or_default() += 1;
                    let event = Event::Request(request);
                    if self.share.has(&event) {
                        batch.push(event);
                    }
                })?;
                batch.send();
            }
            Kind::Time => {
                let until_ns = body.try_into().map(u64::from_ne_bytes).map_err(|_| invalid())?;
                self.share.set_packets_read(until_ns);
            }
            Kind::Log => return Err(invalid()),
            Kind::Json => {
                let answer = serde_json::from_slice(body)?;
                return Ok(self.take(answer, feed));
            }
        }
        Ok(false)
    }

    /// Handles the parser's messages other than requests. Returns whether it was the last.
    fn take(&mut self, answer: Answer, feed: &Feed) -> bool {
        match answer {
            Answer::Counted { counters, tls } => {
                self.counters = *counters;
                self.report_tls(tls, feed);
            }
            Answer::Replicas(replicas) => {
                let at = feed.now();
                let states = replicas.into_iter().map(|(topic, partition, replicas)| {
                    let topic = topic.into();
                    Event::PartitionState(PartitionState { at, topic, partition, replicas })
                });
                feed.sender.send_all(states.collect());
            }
            Answer::Ended(why) => self.lose_capture(io::Error::other(why), feed),
            Answer::Finished => return true,
        }
        false
    }

    /// Reports TLS traffic since the last call.
    fn report_tls(&mut self, tls: Vec<(std::net::SocketAddr, TlsCount)>, feed: &Feed) {
        let end = feed.now();
        if self.capture.tls_is_read.load(Ordering::Relaxed) {
            self.tls_counted = Some(end);
            return;
        }
        let start = self.tls_counted.replace(end).unwrap_or(end - FIRST_COUNT);
        for (listener, TlsCount { connections, bytes }) in tls {
            feed.sender.send(TlsTraffic { start, end, listener, connections, bytes }.into());
        }
    }

    /// Marks the capture as ended, until another one is opened.
    fn lose_capture(&mut self, why: io::Error, feed: &Feed) {
        if self.is_capturing {
            self.cover(feed);
        }
        self.is_capturing = false;
        self.outage = Some(self.capture.error(PARSING, why));
    }

    /// Like [`Self::lose_capture`], and drops the parser with its state of connections.
    fn lose_parser(&mut self, error: &io::Error, feed: &Feed) {
        let Some(mut parser) = self.parser.take() else { return };
        self.lose_capture(parser.end(error), feed);
        self.counters = Counters::default();
        self.is_recounted = true;
    }

    /// Captures at the broker's current place.
    /// Opens a capture if the place has changed or the capture has ended. Reports a loss for the time between.
    fn follow(&mut self, broker: &BrokerProcess, feed: &Feed) {
        let place = Place::of(broker);
        // If the namespace cannot be read, the process has ended.
        if self.is_capturing && (place == self.place || place.namespace.is_none()) {
            self.cover(feed);
            return;
        }
        let opened = self.reopen(broker, feed);
        let why = match (&opened, &self.outage) {
            (Err(error), _) | (Ok(()), Some(error)) => format!("no packets were captured: {error}"),
            (Ok(()), None) => "the broker came back in another network, or with other ports".to_owned(),
        };
        let start = self.covered_until.unwrap_or_else(|| feed.now() - FIRST_COUNT);
        self.covered_until = Some(feed.report_off(LossKind::SourceDown, start, &why));
        match opened {
            Ok(()) => (self.place, self.outage) = (place, None),
            Err(error) => (self.is_capturing, self.outage) = (false, Some(error)),
        }
    }

    fn reopen(&mut self, broker: &BrokerProcess, feed: &Feed) -> Result<(), capture::Error> {
        if !self.is_capturing {
            // This is retried each second, perhaps for days, so test without a ring first.
            Capture { ring_bytes: 0, ..self.capture.clone() }.open(broker)?;
        }
        let live = self.capture.open(broker)?;
        let restarted = self.restart_parser(broker, feed);
        let handed_over = restarted.and_then(|()| self.hand_over(&live, &broker.ports));
        handed_over.map_err(|error| {
            let failure = self.capture.error(PARSING, io::Error::other(error.to_string()));
            self.lose_parser(&error, feed);
            failure
        })
    }

    fn restart_parser(&mut self, broker: &BrokerProcess, feed: &Feed) -> io::Result<()> {
        if self.parser.is_some() {
            return Ok(());
        }
        self.parser = Some(Parser::start(&self.capture.parser, PARSE_PACKETS)?);
        self.begin(broker, feed)
    }

    /// Records that no packet has been missed so far.
    /// The last [`KNOWN_LATE`] is left out.
    fn cover(&mut self, feed: &Feed) {
        self.covered_until = Some(feed.now() - KNOWN_LATE);
    }
}

/// Sends topic names to a parser.
pub(crate) fn send_topics(parser: &Parser, topics: &[(TopicId, Arc<str>)]) -> io::Result<()> {
    topics.chunks(LIST).try_for_each(|some| {
        let some = some.iter().map(|(id, name)| (id.to_string(), name.to_string())).collect();
        parser.send_order(&Order::Topics(some), None)
    })
}

/// Name of the parser's step in errors.
const PARSING: &str = "parsing packets";

impl Source for PacketSource {
    type Error = Infallible;

    const NAME: &'static str = "packets";
    const PACE: Pace = Pace::Blocking(WAIT);

    fn is_up(&self) -> bool {
        self.parser.is_some()
    }

    fn why_down(&self) -> Option<String> {
        self.outage.as_ref().map(ToString::to_string)
    }

    fn start(&mut self, feed: &Feed) {
        let Some((live, broker)) = self.opened.take() else { return };
        let result = self.begin(&broker, feed).and_then(|()| self.hand_over(&live, &broker.ports));
        if let Err(error) = result {
            self.lose_parser(&error, feed);
        }
    }

    /// Reads one message from the parser.
    fn poll(&mut self, feed: &Feed, timeout: Duration) -> Result<(), Infallible> {
        if let Err(error) = self.receive(feed, timeout) {
            self.lose_parser(&error, feed);
        }
        Ok(())
    }

    /// Sends new topics to the parser, and follows the broker if it has moved.
    fn check(&mut self, feed: &Feed) -> Result<bool, Infallible> {
        let topics = std::mem::take(&mut *lock(&self.new_topics));
        if let Some(Err(error)) = self.parser.as_ref().map(|parser| send_topics(parser, &topics)) {
            self.lose_parser(&error, feed);
        }
        match feed.current.get() {
            Some(broker) => self.follow(&broker, feed),
            None => self.cover(feed),
        }
        Ok(std::mem::take(&mut self.is_recounted))
    }

    fn losses(&self) -> Vec<LossCount> {
        let counters = &self.counters;
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

    /// Has the parser read the last packets first.
    fn finish(&mut self, feed: &Feed) -> Result<(), Infallible> {
        let Some(parser) = &self.parser else { return Ok(()) };
        let sent = parser.send_order(&Order::Finish, None);
        let finished = sent.and_then(|()| receive_rest(LAST_TIME, || self.receive(feed, WAIT)));
        if let Err(error) = finished {
            let start = self.covered_until.unwrap_or_else(|| feed.now() - FIRST_COUNT);
            self.lose_parser(&error, feed);
            let why = self.why_down().unwrap_or_default();
            feed.report_off(LossKind::SourceDown, start, &format!("the last packets were not read: {why}"));
        }
        Ok(())
    }

    fn summarize(self, _: Result<(), Infallible>) -> WatchSummary {
        if let Some(finder) = self.finder {
            finder.stop();
            finder.join();
        }
        let counters = Counters { requests_by_api: self.requests_by_api, ..self.counters };
        let ended = self.outage.map_or(Ok(counters), Err);
        WatchSummary { packets: Some(ended), ..WatchSummary::default() }
    }
}

/// Topic names to send to the parser.
type NewTopics = Arc<Mutex<Vec<(TopicId, Arc<str>)>>>;

/// Looks for topic names in the log dirs, which takes long if there are many.
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
