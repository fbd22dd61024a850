//! How many requests there were in the last seconds, and how long they took. Does not judge them.

use hdrhistogram::Histogram;
use model::{Nanos, Request};

use super::seconds::Seconds;

/// Seconds that are kept, for lines over time.
const MAX_SECONDS: usize = 241;
/// Seconds that figures are of.
pub(crate) const WINDOW: usize = 10;

/// Requests by second.
#[derive(Clone, Debug)]
pub(crate) struct Pulse {
    seconds: Seconds<Second>,
    /// All of them.
    pub(crate) requests: u64,
}

#[derive(Clone, Debug, Default)]
struct Second {
    requests: u64,
    latencies: Latencies,
}

/// What the last seconds come to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Figures {
    /// Requests a second; none before the first second is over.
    pub(crate) requests_per_second: Option<f64>,
    /// Half of them took no longer.
    pub(crate) median: Option<Nanos>,
    /// 99 of a hundred took no longer.
    pub(crate) p99: Option<Nanos>,
    /// The longest.
    pub(crate) longest: Option<Nanos>,
}

impl Pulse {
    pub(crate) fn new() -> Self {
        Self { seconds: Seconds::new(MAX_SECONDS), requests: 0 }
    }

    /// Counts a request when it is answered. What the broker kept on purpose has no latency to answer for, nor has the wait of
    /// a fetch for data.
    pub(crate) fn request(&mut self, request: &Request) {
        self.requests += 1;
        let Some(second) = self.seconds.at(request.last_seen()) else { return };
        second.requests += 1;
        let latency = request.latency().map(|latency| latency - request.may_have_waited());
        if let Some(latency) = latency.filter(|_| request.intended_wait().is_none()) {
            second.latencies.add(latency);
        }
    }

    pub(crate) fn reach(&mut self, now: Nanos) {
        self.seconds.reach(now);
    }

    /// What the last [`WINDOW`] seconds that are over come to.
    pub(crate) fn figures(&self) -> Figures {
        let window = self.seconds.over(WINDOW);
        let seconds = window.len();
        let (mut requests, mut latencies) = (0, Latencies::default());
        for second in window {
            requests += second.requests;
            latencies.add_all(&second.latencies);
        }
        Figures {
            requests_per_second: (seconds > 0).then(|| requests as f64 / seconds as f64),
            median: latencies.quantile(0.5),
            p99: latencies.quantile(0.99),
            longest: latencies.longest,
        }
    }

    /// Requests of each of the last seconds that are over, oldest first.
    pub(crate) fn rates(&self, most: usize) -> Vec<u64> {
        self.seconds.over(most).map(|second| second.requests).collect()
    }

    /// The longest latency of each; none where nothing was answered.
    pub(crate) fn longest(&self, most: usize) -> Vec<Option<Nanos>> {
        self.seconds.over(most).map(|second| second.latencies.longest).collect()
    }
}

/// How long requests of one second took: 16 steps to each doubling, so that a percentile is right to one part in 30. The
/// longest is exact.
#[derive(Clone, Debug)]
struct Latencies {
    histogram: Histogram<u32>,
    longest: Option<Nanos>,
}

/// Latencies are told apart down to a microsecond, and to one digit: 16 steps to each doubling.
const FINEST_NS: u64 = 1 << 10;
const DIGITS: u8 = 1;
/// Longer ones are counted as a day; the longest is kept by itself.
const MAX_NS: u64 = 86_400 * 1_000_000_000;

impl Default for Latencies {
    #[expect(clippy::expect_used, reason = "the bounds are constants")]
    fn default() -> Self {
        let mut histogram = Histogram::new_with_bounds(FINEST_NS, 2 * FINEST_NS, DIGITS)
            .expect("the highest is twice the lowest and there is one digit");
        histogram.auto(true);
        Self { histogram, longest: None }
    }
}

impl Latencies {
    fn add(&mut self, latency: Nanos) {
        let latency = latency.at_least_zero();
        // It grows up to the highest value: this cannot fail.
        let _ = self.histogram.record(latency.0.unsigned_abs().min(MAX_NS));
        self.longest = self.longest.max(Some(latency));
    }

    fn add_all(&mut self, other: &Self) {
        // It grows: this cannot fail.
        let _ = self.histogram.add(&other.histogram);
        self.longest = self.longest.max(other.longest);
    }

    /// The latency that this share of them does not exceed; none of none.
    fn quantile(&self, share: f64) -> Option<Nanos> {
        let longest = self.longest?;
        if (share * self.histogram.len() as f64).ceil() >= self.histogram.len() as f64 {
            return Some(longest);
        }
        let value = self.histogram.median_equivalent(self.histogram.value_at_quantile(share));
        Some(Nanos(value as i64).min(longest))
    }
}

#[cfg(test)]
mod tests {
    use model::Nanos;

    use super::Latencies;

    #[test]
    fn percentiles_are_near_and_the_longest_is_exact() {
        let mut latencies = Latencies::default();
        assert_eq!((latencies.quantile(0.5), latencies.longest), (None, None));
        for n in 1..=1_000_i64 {
            latencies.add(Nanos(n * n * 1_000));
        }
        for (share, exact) in [(0.5, 250_000_000.0), (0.99, 980_100_000.0)] {
            let found = latencies.quantile(share).unwrap().0 as f64;
            assert!((found / exact - 1.0).abs() < 0.035, "{share}: {found}");
        }
        assert_eq!(latencies.longest, Some(Nanos(1_000_000_000)));
        assert_eq!(latencies.quantile(1.0), Some(Nanos(1_000_000_000)));
        let mut two = Latencies::default();
        two.add(Nanos(-5));
        two.add_all(&latencies);
        assert_eq!(two.longest, latencies.longest);
        assert_eq!(two.quantile(0.0), Some(Nanos(512)));
    }
}
