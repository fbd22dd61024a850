//! Takes the requests and verdicts of one recording. Keeps counts only: memory does not grow with their number.

use std::collections::BTreeMap;

use model::{Cause, Nanos, Verdict};

use crate::blocks::{Blocks, RequestSample};
use crate::counts::Counts;

/// The part of a run that counts, by requests' arrivals after the first one's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// From here on.
    pub from: Nanos,
    /// Up to before here.
    pub until: Nanos,
}

impl Part {
    /// All of it.
    pub const WHOLE: Self = Self { from: Nanos::ZERO, until: Nanos::MAX };
}

/// One run. Feed it each request that is compared, and each verdict on one; each kind in the order in which they came.
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
    /// A run that has seen nothing. Requests whose latency is `slo` or longer miss the objective.
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

    /// Counts a request: when it arrived, how long it took (none where nobody answered, or was to), the bytes of its
    /// records.
    pub fn request(&mut self, arrival: Nanos, latency: Option<Nanos>, bytes: u64) {
        let first = *self.first.get_or_insert(arrival);
        for (arrival, cause, time) in std::mem::take(&mut self.early) {
            self.judged(arrival, cause, time, first);
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
            Some(first) => self.judged(arrival, cause, time, first),
            None => self.early.push((arrival, cause, time)),
        }
    }

    fn judged(&mut self, arrival: Nanos, cause: Cause, time: Nanos, first: Nanos) {
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

    /// What was counted so far, with the width of a block.
    pub(crate) fn take_blocks(&mut self) -> (Nanos, Vec<Counts>) {
        let blocks = std::mem::replace(&mut self.blocks, Blocks::new());
        (blocks.width(), blocks.finish())
    }
}
