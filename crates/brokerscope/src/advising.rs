//! Sums that advice rests on, made of events and verdicts as they come, whoever reads them: `advise`, and `report` for its page. Of a
//! long recording its parts may be fed by a thread each. Reaches no verdicts, and advises nothing.

mod recorded;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use advise::{Costs, Inputs, Profile, ReadsWithoutEgress, Samples, Traffic};
use model::{Event, FileOp, Known, Nanos, Request, TopicPartition, Verdict, Volume};
use report::files::{Files, GroupBy, Interval, Sort};

pub(crate) use recorded::inputs;

/// Partitions told apart at most.
const MOST_PARTITIONS: usize = 1_000_000;
/// The topic that KRaft's controllers keep.
const CONTROLLERS: &str = "__cluster_metadata";
/// File systems of log dirs told apart at most.
const MOST_VOLUMES: usize = 1_000;

/// What was seen, so far.
#[derive(Default)]
pub(crate) struct Advising {
    /// Of requests.
    pub(crate) traffic: OfTraffic,
    /// Of everything else that is not of the network.
    pub(crate) work: OfWork,
    /// Of verdicts.
    pub(crate) costs: Costs,
}

/// What requests say.
#[derive(Default)]
pub(crate) struct OfTraffic {
    traffic: Traffic,
    span: Span,
}

/// What the broker and its host did.
pub(crate) struct OfWork {
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

impl OfTraffic {
    pub(crate) fn request(&mut self, request: &Request) {
        self.span.reach(request.arrival);
        self.traffic.add(request);
    }
}

impl Default for OfWork {
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

impl OfWork {
    pub(crate) fn event(&mut self, event: &Event) {
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
        // The controllers' own log is no client's, and may be on a disk of its own.
        let Some(partition) =
            op.topic_partition.as_ref().filter(|partition| &*partition.topic != CONTROLLERS)
        else {
            return;
        };
        if self.volumes.len() < MOST_VOLUMES && !self.volumes.contains_key(&op.device.name) {
            self.volumes.insert(Arc::clone(&op.device.name), Arc::clone(&op.fs));
        }
        let is_write = op.op == model::FileOpKind::Write && op.kind == model::FileKind::Log;
        if is_write && self.partitions.len() < MOST_PARTITIONS && !self.partitions.contains(partition) {
            self.partitions.insert(partition.clone());
        }
    }
}

impl Advising {
    /// Without what was read and written of each file: of no use to who does not see what is sent.
    pub(crate) fn without_files() -> Self {
        Self { work: OfWork { files: None, ..OfWork::default() }, ..Self::default() }
    }

    /// Takes an event.
    pub(crate) fn event(&mut self, event: &Event) {
        match event {
            Event::Request(request) => self.traffic.request(request),
            Event::SocketOp(op) => self.work.files.iter_mut().for_each(|files| files.socket_op(op)),
            Event::TcpEvent(_) => {}
            _ => self.work.event(event),
        }
    }

    /// Takes a verdict.
    pub(crate) fn verdict(&mut self, verdict: &Verdict) {
        self.costs.add(verdict);
    }

    /// Puts what was seen in its place. `requests` is whether there were any at all; `why_not` says why there is nothing of what
    /// there is nothing of. Where it is not known how long was watched, it is the time from the first event to the last.
    pub(crate) fn finish(
        self,
        inputs: &mut Inputs,
        requests: bool,
        watched: Option<Nanos>,
        why_not: &WhyNot,
    ) {
        let Self { traffic: OfTraffic { traffic, span }, work, mut costs } = self;
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
pub(crate) struct WhyNot {
    pub(crate) requests: &'static str,
    pub(crate) samples: &'static str,
    pub(crate) files: &'static str,
    pub(crate) profile: &'static str,
}

/// As far as file operations say.
fn volume((device, fs): (&Arc<str>, &Arc<str>)) -> Volume {
    let not_recorded: Arc<str> = "operations on files do not say it: run advise beside the broker".into();
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
