//! The host's side of a watch: each second, what devices, interfaces, processors, memory and the broker as a
//! whole did, as the kernel's own files count it. [`METRICS`] lists the figures. Does not judge them, and hooks
//! nothing: it costs the broker nothing and itself about a millisecond a second.

mod accept_queue;
mod cgroup;
mod devices;
mod disks;
mod facts;
mod figures;
#[cfg(test)]
mod fixture;
mod interfaces;
mod memory;
mod metrics;
mod pressure;
mod process;
mod tcp;
#[cfg(test)]
mod tests;
mod text;
mod threads;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use model::{ClockOffset, Event, HostScope, Nanos};

use crate::keeper::{Current, Subject};
use crate::queue::Sender;
use crate::thread_names::NameReader;
use accept_queue::AcceptQueue;
use cgroup::Cgroup;
use figures::Figures;
use interfaces::Interfaces;
use text::Kernel;
use threads::Threads;

pub use facts::read_host_facts;
pub use metrics::{METRICS, Metric};

/// How often the host is looked at.
const EVERY: Duration = Duration::from_secs(1);
/// Devices and cgroups are looked up again now and again: volumes grow. In readings.
const SURVEY_EVERY: u64 = 60;

/// What the host's thread needs.
pub(crate) struct HostSource {
    pub(crate) offset: ClockOffset,
    pub(crate) current: Current,
    pub(crate) threads: NameReader,
    pub(crate) sender: Sender,
    pub(crate) stop: Arc<AtomicBool>,
}

impl HostSource {
    /// What the thread does before it gives away the rights that this takes.
    pub(crate) fn prepare() {
        cgroup::see_all();
    }

    /// Samples once a second until told to stop. While the broker does not run, the host goes on.
    pub(crate) fn run(self) {
        let mut sampler = Sampler::of(Kernel::default(), self.threads);
        let mut next = Instant::now();
        while !self.stop.load(Ordering::Relaxed) {
            let wait = next.saturating_duration_since(Instant::now());
            if !wait.is_zero() {
                std::thread::park_timeout(wait);
                continue;
            }
            let subject = self.current.subject();
            let now = self.offset.from_monotonic(crate::now().monotonic_ns);
            self.sender.send_all(sampler.sample(now, subject.as_ref()));
            // A host that stood still is not sampled in a hurry afterwards.
            next = (next + EVERY).max(Instant::now());
        }
    }
}

/// Reads everything, one moment after the other.
pub(crate) struct Sampler {
    kernel: Kernel,
    figures: Figures,
    readings: u64,
    subject: Option<Subject>,
    devices: BTreeSet<(u32, u32)>,
    cgroup: Cgroup,
    interfaces: Interfaces,
    threads: Threads,
    accept_queue: AcceptQueue,
}

impl Sampler {
    fn of(kernel: Kernel, names: NameReader) -> Self {
        Self {
            kernel,
            figures: Figures::new(),
            readings: 0,
            subject: None,
            devices: BTreeSet::new(),
            cgroup: Cgroup::default(),
            interfaces: Interfaces::default(),
            threads: Threads::of(names),
            accept_queue: AcceptQueue::default(),
        }
    }

    /// The samples of this moment. The first reading gives no rates.
    pub(crate) fn sample(&mut self, now: Nanos, subject: Option<&Subject>) -> Vec<Event> {
        self.survey(subject);
        self.figures.begin(now);
        disks::sample(&self.kernel, &self.devices, &mut self.figures);
        memory::sample(&self.kernel, &mut self.figures);
        let mut host = self.figures.of(HostScope::Host, "");
        pressure::sample(&self.kernel.proc.join("pressure"), "", &mut host);
        if let Some(&Subject { pid, .. }) = subject {
            self.interfaces.sample(&self.kernel, pid, &mut self.figures);
            self.threads.sample(&self.kernel, pid, &mut self.figures);
            process::sample(&self.kernel, pid, &mut self.figures);
            self.cgroup.sample(&mut self.figures);
            tcp::sample(&self.kernel, pid, &mut self.figures);
        }
        self.readings += 1;
        let mut events = self.figures.take();
        let overflow = subject.and_then(|subject| self.accept_queue.sample(&self.kernel, subject.pid, now));
        events.extend(overflow.map(|trouble| Event::TcpEvent(Box::new(trouble))));
        events
    }

    /// Where the broker is on this host: its devices and its cgroup. What was known of a broker that is gone
    /// stays true of its disks.
    fn survey(&mut self, subject: Option<&Subject>) {
        let Some(subject) = subject else { return };
        let is_new = self.subject.as_ref() != Some(subject);
        if is_new || self.readings % SURVEY_EVERY == 0 {
            self.devices = devices::beneath(&self.kernel, &subject.log_dirs);
            self.cgroup = Cgroup::of(&self.kernel, subject.pid);
            self.subject = Some(subject.clone());
        }
    }
}
