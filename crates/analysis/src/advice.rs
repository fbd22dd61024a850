//! Inputs of advice rules: totals of events and verdicts, and facts from a manifest.
//! Each part of the totals may be fed by a different thread. Does not reach verdicts and does not evaluate rules.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use advise::{Costs, Inputs, Profile, ReadsWithoutEgress, Samples, Traffic};
use model::row_summary::RequestColumns;
use model::{Event, FileOp, HostScope, Interface, Known, Nanos, TopicPartition, Verdict, Volume};
use recording::{Manifest, Recording};
use report::files::{Files, GroupBy, Interval, Sort};

use crate::recorder::{broker_settings, host_facts, partial};

/// Limit of distinct partitions.
const MAX_PARTITIONS: usize = 1_000_000;
/// The topic of KRaft's controllers.
const CONTROLLERS: &str = "__cluster_metadata";
/// Limit of distinct file systems of log dirs.
const MAX_VOLUMES: usize = 1_000;

/// Totals over all observed events and verdicts.
#[derive(Default)]
pub struct AdviceTotals {
    /// Totals of requests.
    pub traffic: TrafficTotals,
    /// Totals of all other events except network events.
    pub work: WorkTotals,
    /// Totals of verdicts.
    pub costs: Costs,
}

/// Totals of requests.
#[derive(Default)]
pub struct TrafficTotals {
    traffic: Traffic,
    span: Span,
}

/// Totals of the broker's and its host's work.
pub struct WorkTotals {
    samples: Samples,
    /// Reads and writes of each file, if they are needed.
    files: Option<Files>,
    /// Observed file operations.
    file_ops: u64,
    profile: Profile,
    /// File systems that hold partitions, by device.
    volumes: BTreeMap<Arc<str>, Arc<str>>,
    /// Partitions with at least one write.
    partitions: BTreeSet<TopicPartition>,
    span: Span,
}

/// The times of the first and the last event.
#[derive(Clone, Copy, Default)]
struct Span(Option<(Nanos, Nanos)>);

impl Span {
    fn reach(&mut self, time: Nanos) {
        let (first, last) = self.0.unwrap_or((time, time));
        self.0 = Some((first.min(time), last.max(time)));
    }

    fn with(self, other: Self) -> Nanos {
        let first = self.0.iter().chain(&other.0).map(|(first, _)| *first).min();
        let last = self.0.iter().chain(&other.0).map(|(_, last)| *last).max();
        first.zip(last).map_or(Nanos::ZERO, |(first, last)| last - first)
    }
}

impl TrafficTotals {
    /// Adds a request.
    pub fn request(&mut self, request: &RequestColumns) {
        self.span.reach(request.arrival);
        self.traffic.add(request);
    }
}

impl Default for WorkTotals {
    fn default() -> Self {
        Self {
            samples: Samples::default(),
            files: Some(Files::new(GroupBy::File)),
            file_ops: 0,
            profile: Profile::default(),
            volumes: BTreeMap::new(),
            partitions: BTreeSet::new(),
            span: Span::default(),
        }
    }
}

impl WorkTotals {
    /// Adds an event that is not a network event.
    pub fn event(&mut self, event: &Event) {
        self.span.reach(event.time());
        match event {
            Event::BlockIo(io) => self.files.iter_mut().for_each(|files| files.block_io(io)),
            Event::HostSample(sample) => self.samples.add(sample),
            Event::FileOp(op) => self.file_op(op),
            Event::CpuSample(sample) => self.profile.sample(sample),
            _ => {}
        }
    }

    fn file_op(&mut self, op: &FileOp) {
        self.files.iter_mut().for_each(|files| files.file_op(op));
        self.file_ops += 1;
        // Clients do not write to the controllers' log, which may be on another disk.
        let Some(partition) =
            op.topic_partition.as_ref().filter(|partition| &*partition.topic != CONTROLLERS)
        else {
            return;
        };
        if self.volumes.len() < MAX_VOLUMES && !self.volumes.contains_key(&op.device.name) {
            self.volumes.insert(Arc::clone(&op.device.name), Arc::clone(&op.fs));
        }
        let is_write = op.op == model::FileOpKind::Write && op.kind == model::FileKind::Log;
        if is_write && self.partitions.len() < MAX_PARTITIONS && !self.partitions.contains(partition) {
            self.partitions.insert(partition.clone());
        }
    }
}

