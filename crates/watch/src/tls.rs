//! Requests on TLS connections: an agent in the broker's JVM copies their plaintext into a ring in memory, and a separate process
//! parses it. The crate `capture` decodes it, and `jvm` loads the agent.
//!
//! The agent sees a request once the broker reads it. When its bytes had arrived is known from the kernel
//! ([`probes::arrivals`]), and joined here.
//!
//! The agent stops by itself when the ring is no longer read; this source only loads it, and loads it again into the new process
//! after the broker is restarted.

use std::convert::Infallible;
use std::fs::File;
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use broker::topic_ids::TopicIds;
use capture::Counters;
use capture::plaintext::{AgentState, PlaintextRing, SocketRead, SocketReads};
use jvm::attach::Client;
use jvm::{Machine, act_as, agent};
use model::{ClockOffset, Event, LossKind, Nanos, Pid};
use probes::arrivals::Session;

use crate::packets::send_topics;
use crate::parser::channel::{Kind, invalid};
use crate::parser::packets::{Answer, Order};
use crate::parser::transfer::take_requests;
use crate::parser::{PARSE_PACKETS, Parser, receive_rest};
use crate::queue::Batch;
use crate::source::{BrokerProcess, Feed, LossCount, Pace, Source, WatchSummary};

/// Size of the ring: a tenth of a second at 80 MB/s.
const RING_BYTES: u32 = 8 << 20;
/// The longest wait for a message of the parser.
const WAIT: Duration = Duration::from_millis(100);
/// Timeout for the parser to stop the agent and to send the rest.
const LAST_TIME: Duration = Duration::from_secs(5);
/// Delay after a failure until the next attempt, which is not free for the broker.
const RETRY: Duration = Duration::from_secs(30);

/// Receives whether the first agent copies, or why not.
type First = SyncSender<Result<(), String>>;

/// Reads requests on TLS connections.
pub(crate) struct TlsSource {
    /// The broker at the start.
    broker: BrokerProcess,
    /// The program to run as parser, and two of its settings.
    /// These are its memory for connections, and the record header that holds a message's id.
    program: (PathBuf, usize, Option<Vec<u8>>),
    /// Set while an agent copies.
    is_read: Arc<AtomicBool>,
    first: First,
    /// The parser, and the process that it parses for; `None` while no agent copies.
    session: Option<(Parser, Pid)>,
    outage: Option<(String, Instant)>,
    /// The process that refused the agent at the start: it is not tried again.
    refused: Option<Pid>,
    covered_until: Option<Nanos>,
    /// When the agent was last known to copy; everything until then has been read.
    read_until: Option<Nanos>,
    topics: TopicIds,
    arrivals: Option<Arrivals>,
    counters: Counters,
    /// Whether the counters start from 0 again.
    is_recounted: bool,
}

/// When the bytes of the broker's connections arrived.
struct Arrivals {
    session: Session,
    reads: SocketReads,
    lost: u64,
}

impl Arrivals {
    fn new(session: Session) -> Self {
        Self { session, reads: SocketReads::default(), lost: 0 }
    }

    /// Takes the reads until now. Those of a request come before the request.
    fn take(&mut self, clock: ClockOffset) {
        let at = |ns| clock.from_monotonic(ns);
        let reads = &mut self.reads;
        let taken = self.session.read(|read| {
            let mut row = SocketRead::new(at(read.end_ns), read.sequence, read.bytes);
            read.arrivals().for_each(|(ns, bytes)| row.add_arrival(at(ns), bytes));
            reads.push(read.local, read.remote, row);
        });
        let lost = self.session.lost();
        // A request must not get the arrival of an earlier one.
        if taken.is_err() || lost != self.lost {
            self.reads.clear();
        }
        self.lost = lost;
    }

    /// Follows no connection until there are ports again.
    fn pause(&mut self) {
        self.session.set_ports(&[]);
        self.reads.clear();
    }
}

impl TlsSource {
    pub(crate) fn new(
        broker: BrokerProcess,
        program: (PathBuf, usize, Option<Vec<u8>>),
        is_read: Arc<AtomicBool>,
        first: First,
        arrivals: Option<Session>,
    ) -> Self {
        Self {
            broker,
            program,
            is_read,
            first,
            session: None,
            outage: None,
            refused: None,
            covered_until: None,
            read_until: None,
            topics: TopicIds::default(),
            arrivals: arrivals.map(Arrivals::new),
            counters: Counters::default(),
            is_recounted: false,
        }
    }

