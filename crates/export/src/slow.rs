//! Slow requests by cause, and the root events behind them. Reaches no verdicts: `diagnose` does.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::Arc;

use ahash::RandomState;
use model::{Cause, Nanos, Verdict};

use crate::catalog;
use crate::encoding::Encoder;
use crate::exemplar::{Exemplar, STALE};
use crate::histogram::seconds;

/// So many roots are remembered to count each once: victims of one event come close together.
const MOST_ROOTS: usize = 4_096;

/// What became of slow requests.
#[derive(Debug)]
pub(crate) struct Slow {
    threshold: Nanos,
    by_cause: BTreeMap<(&'static str, Cause), OfCause>,
    roots: BTreeMap<Cause, u64>,
    known: HashSet<Arc<str>, RandomState>,
    /// The same, the oldest first.
    order: VecDeque<Arc<str>>,
    lag: Nanos,
}

#[derive(Debug, Default)]
struct OfCause {
    requests: u64,
    time: Nanos,
    example: Option<Exemplar>,
}

impl Slow {
    /// Of requests that take at least so long.
    pub(crate) fn new(threshold: Nanos) -> Self {
        Self {
            threshold,
            by_cause: BTreeMap::new(),
            roots: BTreeMap::new(),
            known: HashSet::default(),
            order: VecDeque::new(),
            lag: Nanos::ZERO,
        }
    }

    /// Takes a verdict that was reached then.
    pub(crate) fn verdict(&mut self, verdict: &Verdict, now: Nanos) {
        let latency = verdict.request.latency().unwrap_or_default();
        let ended = verdict.request.last_seen();
        self.lag = (now - ended).at_least_zero();
        let of = self.by_cause.entry((verdict.request.api, verdict.cause)).or_default();
        of.requests += 1;
        of.time += latency;
        if of.example.as_ref().is_none_or(|known| ended - known.at >= STALE) {
            of.example = Some(Exemplar::of_slow(verdict, seconds(latency)));
        }
        if verdict.cause != Cause::Unobserved {
            self.root(verdict);
        }
    }

    fn root(&mut self, verdict: &Verdict) {
        if !self.known.insert(Arc::clone(&verdict.root)) {
            return;
        }
        *self.roots.entry(verdict.cause).or_default() += 1;
        self.order.push_back(Arc::clone(&verdict.root));
        if self.order.len() > MOST_ROOTS {
            if let Some(oldest) = self.order.pop_front() {
                self.known.remove(&oldest);
            }
        }
    }

    pub(crate) fn encode(&self, out: &mut dyn Encoder) {
        out.family(&catalog::SLOW);
        for (&(api, cause), of) in &self.by_cause {
            out.number(&[api, cause.as_str()], of.requests as f64, of.example.as_ref());
        }
        out.family(&catalog::SLOW_TIME);
        for (&(api, cause), of) in &self.by_cause {
            out.number(&[api, cause.as_str()], seconds(of.time), None);
        }
        // Every cause from the beginning: an alert on one that has never been is no alert on nothing.
        let roots = |cause: &Cause| self.roots.get(cause).copied().unwrap_or_default();
        let causes = Cause::ALL.iter().filter(|cause| **cause != Cause::Unobserved);
        out.each(&catalog::ROOTS, causes.map(|cause| (cause.as_str(), roots(cause) as f64)));
        out.one(&catalog::THRESHOLD, seconds(self.threshold));
        out.one(&catalog::VERDICT_LAG, seconds(self.lag));
    }
}