impl AdviceTotals {
    /// Creates totals without per-file reads and writes. These mean nothing if sockets are not watched.
    pub fn without_files() -> Self {
        Self { work: WorkTotals { files: None, ..WorkTotals::default() }, ..Self::default() }
    }

    /// Adds an event.
    pub fn event(&mut self, event: &Event) {
        match event {
            Event::Request(request) => self.traffic.request(&(&**request).into()),
            Event::SocketOp(op) => self.work.files.iter_mut().for_each(|files| files.socket_op(op)),
            Event::TcpEvent(_) => {}
            _ => self.work.event(event),
        }
    }

    /// Adds a verdict.
    pub fn verdict(&mut self, verdict: &Verdict) {
        self.costs.add(verdict);
    }

    /// Moves the totals into `inputs`.
    /// `requests` is whether there were any requests; `why_not` has the reasons for missing inputs. If `watched`, the
    /// length of the observation, is unknown, the time from the first to the last event is used.
    pub fn finish(self, inputs: &mut Inputs, requests: bool, watched: Option<Nanos>, why_not: &WhyNot) {
        let Self { traffic: TrafficTotals { traffic, span }, work, mut costs } = self;
        let window = watched.unwrap_or(span.with(work.span));
        costs.window = window;
        inputs.unsent = match work.files {
            Some(files) if work.file_ops > 0 => Ok(unsent(files, window)),
            _ => Err(why_not.files.into()),
        };
        let written = traffic.partitions().max(work.partitions.len() as u64);
        let known_if = |known: bool, why: &str| -> Known<()> { if known { Ok(()) } else { Err(why.into()) } };
        inputs.costs = known_if(requests, why_not.requests).map(|()| costs);
        inputs.traffic = known_if(requests, why_not.requests).map(|()| traffic);
        inputs.samples = known_if(!work.samples.is_empty(), why_not.samples).map(|()| work.samples);
        inputs.profile = known_if(work.profile.seen() > 0, why_not.profile).map(|()| work.profile);
        if inputs.host_facts.volumes.is_err() && !work.volumes.is_empty() {
            inputs.host_facts.volumes = Ok(work.volumes.iter().map(volume).collect());
        }
        if inputs.host_facts.partitions.is_err() && written > 0 {
            inputs.host_facts.partitions = Ok(written);
        }
    }
}

/// Reasons to report for inputs that are missing.
pub struct WhyNot {
    /// Requests.
    pub requests: &'static str,
    /// Host figures.
    pub samples: &'static str,
    /// File operations.
    pub files: &'static str,
    /// CPU samples.
    pub profile: &'static str,
}

/// A volume, as far as file operations describe it.
fn volume((device, fs): (&Arc<str>, &Arc<str>)) -> Volume {
    let not_recorded: Arc<str> = "file operations do not show them; run advise on the broker's host".into();
    Volume {
        log_dir: format!("the log dir on {device}").into(),
        device: Arc::clone(device),
        fs: Arc::clone(fs),
        options: Err(Arc::clone(&not_recorded)),
        disks: Err(Arc::clone(&not_recorded)),
        ext4: if &**fs == "ext4" { Err(not_recorded) } else { Ok(None) },
    }
}

/// Reads without egress, computed as in the `files` command.
fn unsent(files: Files, window: Nanos) -> Option<ReadsWithoutEgress> {
    let interval = Interval { span: Some(window), ..Interval::default() };
    let found = files.finish(Sort::Bytes).over(interval).reads_without_egress()?;
    Some(ReadsWithoutEgress {
        window,
        read_bytes: found.read_bytes,
        sent_bytes: found.sent_bytes,
        kind: found.kind,
        share: found.share,
        file: found.file.map(|(file, _)| file),
    })
}

/// Reason for facts that a recording does not contain.
const NOT_RECORDED: &str = "not in the recording; run advise on the broker's host";
/// Reason for unknown sums of file operations if the recorder left some out.
const LEFT_OUT: &str = "the recording holds file operations only around slow requests and operations";
const NOTHING_SEEN: WhyNot = WhyNot {
    requests: "no request was recorded",
    samples: "the recording holds none",
    files: "no operation on a file was recorded",
    profile: "the recording holds no samples of it",
};

