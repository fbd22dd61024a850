//! What is shown: a pure function of events and verdicts, in bounded memory. Does not know what of it is looked at.

pub(crate) mod about;
mod latencies;
pub(crate) mod losses;
pub(crate) mod operations;
pub(crate) mod overhead;
pub(crate) mod pulse;
pub(crate) mod roots;
#[cfg(test)]
pub(crate) mod sample;
mod seconds;
pub(crate) mod slow;
pub(crate) mod threads;
pub(crate) mod traffic;

use std::collections::VecDeque;

use model::{BrokerState, Event, Nanos, Verdict};

use about::{BrokerInfo, Progress};
use losses::Losses;
use operations::Operations;
use overhead::Overhead;
use pulse::Pulse;
use roots::Roots;
use slow::Slow;
use threads::Threads;
use traffic::FileTraffic;

/// Sentences that are kept.
const MOST_NOTES: usize = 50;

/// Everything that is shown.
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
    pub(crate) overhead: Option<Overhead>,
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

    /// Says what watching costs.
    pub fn overhead(&mut self, overhead: Overhead) {
        self.overhead = Some(overhead);
    }

    /// A copy to look at while the original goes on.
    #[must_use]
    pub fn frozen(&self) -> Self {
        Self {
            about: self.about.clone(),
            progress: self.progress,
            now: self.now,
            pulse: self.pulse.clone(),
            slow: self.slow.clone(),
            roots: self.roots.clone(),
            operations: self.operations.frozen(),
            traffic: self.traffic.frozen(),
            threads: self.threads.clone(),
            losses: self.losses.clone(),
            overhead: self.overhead,
            lag: self.lag,
            gone: self.gone,
            notes: self.notes.clone(),
        }
    }

    /// Takes a sentence about what is shown.
    pub fn note(&mut self, sentence: String) {
        if self.notes.len() >= MOST_NOTES {
            self.notes.pop_front();
        }
        self.notes.push_back(sentence);
    }
}
