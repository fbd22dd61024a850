//! All that is counted of a broker, subject by subject, and the order in which it is written. Reaches no verdicts.

use diagnose::{JoinStats, RequestStages};
use model::{Event, HostScope, Nanos, Verdict};

use crate::batches::Batches;
use crate::block_ios::BlockIos;
use crate::catalog;
use crate::encoding::Encoder;
use crate::exporter::{BrokerInfo, Classifiers};
use crate::files::Files;
use crate::histogram::seconds;
use crate::host::Host;
use crate::journals::Journals;
use crate::label;
use crate::locks::Locks;
use crate::requests::Requests;
use crate::slow::Slow;
use crate::stages::StageTimes;
use crate::threads::Threads;
use crate::topics::Topics;
use crate::trouble::Trouble;

/// The counts.
#[derive(Debug)]
pub(crate) struct Metrics {
    about: BrokerInfo,
    requests: Requests,
    stages: StageTimes,
    slow: Slow,
    batches: Batches,
    topics: Topics,
    files: Files,
    block_ios: BlockIos,
    journals: Journals,
    locks: Locks,
    threads: Threads,
    host: Host,
    trouble: Trouble,
    events: u64,
    newest: Nanos,
}

impl Metrics {
    pub(crate) fn new(slower_than: Nanos, about: BrokerInfo, names: Classifiers) -> Self {
        Self {
            requests: Requests::default(),
            stages: StageTimes::default(),
            slow: Slow::new(slower_than),
            batches: Batches::default(),
            topics: Topics::of_at_most(about.top_topics),
            files: Files::of(about.log_dirs.clone()),
            block_ios: BlockIos::of(names.kind_of),
            journals: Journals::default(),
            locks: Locks::default(),
            threads: Threads::of(names.role_of),
            host: Host::default(),
            trouble: Trouble::default(),
            events: 0,
            newest: Nanos::MIN,
            about,
        }
    }

    pub(crate) fn event(&mut self, event: &Event) {
        self.events += 1;
        self.newest = self.newest.max(event.time());
        match event {
            Event::Request(request) => {
                self.trouble.seen();
                self.requests.request(request);
                self.batches.request(request);
                self.topics.request(request);
            }
            Event::FileOp(op) => {
                self.trouble.seen();
                self.files.op(op);
            }
            Event::BlockIo(io) => self.block_ios.io(io),
            Event::JournalCommit(commit) => self.journals.commit(commit),
            Event::OffCpu(interval) => self.threads.off_cpu(interval),
            Event::LockWait(wait) => {
                let role = self.threads.role(wait.tid, &wait.thread);
                self.locks.wait(wait, role);
                self.threads.lock_wait(wait, role);
            }
            Event::JvmPause(pause) => self.locks.pause(pause),
            Event::HostSample(sample) if sample.scope == HostScope::Threads => self.threads.sample(sample),
            Event::HostSample(sample) => self.host.sample(sample),
            Event::DirtyThrottle(pause) => self.trouble.dirty_throttle(pause),
            Event::TcpEvent(trouble) => self.trouble.tcp(trouble),
            Event::Loss(loss) => self.trouble.loss(loss),
            Event::BrokerChange(change) => {
                self.trouble.broker(change);
                if !self.trouble.is_watched() {
                    self.threads.gone();
                }
            }
            // Evidence for verdicts, which count it.
            Event::SocketOp(_) | Event::CpuSample(_) | Event::KernelSpan(_) | Event::Reclaim(_) => {}
        }
    }

    pub(crate) fn staged(&mut self, staged: &RequestStages) {
        self.stages.add(staged);
    }

    pub(crate) fn verdict(&mut self, verdict: &Verdict, now: Nanos) {
        self.slow.verdict(verdict, now);
    }

    /// Whether a broker's process is watched.
    pub(crate) fn is_watched(&self) -> bool {
        self.trouble.is_watched()
    }

    /// In the order of the catalogue.
    pub(crate) fn encode(&self, out: &mut dyn Encoder, joins: JoinStats, now: Nanos) {
        self.requests.encode(out);
        self.stages.encode(out);
        self.slow.encode(out);
        self.requests.encode_throttling(out);
        self.batches.encode(out);
        self.topics.encode(out);
        self.files.encode(out, now);
        self.block_ios.encode(out);
        self.journals.encode(out, now);
        self.trouble.encode_throttles(out);
        self.locks.encode(out);
        self.threads.encode(out);
        self.host.encode(out);
        self.trouble.encode(out, joins);
        self.encode_about(out);
    }

    fn encode_about(&self, out: &mut dyn Encoder) {
        out.family(&catalog::SOURCE_UP);
        for (purpose, seen) in &self.about.plan {
            out.number(&[purpose], f64::from(u8::from(*seen)), None);
        }
        self.trouble.encode_broker(out);
        out.family(&catalog::BROKER_INFO);
        let node_id = self.about.node_id.map(|id| id.to_string()).unwrap_or_default();
        out.number(
            &[&node_id, &label::clean(&self.about.host), &label::clean(&self.about.kernel)],
            1.0,
            None,
        );
        out.family(&catalog::BUILD_INFO);
        out.number(&[&self.about.version], 1.0, None);
        out.family(&catalog::LAST_EVENT);
        if self.newest > Nanos::MIN {
            out.number(&[], seconds(self.newest), None);
        }
        out.one(&catalog::EVENTS, self.events as f64);
    }
}
