//! The process that parses packets: receives a capture that the watch has opened, and sends back its requests. Anyone who can
//! send the broker a packet chooses the bytes that are read here, so the process opens nothing and needs no capability. A
//! second process does the same with the plaintext of TLS connections that an agent in the broker's JVM copies.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use capture::live::Live;
use capture::plaintext::{AgentState, PlaintextRing};
use capture::{Analyzer, Counters, Packet};
use model::clock::ClockPair;
use model::{ClockOffset, Nanos, TlsCount, TopicId};
use probes::Slice;
use serde::{Deserialize, Serialize};

use super::channel::{Channel, Kind, invalid};
use super::{Rows, ignore_hangup, receive_order};

/// A message from the watch to its packet parser.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// The first order.
    Begin { clock: ClockOffset, memory_bytes: usize, message_id_header: Option<Vec<u8>>, is_plaintext: bool },
    /// Switches to the capture whose descriptor comes with this.
    Capture { interface: String, blocks: usize, ports: Vec<u16> },
    /// Switches to the agent's ring whose descriptor comes with this.
    Plaintext { capacity: u32, nonce: u64, ports: Vec<u16> },
    /// Topic ids with their names.
    Topics(Vec<(String, String)>),
    /// Sends the rest, and ends.
    Finish,
}

/// A message from the parser, besides requests and times.
/// Requests are sent as [`Kind::Rows`], and the time until which packets have been read as [`Kind::Time`].
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    /// Sent once a second, and at the end.
    Counted { counters: Box<Counters>, tls: Vec<(SocketAddr, TlsCount)> },
    /// Replica counts: topic, partition, replicas.
    Replicas(Vec<(String, i32, u32)>),
    /// The capture can no longer be read, with the reason.
    Ended(String),
    /// The last message.
    Finished,
}

/// Entries of a list in one message; names have at most 249 bytes.
pub(crate) const LIST: usize = 1_000;

/// Timeout for packets, and for orders while there is no capture.
const WAIT: Duration = Duration::from_millis(100);
/// How often to read an agent's ring.
/// It is read at once if it held as much as arrives in this time at 50 MB/s.
const LOOK: Duration = Duration::from_millis(20);
const MANY_BYTES: u64 = 1 << 20;
/// How long an agent may take to stop: it checks five times a second whether it should.
const AGENT_STOPS: Duration = Duration::from_secs(2);
/// How often the parser sends its counters.
const COUNT_INTERVAL: Duration = Duration::from_secs(1);

/// Parses packets for the watch at the other end of the socket.
/// Ends when the watch orders the end or is gone. The caller must have entered the sandbox.
///
/// # Errors
/// The socket cannot be read or written, or a message is not an order.
pub fn parse_packets(socket: OwnedFd) -> io::Result<()> {
    ignore_hangup(parse(socket))
}

fn parse(socket: OwnedFd) -> io::Result<()> {
    // The name that a thread for this would have.
    let _ = rustix::thread::set_name(c"brokerscope-pkt");
    let _ = probes::set_sched_batch();
    let mut channel = Channel::new(UnixStream::from(socket));
    let begin = loop {
        if let Some(order) = receive_order(&mut channel, WAIT)? {
            break order;
        }
    };
    let Order::Begin { clock, memory_bytes, message_id_header, is_plaintext } = begin else {
        return Err(invalid());
    };
    let config = capture::Config {
        ports: Vec::new(),
        message_id_header,
        topics: HashMap::new(),
        both_directions: true,
        is_plaintext,
        limits: capture::Limits::within(memory_bytes),
    };
    let mut parser = Parser {
        channel,
        input: None,
        analyzer: Analyzer::new(config),
        offset: clock,
        clock: PacketClock::default(),
        drops: 0,
        requests: Rows::default(),
        next_count: Instant::now() + COUNT_INTERVAL,
    };
    while parser.turn()? {}
    Ok(())
}

struct Parser {
    channel: Channel,
    /// `None` before the first capture, and after one has ended.
    input: Option<Input>,
    analyzer: Analyzer,
    offset: ClockOffset,
    clock: PacketClock,
    /// Packets that the kernel dropped, or records that the agent dropped.
    /// Counts those of this input, as far as the analyzer knows.
    drops: u64,
    requests: Rows,
    next_count: Instant,
}

/// The input to parse.
enum Input {
    Packets(Live),
    Plaintext(PlaintextRing),
}

impl Parser {
    /// Executes pending orders and reads available packets; returns false after the last order.
    fn turn(&mut self) -> io::Result<bool> {
        let wait = if self.input.is_some() { Duration::ZERO } else { WAIT };
        while let Some(order) = receive_order(&mut self.channel, wait)? {
            match order {
                Order::Begin { .. } => return Err(invalid()),
                Order::Capture { interface, blocks, ports } => self.take_over(&interface, blocks, ports)?,
                Order::Plaintext { capacity, nonce, ports } => self.take_over_ring(capacity, nonce, ports)?,
                Order::Topics(topics) => {
                    let named = |(id, name): (String, String)| Some((TopicId::parse(&id)?, name.into()));
                    self.analyzer.learn_topics(topics.into_iter().filter_map(named));
                }
                Order::Finish => {
                    self.finish()?;
                    return Ok(false);
                }
            }
        }
        self.read(WAIT, false)?;
        if Instant::now() >= self.next_count {
            self.send_counts()?;
            self.next_count = Instant::now() + COUNT_INTERVAL;
        }
        Ok(true)
    }

