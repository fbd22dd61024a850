//! Updates the metrics of a broker for each event and verdict. Reaches no verdicts, and reads nothing from the host.

use std::borrow::Cow;
use std::sync::Arc;

use diagnose::JoinStats;
use model::CommitPhases;
use model::api_key::{FETCH, JOIN_GROUP, PRODUCE, SHARE_FETCH, SYNC_GROUP};
use model::{
    BlockIo, BrokerChange, BrokerState, Cause, CpuGapKind, Device, Event, FileKind, FileOp, FileOpKind,
    HostSample, HostScope, JournalCommit, LockSource, LockWait, Nanos, Request, RequestLatencies, Stages,
    Verdict,
};

use crate::catalog::{APIS, Metric, UNSEEN_ALWAYS_ON};
use crate::format::Encoder;
use crate::histogram::{Exemplar, seconds};
use crate::label::{ByLabel, clean};
use crate::recent::Recent;
use crate::registry::Registry;
use crate::threads::Threads;
use crate::topics::Topics;

/// Maximum numbers of devices and of interfaces, more than concern one broker.
/// A device counts under every name that sources use.
const MAX_DEVICES: usize = 128;
const MAX_INTERFACES: usize = 64;
/// Maximum number of TLS listeners with their own series.
const MAX_LISTENERS: usize = 64;
/// Number of recent roots to remember, so that each counts once: victims of one event come close together.
const MAX_RECENT_ROOTS: usize = 4_096;
/// Maximum plausible rate of a device or interface per second: a higher one is damaged data.
const MAX_RATE: f64 = 1e15;
/// Maximum plausible number of requests, likewise.
const MAX_REQUESTS: u64 = 1 << 30;
/// Kind of block requests that hold no page of a file.
const NO_FILE: &str = "unknown";

/// Rates of the host, and the counters that they are summed up in.
const RATES: [(HostScope, &str, Metric); 6] = [
    (HostScope::Device, "reads_per_second", Metric::DeviceReads),
    (HostScope::Device, "writes_per_second", Metric::DeviceWrites),
    (HostScope::Device, "read_bytes_per_second", Metric::DeviceReadBytes),
    (HostScope::Device, "write_bytes_per_second", Metric::DeviceWrittenBytes),
    (HostScope::Interface, "receive_bytes_per_second", Metric::NetworkReceived),
    (HostScope::Interface, "transmit_bytes_per_second", Metric::NetworkSent),
];

type PhaseLength = fn(&CommitPhases) -> Nanos;

/// The phases of a commit, in the order in which a transaction goes through them.
const PHASES: [(&str, PhaseLength); 5] = [
    ("wait", |phases| phases.wait),
    ("running", |phases| phases.running),
    ("locked", |phases| phases.locked),
    ("flushing", |phases| phases.flushing),
    ("logging", |phases| phases.logging),
];

/// Facts about a broker and its watch, besides events.
#[derive(Clone, Debug, Default)]
pub struct BrokerInfo {
    /// Number of topics with their own series.
    pub top_topics: usize,
    /// Log dirs with known devices.
    pub log_dirs: Vec<LogDir>,
    /// The broker's id.
    pub node_id: Option<i32>,
    /// The host's name.
    pub host: String,
    /// Its kernel's version.
    pub kernel: String,
    /// Version of brokerscope.
    pub version: String,
    /// Purposes of the plan, and whether each is served.
    pub plan: Vec<(String, bool)>,
    /// Whether all requests are counted by [`RequestLatencies`]. If so, only those around slow ones are events.
    pub is_always_on: bool,
}

impl BrokerInfo {
    /// The log dirs that are on a device, with commas between them.
    pub(crate) fn log_dirs_on(&self, device: (u32, u32)) -> String {
        let paths = self.log_dirs.iter().filter(|dir| dir.device == device).map(|dir| clean(&dir.path));
        paths.map(|path| path.to_string()).collect::<Vec<_>>().join(",")
    }
}

