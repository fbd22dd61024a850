//! Host figures of a watch: samples devices, interfaces, CPUs, memory and the broker as a whole once a second, from the
//! kernel's own files. [`METRICS`] lists the figures. Does not interpret them, and attaches no probes. Takes about 1.2 ms of
//! a CPU a second, because its files stay open, in slices of 0.2 ms with pauses in between: a sample's readings are spread
//! over some milliseconds, and each has its own time.

mod cgroup;
mod clocks;
mod devices;
mod facts;
mod figures;
mod interfaces;
mod metrics;
#[cfg(test)]
mod tests;
mod text;
mod threads;

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

use model::{Event, HostScope, Nanos, TcpEvent, TcpEventKind};
use probes::Slice;
use probes::thread_times::ThreadLister;

use crate::cost::Part;
use crate::source::{BrokerProcess, Feed, Pace, Source, WatchSummary};
use crate::thread_names::NameReader;
use cgroup::Cgroup;
use clocks::Clocks;
use figures::Figures;
use interfaces::Interfaces;
use text::Kernel;
use threads::Threads;

pub use facts::read_host_facts;
pub use metrics::{METRICS, Metric};

/// The directory of a process's cgroup with the CPU controller's files.
pub(crate) fn cpu_group_of(pid: u32) -> Option<PathBuf> {
    Cgroup::of(&Kernel::default(), pid).cpu_directory().cloned()
}

/// Interval of looking up devices and cgroups again, in readings: volumes grow.
const SURVEY_EVERY: u64 = 60;

/// Samples host figures once a second. While the broker is down, those of the host itself continue.
pub(crate) struct HostSource(Sampler);

impl HostSource {
    /// Creates the source. It reads the broker's threads every `threads_every` readings, by the kernel's list of them if
    /// there is one.
    pub(crate) fn new(names: NameReader, lister: Option<ThreadLister>, threads_every: u64) -> Self {
        Self(Sampler { threads_every, ..Sampler::of(Kernel::default(), names, lister) })
    }
}

impl Source for HostSource {
    type Error = Infallible;

    const NAME: &'static str = "host";
    const PACE: Pace = Pace::Every(Duration::from_secs(1));
    const PART: Option<Part> = Some(Part::Host);

    fn drop_capabilities() {
        cgroup::see_all();
        let _ = crate::privileges::drop_unneeded_capabilities();
    }

    fn poll(&mut self, feed: &Feed, _: Duration) -> Result<(), Infallible> {
        if !feed.stop.load(Ordering::Relaxed) {
            let mut slice = Slice::new(Slice::LONG);
            let mut moment = || {
                slice.rest_if_over(|| feed.stop.load(Ordering::Relaxed));
                feed.now()
            };
            let events = self.0.sample(&mut moment, feed.current.get().as_ref());
            moment();
            feed.sender.send_all(events);
        }
        Ok(())
    }

    fn summarize(self, _: Result<(), Infallible>) -> WatchSummary {
        WatchSummary::default()
    }
}

/// The last reading of the accept queue's overflow counter.
/// Holds the process whose network namespace was read, and the counter then.
#[derive(Default)]
struct AcceptQueue(Option<(u32, u64)>);

impl AcceptQueue {
    /// Overflows since the last call, if any; the first call for a process only reads the counter.
    fn sample(&mut self, kernel: &Kernel, pid: u32, at: Nanos) -> Option<TcpEvent> {
        let netstat = kernel.text(&kernel.of_process(pid, "net/netstat"))?;
        let overflows = text::counter(&netstat, "TcpExt: ListenOverflows")?;
        let (_, before) = self.0.replace((pid, overflows)).filter(|(process, _)| *process == pid)?;
        let count = overflows.saturating_sub(before);
        let kind = TcpEventKind::AcceptQueueOverflow;
        (count > 0).then_some(TcpEvent { at, kind, local: None, remote: None, count })
    }
}

/// Returns the time of the next reading. Called before each; may let other threads run first.
type Moment<'m> = dyn FnMut() -> Nanos + 'm;

/// Reads all figures, one after another.
pub(crate) struct Sampler {
    kernel: Kernel,
    figures: Figures,
    readings: u64,
    broker: Option<BrokerProcess>,
    devices: BTreeSet<(u32, u32)>,
    clocks: Clocks,
    cgroup: Cgroup,
    interfaces: Interfaces,
    threads: Threads,
    /// Interval of reading threads, in readings: there are hundreds, with a file each.
    threads_every: u64,
    accept_queue: AcceptQueue,
}