    /// Loads the agent, and starts a process that parses what it copies.
    fn begin(&mut self, broker: &BrokerProcess, feed: &Feed) -> Result<(), String> {
        let nonce = new_nonce();
        let file = load_agent(broker.pid, nonce)?;
        let result = self.start_parser(broker, feed, &file, nonce);
        let parser = result.map_err(|error| format!("parsing what TLS connections carry: {error}"))?;
        self.session = Some((parser, broker.pid));
        self.is_read.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn start_parser(
        &mut self,
        broker: &BrokerProcess,
        feed: &Feed,
        ring: &File,
        nonce: u64,
    ) -> io::Result<Parser> {
        let (program, memory_bytes, message_id_header) = self.program.clone();
        let parser = Parser::start(&program, PARSE_PACKETS)?;
        let begin = Order::Begin { clock: feed.clock, memory_bytes, message_id_header, is_plaintext: true };
        parser.send_order(&begin, None)?;
        self.topics = TopicIds::default();
        send_topics(&parser, &self.topics.changes(&broker.log_dirs, &mut || ()))?;
        let ports = broker.ports.clone();
        let order = Order::Plaintext { capacity: RING_BYTES, nonce, ports };
        parser.send_order(&order, Some(ring.as_fd()))?;
        Ok(parser)
    }

    /// Delivers the parser's next message, waiting at most `timeout` for it.
    /// Returns whether it was the last.
    fn receive(&mut self, feed: &Feed, timeout: Duration) -> io::Result<bool> {
        let Some((parser, _)) = &mut self.session else { return Ok(true) };
        let message = parser.receive(timeout)?;
        // With every message: reads also come of requests that do not end, and of listeners without TLS.
        if let Some(arrivals) = &mut self.arrivals {
            arrivals.take(feed.clock);
        }
        let Some((kind, body)) = message else { return Ok(false) };
        match kind {
            Kind::Rows => {
                let mut batch = Batch::of(&feed.sender);
                take_requests(body, |mut request| {
                    if let Some(arrivals) = &mut self.arrivals {
                        arrivals.reads.refine(&mut request);
                    }
                    batch.push(Event::Request(request));
                })?;
                batch.send();
            }
            Kind::Time => {
                let read_ns = body.try_into().map(u64::from_ne_bytes).map_err(|_| invalid())?;
                self.read_until = Some(feed.clock.from_monotonic(read_ns));
            }
            Kind::Log => return Err(invalid()),
            Kind::Json => match serde_json::from_slice(body)? {
                Answer::Counted { counters, .. } => self.counters = *counters,
                // The metadata log and the packets have them too.
                Answer::Replicas(_) => {}
                Answer::Ended(why) => return Err(io::Error::other(why)),
                Answer::Finished => return Ok(true),
            },
        }
        Ok(false)
    }

    fn fail(&mut self, why: String, feed: &Feed) {
        if self.session.take().is_some() {
            self.counters = Counters::default();
            self.is_recounted = true;
            let assumed = feed.now() - Nanos::from_millis(1_000);
            self.covered_until = Some(self.read_until.take().map_or(assumed, |until| until.min(assumed)));
        }
        if let Some(arrivals) = &mut self.arrivals {
            arrivals.pause();
        }
        self.is_read.store(false, Ordering::Relaxed);
        self.outage = Some((why, Instant::now()));
    }

    /// Starts if nothing is copied and it is time to try. Reports a loss for the time between.
    fn follow(&mut self, broker: &BrokerProcess, feed: &Feed) {
        let is_same = self.session.as_ref().is_some_and(|(_, pid)| *pid == broker.pid);
        if is_same {
            self.covered_until = Some(feed.now());
            return;
        }
        if self.session.is_some() {
            self.fail(format!("broker {} is another process", broker.pid), feed);
            self.outage = None;
        }
        if self.outage.as_ref().is_none_or(|(_, since)| since.elapsed() >= RETRY) {
            match self.begin(broker, feed) {
                Ok(()) => {
                    self.outage = None;
                    if let Some(arrivals) = &self.arrivals {
                        arrivals.session.set_ports(&broker.ports);
                    }
                }
                Err(why) => self.fail(why, feed),
            }
        }
        let start = self.covered_until.unwrap_or_else(|| feed.now());
        let why = self.outage.as_ref().map_or("the broker was restarted", |(why, _)| why);
        let detail = format!("TLS connections were not read: {why}");
        self.covered_until = Some(feed.report_off(LossKind::SourceDown, start, &detail));
    }
}

impl Source for TlsSource {
    type Error = Infallible;

    const NAME: &'static str = "tls";
    const PACE: Pace = Pace::Blocking(WAIT);