/// A log dir and the device that it is on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogDir {
    /// Major and minor number.
    pub device: (u32, u32),
    /// The path in the broker's configuration.
    pub path: String,
}

/// Functions that classify names.
#[derive(Clone, Copy, Debug)]
pub struct Classifiers {
    /// The role of a thread with this name.
    pub role_of: fn(&str) -> &'static str,
    /// The kind of a file with this path.
    pub kind_of: fn(&str) -> FileKind,
}

/// The metrics of a broker.
#[derive(Debug)]
pub(crate) struct Metrics {
    pub(crate) registry: Registry,
    about: BrokerInfo,
    kind_of: fn(&str) -> FileKind,
    /// Devices, each with the log dirs on it. These are known once a file operation has shown the device's number.
    devices: ByLabel<Option<Arc<str>>>,
    interfaces: ByLabel<()>,
    listeners: ByLabel<()>,
    topics: Topics,
    threads: Threads,
    roots: Recent<Arc<str>>,
    /// Whether a broker's process is watched.
    pub(crate) is_watched: bool,
    /// Number of processes watched so far.
    processes: u64,
    newest: Nanos,
}

impl Metrics {
    pub(crate) fn new(slower_than: Nanos, about: BrokerInfo, names: Classifiers) -> Self {
        let mut registry = Registry::new();
        registry.set(Metric::Threshold, &[], seconds(slower_than));
        if about.is_always_on {
            for metric in UNSEEN_ALWAYS_ON {
                registry.clear(*metric);
            }
            registry.remove(Metric::Duration, model::api_key::name(FETCH));
        }
        let mode = if about.is_always_on { "always-on" } else { "full" };
        registry.set(Metric::WatchInfo, &[mode], 1.0);
        for (purpose, is_served) in &about.plan {
            registry.set(Metric::SourceUp, &[purpose], f64::from(u8::from(*is_served)));
        }
        let node_id = about.node_id.map(|id| id.to_string()).unwrap_or_default();
        registry.set(Metric::BrokerInfo, &[&node_id, &clean(&about.host), &clean(&about.kernel)], 1.0);
        registry.set(Metric::BuildInfo, &[&about.version], 1.0);
        Self {
            registry,
            kind_of: names.kind_of,
            devices: ByLabel::of_at_most(MAX_DEVICES),
            interfaces: ByLabel::of_at_most(MAX_INTERFACES),
            listeners: ByLabel::of_at_most(MAX_LISTENERS),
            topics: Topics::of_at_most(about.top_topics),
            threads: Threads::of(names.role_of),
            roots: Recent::of_at_most(MAX_RECENT_ROOTS),
            is_watched: false,
            processes: 0,
            newest: Nanos::MIN,
            about,
        }
    }

