//! What is shown: a pure function of events and verdicts, in bounded memory. Does not know what of it is looked at.

pub(crate) mod operations;
pub(crate) mod pulse;
pub(crate) mod roots;
#[cfg(test)]
#[path = "tests/sample.rs"]
pub(crate) mod sample;
mod seconds;
pub(crate) mod slow;
pub(crate) mod threads;
pub(crate) mod traffic;

use std::collections::{BTreeMap, VecDeque};

use model::{BrokerState, Event, Loss, LossKind, Nanos, TlsTotals, Verdict};
use report::Zone;
use report::explanation::Unobservable;

use operations::Operations;
use pulse::Pulse;
use roots::Roots;
use slow::Slow;
use threads::Threads;
use traffic::FileTraffic;

/// Sentences that are kept.
const MAX_NOTES: usize = 50;

/// Everything that is shown. A copy is to be looked at while the original goes on.
#[derive(Clone)]
pub struct State {
    pub(crate) about: BrokerInfo,
    pub(crate) progress: Progress,
    pub(crate) now: Nanos,
    pub(crate) pulse: Pulse,
    pub(crate) slow: Slow,
    pub(crate) roots: Roots,
    pub(crate) operations: Operations,
    pub(crate) traffic: FileTraffic,
    pub(crate) threads: Threads,
    pub(crate) losses: Losses,
    /// What passed as TLS and was not read.
    pub(crate) tls: TlsTotals,
    /// What watching costs.
    pub overhead: Option<Overhead>,
    /// How long after its request's end the last verdict came; none where that says nothing.
    pub(crate) lag: Option<Nanos>,
    /// Whether the broker's process is gone.
    pub(crate) gone: bool,
    /// What else there is to say, oldest first.
    pub(crate) notes: VecDeque<String>,
}

impl State {
    /// Nothing yet.
    pub fn new(about: BrokerInfo) -> Self {
        Self {
            progress: Progress::Live { since: Nanos::ZERO },
            now: Nanos::MIN,
            pulse: Pulse::new(),
            slow: Slow::default(),
            roots: Roots::default(),
            operations: Operations::new(about.off_cpu),
            traffic: FileTraffic::new(),
            threads: Threads::new(),
            losses: Losses::default(),
            tls: TlsTotals::default(),
            overhead: None,
            lag: None,
            gone: false,
            notes: VecDeque::new(),
            about,
        }
    }

    /// Takes an event.
    pub fn event(&mut self, event: &Event) {
        match event {
            Event::Request(request) => self.pulse.request(request),
            Event::Loss(loss) => self.losses.add(loss),
            Event::TlsTraffic(traffic) => {
                self.tls.take(traffic);
            }
            Event::BrokerChange(change) => self.gone = change.state == BrokerState::Gone,
            _ => {}
        }
        self.operations.event(event);
        self.traffic.event(event);
        self.threads.event(event);
    }

    /// Takes a verdict; `lag` says how long after its request's end it could be shown, where that means anything.
    pub fn verdict(&mut self, verdict: Verdict, lag: Option<Nanos>) {
        self.lag = lag;
        self.roots.add(&verdict);
        self.slow.add(verdict);
    }

    /// Says how late it is.
    pub fn reach(&mut self, now: Nanos, progress: Progress) {
        self.progress = progress;
        self.now = self.now.max(now);
        self.pulse.reach(self.now);
        self.traffic.reach(self.now);
        self.threads.reach(self.now);
    }

    /// Takes a sentence about what is shown.
    pub fn note(&mut self, sentence: String) {
        if self.notes.len() >= MAX_NOTES {
            self.notes.pop_front();
        }
        self.notes.push_back(sentence);
    }
}

/// What does not change while it is shown.
#[derive(Clone, Debug)]
pub struct BrokerInfo {
    /// The broker, in a few words (`broker 1 on vm`).
    pub broker: String,
    /// From which latency on a request counts as slow.
    pub slower_than: Nanos,
    /// The zone in which times are shown.
    pub zone: Zone,
    /// Whether threads off the CPU are seen.
    pub off_cpu: bool,
    /// What cannot be seen, and why.
    pub unobservable: Vec<Unobservable>,
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Progress {
    /// A broker is watched, for so long.
    Live {
        /// How long.
        since: Nanos,
    },
    /// A recording is replayed.
    Replay {
        /// How much of it has been shown.
        at: Nanos,
        /// How long it is.
        of: Nanos,
        /// How many times as fast as it was.
        speed: f64,
        /// Whether its end was reached.
        ended: bool,
    },
}

/// What this process takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Overhead {
    /// Processor time since it was measured last, in processors.
    pub processors: f64,
    /// Memory that is resident, in bytes.
    pub resident_bytes: u64,
}

/// Counts of losses.
#[derive(Clone, Debug, Default)]
pub(crate) struct Losses {
    by_kind: BTreeMap<LossKind, u64>,
    /// When anything was lost last.
    pub(crate) last: Option<Nanos>,
}

impl Losses {
    pub(crate) fn add(&mut self, loss: &Loss) {
        let count = self.by_kind.entry(loss.kind).or_default();
        *count = count.saturating_add(loss.count);
        self.last = self.last.max(Some(loss.end));
    }

    /// The kinds of which anything was lost.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (LossKind, u64)> + '_ {
        self.by_kind.iter().map(|(kind, count)| (*kind, *count)).filter(|(_, count)| *count > 0)
    }
}
