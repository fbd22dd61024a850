//! The wire's side of a watch: reads the capture ring in a thread of its own and puts requests onto the
//! recording's clock. Decoding is `capture`'s business.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use capture::live::Live;
use capture::{Analyzer, Counters};
use model::clock::ClockPair;
use model::{ClockOffset, Event, Loss, LossKind, Nanos, Request};

use crate::keeper::Current;
use crate::queue::{Batch, Sender};
use crate::topic_names::TopicNames;

/// The longest a full block of packets waits.
const WAIT: Duration = Duration::from_millis(100);
/// How often losses are looked at, and new topics.
const CHECK: Duration = Duration::from_secs(1);

/// What the capture thread needs.
pub(crate) struct PacketSource {
    pub(crate) live: Live,
    pub(crate) analyzer: Analyzer,
    pub(crate) topics: TopicNames,
    pub(crate) offset: ClockOffset,
    pub(crate) current: Current,
    pub(crate) sender: Sender,
    pub(crate) stop: Arc<AtomicBool>,
}

impl PacketSource {
    /// Reads until told to stop. Returns what was counted.
    pub(crate) fn run(mut self) -> Result<Counters, capture::Error> {
        let mut seen = Seen::default();
        let mut checked = Instant::now();
        while !self.stop.load(Ordering::Relaxed) {
            self.read()?;
            if checked.elapsed() >= CHECK {
                self.check(&mut seen)?;
                checked = Instant::now();
            }
        }
        self.read()?;
        let near = crate::now();
        let (sender, offset) = (&self.sender, self.offset);
        self.analyzer.finish(&mut |request| sender.send(on_clock(offset, near, request)));
        self.check(&mut seen)?;
        Ok(self.analyzer.counters())
    }

    /// Reads what is there.
    fn read(&mut self) -> Result<(), capture::Error> {
        let near = crate::now();
        let (analyzer, offset) = (&mut self.analyzer, self.offset);
        let mut batch = Batch::of(&self.sender);
        let read = self.live.next_packets(WAIT, &mut |packet| {
            analyzer.packet(packet, &mut |request| batch.push(on_clock(offset, near, request)));
        });
        batch.send();
        read.map(drop)
    }

    fn check(&mut self, seen: &mut Seen) -> Result<(), capture::Error> {
        if let Some(subject) = self.current.subject() {
            self.analyzer.learn_topics(self.topics.news(&subject.log_dirs).into_iter().flatten());
        }
        let drops = self.live.drops()?;
        self.analyzer.count_kernel_drops(drops.saturating_sub(seen.drops));
        let now = self.offset.from_monotonic(crate::now().monotonic_ns);
        seen.report(&self.analyzer.counters(), now, &self.sender);
        Ok(())
    }
}

/// A request with its times on the recording's clock.
fn on_clock(offset: ClockOffset, near: ClockPair, mut request: Box<Request>) -> Event {
    let onto = |time: Nanos| offset.from_realtime(time.0, near);
    request.arrival = onto(request.arrival);
    request.arrival_end = onto(request.arrival_end);
    request.response = request.response.map(onto);
    request.end = request.end.map(onto);
    Event::Request(request)
}

/// What had been lost when last looked at.
#[derive(Default)]
struct Seen {
    at: Option<Nanos>,
    drops: u64,
    gap_bytes: u64,
    undecodable: u64,
}

impl Seen {
    fn report(&mut self, counters: &Counters, now: Nanos, sender: &Sender) {
        let start = self.at.replace(now).unwrap_or(now - Nanos::from_millis(1_000));
        let report = |kind, count: u64, detail: &str| {
            if count > 0 {
                sender.send(Event::Loss(Loss { start, end: now, kind, count, detail: detail.into() }));
            }
        };
        report(LossKind::PacketsDropped, counters.kernel_drops - self.drops, "the capture ring was full");
        report(
            LossKind::StreamGapBytes,
            counters.gap_bytes - self.gap_bytes,
            "bytes of a stream were in no packet",
        );
        let undecodable = counters.undecodable_frames - self.undecodable;
        report(LossKind::FramesUndecodable, undecodable, "frames could not be read");
        self.drops = counters.kernel_drops;
        self.gap_bytes = counters.gap_bytes;
        self.undecodable = counters.undecodable_frames;
    }
}