    pub(crate) fn event(&mut self, event: &Event) {
        self.newest = self.newest.max(event.time());
        let registry = &mut self.registry;
        registry.count(Metric::Events, &[], 1);
        match event {
            // Only some of many: requests would count twice, and the share of the others would be unknown.
            Event::Request(_) | Event::FileOp(_) | Event::OffCpu(_) if self.about.is_always_on => {
                self.mark_broker_up();
            }
            // These are observed only during escalations.
            Event::ProcessStop(_) | Event::TcpEvent(_) | Event::TlsTraffic(_) if self.about.is_always_on => {}
            Event::Request(request) => {
                self.mark_broker_up();
                self.request(request);
            }
            Event::FileOp(op) => {
                self.mark_broker_up();
                self.file_op(op);
            }
            Event::RequestLatencies(counts) if self.about.is_always_on => {
                self.mark_broker_up();
                self.latencies(counts);
            }
            Event::BlockIo(io) => self.block_io(io),
            Event::JournalCommit(commit) => self.journal_commit(commit),
            Event::OffCpu(interval) => self.threads.off_cpu(interval),
            Event::LockWait(wait) => self.lock_wait(wait),
            Event::ProcessStop(stop) => {
                registry.count(Metric::ProcessStops, &[stop.kind.as_str()], 1);
                registry.add(Metric::ProcessStopTime, &[stop.kind.as_str()], seconds(stop.length()));
            }
            Event::CpuGap(gap) => {
                let time = if gap.kind == CpuGapKind::Gap { gap.length() } else { gap.stolen };
                registry.count(Metric::CpuGaps, &[gap.kind.as_str()], 1);
                registry.add(Metric::CpuGapTime, &[gap.kind.as_str()], seconds(time));
            }
            Event::JvmPause(pause) => {
                registry.observe_time(Metric::JvmPause, &[pause.kind.as_str()], pause.length());
            }
            Event::HostSample(sample) if sample.scope == HostScope::Threads => {
                self.threads.sample(registry, sample);
            }
            Event::HostSample(sample) => self.host_sample(sample),
            Event::DirtyThrottle(pause) => {
                let length = (pause.end - pause.start).at_least_zero();
                registry.count(Metric::DirtyThrottles, &[], 1);
                registry.add(Metric::DirtyThrottleTime, &[], seconds(length));
            }
            Event::TcpEvent(trouble) => {
                registry.count(Metric::TcpTroubles, &[trouble.kind.as_str()], trouble.count);
            }
            Event::TlsTraffic(traffic) => {
                let listener = self.listeners.entry(&traffic.listener.to_string()).0;
                registry.count(Metric::TlsConnections, &[&listener], traffic.connections);
                registry.count(Metric::TlsBytes, &[&listener], traffic.bytes);
            }
            Event::Loss(loss) => registry.count(Metric::Losses, &[loss.kind.as_str()], loss.count),
            Event::BrokerChange(change) => self.broker_change(change),
            // Evidence for verdicts, which count it.
            Event::SocketOp(_)
            | Event::HandlerCall(_)
            | Event::CpuSample(_)
            | Event::KernelSpan(_)
            | Event::PartitionState(_)
            | Event::RequestLatencies(_)
            | Event::Reclaim(_) => {}
        }
    }

    fn request(&mut self, request: &Request) {
        let (registry, api) = (&mut self.registry, &[request.api]);
        let is_long_poll = request.intended_wait().is_some();
        let throttle_ms = request.throttle_ms.and_then(|ms| u64::try_from(ms).ok()).unwrap_or(0);
        registry.count(Metric::Requests, api, 1);
        registry.count(Metric::Failed, api, u64::from(request.failed()));
        registry.count(Metric::LongPolls, api, u64::from(is_long_poll));
        registry.count(Metric::RequestBytes, api, u64::from(request.request_bytes));
        registry.count(Metric::ResponseBytes, api, u64::from(request.response_bytes.unwrap_or(0)));
        registry.count(Metric::Throttled, api, u64::from(throttle_ms > 0));
        registry.add(Metric::ThrottleTime, api, throttle_ms as f64 / 1e3);
        if let Some(latency) = request.latency_less_wait().filter(|_| !is_long_poll) {
            let time = (latency, request.last_seen());
            let example = |value| Exemplar::of(request, value);
            registry.observe_with(Metric::Duration, &[api_or_other(request.api)], time, example);
        }
        if request.api_key == PRODUCE {
            // With magic 2, a partition gets one record batch; before, one message set.
            for batch in request.partitions.iter().filter(|batch| batch.bytes > 0) {
                registry.observe(Metric::BatchBytes, &[], f64::from(batch.bytes));
                if let Some(records) = batch.records {
                    registry.observe(Metric::BatchRecords, &[], f64::from(records));
                }
            }
        }
        self.topics.request(registry, request);
    }

    /// Adds requests that the kernel counted.
    fn latencies(&mut self, counts: &RequestLatencies) {
        let (registry, api) = (&mut self.registry, &[counts.api]);
        registry.count(Metric::Requests, api, counts.requests);
        registry.count(Metric::RequestBytes, api, counts.request_bytes);
        registry.count(Metric::ResponseBytes, api, counts.response_bytes);
        match counts.api_key {
            // It is not known how long they waited for data.
            FETCH | SHARE_FETCH => {}
            JOIN_GROUP | SYNC_GROUP => registry.count(Metric::LongPolls, api, counts.answered()),
            _ => {
                let latencies = counts.latencies.iter();
                let latencies = latencies
                    .map(|one| (seconds(one.latency.at_least_zero()), one.requests.min(MAX_REQUESTS)));
                let sum = seconds(counts.total_latency.at_least_zero());
                registry.observe_counts(Metric::Duration, &[api_or_other(counts.api)], latencies, sum);
            }
        }
    }

