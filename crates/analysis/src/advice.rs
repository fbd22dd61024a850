//! Inputs of advice rules: totals of events and verdicts, and what a manifest says. Each part of the totals may be fed by
//! another thread. Reaches no verdicts, and advises nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use advise::{Costs, Inputs, Profile, ReadsWithoutEgress, Samples, Traffic};
use model::row_summary::RequestColumns;
use model::{Event, FileOp, HostScope, Interface, Known, Nanos, TopicPartition, Verdict, Volume};
use recording::{Manifest, Recording};
use report::files::{Files, GroupBy, Interval, Sort};

use crate::recorder::{broker_settings, host_facts, partial};

/// Partitions told apart at most.
const MAX_PARTITIONS: usize = 1_000_000;
/// The topic that KRaft's controllers keep.
const CONTROLLERS: &str = "__cluster_metadata";
/// File systems of log dirs told apart at most.
const MAX_VOLUMES: usize = 1_000;

/// Totals of what was seen.
#[derive(Default)]
pub struct AdviceTotals {
    /// Of requests.
    pub traffic: TrafficTotals,
    /// Of everything else that is not of the network.
    pub work: WorkTotals,
    /// Of verdicts.
    pub costs: Costs,
}

/// What requests say.
#[derive(Default)]
pub struct TrafficTotals {
    traffic: Traffic,
    span: Span,
}

/// What the broker and its host did.
pub struct WorkTotals {
    samples: Samples,
    /// What was read and written of each file, where somebody looks at it.
    files: Option<Files>,
    /// How many operations on files were seen.
    file_ops: u64,
    profile: Profile,
    /// File systems that hold partitions, by device.
    volumes: BTreeMap<Arc<str>, Arc<str>>,
    /// Partitions that were written to.
    partitions: BTreeSet<TopicPartition>,
    span: Span,
}

/// From the first event to the last.
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
    /// Takes a request.
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
    /// Takes an event that is not of the network.
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
        // The controllers' own log is no client's, and may be on another disk.
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
    /// Totals without reads and writes of each file, which say nothing where sockets are not seen.
    pub fn without_files() -> Self {
        Self { work: WorkTotals { files: None, ..WorkTotals::default() }, ..Self::default() }
    }

    /// Takes an event.
    pub fn event(&mut self, event: &Event) {
        match event {
            Event::Request(request) => self.traffic.request(&(&**request).into()),
            Event::SocketOp(op) => self.work.files.iter_mut().for_each(|files| files.socket_op(op)),
            Event::TcpEvent(_) => {}
            _ => self.work.event(event),
        }
    }

    /// Takes a verdict.
    pub fn verdict(&mut self, verdict: &Verdict) {
        self.costs.add(verdict);
    }

    /// Puts what was seen in its place. `requests` is whether there were any at all; `why_not` says why there is nothing of what
    /// there is nothing of. Where it is not known how long was watched, it is the time from the first event to the last.
    pub fn finish(self, inputs: &mut Inputs, requests: bool, watched: Option<Nanos>, why_not: &WhyNot) {
        let Self { traffic: TrafficTotals { traffic, span }, work, mut costs } = self;
        let window = watched.unwrap_or(span.with(work.span));
        costs.window = window;
        inputs.unsent = match work.files {
            Some(files) if work.file_ops > 0 => Ok(unsent(files, window)),
            _ => Err(why_not.files.into()),
        };
        let written = traffic.partitions().max(work.partitions.len() as u64);
        let told = |known: bool, why: &str| -> Known<()> { if known { Ok(()) } else { Err(why.into()) } };
        inputs.costs = told(requests, why_not.requests).map(|()| costs);
        inputs.traffic = told(requests, why_not.requests).map(|()| traffic);
        inputs.samples = told(!work.samples.is_empty(), why_not.samples).map(|()| work.samples);
        inputs.profile = told(work.profile.seen() > 0, why_not.profile).map(|()| work.profile);
        if inputs.surroundings.volumes.is_err() && !work.volumes.is_empty() {
            inputs.surroundings.volumes = Ok(work.volumes.iter().map(volume).collect());
        }
        if inputs.surroundings.partitions.is_err() && written > 0 {
            inputs.surroundings.partitions = Ok(written);
        }
    }
}

