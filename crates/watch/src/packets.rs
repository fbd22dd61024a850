//! Requests on the wire: reads the capture ring and puts requests onto the recording's clock. Decoding is `capture`'s
//! business.

use std::time::Duration;

use capture::live::Live;
use capture::{Analyzer, Counters};
use model::clock::ClockPair;
use model::{ClockOffset, Event, LossKind, Nanos, Request};

use crate::queue::Batch;
use crate::source::{Feed, LossCount, Pace, Source, WatchSummary};
use crate::topic_names::TopicNames;

/// The longest a full block of packets waits.
const WAIT: Duration = Duration::from_millis(100);

/// Requests on the wire.
pub(crate) struct PacketSource {
    pub(crate) live: Live,
    pub(crate) analyzer: Analyzer,
    pub(crate) topics: TopicNames,
    /// Packets that the kernel dropped, as far as the analyzer knows.
    pub(crate) drops: u64,
}

impl Source for PacketSource {
    type Error = capture::Error;

    const NAME: &'static str = "packets";
    const PACE: Pace = Pace::Blocking(WAIT);

    /// A block that is not full is read when it is old enough, also at the end.
    fn poll(&mut self, feed: &Feed, _: Duration) -> Result<(), capture::Error> {
        let near = crate::now();
        let mut batch = Batch::of(&feed.sender);
        let read = self.live.next_packets(WAIT, &mut |packet| {
            self.analyzer.packet(packet, &mut |request| batch.push(on_clock(feed.clock, near, request)));
        });
        batch.send();
        read.map(drop)
    }

    /// Learns topics that are new.
    fn check(&mut self, feed: &Feed) -> Result<bool, capture::Error> {
        if let Some(broker) = feed.current.get() {
            self.analyzer.learn_topics(self.topics.changes(&broker.log_dirs).into_iter().flatten());
        }
        Ok(false)
    }

    fn count_losses(&mut self) -> Result<(), capture::Error> {
        let drops = self.live.drops()?;
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
        ]
    }

    fn finish(&mut self, feed: &Feed) -> Result<(), capture::Error> {
        let near = crate::now();
        self.analyzer.finish(&mut |request| feed.sender.send(on_clock(feed.clock, near, request)));
        Ok(())
    }

    fn summarize(self, ended: Result<(), capture::Error>) -> WatchSummary {
        let counters: Counters = self.analyzer.counters();
        WatchSummary { packets: Some(ended.map(|()| counters)), ..WatchSummary::default() }
    }
}

/// A request with its times on the recording's clock.
fn on_clock(clock: ClockOffset, near: ClockPair, mut request: Box<Request>) -> Event {
    let onto = |time: Nanos| clock.from_realtime(time.0, near);
    request.arrival = onto(request.arrival);
    request.arrival_end = onto(request.arrival_end);
    request.response = request.response.map(onto);
    request.end = request.end.map(onto);
    Event::Request(request)
}