    /// Adds a file operation: latencies on log dirs by device, bytes read and written by kind of file.
    fn file_op(&mut self, op: &FileOp) {
        let Self { registry, devices, about, .. } = self;
        let (kind, bytes) = (op.kind.as_str(), op.bytes.unwrap_or(0));
        registry.count(Metric::FileOps, &[op.op.as_str(), kind], 1);
        match op.op {
            FileOpKind::Write => registry.count(Metric::FileWritten, &[kind], bytes),
            FileOpKind::Read
            | FileOpKind::Sendfile
            | FileOpKind::Splice
            | FileOpKind::Copy
            | FileOpKind::MmapFault => {
                registry.count(Metric::FileRead, &[kind], bytes);
                registry.count(Metric::FileDiskRead, &[kind], op.disk_bytes.unwrap_or(0));
            }
            _ => {}
        }
        // Other files are the broker's text logs, its code, or anything else.
        if op.kind == FileKind::Other {
            return;
        }
        let (device, log_dirs) = devices.entry(&device_name(&op.device));
        let log_dirs = log_dirs.get_or_insert_with(|| about.log_dirs_on(op.device.number()).into());
        let labels: [&str; 2] = [&device, log_dirs];
        match op.op {
            FileOpKind::Write => {
                registry.observe_time(Metric::Write, &labels, op.latency());
                registry.raise(Metric::WriteMax, &labels, op.latency(), op.end);
            }
            FileOpKind::Fsync | FileOpKind::Fdatasync | FileOpKind::Msync => {
                registry.observe_time(Metric::Fsync, &labels, op.latency());
            }
            _ => {}
        }
    }

    fn block_io(&mut self, io: &BlockIo) {
        let kind = io.file.as_deref().map_or(NO_FILE, |file| (self.kind_of)(file).as_str());
        let (device, _) = self.devices.entry(&device_name(&io.device));
        let direction = io.direction.as_str();
        self.registry.count(Metric::BlockIos, &[&device, direction, kind], 1);
        self.registry.count(Metric::BlockBytes, &[&device, direction, kind], u64::from(io.bytes));
        self.registry.observe_time(Metric::BlockTime, &[&device, direction], io.latency());
    }

    fn journal_commit(&mut self, commit: &JournalCommit) {
        let (device, _) = self.devices.entry(&device_name(&commit.device));
        self.registry.observe_time(Metric::Commit, &[&device], commit.latency());
        self.registry.raise(Metric::CommitMax, &[&device], commit.latency(), commit.end);
        let Some(phases) = &commit.phases else { return };
        for (phase, length) in PHASES {
            self.registry.observe_time(Metric::CommitPhase, &[&device, phase], length(phases));
        }
    }

    fn lock_wait(&mut self, wait: &LockWait) {
        // A thread dump shows that a thread waits, not for how long.
        if wait.source != LockSource::ThreadDump {
            let role = self.threads.lock_wait(wait);
            self.registry.observe_time(Metric::LockWait, &[role, wait.source.as_str()], wait.length());
        }
    }