/// Builds the inputs of all rules.
/// `requests` is whether there were any requests; `input` is the path that the user named.
pub fn recorded_inputs(
    totals: AdviceTotals,
    requests: bool,
    input: &Path,
    recording: Option<&Recording>,
    slower_than: Nanos,
) -> Inputs {
    let mut inputs = Inputs { slower_than, ..Inputs::unknown(NOT_RECORDED) };
    let manifest = recording.map(Recording::manifest);
    if let Some(manifest) = manifest {
        inputs.host_facts = host_facts::read(&manifest.settings, NOT_RECORDED);
        inputs.before = shell_quote(input).into();
        add_broker_facts(&mut inputs, manifest);
    }
    totals.finish(&mut inputs, requests, manifest.and_then(window), &NOTHING_SEEN);
    if manifest.is_some_and(|manifest| partial::threshold(&manifest.settings).is_some()) {
        inputs.unsent = Err(LEFT_OUT.into());
    }
    add_host_figures(&mut inputs);
    inputs
}

/// Length of the recording, if it was ended properly.
fn window(manifest: &Manifest) -> Option<Nanos> {
    let started = Some(manifest.started_ns).filter(|ns| *ns > 0)?;
    Some(Nanos(manifest.ended_ns?.saturating_sub(started))).filter(|window| *window > Nanos::ZERO)
}

fn add_broker_facts(inputs: &mut Inputs, manifest: &Manifest) {
    let host = &manifest.host;
    if host.cpus > 0 && inputs.host_facts.cpus.is_err() {
        inputs.host_facts.cpus = Ok(host.cpus);
    }
    if !host.kernel.is_empty() {
        inputs.host_facts.kernel = Ok(host.kernel.as_str().into());
    }
    let Some(broker) = &manifest.broker else { return };
    inputs.settings = Ok(broker_settings::in_force(broker));
    if let Some(jvm) = broker.jvm.as_ref().filter(|jvm| !jvm.options.is_empty()) {
        inputs.host_facts.jvm_arguments =
            Ok(jvm.options.iter().map(|word| Arc::from(word.as_str())).collect());
    }
}

/// Takes facts about the host from its figures.
fn add_host_figures(inputs: &mut Inputs) {
    let Ok(samples) = &inputs.samples else { return };
    let memory = samples.one(HostScope::Host, "memory_bytes");
    if let (Some(memory), Err(_)) = (memory, &inputs.host_facts.memory_bytes) {
        inputs.host_facts.memory_bytes = Ok(memory.last as u64);
        // A cgroup without a limit has no such figure.
        let limit = samples.one(HostScope::Cgroup, "memory_limit_bytes");
        inputs.host_facts.memory_limit_bytes = Ok(limit.map(|limit| limit.last as u64));
    }
    if inputs.host_facts.interfaces.is_ok() {
        return;
    }
    let speed = |name: &Arc<str>| {
        let mut speeds = samples.of(HostScope::Interface, "speed_bits_per_second");
        speeds.find(|(of, _)| *of == name).map(|(_, speed)| speed.last as u64)
    };
    let interfaces = samples.of(HostScope::Interface, "mtu_bytes").filter(|(name, _)| &***name != "lo");
    let interface = |(name, mtu): (&Arc<str>, &advise::Series)| Interface {
        name: Arc::clone(name),
        mtu_bytes: mtu.last as u32,
        speed_bits_per_second: speed(name),
    };
    let interfaces: Vec<_> = interfaces.map(interface).collect();
    inputs.host_facts.interfaces = Ok(interfaces);
}

/// Quotes a path so that a shell reads it as one word.
fn shell_quote(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '-' | '_');
    if !text.is_empty() && text.chars().all(plain) {
        text
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::shell_quote;

    #[test]
    fn shell_quote_escapes_paths_only_if_needed() {
        assert_eq!(shell_quote(Path::new("samples/journal-stall")), "samples/journal-stall");
        assert_eq!(shell_quote(Path::new("it's a dir")), "'it'\\''s a dir'");
    }
}
