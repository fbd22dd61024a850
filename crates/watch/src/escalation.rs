//! Escalation of an always-on watch: while requests are slow, the sources of a full watch run for a while as well. Their programs
//! are loaded in advance and attached then. Does not evaluate requests.

mod handover;
mod policy;

use std::sync::Arc;
use std::time::Duration;

use model::{BrokerChange, BrokerState, Event};
use probes::LoadedProbes;
use probes::profile::Sampler;

use crate::cpu_samples::CpuSampleSource;
use crate::packets::{Capture, PacketSource};
use crate::source::{BrokerProcess, Feed, Pace, Running, Source, WatchSummary};
use crate::supervisor::Attacher;
use policy::{Change, Policy};

pub(crate) use handover::{Handover, Mode, Share};

/// How often to check whether an escalation is over. It begins as soon as enough requests were slow: the next stall may come
/// within the second.
const INTERVAL: Duration = Duration::from_secs(1);

/// Begins and ends escalations.
pub(crate) struct EscalationSource {
    handover: Arc<Handover>,
    policy: Policy,
    /// Attaches the full watch's probes to a process.
    attacher: Attacher,
    /// How to capture packets; `None` if that is not possible.
    capture: Option<Capture>,
    /// CPU samples a second on each CPU; `None` takes none.
    cpu_samples_hz: Option<u32>,
    /// The broker's current process.
    broker: Option<BrokerProcess>,
    /// The programs that are loaded for it.
    loaded: Option<LoadedProbes>,
    running: Option<FullSources>,
    trouble: Vec<String>,
}

/// The sources that run during an escalation.
struct FullSources {
    packets: Option<Running>,
    probes: Option<Running>,
    samples: Option<Running>,
}

impl EscalationSource {
    /// Creates the source for a broker, with the programs that are loaded for it.
    pub(crate) fn new(
        broker: BrokerProcess,
        handover: Arc<Handover>,
        attacher: Attacher,
        loaded: Option<LoadedProbes>,
        capture: Option<Capture>,
        cpu_samples_hz: Option<u32>,
    ) -> Self {
        Self {
            handover,
            policy: Policy::new(crate::now().monotonic_ns),
            attacher,
            capture,
            cpu_samples_hz,
            broker: Some(broker),
            loaded,
            running: None,
            trouble: Vec::new(),
        }
    }

    /// Loads the programs again, with empty maps and counters.
    fn load(&mut self) {
        let Some(broker) = &self.broker else { return };
        match self.attacher.load(broker) {
            Ok(loaded) => self.loaded = loaded,
            Err(error) => self.refuse_probes(&error.to_string()),
        }
    }

    /// Reports an error of the probes once; they are not tried again.
    fn refuse_probes(&mut self, error: &str) {
        self.trouble.push(format!("no more probes are attached while requests are slow: {error}"));
        self.attacher.plan = None;
    }

    /// Begins an escalation: probes first, so that they observe the writes of every request that packets show.
    fn begin(&mut self, feed: &Feed) {
        let Some(broker) = self.broker.clone() else { return };
        self.handover.begin();
        let probes = self.attach_probes(&broker, feed);
        let packets = self.capture_packets(&broker, feed);
        if probes.is_some() || packets.is_some() {
            feed.costs.set_escalated(true);
            let samples = self.sample_cpu(&broker, feed);
            self.running = Some(FullSources { packets, probes, samples });
            announce(&broker, BrokerState::Escalated, feed);
        } else {
            self.policy.end(crate::now().monotonic_ns);
        }
    }

    fn attach_probes(&mut self, broker: &BrokerProcess, feed: &Feed) -> Option<Running> {
        let attached = self.loaded.take()?.attach().map_err(|error| error.to_string());
        let start = |probes| self.attacher.start(probes, broker).map_err(|error| error.to_string());
        match attached.and_then(start) {
            Ok(running) => {
                self.handover.attach(feed.now());
                Some(running)
            }
            Err(error) => {
                self.refuse_probes(&error);
                None
            }
        }
    }

