//! Counts the requests and verdicts of one recording. Keeps counts only: memory does not grow with their number.

use std::collections::BTreeMap;

use model::{Cause, Nanos, Verdict};

use crate::blocks::{Blocks, RequestSample};
use crate::counts::Counts;

/// The part of a run to compare, by requests' arrivals after the first one's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Start, inclusive.
    pub from: Nanos,
    /// End, exclusive.
    pub until: Nanos,
}

impl Part {
    /// The whole run.
    pub const WHOLE: Self = Self { from: Nanos::ZERO, until: Nanos::MAX };
}

/// One run. Pass it each request to compare, and each verdict on one, each kind in its order.
#[derive(Clone, Debug)]
pub struct Run {
    pub(crate) name: String,
    slo: Nanos,
    part: Part,
    first: Option<Nanos>,
    blocks: Blocks,
    pub(crate) causes: BTreeMap<Cause, (u64, Nanos)>,
    /// Arrivals, causes and lengths of verdicts that came before the first request.
    early: Vec<(Nanos, Cause, Nanos)>,
    pub(crate) requests: u64,
    pub(crate) unanswered: u64,
}

impl Run {
    /// Makes an empty run. Requests whose latency is `slo` or longer miss the objective.
    pub fn new(name: &str, slo: Nanos, part: Part) -> Self {
        Self {
            name: name.to_owned(),
            slo,
            part,
            first: None,
            blocks: Blocks::new(),
            causes: BTreeMap::new(),
            early: Vec::new(),
            requests: 0,
            unanswered: 0,
        }
    }

    /// Counts a request: its arrival, its latency (`None` if there was no response, or none was due), and the bytes of
    /// its records.
    pub fn request(&mut self, arrival: Nanos, latency: Option<Nanos>, bytes: u64) {
        let first = *self.first.get_or_insert(arrival);
        for (arrival, cause, time) in std::mem::take(&mut self.early) {
            self.count_verdict(arrival, cause, time, first);
        }
        if !self.counts(arrival, first) {
            return;
        }
        self.requests += 1;
        self.unanswered += u64::from(latency.is_none());
        let missed = latency.is_some_and(|latency| latency >= self.slo);
        let latency_ns = latency.map(Nanos::as_length_ns);
        self.blocks.add(RequestSample { arrival, latency_ns, bytes, missed });
    }

    /// Counts the verdict on a request.
    pub fn verdict(&mut self, verdict: &Verdict) {
        let (arrival, cause) = (verdict.request.arrival, verdict.cause);
        let time = verdict.request.latency_less_wait().unwrap_or_default();
        match self.first {
            Some(first) => self.count_verdict(arrival, cause, time, first),
            None => self.early.push((arrival, cause, time)),
        }
    }

    fn count_verdict(&mut self, arrival: Nanos, cause: Cause, time: Nanos, first: Nanos) {
        if self.counts(arrival, first) {
            let (requests, sum) = self.causes.entry(cause).or_default();
            *requests += 1;
            *sum += time;
        }
    }

    fn counts(&self, arrival: Nanos, first: Nanos) -> bool {
        let after = (arrival - first).at_least_zero();
        (self.part.from <= after) && (after < self.part.until)
    }

    /// Whether there was nothing to compare.
    pub fn is_empty(&self) -> bool {
        self.requests == 0
    }

    /// Takes the counts so far, with the width of a block.
    pub(crate) fn take_blocks(&mut self) -> (Nanos, Vec<Counts>) {
        let blocks = std::mem::replace(&mut self.blocks, Blocks::new());
        (blocks.width(), blocks.finish())
    }
}
