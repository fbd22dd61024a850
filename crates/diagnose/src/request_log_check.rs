//! Compares our times of requests with those in the broker's own request log. Does not read the log, and decides
//! nothing: if the two disagree, both are shown.
//!
//! Two sums are comparable. The broker's queue and local time begin when a network thread has parsed the request and
//! end when the response is queued: our `queue`, `handler`, `lock` and `append`, from the return of the read to that
//! of the write. Its remote, response-queue and send times are our `remote` and `respond`, plus, for a response that
//! was written to the socket in several pieces, the time in between.

use model::api_key::PRODUCE;
use model::{KafkaTimes, Nanos, Stage, Verdict};

/// The largest difference that counts as agreement.
pub const TOLERANCE: Nanos = Nanos::from_millis(1);

/// The times of one request by both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimesComparison {
    /// Queue and work on this broker: ours, the broker's.
    pub local: (Nanos, Nanos),
    /// The time after it: ours, the broker's.
    pub after: (Nanos, Nanos),
    /// Whether we saw both ends of both.
    pub whole: bool,
}

impl TimesComparison {
    /// Compares a verdict with the request log's times; `None` for a request that appended nothing.
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

    /// Whether either sum differs by more than the tolerance.
    pub fn disagrees(&self) -> bool {
        [self.local, self.after].into_iter().any(|(ours, kafkas)| Nanos((ours - kafkas).0.abs()) > TOLERANCE)
    }
}

/// Agreement of both over many requests.
#[derive(Clone, Debug, Default)]
pub struct Agreement {
    /// Produce requests with a verdict that are in the log.
    pub compared: u64,
    /// Compared requests that were not seen from end to end.
    pub partly_seen: u64,
    /// Compared requests that disagree.
    pub disagreeing: u64,
    /// Produce requests with a verdict that are not in the log, or are in it twice.
    pub not_in_log: u64,
    /// Our time minus the broker's, for queue and work on this broker.
    pub local: Differences,
    /// Our time minus the broker's, for the time after it.
    pub after: Differences,
}

/// A bounded number of differences of one kind.
#[derive(Clone, Debug, Default)]
pub struct Differences {
    samples: Vec<Nanos>,
    seen: u64,
}

/// Differences kept for the quantiles, evenly over all.
const MAX_DIFFERENCES: usize = 200_000;

impl Agreement {
    /// Adds a verdict.
    pub fn add(&mut self, verdict: &Verdict) {
        let Some(comparison) = TimesComparison::of(verdict) else {
            self.not_in_log += u64::from(verdict.request.api_key == PRODUCE);
            return;
        };
        self.compared += 1;
        self.partly_seen += u64::from(!comparison.whole);
        self.disagreeing += u64::from(comparison.disagrees());
        self.local.add(comparison.local.0 - comparison.local.1);
        self.after.add(comparison.after.0 - comparison.after.1);
    }
}

impl Differences {
    fn add(&mut self, difference: Nanos) {
        self.seen += 1;
        if self.samples.len() < MAX_DIFFERENCES {
            self.samples.push(difference);
        } else if let Some(slot) = self.samples.get_mut((self.seen % MAX_DIFFERENCES as u64) as usize) {
            *slot = difference;
        }
    }

    /// The quantile `share`, 0 to 1, of the differences; `None` if there are none.
    pub fn quantile(&self, share: f64) -> Option<Nanos> {
        let mut sorted = self.samples.clone();
        sorted.sort_unstable();
        let at = (sorted.len() as f64 * share) as usize;
        sorted.get(at.min(sorted.len().saturating_sub(1))).copied()
    }

    /// The share of differences within the tolerance, 0 to 1.
    pub fn within(&self) -> f64 {
        let within = self.samples.iter().filter(|difference| difference.0.abs() <= TOLERANCE.0).count();
        if self.samples.is_empty() { 0.0 } else { within as f64 / self.samples.len() as f64 }
    }
}
