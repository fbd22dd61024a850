//! The engine and what is counted beside it, fed by whoever has events. Holds both, bounded; knows no clock but the times
//! of events and what it is told.

use std::time::Instant;

use diagnose::{Config, Engine};
use model::{Event, FileKind, Nanos};

use crate::catalog;
use crate::format::Format;
use crate::label;
use crate::metrics::Metrics;
use crate::otlp::{self, Otlp};
use crate::own::ProcessUsage;
use crate::stages::APIS;

/// So many purposes of a plan are told: there are some thirty.
const MOST_PURPOSES: usize = 128;

/// What is known of a broker and of how it is watched, beside events.
#[derive(Clone, Debug, Default)]
pub struct BrokerInfo {
    /// So many topics have series of their own.
    pub top_topics: usize,
    /// Where log dirs are, as far as it is known.
    pub log_dirs: Vec<LogDir>,
    /// The broker's id.
    pub node_id: Option<i32>,
    /// The host's name.
    pub host: String,
    /// Its kernel's version.
    pub kernel: String,
    /// What exports it.
    pub version: String,
    /// What was to be seen, and whether it is.
    pub plan: Vec<(String, bool)>,
}

/// A log dir and the device that it is on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogDir {
    /// Major and minor number.
    pub device: (u32, u32),
    /// As the broker is configured.
    pub path: String,
}

/// What names say, known elsewhere.
#[derive(Clone, Copy, Debug)]
pub struct Classifiers {
    /// What a thread of that name is for.
    pub role_of: fn(&str) -> &'static str,
    /// What kind of file one of that path is.
    pub kind_of: fn(&str) -> FileKind,
}

/// Takes events and writes what they add up to.
#[derive(Debug)]
pub struct Exporter {
    engine: Engine,
    metrics: Metrics,
    /// Where slow requests are sent as traces, too.
    otlp: Option<Otlp>,
    /// The latest that it is known to be.
    now: Nanos,
    scrapes: u64,
    /// How long the last one took to write.
    scrape_seconds: f64,
}

impl Exporter {
    /// Judges as configured. Stages are added up of all produce and fetch requests.
    pub fn new(config: Config, mut about: BrokerInfo, names: Classifiers) -> Self {
        let slower_than = config.slower_than;
        about.plan.truncate(MOST_PURPOSES);
        about.plan.iter_mut().for_each(|(purpose, _)| *purpose = label::clean(purpose).to_string());
        // A series is told once: what is seen in any way is seen.
        about.plan.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
        about.plan.dedup_by(|next, kept| next.0 == kept.0);
        Self {
            engine: Engine::new(Config { stages_of: APIS.to_vec(), ..config }),
            metrics: Metrics::new(slower_than, about, names),
            otlp: None,
            now: Nanos::MIN,
            scrapes: 0,
            scrape_seconds: 0.0,
        }
    }

    /// Sends slow requests as traces from now on.
    pub fn send_traces(&mut self, otlp: Otlp) {
        self.otlp = Some(otlp);
    }

    /// Sends no more; what waits is whose it is now.
    pub fn take_traces(&mut self) -> Option<Otlp> {
        self.otlp.take()
    }

    /// Takes an event, nearly in the order of [`Event::time`].
    pub fn push(&mut self, event: Event) {
        self.now = self.now.max(event.time());
        self.metrics.event(&event);
        self.engine.push(event);
        self.take_decided();
    }

    /// Says how late it is, where nothing may come for a while.
    pub fn tick(&mut self, now: Nanos) {
        self.now = self.now.max(now);
        self.engine.tick(now);
        self.take_decided();
    }

    /// There are no more events: decides what is left.
    pub fn finish(&mut self) {
        self.engine.finish();
        self.take_decided();
        if let Some(otlp) = &mut self.otlp {
            otlp.flush();
        }
    }

    /// Whether a broker's process is watched.
    pub fn is_watched(&self) -> bool {
        self.metrics.is_watched()
    }

    fn take_decided(&mut self) {
        for staged in self.engine.take_request_stages() {
            self.metrics.staged(&staged);
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

    /// Everything, in that format.
    pub fn write(&mut self, format: Format, own: &ProcessUsage) -> Vec<u8> {
        let begun = Instant::now();
        self.scrapes += 1;
        let mut out = format.encoder();
        self.metrics.encode(&mut *out, self.engine.joins(), self.now);
        otlp::encode(self.otlp.as_ref().map(Otlp::counts), &mut *out);
        out.one(&catalog::SCRAPES, self.scrapes as f64);
        out.one(&catalog::SCRAPE_TIME, self.scrape_seconds);
        own.encode(&mut *out);
        let written = out.finish();
        self.scrape_seconds = begun.elapsed().as_secs_f64();
        written
    }
}
