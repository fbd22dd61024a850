//! Packets as a source of requests: capture files, pipes and interfaces.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use broker::Broker;
use capture::{Analyzer, Captures, Counters};
use diagnose::{Config, Coverage};
use model::{Event, LossKind, Nanos, Request, TlsTraffic, TopicId};

use super::{EventSource, ReadOptions, Step};
use crate::gaps::{self, Gaps};
use crate::{Error, Stop};

/// The longest wait for a packet of an interface.
#[cfg(feature = "live")]
const WAIT: std::time::Duration = std::time::Duration::from_millis(100);

/// Packets of capture files, a pipe or an interface.
pub struct Capture {
    packets: Packets,
    analyzer: Analyzer,
    stop: Stop,
    requests: VecDeque<Box<Request>>,
    /// TLS traffic that was not returned yet.
    tls: VecDeque<TlsTraffic>,
    /// Time of the newest packet.
    newest: Nanos,
    /// When TLS traffic was last counted.
    tls_counted: Option<Nanos>,
    ended: bool,
}

enum Packets {
    Captures(Captures),
    #[cfg(feature = "live")]
    Interface(capture::Live),
}

impl Capture {
    /// Reads captures until their end, or until it is time to stop.
    ///
    /// # Errors
    /// The process is not a broker.
    pub fn new(captures: Captures, options: &ReadOptions, stop: Stop) -> Result<Self, Error> {
        Ok(Self::of(Packets::Captures(captures), analyzer(options)?, stop))
    }

    fn of(packets: Packets, analyzer: Analyzer, stop: Stop) -> Self {
        let (requests, tls) = (VecDeque::new(), VecDeque::new());
        Self { packets, analyzer, stop, requests, tls, newest: Nanos::MIN, tls_counted: None, ended: false }
    }

    /// Reads an interface until it is time to stop.
    ///
    /// # Errors
    /// The process is not a broker.
    #[cfg(feature = "live")]
    pub fn on_interface(live: capture::Live, options: &ReadOptions, stop: Stop) -> Result<Self, Error> {
        Ok(Self::of(Packets::Interface(live), analyzer(options)?, stop))
    }

    /// Reads the next packets, which may complete no request.
    fn read(&mut self) -> Result<(), Error> {
        let requests = &mut self.requests;
        let mut keep = |request: Box<Request>| requests.push_back(request);
        // One more wait delivers the packets that passed the interface before it was time to stop.
        let is_last = self.stop.should_stop();
        self.ended = match &mut self.packets {
            Packets::Captures(captures) => match captures.next().filter(|_| !is_last) {
                Some(packet) => {
                    self.newest = self.newest.max(Nanos(packet.time_ns));
                    self.analyzer.packet(&packet, &mut keep);
                    false
                }
                None => true,
            },
            #[cfg(feature = "live")]
            Packets::Interface(live) => {
                live.next_packets(WAIT, &mut |packet, _| self.analyzer.packet(packet, &mut keep))?;
                is_last
            }
        };
        if self.ended {
            self.analyzer.finish(&mut keep);
        }
        if self.ended || self.analyzer.has_new_tls() {
            self.count_tls();
        }
        Ok(())
    }

    /// Queues the TLS traffic since the last call.
    fn count_tls(&mut self) {
        let end = self.newest;
        let start = self.tls_counted.replace(end).unwrap_or(end);
        let rows = self.analyzer.take_tls();
        self.tls.extend(rows.iter().map(|(listener, count)| {
            let (connections, bytes) = (count.connections, count.bytes);
            TlsTraffic { start, end, listener, connections, bytes }
        }));
    }

    /// Returns the next request; `None` at the end.
    ///
    /// # Errors
    /// The interface is gone.
    pub fn next_request(&mut self) -> Result<Option<Box<Request>>, Error> {
        while self.requests.is_empty() && !self.ended {
            self.read()?;
        }
        Ok(self.requests.pop_front())
    }

    /// The counters so far.
    ///
    /// # Errors
    /// The kernel does not report how many packets it dropped.
    pub fn counters(&mut self) -> Result<Counters, Error> {
        let counters = self.analyzer.counters();
        Ok(match &mut self.packets {
            Packets::Captures(_) => counters,
            #[cfg(feature = "live")]
            Packets::Interface(live) => Counters { kernel_drops: live.drops()?, ..counters },
        })
    }

