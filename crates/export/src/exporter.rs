//! Feeds events to the engine and the metrics. Holds both, bounded; its only clock is the times of events and those that
//! callers pass.

use std::time::Instant;

use diagnose::{Config, Engine};
use model::{Event, Nanos};

use crate::catalog::{APIS, Metric};
use crate::format::Format;
use crate::histogram::seconds;
use crate::label;
use crate::metrics::{BrokerInfo, Classifiers, Metrics};
use crate::otlp::Otlp;
use crate::registry::Registry;

/// Maximum number of exported purposes of a plan; there are some thirty.
const MAX_PURPOSES: usize = 128;

/// Health of the source of a purpose.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceHealth {
    /// The purpose's name in the plan.
    pub purpose: String,
    /// Why nothing is observed for it; `None` while something may be.
    pub down: Option<String>,
    /// The time of the newest event of its source.
    pub last_event: Option<Nanos>,
}

/// Usage of this process. Values that could not be read are absent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProcessUsage {
    /// User and system time, seconds.
    pub cpu_seconds: Option<f64>,
    /// Resident memory.
    pub resident_bytes: Option<u64>,
    /// Size of the address space.
    pub virtual_bytes: Option<u64>,
    /// Open file descriptors.
    pub open_fds: Option<u64>,
    /// Start time of the process, seconds since 1970.
    pub start_time_seconds: Option<f64>,
    /// Time spent in its BPF programs, seconds; only if measured.
    pub bpf_seconds: Option<f64>,
    /// Number of their runs.
    pub bpf_runs: Option<u64>,
    /// CPU time of its BPF programs in the last minute, as a share of the broker's.
    pub cost_of_programs: Option<f64>,
    /// CPU time of the process itself, likewise.
    pub cost_of_process: Option<f64>,
    /// The share above which sources are shed.
    pub max_cost: Option<f64>,
    /// Health of its sources, except those that were shed.
    pub sources: Vec<SourceHealth>,
}

impl ProcessUsage {
    fn set(&self, registry: &mut Registry) {
        let count = |count: Option<u64>| count.map(|count| count as f64);
        for (metric, value) in [
            (Metric::BpfTime, self.bpf_seconds),
            (Metric::BpfRuns, count(self.bpf_runs)),
            (Metric::ProcessCpu, self.cpu_seconds),
            (Metric::ProcessResident, count(self.resident_bytes)),
            (Metric::ProcessVirtual, count(self.virtual_bytes)),
            (Metric::ProcessFds, count(self.open_fds)),
            (Metric::ProcessStart, self.start_time_seconds),
            (Metric::MaxCost, self.max_cost),
        ] {
            if let Some(value) = value {
                registry.set(metric, &[], value);
            }
        }
        for (part, value) in [("programs", self.cost_of_programs), ("process", self.cost_of_process)] {
            if let Some(value) = value {
                registry.set(Metric::Cost, &[part], value);
            }
        }
        for SourceHealth { purpose, down, last_event } in &self.sources {
            registry.set(Metric::SourceUp, &[purpose], f64::from(u8::from(down.is_none())));
            if let Some(at) = last_event {
                registry.set(Metric::SourceLastEvent, &[purpose], seconds(*at));
            }
        }
    }
}

/// Turns events into metrics.
#[derive(Debug)]
pub struct Exporter {
    engine: Engine,
    metrics: Metrics,
    /// Sender of slow requests as traces, if any.
    pub otlp: Option<Otlp>,
    /// The latest known time.
    now: Nanos,
    /// Duration of the last rendering.
    scrape_seconds: f64,
}

impl Exporter {
    /// Creates an exporter with an engine of this configuration.
    /// Sums up the stages of all produce and fetch requests; for an always-on watch, which observes few others, those
    /// of slow ones.
    pub fn new(config: Config, mut about: BrokerInfo, names: Classifiers) -> Self {
        let slower_than = config.slower_than;
        let stages_of = if about.is_always_on { Vec::new() } else { APIS.to_vec() };
        about.plan.truncate(MAX_PURPOSES);
        about.plan.iter_mut().for_each(|(purpose, _)| *purpose = label::clean(purpose).to_string());
        // A purpose has one series: 1 if any source serves it.
        about.plan.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
        about.plan.dedup_by(|next, last| next.0 == last.0);
        Self {
            engine: Engine::new(Config { stages_of, ..config }),
            metrics: Metrics::new(slower_than, about, names),
            otlp: None,
            now: Nanos::MIN,
            scrape_seconds: 0.0,
        }
    }

    /// Adds an event, nearly in the order of [`Event::time`].
    pub fn push(&mut self, event: Event) {
        self.now = self.now.max(event.time());
        self.metrics.event(&event);
        self.engine.push(event);
        self.collect_results();
    }

    /// Advances the clock when no events may come for a while.
    pub fn tick(&mut self, now: Nanos) {
        self.now = self.now.max(now);
        self.engine.tick(now);
        self.collect_results();
    }

    /// Decides what is left, after the last event.
    pub fn finish(&mut self) {
        self.engine.finish();
        self.collect_results();
        if let Some(otlp) = &mut self.otlp {
            otlp.flush();
        }
    }

    /// Marks a purpose as no longer served.
    pub fn end_source(&mut self, purpose: &str) {
        self.metrics.registry.set(Metric::SourceUp, &[purpose], 0.0);
    }

    /// Whether a broker's process is watched.
    pub fn is_watched(&self) -> bool {
        self.metrics.is_watched
    }

    fn collect_results(&mut self) {
        for staged in self.engine.take_request_stages() {
            self.metrics.stages(&staged.request, &staged.stages);
        }
        for verdict in self.engine.take_verdicts() {
            self.metrics.verdict(&verdict, self.now);
            if let Some(otlp) = &mut self.otlp {
                otlp.offer(&verdict);
            }
        }
        if let Some(otlp) = &mut self.otlp {
            otlp.tick(self.now);
        }
    }

    /// Renders all metrics in a format.
    pub fn write(&mut self, format: Format, own: &ProcessUsage) -> Vec<u8> {
        let start = Instant::now();
        let registry = &mut self.metrics.registry;
        if let Some(otlp) = &self.otlp {
            otlp.counts().set(registry);
        }
        registry.count(Metric::Scrapes, &[], 1);
        registry.set(Metric::ScrapeTime, &[], self.scrape_seconds);
        own.set(registry);
        let mut out = format.encoder();
        self.metrics.encode(&mut *out, self.engine.joins(), self.now);
        let written = out.finish();
        self.scrape_seconds = start.elapsed().as_secs_f64();
        written
    }
}
