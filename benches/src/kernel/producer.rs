//! A cheap producer: sends requests over several connections, from one thread, without Kafka's client. It uses Produce
//! version 7 (ProduceRequest.json: not flexible yet, topics by name), acks=1.

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

/// Enough connections for several request handlers and network threads.
const CONNECTIONS: usize = 8;
/// Maximum number of requests in flight per connection.
const WINDOW: usize = 16;
/// Time before the measurement.
pub(crate) const SETTLE: Duration = Duration::from_secs(2);
/// Timeout for an answer of the broker.
const PATIENCE: Duration = Duration::from_secs(10);
/// Paced requests are due in bunches at multiples of this: waking up for each one would cost much.
const BEAT: Duration = Duration::from_millis(1);

/// Sends to every partition in turn: as fast as the broker answers, or `rate` requests per second at even intervals
/// regardless of the broker. Prints `begin` when the measurement starts, `end` when it ends, and, once everything is
/// answered, the total number and the latencies that [`Latencies`] formats. A paced request's latency counts from when
/// it was due, so that a stall counts for everything that it delayed.
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
    let within = clock.elapsed_measuring();
    print_line("end")?;
    while connections.iter().any(|connection| !connection.is_answered()) {
        for ready in wait(&connections, None)? {
            answers += connections.get_mut(ready).context("no such connection")?.receive(|_, _| ())?;
        }
    }
    print_line(&format!("{answers} {}", measured.line(within)))
}

fn print_line(line: &str) -> anyhow::Result<()> {
    println!("{line}");
    Ok(std::io::stdout().flush()?)
}

/// The schedule of requests and of the measurement.
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

    /// Whether the time is over. Prints when the measurement starts.
    fn is_over(&mut self) -> anyhow::Result<bool> {
        if self.begun.is_none() && self.start.elapsed() >= SETTLE {
            self.begun = Some(Instant::now());
            print_line("begin")?;
        }
        Ok(self.elapsed_measuring() >= self.length)
    }

    fn measures(&self) -> bool {
        self.begun.is_some()
    }

    fn elapsed_measuring(&self) -> Duration {
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

    /// Time until the next request is due.
    fn next(&self) -> Option<Duration> {
        (self.rate > 0).then(|| self.due().saturating_duration_since(Instant::now()))
    }
}

/// Waits until connections are readable or `due` has passed; returns the readable ones.
fn wait(connections: &[Connection], due: Option<Duration>) -> anyhow::Result<Vec<usize>> {
    let mut polled: Vec<PollFd> =
        connections.iter().map(|one| PollFd::new(one.stream().as_fd(), PollFlags::POLLIN)).collect();
    let ready = ppoll(&mut polled, Some(TimeSpec::from_duration(due.unwrap_or(PATIENCE))), None)?;
    ensure!(ready > 0 || due.is_some(), "the broker says nothing");
    let is_ready = |polled: &PollFd| polled.any().unwrap_or(false);
    Ok(polled.iter().enumerate().filter(|(_, polled)| is_ready(polled)).map(|(at, _)| at).collect())
}