    /// Switches to another capture, after the last packets of the previous one.
    fn take_over(&mut self, interface: &str, blocks: usize, ports: Vec<u16>) -> io::Result<()> {
        self.read(Duration::ZERO, true)?;
        self.count_drops();
        self.drops = 0;
        self.analyzer.set_ports(ports);
        let socket = self.channel.take_descriptor().ok_or_else(invalid)?;
        match Live::of_socket(interface, socket, blocks) {
            Ok(live) => self.input = Some(Input::Packets(live)),
            Err(error) => self.end(&error.to_string())?,
        }
        Ok(())
    }

    /// Like [`Self::take_over`], for an agent's ring.
    fn take_over_ring(&mut self, capacity: u32, nonce: u64, ports: Vec<u16>) -> io::Result<()> {
        self.read(Duration::ZERO, true)?;
        self.count_drops();
        self.drops = 0;
        self.analyzer.set_ports(ports);
        let file = self.channel.take_descriptor().ok_or_else(invalid)?;
        let ring = PlaintextRing::new(file.into(), capacity, nonce, crate::clock::monotonic_ns);
        self.input = Some(Input::Plaintext(ring));
        Ok(())
    }

    fn end(&mut self, why: &str) -> io::Result<()> {
        self.input = None;
        self.channel.send_json(&Answer::Ended(why.to_owned()), None)
    }

    fn read(&mut self, timeout: Duration, is_last: bool) -> io::Result<()> {
        match &self.input {
            Some(Input::Packets(_)) => self.read_packets(timeout, is_last),
            Some(Input::Plaintext(_)) => self.read_plaintext(timeout, is_last),
            None => Ok(()),
        }
    }

    /// Sends the requests in an agent's ring.
    /// Reads a [`Slice`] at a time, unless it is the last read.
    fn read_plaintext(&mut self, timeout: Duration, is_last: bool) -> io::Result<()> {
        let Some(Input::Plaintext(ring)) = &mut self.input else { return Ok(()) };
        let (analyzer, requests, channel) = (&mut self.analyzer, &mut self.requests, &self.channel);
        let began_ns = crate::clock::monotonic_ns();
        let clock = self.offset;
        let (mut slice, mut sent) = (Slice::new(Slice::SHORT), Ok(()));
        // Checked before the ring is read, so that everything the agent had copied is read.
        let has_ended = !is_last && ring.state().is_ok_and(|is| is == AgentState::Ended);
        let read = ring.read(&mut |piece| {
            let (start, end) = piece.called_before(crate::clock::monotonic_ns());
            let times = (clock.from_monotonic(start), clock.from_monotonic(end));
            analyzer.piece(piece, times, &mut |request| requests.push(&*request));
            if requests.is_full() && sent.is_ok() {
                sent = requests.send(channel);
            }
            slice.rest_if_over(|| is_last);
        });
        sent?;
        requests.send(channel)?;
        if has_ended {
            return self
                .end("the agent in the JVM stopped, because what it copied was not read for too long");
        }
        channel.send(Kind::Time, &began_ns.to_ne_bytes(), None)?;
        match read {
            Ok(bytes) if bytes < MANY_BYTES => std::thread::sleep(LOOK.min(timeout)),
            Ok(_) => {}
            Err(error) => self.end(&error.to_string())?,
        }
        Ok(())
    }

    /// Stops an agent, and reads what it has copied until then.
    fn stop_agent(&mut self) -> io::Result<()> {
        let deadline = Instant::now() + AGENT_STOPS;
        loop {
            let Some(Input::Plaintext(ring)) = &self.input else { return Ok(()) };
            let has_stopped = ring.stop().is_err() || ring.state().is_ok_and(|is| is == AgentState::Ended);
            self.read(LOOK, true)?;
            if has_stopped || Instant::now() >= deadline {
                // The JVM keeps the ring mapped until its next GC.
                if let Some(Input::Plaintext(ring)) = &self.input {
                    let _ = ring.give_back();
                }
                return Ok(());
            }
        }
    }

    /// Sends the requests in the available packets.
    /// Pauses after each [`Slice`], unless the ring is filling up or it is the last read.
    fn read_packets(&mut self, timeout: Duration, is_last: bool) -> io::Result<()> {
        let Some(Input::Packets(live)) = &mut self.input else { return Ok(()) };
        let (analyzer, requests, channel) = (&mut self.analyzer, &mut self.requests, &self.channel);
        let began_ns = crate::clock::monotonic_ns();
        let (mut turn, mut sent) = (None, Ok(()));
        let read = live.next_packets(timeout, &mut |packet, is_filling| {
            // Only once there are packets: the wall clock may have been stepped while this waited for them.
            let begin = || (self.clock.at(self.offset, crate::now()), Slice::new(Slice::SHORT));
            let (clock, slice) = turn.get_or_insert_with(begin);
            let packet = Packet { time_ns: clock.time_of(packet.time_ns).0, ..*packet };
            analyzer.packet(&packet, &mut |request| requests.push(&*request));
            if requests.is_full() && sent.is_ok() {
                sent = requests.send(channel);
            }
            if slice.rest_if_over(|| is_filling || is_last) {
                clock.near = crate::now();
            }
        });
        sent?;
        requests.send(channel)?;
        channel.send(Kind::Time, &began_ns.to_ne_bytes(), None)?;
        read.map(drop).or_else(|error| self.end(&error.to_string()))
    }

