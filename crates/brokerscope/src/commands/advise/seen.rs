//! Events on their way to what rules look at: verdicts by the engine, and sums. Does not know where events come from.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use advise::{Costs, Inputs, Profile, Samples, Traffic, UnsentReads};
use diagnose::{Config, Engine};
use model::{Event, FileOp, Known, Nanos, TopicPartition, Volume};
use report::files::{By, Files, Interval, Sort};

/// The topic that KRaft's controllers keep.
const CONTROLLERS: &str = "__cluster_metadata";
/// Partitions told apart at most.
const MOST_PARTITIONS: usize = 1_000_000;
/// File systems of log dirs told apart at most.
const MOST_VOLUMES: usize = 1_000;

/// Why sums of operations on files are not known where the recorder left some out.
const LEFT_OUT: &str = "the recording holds operations on files only around what was slow";

/// What was seen, so far.
pub(super) struct Seen {
    engine: Engine,
    costs: Costs,
    traffic: Traffic,
    samples: Samples,
    profile: Profile,
    /// File systems that hold partitions, by device.
    volumes: BTreeMap<Arc<str>, Arc<str>>,
    /// Partitions that were written to.
    partitions: BTreeSet<TopicPartition>,
    /// What was read and written of each file.
    files: Files,
    /// How many operations on files were seen.
    file_ops: u64,
    /// Whether the recorder left operations on files out.
    partial: bool,
    span: Option<(Nanos, Nanos)>,
}

impl Seen {
    pub(super) fn new(config: Config) -> Self {
        Self {
            engine: Engine::new(config),
            costs: Costs::default(),
            traffic: Traffic::default(),
            samples: Samples::default(),
            profile: Profile::default(),
            volumes: BTreeMap::new(),
            partitions: BTreeSet::new(),
            files: Files::new(By::File),
            file_ops: 0,
            partial: false,
            span: None,
        }
    }

    /// Says that operations on files were left out on purpose.
    pub(super) fn say_partial(&mut self) {
        self.partial = true;
    }

    pub(super) fn event(&mut self, event: Event) {
        let time = event.time();
        let (first, last) = self.span.unwrap_or((time, time));
        self.span = Some((first.min(time), last.max(time)));
        match &event {
            Event::Request(request) => self.traffic.add(request),
            Event::HostSample(sample) => self.samples.add(sample),
            Event::FileOp(op) => self.file_op(op),
            Event::BlockIo(io) => self.files.block_io(io),
            Event::SocketOp(op) => self.files.socket_op(op),
            Event::CpuSample(sample) => self.profile.sample(sample),
            _ => {}
        }
        self.engine.push(event);
        self.decided();
    }

    fn file_op(&mut self, op: &FileOp) {
        self.files.file_op(op);
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

    fn decided(&mut self) {
        for verdict in self.engine.take_verdicts() {
            self.costs.add(&verdict);
        }
    }

    /// Puts what was seen in its place; `why_not` says why there is nothing of it where there is not. Where it is not known how
    /// long was watched, it is the time from the first event to the last.
    pub(super) fn finish(mut self, inputs: &mut Inputs, watched: Option<Nanos>, why_not: &WhyNot) {
        let summary = self.engine.finish();
        self.decided();
        let span = self.span.map_or(Nanos::ZERO, |(first, last)| last - first);
        let window = watched.unwrap_or(span);
        self.costs.window = window;
        inputs.unsent = match (self.file_ops, self.partial) {
            (0, _) => Err(why_not.files.into()),
            (_, true) => Err(LEFT_OUT.into()),
            (_, false) => Ok(unsent(self.files, window)),
        };
        let requests = summary.requests > 0;
        let written = self.traffic.partitions().max(self.partitions.len() as u64);
        let told = |known: bool, why: &str| -> Known<()> { if known { Ok(()) } else { Err(why.into()) } };
        inputs.costs = told(requests, why_not.requests).map(|()| self.costs);
        inputs.traffic = told(requests, why_not.requests).map(|()| self.traffic);
        inputs.samples = told(!self.samples.is_empty(), why_not.samples).map(|()| self.samples);
        inputs.profile = told(self.profile.seen() > 0, why_not.profile).map(|()| self.profile);
        if inputs.surroundings.volumes.is_err() && !self.volumes.is_empty() {
            inputs.surroundings.volumes = Ok(self.volumes.iter().map(volume).collect());
        }
        if inputs.surroundings.partitions.is_err() && written > 0 {
            inputs.surroundings.partitions = Ok(written);
        }
    }
}

/// Why there are no requests, figures or operations on files, where there are none.
pub(super) struct WhyNot {
    pub(super) requests: &'static str,
    pub(super) samples: &'static str,
    pub(super) profile: &'static str,
    pub(super) files: &'static str,
}

/// Reads without egress, as `files` finds them.
fn unsent(files: Files, window: Nanos) -> Option<UnsentReads> {
    let interval = Interval { span: Some(window), ..Interval::default() };
    let found = files.finish(Sort::Bytes).over(interval).unsent()?;
    Some(UnsentReads {
        window,
        read_bytes: found.read_bytes,
        sent_bytes: found.sent_bytes,
        kind: found.kind,
        share: found.share,
        file: found.file.map(|(file, _)| file),
    })
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
