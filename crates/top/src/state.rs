//! The data on the screen: a pure function of events and verdicts, in bounded memory. Does not know which of it is
//! visible.

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

/// Maximum number of notes.
const MAX_NOTES: usize = 50;

/// All data on the screen. A copy stays on the screen while the original changes.
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
    /// TLS traffic, which is not read.
    pub(crate) tls: TlsTotals,
    /// Cost of watching.
    pub overhead: Option<Overhead>,
    /// Lag of the last verdict behind its request's end; `None` if it has no meaning.
    pub(crate) lag: Option<Nanos>,
    /// Whether the broker's process has ended.
    pub(crate) has_exited: bool,
    /// Notes, oldest first.
    pub(crate) notes: VecDeque<String>,
}

impl State {
    /// Creates an empty state.
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
            has_exited: false,
            notes: VecDeque::new(),
            about,
        }
    }

    /// Adds an event.
    pub fn event(&mut self, event: &Event) {
        match event {
            Event::Request(request) => self.pulse.request(request),
            Event::Loss(loss) => self.losses.add(loss),
            Event::TlsTraffic(traffic) => {
                self.tls.take(traffic);
            }
            Event::BrokerChange(change) => self.has_exited = change.state == BrokerState::Gone,
            _ => {}
        }
        self.operations.event(event);
        self.traffic.event(event);
        self.threads.event(event);
    }

    /// Adds a verdict; `lag` is the time from its request's end until it could be shown, if that has a meaning.
    pub fn verdict(&mut self, verdict: Verdict, lag: Option<Nanos>) {
        self.lag = lag;
        self.roots.add(&verdict);
        self.slow.add(verdict);
    }

    /// Advances the clock.
    pub fn reach(&mut self, now: Nanos, progress: Progress) {
        self.progress = progress;
        self.now = self.now.max(now);
        self.pulse.reach(self.now);
        self.traffic.reach(self.now);
        self.threads.reach(self.now);
    }

    /// Adds a note.
    pub fn note(&mut self, sentence: String) {
        if self.notes.len() >= MAX_NOTES {
            self.notes.pop_front();
        }
        self.notes.push_back(sentence);
    }
}

/// Facts that do not change.
#[derive(Clone, Debug)]
pub struct BrokerInfo {
    /// The broker, in a few words (`broker 1 on vm`).
    pub broker: String,
    /// Threshold of slow requests.
    pub slower_than: Nanos,
    /// Time zone of the output.
    pub zone: Zone,
    /// Whether off-CPU time is watched.
    pub off_cpu: bool,
    /// What cannot be observed, and why.
    pub unobservable: Vec<Unobservable>,
}

/// Progress of the input.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Progress {
    /// A live watch.
    Live {
        /// Time since its start.
        since: Nanos,
    },
    /// A replay of a recording.
    Replay {
        /// Time shown so far.
        at: Nanos,
        /// Length of the recording.
        of: Nanos,
        /// Replay speed, a multiple of the original.
        speed: f64,
        /// Whether the end was reached.
        ended: bool,
    },
}

/// Resource usage of this process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Overhead {
    /// CPU time since the last measurement, in CPUs.
    pub processors: f64,
    /// Resident memory in bytes.
    pub resident_bytes: u64,
}

/// Counts of losses.
#[derive(Clone, Debug, Default)]
pub(crate) struct Losses {
    by_kind: BTreeMap<LossKind, u64>,
    /// Time of the last loss.
    pub(crate) last: Option<Nanos>,
}

impl Losses {
    pub(crate) fn add(&mut self, loss: &Loss) {
        let count = self.by_kind.entry(loss.kind).or_default();
        *count = count.saturating_add(loss.count);
        self.last = self.last.max(Some(loss.end));
    }

    /// The kinds with losses.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (LossKind, u64)> + '_ {
        self.by_kind.iter().map(|(kind, count)| (*kind, *count)).filter(|(_, count)| *count > 0)
    }
}
