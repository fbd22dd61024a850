//! Runs the producer at an even rate, or as fast as the broker answers. It runs for as long as its caller likes, so
//! that measurement windows start and end under one load.

use std::io::{BufRead as _, BufReader, Stdin, Write as _};
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use lab::client::Endpoint;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

use super::connection::Connection;
use super::{BEAT, WINDOW};
use crate::kernel::latencies::Latencies;

/// The event key of commands; other keys are indexes of connections.
const COMMANDS: u64 = u64::MAX;
const TIMER: u64 = u64::MAX - 1;
/// Maximum time after a window's end for its last answer.
const MAX_LAG: Duration = Duration::from_secs(30);
/// Events read from the kernel at once.
const EVENTS: usize = 256;

/// Sends `rate` requests per second over `connections` connections. Sends as many as the broker answers if `rate` is 0.
/// Ends when standard input ends. A line `begin` there starts a window, a line `end` ends it; once everything due in it
/// is answered, its latencies are printed ([`Latencies::quantiles`]). A latency counts from when the request was due,
/// so that a stall counts for everything that it delayed.
pub(crate) fn pace(
    broker: Endpoint,
    partitions: usize,
    records: i32,
    rate: u64,
    connections: usize,
) -> anyhow::Result<()> {
    let connections = (0..connections)
        .map(|number| open_accepted(broker, (number % partitions.max(1)) as i32, records))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let mut pacer = Pacer { connections, rate, start: Instant::now(), sent: 0, window: None };
    println!("ready");
    std::io::stdout().flush()?;
    pacer.run()
}

/// Opens a connection and waits for a first answer: of thousands opened at once the kernel drops most, and retries
/// after a second (`socket.listen.backlog.size`).
fn open_accepted(broker: Endpoint, partition: i32, records: i32) -> anyhow::Result<Connection> {
    let mut connection = Connection::open(broker, partition, records)?;
    connection.send(1, Instant::now())?;
    while !connection.is_answered() {
        connection.receive(|_, _| ())?;
    }
    Ok(connection)
}

struct Pacer {
    connections: Vec<Connection>,
    rate: u64,
    start: Instant,
    sent: u64,
    window: Option<OpenWindow>,
}

/// A window that is being measured or waits for its last answers.
struct OpenWindow {
    begin: Instant,
    end: Option<Instant>,
    latencies: Latencies,
}

impl Pacer {
    fn run(&mut self) -> anyhow::Result<()> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let readable = |of| EpollEvent::new(EpollFlags::EPOLLIN, of);
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_CLOEXEC)?;
        timer.set(Expiration::Interval(TimeSpec::from_duration(BEAT)), TimerSetTimeFlags::empty())?;
        epoll.add(timer.as_fd(), readable(TIMER))?;
        let mut commands = BufReader::with_capacity(64, std::io::stdin());
        epoll.add(commands.get_ref().as_fd(), readable(COMMANDS))?;
        for (number, connection) in (0..).zip(&self.connections) {
            epoll.add(connection.stream().as_fd(), readable(number))?;
        }
        if self.rate == 0 {
            for connection in &mut self.connections {
                connection.send(WINDOW, Instant::now())?;
            }
        }
        let mut events = [EpollEvent::empty(); EVENTS];
        loop {
            let ready = epoll.wait(&mut events, EpollTimeout::NONE)?;
            for event in events.get(..ready).unwrap_or_default() {
                match event.data() {
                    TIMER => timer.wait()?,
                    COMMANDS if self.obey(&mut commands)? => {}
                    COMMANDS => return Ok(()),
                    number => self.receive(number as usize)?,
                }
            }
            self.send_what_is_due()?;
            self.close_window()?;
        }
    }

    /// Reads one command; false at the end of standard input.
    fn obey(&mut self, commands: &mut BufReader<Stdin>) -> anyhow::Result<bool> {
        let mut line = String::new();
        if commands.read_line(&mut line)? == 0 {
            return Ok(false);
        }
        let now = Instant::now();
        match (line.trim_end(), &mut self.window) {
            ("begin", window) => {
                *window = Some(OpenWindow { begin: now, end: None, latencies: Latencies::default() });
            }
            (_, Some(window)) => window.end = Some(now),
            (_, None) => {}
        }
        Ok(true)
    }

    fn due(&self) -> Instant {
        let exact = Duration::from_nanos(self.sent.saturating_mul(1_000_000_000) / self.rate.max(1));
        self.start + BEAT * (exact.as_nanos() / BEAT.as_nanos()) as u32
    }

    fn send_what_is_due(&mut self) -> anyhow::Result<()> {
        let now = Instant::now();
        while self.rate > 0 && self.due() <= now {
            let (due, number) = (self.due(), self.sent as usize % self.connections.len().max(1));
            self.connections.get_mut(number).context("no connection")?.send(1, due)?;
            self.sent += 1;
        }
        Ok(())
    }

    fn receive(&mut self, number: usize) -> anyhow::Result<()> {
        let connection = self.connections.get_mut(number).context("no such connection")?;
        let window = &mut self.window;
        let answered = connection.receive(|due, latency| {
            let Some(window) = window else { return };
            if due >= window.begin && window.end.is_none_or(|end| due < end) {
                window.latencies.add(latency);
            }
        })?;
        if self.rate == 0 { connection.send(answered, Instant::now()) } else { Ok(()) }
    }

    /// Prints a window's latencies once all of them are known.
    fn close_window(&mut self) -> anyhow::Result<()> {
        let Some(end) = self.window.as_ref().and_then(|window| window.end) else { return Ok(()) };
        ensure!(end.elapsed() < MAX_LAG, "the broker does not answer so many requests a second");
        let is_answered =
            |connection: &Connection| connection.oldest_unanswered().is_none_or(|due| due >= end);
        if !self.connections.iter().all(is_answered) {
            return Ok(());
        }
        if let Some(window) = self.window.take() {
            println!("{}", window.latencies.quantiles(end - window.begin));
            std::io::stdout().flush()?;
        }
        Ok(())
    }
}