    /// Notes on damage in the capture files.
    /// If the user stopped a pipe (`was_stopped`), a truncated end is not reported.
    pub fn notes(&self, was_stopped: bool) -> Vec<String> {
        match &self.packets {
            Packets::Captures(captures) => notes(captures, was_stopped),
            #[cfg(feature = "live")]
            Packets::Interface(_) => Vec::new(),
        }
    }
}

impl EventSource for Capture {
    fn next(&mut self) -> Step {
        if let Some(traffic) = self.tls.pop_front() {
            return Step::Event(traffic.into());
        }
        match self.next_request() {
            Ok(Some(request)) => Step::Event(Event::Request(request)),
            Ok(None) => self.tls.pop_front().map_or(Step::End, |traffic| Step::Event(traffic.into())),
            Err(error) => {
                tracing::warn!("{error}");
                Step::End
            }
        }
    }

    fn config(&self, slower_than: Nanos) -> Config {
        Config { file_ops_observed: false, ..Config::replay(slower_than) }
    }

    fn coverage(&self) -> Coverage {
        Coverage::only_packets()
    }

    fn gaps(&mut self, _slower_than: Nanos) -> Gaps {
        let counters = self.analyzer.counters();
        let losses = vec![
            (LossKind::PacketsDropped, counters.kernel_drops),
            (LossKind::StreamGapBytes, counters.gap_bytes),
            (LossKind::FramesUndecodable, counters.undecodable_frames),
        ];
        let unobservable = vec![gaps::unobservable(gaps::BROKER)];
        Gaps { unobservable, notes: self.notes(false), losses, ..Gaps::default() }
    }

    fn check(&self) -> Result<(), Error> {
        let faults = match &self.packets {
            Packets::Captures(captures) => captures.faults(),
            #[cfg(feature = "live")]
            Packets::Interface(_) => &[],
        };
        match faults {
            [] => Ok(()),
            [fault] => Err(Error::input(fault.to_string())),
            [first, others @ ..] => Err(Error::input(format!("{first} (and {} more)", others.len()))),
        }
    }
}

/// Starts a capture on an interface: `snaplen` bytes of each packet, or all.
/// Needs a capability; reading needs none.
///
/// # Errors
/// The interface cannot be captured on.
#[cfg(feature = "live")]
pub fn open_interface(interface: &str, snaplen: Option<u32>, ports: &[u16]) -> Result<capture::Live, Error> {
    let config = capture::LiveConfig::default();
    // Whole packets by default, because Kafka's frames begin anywhere in them.
    Ok(capture::Live::open(&capture::LiveConfig {
        interface: interface.to_owned(),
        ports: ports.to_vec(),
        snaplen: snaplen.unwrap_or(config.snaplen),
        ..config
    })?)
}

/// Creates an analyzer for the configured ports, with names from [`topic_names`].
fn analyzer(options: &ReadOptions) -> Result<Analyzer, Error> {
    Ok(Analyzer::new(capture::Config {
        ports: options.ports.clone(),
        message_id_header: options.message_id.clone().map(String::into_bytes),
        topics: topic_names(options)?,
        ..capture::Config::default()
    }))
}

/// Topic names: those in the options, else from the log dirs in the options, else from the process's log dirs, else from the log
/// dirs of all brokers on this host.
pub(super) fn topic_names(options: &ReadOptions) -> Result<HashMap<TopicId, Arc<str>>, Error> {
    if let Some(topics) = &options.topics {
        return Ok(topics.clone());
    }
    let log_dirs = match options.pid {
        _ if !options.log_dirs.is_empty() => options.log_dirs.clone(),
        Some(pid) => Broker::of_pid(pid)?.log_dirs,
        None => broker::find().into_iter().flat_map(|broker| broker.log_dirs).collect(),
    };
    Ok(broker::topic_ids::scan(&log_dirs))
}

fn notes(captures: &Captures, was_stopped: bool) -> Vec<String> {
    let mut sentences = Vec::new();
    for (name, notes) in captures.notes() {
        let name = if name == "-" { "the capture" } else { name };
        if notes.is_empty {
            sentences.push(format!("{name} is empty"));
        }
        if notes.cut_records > 0 && !was_stopped {
            sentences.push(format!("{name} ends in the middle of a packet"));
        }
        if notes.damaged_records > 0 {
            sentences.push(format!("{} damaged records in {name} were left out", notes.damaged_records));
        }
    }
    if !captures.faults().is_empty() {
        sentences.push(format!("{} captures were not read to their end", captures.faults().len()));
    }
    sentences
}
