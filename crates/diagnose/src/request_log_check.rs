//! Our times of requests beside the broker's own, as its request log gives them. Does not read the log, and decides nothing:
//! where the two disagree, both are shown.
//!
//! Two sums are comparable. The broker's queue and local time begin when a network thread has taken the request apart and
//! end when the response is queued: our `queue`, `handler`, `lock` and `append`, from the return of the read to that of the
//! write. Its remote, response-queue and send times are our `remote` and `respond`, and of a response that was handed to the
//! socket in several pieces the time in between.

use model::api_key::PRODUCE;
use model::{KafkaTimes, Nanos, Stage, Verdict};

/// The two may differ by this much before it counts as disagreement.
pub const TOLERANCE: Nanos = Nanos::from_millis(1);

/// One request by both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimesComparison {
    /// Queue and work on this broker: ours, the broker's.
    pub local: (Nanos, Nanos),
    /// What came after it: ours, the broker's.
    pub after: (Nanos, Nanos),
    /// Whether we saw both ends of both.
    pub whole: bool,
}

impl TimesComparison {
    /// A verdict beside what the request log says of its request; nothing of one that appended nothing.
    pub fn of(verdict: &Verdict) -> Option<Self> {
        let kafka = verdict.kafka.filter(|_| verdict.request.api_key == PRODUCE)?;
        let ours = |stages: &[Stage]| stages.iter().map(|&stage| verdict.stages.of(stage)).sum::<Nanos>();
        let KafkaTimes { queue, local, remote, response_queue, send, .. } = kafka;
        Some(Self {
            local: (ours(&[Stage::Queue, Stage::Handler, Stage::Lock, Stage::Append]), queue + local),
            after: (ours(&[Stage::Remote, Stage::Respond]), remote + response_queue + send),
            whole: verdict.stages.of(Stage::Append) > Nanos::ZERO
                && verdict.stages.of(Stage::Respond) > Nanos::ZERO,
        })
    }

    /// Whether either sum differs by more than is tolerated.
    pub fn disagrees(&self) -> bool {
        [self.local, self.after].into_iter().any(|(ours, kafkas)| Nanos((ours - kafkas).0.abs()) > TOLERANCE)
    }
}

/// How far both agree, over many requests.
#[derive(Clone, Debug, Default)]
pub struct Agreement {
    /// Produce requests with a verdict that the log has too.
    pub compared: u64,
    /// Of these, how many were not seen from end to end.
    pub partly_seen: u64,
    /// Of these, how many disagree.
    pub disagreeing: u64,
    /// Produce requests with a verdict that the log does not have, or has twice.
    pub not_in_log: u64,
    /// Ours less the broker's, of queue and work on this broker.
    pub local: Differences,
    /// The same of what came after it.
    pub after: Differences,
}

/// Differences of one kind: a bounded number of them.
#[derive(Clone, Debug, Default)]
pub struct Differences {
    kept: Vec<Nanos>,
    seen: u64,
}

/// So many are kept for the quantiles, evenly over all.
const MAX_DIFFERENCES: usize = 200_000;

impl Agreement {
    /// Counts a verdict in.
    pub fn add(&mut self, verdict: &Verdict) {
        let Some(beside) = TimesComparison::of(verdict) else {
            self.not_in_log += u64::from(verdict.request.api_key == PRODUCE);
            return;
        };
        self.compared += 1;
        self.partly_seen += u64::from(!beside.whole);
        self.disagreeing += u64::from(beside.disagrees());
        self.local.add(beside.local.0 - beside.local.1);
        self.after.add(beside.after.0 - beside.after.1);
    }
}

impl Differences {
    fn add(&mut self, difference: Nanos) {
        self.seen += 1;
        if self.kept.len() < MAX_DIFFERENCES {
            self.kept.push(difference);
        } else if let Some(slot) = self.kept.get_mut((self.seen % MAX_DIFFERENCES as u64) as usize) {
            *slot = difference;
        }
    }

    /// The difference that a share of all, 0 to 1, lies below; nothing where there are none.
    pub fn quantile(&self, share: f64) -> Option<Nanos> {
        let mut sorted = self.kept.clone();
        sorted.sort_unstable();
        let at = (sorted.len() as f64 * share) as usize;
        sorted.get(at.min(sorted.len().saturating_sub(1))).copied()
    }

    /// The share of those within the tolerance, 0 to 1.
    pub fn within(&self) -> f64 {
        let within = self.kept.iter().filter(|difference| difference.0.abs() <= TOLERANCE.0).count();
        if self.kept.is_empty() { 0.0 } else { within as f64 / self.kept.len() as f64 }
    }
}
