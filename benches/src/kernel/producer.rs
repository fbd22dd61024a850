//! A producer that costs little: requests over several connections, from one thread, without Kafka's
//! client. It speaks Produce version 7 (ProduceRequest.json: not flexible yet, topics by name), acks=1.

mod connection;
mod frame;
mod pace;

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;

use super::latencies::Latencies;
use connection::Connection;
pub(crate) use pace::pace;

/// As many as there are, so that several request handlers and network threads have work.
const CONNECTIONS: usize = 8;
/// Requests of a connection that are on their way at once, at most.
const WINDOW: usize = 16;
/// Let pass before anything is measured.
pub(crate) const SETTLE: Duration = Duration::from_secs(2);
/// How long the broker may say nothing.
const PATIENCE: Duration = Duration::from_secs(10);
/// Paced requests are due in bunches at whole ones of these: a producer that woke for each would cost much.
const BEAT: Duration = Duration::from_millis(1);

/// Sends to every partition in turn: as fast as the broker answers, or `rate` requests a second at even times
/// what it does. Prints `begin` when what is measured begins, `end` when it ends, and, once everything is
/// answered, how much that was in all and the latencies that [`Latencies`] prints.
///
/// A paced request's latency counts from when it was due, so that a stall counts for all that it held up.
pub(crate) fn produce(
    port: u16,
    partitions: usize,
    records: i32,
    rate: u64,
    seconds: u64,
) -> anyhow::Result<()> {
    let broker = SocketAddr::from((Ipv4Addr::LOCALHOST, port)).into();
    let mut connections = (0..CONNECTIONS)
        .map(|number| Connection::open(broker, (number % partitions.max(1)) as i32, records))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let mut clock = Clock::new(rate, seconds);
    let (mut measured, mut answers) = (Latencies::default(), 0);
    if rate == 0 {
        for connection in &mut connections {
            connection.send(WINDOW, Instant::now())?;
        }
    }
    while !clock.is_over()? {
        clock.send_what_is_due(&mut connections)?;
        for ready in wait(&connections, clock.next())? {
            let connection = connections.get_mut(ready).context("no such connection")?;
            let answered = connection.receive(|_, latency| {
                if clock.measures() {
                    measured.add(latency);
                }
            })?;
            answers += answered;
            if rate == 0 {
                connection.send(answered, Instant::now())?;
            }
        }
    }
    let within = clock.measured();
    say("end")?;
    while connections.iter().any(|connection| !connection.is_answered()) {
        for ready in wait(&connections, None)? {
            answers += connections.get_mut(ready).context("no such connection")?.receive(|_, _| ())?;
        }
    }
    say(&format!("{answers} {}", measured.line(within)))
}

fn say(line: &str) -> anyhow::Result<()> {
    println!("{line}");
    Ok(std::io::stdout().flush()?)
}

/// When something is due, and whether it counts.
struct Clock {
    start: Instant,
    rate: u64,
    length: Duration,
    sent: u64,
    begun: Option<Instant>,
}

impl Clock {
    fn new(rate: u64, seconds: u64) -> Self {
        let length = Duration::from_secs(seconds);
        Self { start: Instant::now(), rate, length, sent: 0, begun: None }
    }

    /// Whether the time is over. Says when that which is measured begins.
    fn is_over(&mut self) -> anyhow::Result<bool> {
        if self.begun.is_none() && self.start.elapsed() >= SETTLE {
            self.begun = Some(Instant::now());
            say("begin")?;
        }
        Ok(self.measured() >= self.length)
    }

    fn measures(&self) -> bool {
        self.begun.is_some()
    }

    fn measured(&self) -> Duration {
        self.begun.map_or(Duration::ZERO, |begun| begun.elapsed())
    }

    fn due(&self) -> Instant {
        let exact = Duration::from_nanos(self.sent.saturating_mul(1_000_000_000) / self.rate.max(1));
        self.start + BEAT * (exact.as_nanos() / BEAT.as_nanos()) as u32
    }

    fn send_what_is_due(&mut self, connections: &mut [Connection]) -> anyhow::Result<()> {
        while self.rate > 0 && self.due() <= Instant::now() {
            let number = self.sent as usize % connections.len().max(1);
            let due = self.due();
            connections.get_mut(number).context("no connection")?.send(1, due)?;
            self.sent += 1;
        }
        Ok(())
    }

    /// How long nothing will be due.
    fn next(&self) -> Option<Duration> {
        (self.rate > 0).then(|| self.due().saturating_duration_since(Instant::now()))
    }
}

/// The connections that can be read, as soon as there is one or `due` has passed.
fn wait(connections: &[Connection], due: Option<Duration>) -> anyhow::Result<Vec<usize>> {
    let mut polled: Vec<PollFd> =
        connections.iter().map(|one| PollFd::new(one.stream().as_fd(), PollFlags::POLLIN)).collect();
    let ready = ppoll(&mut polled, Some(TimeSpec::from_duration(due.unwrap_or(PATIENCE))), None)?;
    ensure!(ready > 0 || due.is_some(), "the broker says nothing");
    let is_ready = |polled: &PollFd| polled.any().unwrap_or(false);
    Ok(polled.iter().enumerate().filter(|(_, polled)| is_ready(polled)).map(|(at, _)| at).collect())
}