impl Sampler {
    fn of(kernel: Kernel, names: NameReader, lister: Option<ThreadLister>) -> Self {
        Self {
            kernel,
            figures: Figures::default(),
            readings: 0,
            broker: None,
            devices: BTreeSet::new(),
            clocks: Clocks::default(),
            cgroup: Cgroup::default(),
            interfaces: Interfaces::default(),
            threads: Threads::of(names, lister),
            threads_every: 1,
            accept_queue: AcceptQueue::default(),
        }
    }

    /// Returns the samples of this second. The first reading has no rates.
    pub(crate) fn sample(&mut self, moment: &mut Moment<'_>, broker: Option<&BrokerProcess>) -> Vec<Event> {
        self.survey(broker);
        let limits = self.cgroup.io_limits(&self.kernel);
        let now = moment();
        self.figures.begin(now);
        devices::sample(&self.kernel, &self.devices, &limits, &mut self.figures, now);
        self.clocks.sample(&self.kernel, &mut self.figures, moment());
        let pid = broker.map(|broker| broker.pid);
        let Self { kernel, figures, .. } = self;
        let read = |file: &str| kernel.bytes(&kernel.file(file, pid)?);
        let mut of_files = |scope| metrics::sample(scope, "", figures, &mut *moment, &read);
        of_files(HostScope::Host);
        if let Some(pid) = pid {
            of_files(HostScope::Process);
            self.interfaces.sample(kernel, pid, figures, moment());
            if self.readings % self.threads_every == 0 {
                self.threads.sample(kernel, pid, figures, moment);
            }
            self.cgroup.sample(kernel, figures, moment);
        }
        self.readings += 1;
        let mut events = std::mem::take(&mut self.figures.samples);
        let overflow = broker.and_then(|broker| self.accept_queue.sample(&self.kernel, broker.pid, moment()));
        events.extend(overflow.map(|trouble| Event::TcpEvent(Box::new(trouble))));
        events
    }

    /// Looks up the broker's devices and cgroup.
    /// While the broker is down, its last devices are still sampled.
    fn survey(&mut self, broker: Option<&BrokerProcess>) {
        let Some(broker) = broker else {
            // An open file of its network would keep the namespace of a container that is gone.
            self.kernel.close();
            return;
        };
        let is_new = self.broker.as_ref() != Some(broker);
        if is_new || self.readings % SURVEY_EVERY == 0 {
            self.kernel.close();
            self.devices = devices::beneath(&self.kernel, &broker.log_dirs);
            self.cgroup = Cgroup::of(&self.kernel, broker.pid);
            self.broker = Some(broker.clone());
        }
    }
}

#[cfg(test)]
mod accept_queue_tests {
    use super::AcceptQueue;
    use crate::host::tests::fixture::Fixture;
    use model::{Nanos, TcpEventKind};

    fn count_overflows(queue: &mut AcceptQueue, fixture: &Fixture, pid: u32, overflows: u64) -> Option<u64> {
        let netstat = format!("TcpExt: ListenDrops ListenOverflows\nTcpExt: 90 {overflows}\n");
        fixture.file(&format!("proc/{pid}/net/netstat"), &netstat);
        let trouble = queue.sample(&fixture.kernel(), pid, Nanos(7))?;
        assert_eq!((trouble.at, trouble.kind), (Nanos(7), TcpEventKind::AcceptQueueOverflow));
        assert_eq!((trouble.local, trouble.remote), (None, None));
        Some(trouble.count)
    }

    #[test]
    fn reports_only_overflows_since_the_last_reading() {
        let (fixture, mut queue) = (Fixture::new("accept-queue"), AcceptQueue::default());
        let counts =
            [5, 5, 12, 12, 3, 4].map(|overflows| count_overflows(&mut queue, &fixture, 11, overflows));
        assert_eq!(counts, [None, None, Some(7), None, None, Some(1)]);
        let counts = [40, 41].map(|overflows| count_overflows(&mut queue, &fixture, 12, overflows));
        assert_eq!(counts, [None, Some(1)], "another process may be in another namespace");
        assert_eq!(queue.sample(&fixture.kernel(), 13, Nanos(8)), None, "no such process");
    }
}