    fn count_drops(&mut self) {
        // If a capture does not report drops, the next read finds that it has ended.
        let drops = match &mut self.input {
            Some(Input::Packets(live)) => live.drops().ok(),
            Some(Input::Plaintext(ring)) => ring.dropped().ok().map(|of| of.records + of.errors),
            None => None,
        };
        let Some(drops) = drops else { return };
        self.analyzer.count_kernel_drops(drops.saturating_sub(self.drops));
        self.drops = drops;
    }

    fn send_counts(&mut self) -> io::Result<()> {
        self.count_drops();
        let mut counters = self.analyzer.counters();
        counters.dropped_requests += self.requests.dropped;
        let tls = self.analyzer.take_tls().iter().collect();
        self.channel.send_json(&Answer::Counted { counters: Box::new(counters), tls }, None)?;
        let replicas = self.analyzer.take_replicas();
        for some in replicas.chunks(LIST) {
            let some = some.iter().map(|(topic, partition, count)| (topic.to_string(), *partition, *count));
            self.channel.send_json(&Answer::Replicas(some.collect()), None)?;
        }
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        self.stop_agent()?;
        self.read(Duration::ZERO, true)?;
        let (requests, channel, mut sent) = (&mut self.requests, &self.channel, Ok(()));
        self.analyzer.finish(&mut |request| {
            requests.push(&*request);
            if requests.is_full() && sent.is_ok() {
                sent = requests.send(channel);
            }
        });
        sent?;
        requests.send(channel)?;
        self.send_counts()?;
        self.channel.send_json(&Answer::Finished, None)
    }
}

/// Converts packet times to the recording's clock, each separately: the wall clock may be stepped between a request and its
/// response, for example after the machine was paused.
#[derive(Default)]
struct PacketClock {
    /// The clocks at the last read.
    before: Option<ClockPair>,
}

/// Converts the times of packets that are read together.
struct ReadingClock {
    clock: ClockOffset,
    /// The clocks at the previous read, before any of these packets arrived.
    before: ClockPair,
    /// The clocks when last checked, some packets ago.
    near: ClockPair,
}

impl PacketClock {
    fn at(&mut self, clock: ClockOffset, near: ClockPair) -> ReadingClock {
        let before = self.before.replace(near).unwrap_or(near);
        ReadingClock { clock, before, near }
    }
}

impl ReadingClock {
    /// Converts a packet's time.
    /// The packet may have arrived before or after a step of the wall clock: takes the later time that is not in the
    /// future.
    fn time_of(&self, realtime_ns: i64) -> Nanos {
        let now = self.clock.from_monotonic(self.near.monotonic_ns);
        let by = |pair| self.clock.from_realtime(realtime_ns, pair);
        let (old, new) = (by(self.before), by(self.near));
        let possible = [old, new].into_iter().filter(|time| *time <= now);
        possible.max().unwrap_or(new)
    }
}

#[cfg(test)]
mod tests {
    use super::{ClockOffset, ClockPair, Nanos, PacketClock};

    fn pair(monotonic_ns: u64, realtime_ns: i64) -> ClockPair {
        ClockPair { monotonic_ns, realtime_ns }
    }

    /// The time of a packet, with a step of the wall clock between two reads.
    /// The reads are 100 apart, and the packet arrived 40 after the first.
    fn time_of_packet(step: i64, before_the_step: bool) -> Nanos {
        let mut clock = PacketClock::default();
        let offset = ClockOffset::at(pair(1_000, 50_000));
        clock.at(offset, pair(1_000, 50_000));
        let reading = clock.at(offset, pair(1_100, 50_100 + step));
        reading.time_of(if before_the_step { 50_040 } else { 50_040 + step })
    }

    #[test]
    fn wall_clock_step_does_not_move_packets() {
        for step in [0, 9_000, -9_000] {
            for before_the_step in [true, false] {
                assert_eq!(time_of_packet(step, before_the_step), Nanos(50_040), "{step}, {before_the_step}");
            }
        }
    }

    #[test]
    fn packets_between_two_clock_readings_use_the_newer_one() {
        let mut clock = PacketClock::default();
        let offset = ClockOffset::at(pair(1_000, 50_000));
        // The clock was slewed by 5, and the packet arrived during the read.
        clock.at(offset, pair(1_000, 50_000));
        assert_eq!(clock.at(offset, pair(1_100, 50_105)).time_of(50_107), Nanos(50_102));
    }
}