/// Why there are no requests, figures, operations on files or samples, where there are none.
pub struct WhyNot {
    /// Requests.
    pub requests: &'static str,
    /// The host's figures.
    pub samples: &'static str,
    /// Operations on files.
    pub files: &'static str,
    /// Samples of the CPU.
    pub profile: &'static str,
}

/// As far as file operations say.
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

/// Reads without egress, as `files` finds them.
fn unsent(files: Files, window: Nanos) -> Option<ReadsWithoutEgress> {
    let interval = Interval { span: Some(window), ..Interval::default() };
    let found = files.finish(Sort::Bytes).over(interval).unsent()?;
    Some(ReadsWithoutEgress {
        window,
        read_bytes: found.read_bytes,
        sent_bytes: found.sent_bytes,
        kind: found.kind,
        share: found.share,
        file: found.file.map(|(file, _)| file),
    })
}

/// What a recording does not hold.
const NOT_RECORDED: &str = "not in the recording; run advise on the broker's host";
/// Why sums of operations on files are not known where the recorder left some out.
const LEFT_OUT: &str = "the recording holds file operations only around slow requests and operations";
const NOTHING_SEEN: WhyNot = WhyNot {
    requests: "no request was recorded",
    samples: "the recording holds none",
    files: "no operation on a file was recorded",
    profile: "the recording holds no samples of it",
};

/// Everything that rules may look at. `requests` says whether there were any; `input` is what the user named.
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
        inputs.surroundings = host_facts::read(&manifest.settings, NOT_RECORDED);
        inputs.before = quoted(input).into();
        of_broker(&mut inputs, manifest);
    }
    totals.finish(&mut inputs, requests, manifest.and_then(window), &NOTHING_SEEN);
    if manifest.is_some_and(|manifest| partial::threshold(&manifest.settings).is_some()) {
        inputs.unsent = Err(LEFT_OUT.into());
    }
    of_samples(&mut inputs);
    inputs
}

/// How long it lasted, where it ended in order.
fn window(manifest: &Manifest) -> Option<Nanos> {
    let started = Some(manifest.started_ns).filter(|ns| *ns > 0)?;
    Some(Nanos(manifest.ended_ns?.saturating_sub(started))).filter(|window| *window > Nanos::ZERO)
}

fn of_broker(inputs: &mut Inputs, manifest: &Manifest) {
    let host = &manifest.host;
    if host.cpus > 0 && inputs.surroundings.cpus.is_err() {
        inputs.surroundings.cpus = Ok(host.cpus);
    }
    if !host.kernel.is_empty() {
        inputs.surroundings.kernel = Ok(host.kernel.as_str().into());
    }
    let Some(broker) = &manifest.broker else { return };
    inputs.settings = Ok(broker_settings::in_force(broker));
    if let Some(jvm) = broker.jvm.as_ref().filter(|jvm| !jvm.options.is_empty()) {
        inputs.surroundings.jvm_arguments =
            Ok(jvm.options.iter().map(|word| Arc::from(word.as_str())).collect());
    }
}

/// What the host's figures say of the host itself.
fn of_samples(inputs: &mut Inputs) {
    let Ok(samples) = &inputs.samples else { return };
    let memory = samples.one(HostScope::Host, "memory_bytes");
    if let (Some(memory), Err(_)) = (memory, &inputs.surroundings.memory_bytes) {
        inputs.surroundings.memory_bytes = Ok(memory.last as u64);
        // A group without a limit has no such figure.
        let limit = samples.one(HostScope::Cgroup, "memory_limit_bytes");
        inputs.surroundings.memory_limit_bytes = Ok(limit.map(|limit| limit.last as u64));
    }
    if inputs.surroundings.interfaces.is_ok() {
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
    inputs.surroundings.interfaces = Ok(interfaces);
}

/// A path as a shell takes it for one word.
fn quoted(path: &Path) -> String {
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

    use super::quoted;

    #[test]
    fn a_path_stays_one_word() {
        assert_eq!(quoted(Path::new("samples/journal-stall")), "samples/journal-stall");
        assert_eq!(quoted(Path::new("it's a dir")), "'it'\\''s a dir'");
    }
}
