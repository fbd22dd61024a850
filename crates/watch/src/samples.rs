//! Samples of what the broker's threads run, a few dozen a second: a thread of its own, which fetches and names
//! them once a second. Does not add them up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use model::{ClockOffset, CpuSample, Event, Loss, LossKind, Nanos, Pid};
use probes::profile::{Sample, Sampler};

use crate::keeper::Current;
use crate::queue::Sender;
use crate::thread_names::NameReader;

/// How often samples are fetched.
const EVERY: Duration = Duration::from_secs(1);

/// What the samples' thread needs.
pub(crate) struct SampleSource {
    /// Samples a second on each CPU.
    pub(crate) hz: u32,
    pub(crate) offset: ClockOffset,
    pub(crate) current: Current,
    pub(crate) threads: NameReader,
    pub(crate) sender: Sender,
    pub(crate) stop: Arc<AtomicBool>,
}

/// A sampler on one process, and what it had lost when last asked.
struct Sampled {
    pid: Pid,
    clock: Sampler,
    lost: u64,
    asked: Nanos,
}

impl SampleSource {
    /// Samples the broker of the moment until told to stop, then hands over what is left. `first` is the
    /// sampler on the process that the watch began with.
    pub(crate) fn run(mut self, pid: Pid, first: Sampler) {
        let mut sampled = Some(Sampled { pid, clock: first, lost: 0, asked: self.now() });
        let mut next = Instant::now();
        loop {
            let stopping = self.stop.load(Ordering::Relaxed);
            let wait = next.saturating_duration_since(Instant::now());
            if !stopping && !wait.is_zero() {
                std::thread::park_timeout(wait);
                continue;
            }
            if let Some(sampled) = &mut sampled {
                self.fetch(sampled);
            }
            if stopping {
                return;
            }
            sampled = self.follow(sampled);
            next = (next + EVERY).max(Instant::now());
        }
    }

    /// The sampler for the broker's process as it is now.
    fn follow(&self, sampled: Option<Sampled>) -> Option<Sampled> {
        let pid = self.current.subject()?.pid;
        if sampled.as_ref().is_some_and(|sampled| sampled.pid == pid) {
            return sampled;
        }
        // The old one goes first: two clocks at a time would cost twice.
        drop(sampled);
        let clock = Sampler::attach(pid, self.hz, false).ok()?;
        Some(Sampled { pid, clock, lost: 0, asked: self.now() })
    }

    fn fetch(&mut self, from: &mut Sampled) {
        let mut events = Vec::new();
        let fetched = from.clock.poll(&mut |sample| events.push(self.event(sample)));
        let losses = from.clock.losses();
        let lost = losses.samples + losses.intervals + u64::from(fetched.is_err());
        let now = self.now();
        if lost > from.lost {
            events.push(Event::Loss(Loss {
                start: from.asked,
                end: now,
                kind: LossKind::ProbeEventsDropped,
                count: lost - from.lost,
                detail: "samples of what runs on the CPU".into(),
            }));
        }
        (from.lost, from.asked) = (lost, now);
        self.sender.send_all(events);
    }

    fn event(&mut self, sample: Sample) -> Event {
        Event::CpuSample(Box::new(CpuSample {
            at: self.offset.from_monotonic(sample.at_ns),
            period: Nanos(i64::try_from(sample.period_ns).unwrap_or(i64::MAX)),
            pid: sample.pid,
            tid: sample.tid,
            thread: self.threads.full(sample.tid, sample.thread),
            stack: sample.stack,
        }))
    }

    fn now(&self) -> Nanos {
        self.offset.from_monotonic(crate::now().monotonic_ns)
    }
}
