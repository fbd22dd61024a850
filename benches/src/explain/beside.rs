//! The events that a recorder gets besides requests: the host's figures once per second, and CPU samples of the
//! broker's threads. The same in every run.

use std::sync::Arc;

use model::{CpuSample, Event, HostSample, HostScope, Nanos};

use super::simulation::{MILLI, SECOND};
use fastrand::Rng;

const SEED: u64 = 7;
/// A host with some devices and interfaces has this many.
const FIGURES: usize = 200;
/// Threads of a broker, and paths through its code.
const THREADS: u64 = 60;
const STACKS: u64 = 1_000;
/// Interval of samples on each of two CPUs: the default of `record`.
const SAMPLES: i64 = SECOND / 49;

/// Generates them as time advances.
pub(super) struct Beside {
    rng: Rng,
    pid: u32,
    second: i64,
    sample: i64,
    figures: Vec<Arc<str>>,
    threads: Vec<Arc<str>>,
    stacks: Vec<Arc<str>>,
}

impl Beside {
    pub(super) fn new(pid: u32, now: i64) -> Self {
        let named = |what: &str, count: u64| {
            (0..count).map(|i| Arc::from(format!("{what}-{i}"))).collect::<Vec<Arc<str>>>()
        };
        let stack = |i: u64| {
            let frames =
                (0..20 + i % 20).map(|depth| format!("kafka.server.Class{}.method_[j]", i >> (depth % 10)));
            Arc::from(frames.collect::<Vec<_>>().join(";"))
        };
        Self {
            rng: Rng::with_seed(SEED),
            pid,
            second: now,
            sample: now,
            figures: named("figure", FIGURES as u64),
            threads: named("data-plane-kafka-thread", THREADS),
            stacks: (0..STACKS).map(stack).collect(),
        }
    }

    /// The events up to that moment since the last call.
    pub(super) fn until(&mut self, now: i64) -> Vec<Event> {
        let mut events = Vec::new();
        while self.second + SECOND <= now {
            self.second += SECOND;
            for figure in &self.figures {
                events.push(Event::HostSample(Box::new(HostSample {
                    start: Nanos(self.second - SECOND),
                    end: Nanos(self.second),
                    scope: HostScope::Host,
                    name: "".into(),
                    metric: Arc::clone(figure),
                    value: self.rng.u64(..1_000_000) as f64 / 1_000.0,
                })));
            }
        }
        while self.sample + SAMPLES <= now {
            self.sample += SAMPLES;
            events.extend([self.sampled(0), self.sampled(MILLI)]);
        }
        events
    }

    fn sampled(&mut self, later: i64) -> Event {
        let thread = self.rng.u64(..THREADS);
        let stack = self.rng.u64(..STACKS) as usize;
        Event::CpuSample(Box::new(CpuSample {
            at: Nanos(self.sample - later),
            period: Nanos(SAMPLES),
            pid: self.pid,
            tid: 500 + thread as u32,
            thread: self.threads.get(thread as usize).cloned().unwrap_or_default(),
            stack: self.stacks.get(stack).cloned().unwrap_or_default(),
        }))
    }
}