    fn capture_packets(&mut self, broker: &BrokerProcess, feed: &Feed) -> Option<Running> {
        let capture = self.capture.clone()?;
        // From now on, before the first packet passes, the always-on source waits for packets.
        self.handover.set_packets_read(crate::now().monotonic_ns);
        let share = Share(Some((Mode::Full, Arc::clone(&self.handover))));
        let source = PacketSource::open(capture, broker, share).map_err(|error| error.to_string());
        let opened = source.and_then(|source| {
            Running::start(source, &feed.with_own_stop()).map_err(|error| error.to_string())
        });
        opened
            .map_err(|error| {
                self.handover.end_packets();
                self.trouble.push(format!("no more packets are captured while requests are slow: {error}"));
                self.capture = None;
            })
            .ok()
    }

    /// Starts CPU samples, which show what threads do while they do not wait.
    fn sample_cpu(&mut self, broker: &BrokerProcess, feed: &Feed) -> Option<Running> {
        let (pid, hz) = (broker.pid, self.cpu_samples_hz?);
        let attached = Sampler::attach(pid, hz, feed.clock).map_err(|error| error.to_string());
        let started = attached.and_then(|sampler| {
            let threads = self.attacher.threads.reader();
            let source = CpuSampleSource { hz, threads, pid, sampler: Some(sampler), failed_polls: 0 };
            Running::start(source, &feed.with_own_stop()).map_err(|error| error.to_string())
        });
        started
            .map_err(|error| {
                self.trouble.push(format!("what runs is no more sampled while requests are slow: {error}"));
                self.cpu_samples_hz = None;
            })
            .ok()
    }

    /// Ends an escalation: packets first.
    /// From then on, the always-on sources deliver new events; the others still deliver earlier ones.
    fn end(&mut self, feed: &Feed) {
        let Some(FullSources { packets, probes, samples }) = self.running.take() else { return };
        self.handover.end(feed.now());
        let ended = packets.map(join).and_then(|summary| summary.packets?.err());
        self.handover.end_packets();
        self.handover.detach(feed.now());
        self.trouble.extend(ended.map(|error| format!("the capture ended early: {error}")));
        let ended = probes.map(join).and_then(|summary| summary.kernel);
        self.trouble.extend(ended.map(|error| format!("the probes ended early: {error}")));
        samples.map(join);
        feed.costs.set_escalated(false);
        if let Some(broker) = &self.broker {
            announce(broker, BrokerState::AlwaysOn, feed);
        }
    }
}

/// Stops a source and waits until it has delivered the rest.
fn join(source: Running) -> WatchSummary {
    source.stop();
    source.join()
}

fn announce(broker: &BrokerProcess, state: BrokerState, feed: &Feed) {
    feed.sender.send(Event::BrokerChange(BrokerChange { at: feed.now(), pid: broker.pid, state }));
}

impl FullSources {
    /// Whether one of the sources cannot continue.
    fn is_down(&self) -> bool {
        [&self.packets, &self.probes, &self.samples].into_iter().flatten().any(Running::is_down)
    }
}

impl Source for EscalationSource {
    type Error = std::convert::Infallible;

    const NAME: &'static str = "escalation";
    const PACE: Pace = Pace::Blocking(INTERVAL);

    fn start(&mut self, _: &Feed) {
        self.handover.count_slow_here();
    }

    fn poll(&mut self, feed: &Feed, timeout: Duration) -> Result<(), Self::Error> {
        std::thread::park_timeout(timeout);
        let (now_ns, slow) = (crate::now().monotonic_ns, self.handover.take_slow());
        let mut change = self.policy.step(now_ns, slow);
        if self.running.as_ref().is_some_and(FullSources::is_down) {
            change = Some(self.policy.end(now_ns));
        }
        match change {
            Some(Change::Begin) => self.begin(feed),
            Some(Change::End) => {
                self.end(feed);
                self.load();
            }
            None => {}
        }
        Ok(())
    }

    fn check(&mut self, feed: &Feed) -> Result<bool, Self::Error> {
        let broker = feed.current.get();
        if broker != self.broker {
            self.end(feed);
            self.policy.end(crate::now().monotonic_ns);
            (self.broker, self.loaded) = (broker, None);
            self.load();
        }
        Ok(false)
    }

    fn finish(&mut self, feed: &Feed) -> Result<(), Self::Error> {
        self.end(feed);
        Ok(())
    }

    fn summarize(self, _: Result<(), Self::Error>) -> WatchSummary {
        WatchSummary { trouble: self.trouble, ..WatchSummary::default() }
    }
}
