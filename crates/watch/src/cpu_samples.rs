//! CPU samples of the broker's threads, completed with thread names.
//! A few dozen samples a second are taken; they are read once a second. Does not aggregate them.

use std::convert::Infallible;
use std::time::Duration;

use model::{LossKind, Pid};
use probes::profile::Sampler;

use crate::cost::Part;
use crate::source::{Feed, LossCount, Pace, Source, WatchSummary};
use crate::thread_names::NameReader;

/// Samples the broker's process.
pub(crate) struct CpuSampleSource {
    /// Samples a second on each CPU.
    pub(crate) hz: u32,
    pub(crate) threads: NameReader,
    pub(crate) pid: Pid,
    pub(crate) sampler: Option<Sampler>,
    pub(crate) failed_polls: u64,
}

impl Source for CpuSampleSource {
    type Error = Infallible;

    const NAME: &'static str = "samples";
    const PACE: Pace = Pace::Every(Duration::from_secs(1));
    const SCHED_BATCH: bool = false;
    const PART: Option<Part> = Some(Part::CpuSamples);

    fn is_up(&self) -> bool {
        self.sampler.is_some()
    }

    fn poll(&mut self, feed: &Feed, _: Duration) -> Result<(), Infallible> {
        let Some(sampler) = &mut self.sampler else { return Ok(()) };
        let mut events = Vec::new();
        let polled = sampler.poll(&mut |mut sample| {
            self.threads.complete(sample.tid, &mut sample.thread);
            events.push(sample.into());
        });
        self.failed_polls += u64::from(polled.is_err());
        feed.sender.send_all(events);
        Ok(())
    }

    fn check(&mut self, feed: &Feed) -> Result<bool, Infallible> {
        let pid = feed.current.get().map(|broker| broker.pid);
        if pid == Some(self.pid) && self.is_up() {
            return Ok(false);
        }
        // Detach the old sampler first: two at a time would cost twice.
        (self.sampler, self.failed_polls) = (None, 0);
        if let Some(pid) = pid {
            self.pid = pid;
            self.sampler = Sampler::attach(pid, self.hz, feed.clock).ok();
        }
        Ok(true)
    }

    fn losses(&self) -> Vec<LossCount> {
        let Some(sampler) = &self.sampler else { return Vec::new() };
        let losses = sampler.losses();
        let lost = losses.samples + losses.intervals + self.failed_polls;
        vec![(LossKind::ProbeEventsDropped, "samples of what runs on the CPU", lost)]
    }

    fn summarize(self, _: Result<(), Infallible>) -> WatchSummary {
        WatchSummary::default()
    }
}