    fn drop_capabilities() {
        let _ = crate::privileges::keep_attaching_capabilities();
    }

    fn is_up(&self) -> bool {
        self.session.is_some()
    }

    fn why_down(&self) -> Option<String> {
        self.outage.as_ref().map(|(why, _)| why.clone())
    }

    fn start(&mut self, feed: &Feed) {
        let broker = self.broker.clone();
        let result = self.begin(&broker, feed);
        self.covered_until = Some(feed.now());
        if let Err(why) = &result {
            self.fail(why.clone(), feed);
            self.refused = Some(broker.pid);
        }
        // The receiver may have timed out.
        let _ = self.first.try_send(result);
    }

    /// Reads one message from the parser.
    fn poll(&mut self, feed: &Feed, timeout: Duration) -> Result<(), Infallible> {
        if let Err(error) = self.receive(feed, timeout) {
            self.fail(error.to_string(), feed);
        }
        Ok(())
    }

    /// Sends new topics to the parser, and follows the broker to another process.
    fn check(&mut self, feed: &Feed) -> Result<bool, Infallible> {
        let Some(broker) = feed.current.get() else { return Ok(false) };
        if let Some((parser, _)) = &self.session {
            let new = self.topics.changes(&broker.log_dirs, &mut || ());
            if let Err(error) = send_topics(parser, &new) {
                self.fail(error.to_string(), feed);
            }
        }
        if self.refused != Some(broker.pid) {
            self.follow(&broker, feed);
        }
        Ok(std::mem::take(&mut self.is_recounted))
    }

    fn losses(&self) -> Vec<LossCount> {
        let counters = &self.counters;
        let reads = self.arrivals.as_ref().map_or(0, |arrivals| arrivals.lost);
        vec![
            (LossKind::EventsDropped, "arrivals on TLS connections were not recorded", reads),
            (LossKind::EventsDropped, "the TLS agent's ring was full", counters.kernel_drops),
            (LossKind::StreamGapBytes, "bytes of a TLS connection were not copied", counters.gap_bytes),
            (
                LossKind::FramesUndecodable,
                "frames of TLS connections could not be read",
                counters.undecodable_frames,
            ),
        ]
    }

    /// Has the parser stop the agent, and read what it has copied until then.
    fn finish(&mut self, feed: &Feed) -> Result<(), Infallible> {
        let Some((parser, _)) = &self.session else { return Ok(()) };
        let sent = parser.send_order(&Order::Finish, None);
        let finished = sent.and_then(|()| receive_rest(LAST_TIME, || self.receive(feed, WAIT)));
        if let Err(error) = finished {
            let start = self.covered_until.unwrap_or_else(|| feed.now());
            self.fail(error.to_string(), feed);
            let detail = format!("the last of TLS connections was not read: {error}");
            feed.report_off(LossKind::SourceDown, start, &detail);
        }
        Ok(())
    }

    fn summarize(self, _: Result<(), Infallible>) -> WatchSummary {
        WatchSummary::default()
    }
}

/// Loads the agent, in a short-lived thread that becomes the JVM's user.
fn load_agent(pid: Pid, nonce: u64) -> Result<File, String> {
    let attach = move || -> Result<File, jvm::Error> {
        let machine = Machine::of(pid)?;
        machine.check_takes_agents()?;
        act_as(&machine)?;
        let prepare = |file: &File| PlaintextRing::create(file, RING_BYTES, nonce);
        agent::load(&Client::of(&machine)?, std::process::id(), prepare)
    };
    let load = move || {
        let file = attach().map_err(|error| error.to_string())?;
        let ring = file
            .try_clone()
            .map(|file| PlaintextRing::new(file, RING_BYTES, nonce, crate::clock::monotonic_ns));
        match ring.and_then(|ring| ring.state()).map_err(|error| error.to_string())? {
            AgentState::Copies => Ok(file),
            AgentState::Refused(why) => Err(format!("JVM {pid}: {why}")),
            AgentState::Silent | AgentState::Ended => Err(format!("JVM {pid}: the agent did not begin")),
        }
    };
    let thread = std::thread::Builder::new().name("brokerscope-att".to_owned()).spawn(load);
    let thread = thread.map_err(|error| error.to_string())?;
    thread.join().unwrap_or_else(|_| Err("the thread that loads the agent panicked".to_owned()))
}

/// A value that marks records as the agent's, and that others cannot guess.
fn new_nonce() -> u64 {
    // The hasher is keyed with the system's random numbers.
    RandomState::new().hash_one(std::process::id())
}