    /// Adds a host sample.
    /// Rates over a sample's interval are summed up in counters, which can be queried over any interval.
    fn host_sample(&mut self, sample: &HostSample) {
        let rate = if sample.value.is_finite() { sample.value.clamp(0.0, MAX_RATE) } else { 0.0 };
        let increase = rate * seconds((sample.end - sample.start).at_least_zero());
        let counter =
            RATES.iter().find(|(scope, name, _)| *scope == sample.scope && **name == *sample.metric);
        match (sample.scope, &*sample.metric) {
            (HostScope::Cgroup, "cpu_throttled_ratio") => {
                self.registry.add(Metric::CgroupThrottled, &[], increase);
            }
            (HostScope::Device, "util_ratio") => {
                let (device, _) = self.devices.entry(&sample.name);
                self.registry.set(Metric::DeviceUtil, &[&device], sample.value);
            }
            (scope, _) => {
                if let Some((.., counter)) = counter {
                    let name = match scope {
                        HostScope::Device => self.devices.entry(&sample.name).0,
                        _ => self.interfaces.entry(&sample.name).0,
                    };
                    self.registry.add(*counter, &[&name], increase);
                }
            }
        }
    }

    fn broker_change(&mut self, change: &BrokerChange) {
        match change.state {
            BrokerState::Watched => self.set_watched(true),
            BrokerState::Gone => {
                self.set_watched(false);
                self.threads.clear(&mut self.registry);
            }
            // The process is the same.
            BrokerState::Escalated | BrokerState::AlwaysOn => {}
        }
    }

    /// Marks the broker as up after an event from it. Does nothing if a change of it was already reported.
    fn mark_broker_up(&mut self) {
        if self.processes == 0 {
            self.set_watched(true);
        }
    }

    fn set_watched(&mut self, is_watched: bool) {
        self.is_watched = is_watched;
        self.processes += u64::from(is_watched);
        self.registry.set(Metric::BrokerUp, &[], f64::from(u8::from(is_watched)));
        self.registry.set(Metric::BrokerRestarts, &[], self.processes.saturating_sub(1) as f64);
    }

    /// Adds the stages of a request.
    pub(crate) fn stages(&mut self, request: &Request, stages: &Stages) {
        let Some(api) = APIS.into_iter().find(|api| *api == request.api) else { return };
        if request.intended_wait().is_some() {
            return;
        }
        for (stage, length) in stages.iter().filter(|(_, length)| *length > Nanos::ZERO) {
            let time = (length, request.last_seen());
            let example = |value| Exemplar::of(request, value);
            self.registry.observe_with(Metric::Stage, &[api, stage.as_str()], time, example);
        }
    }

    /// Adds a verdict that was reached at `now`.
    pub(crate) fn verdict(&mut self, verdict: &Verdict, now: Nanos) {
        let (registry, cause) = (&mut self.registry, verdict.cause.as_str());
        let (labels, ended) = ([verdict.request.api, cause], verdict.request.last_seen());
        let latency = seconds(verdict.latency());
        registry.set(Metric::VerdictLag, &[], seconds((now - ended).at_least_zero()));
        registry.count(Metric::Slow, &labels, 1);
        registry.set_exemplar(Metric::Slow, &labels, ended, || Exemplar::of_slow(verdict, latency));
        registry.add(Metric::SlowTime, &labels, latency);
        if verdict.cause != Cause::Unobserved && self.roots.is_new(&verdict.root) {
            registry.count(Metric::Roots, &[cause], 1);
        }
        if self.about.is_always_on {
            self.stages(&verdict.request, &verdict.stages);
        }
    }

    /// Writes everything.
    pub(crate) fn encode(&mut self, out: &mut dyn Encoder, joins: JoinStats, now: Nanos) {
        let joins = [
            ("batch-crc", joins.by_crc),
            ("base-offset", joins.by_base_offset),
            ("none", joins.unjoined),
            ("not-written", joins.not_written),
        ];
        for (key, count) in joins {
            self.registry.set(Metric::Joins, &[key], count as f64);
        }
        if self.newest > Nanos::MIN {
            self.registry.set(Metric::LastEvent, &[], seconds(self.newest));
        }
        self.registry.encode(out, now);
    }
}

/// The `api` label for a request's latency.
fn api_or_other(api: &'static str) -> &'static str {
    if APIS.contains(&api) { api } else { "OTHER" }
}

/// A device's name, or its number if the name is not known.
fn device_name(device: &Device) -> Cow<'_, str> {
    if device.name.is_empty() { device.to_string().into() } else { Cow::Borrowed(&device.name) }
}
