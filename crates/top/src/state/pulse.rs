//! The number and latencies of requests in the last seconds. Does not judge them.

use hdrhistogram::Histogram;
use model::{Nanos, Request};

use super::seconds::Seconds;

/// Number of seconds to retain, for sparklines.
const MAX_SECONDS: usize = 241;
/// Number of seconds that figures cover.
pub(crate) const WINDOW: usize = 10;

/// Requests by second.
#[derive(Clone, Debug)]
pub(crate) struct Pulse {
    seconds: Seconds<Second>,
    /// Number of all requests.
    pub(crate) requests: u64,
}

#[derive(Clone, Debug, Default)]
struct Second {
    requests: u64,
    latencies: Latencies,
}

/// Figures of the last seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Figures {
    /// Requests per second; `None` before the first second is over.
    pub(crate) requests_per_second: Option<f64>,
    /// Median latency.
    pub(crate) median: Option<Nanos>,
    /// 99th percentile.
    pub(crate) p99: Option<Nanos>,
    /// Maximum latency.
    pub(crate) longest: Option<Nanos>,
}

impl Pulse {
    pub(crate) fn new() -> Self {
        Self { seconds: Seconds::new(MAX_SECONDS), requests: 0 }
    }

    /// Counts a request when it is answered.
    /// Excludes intended waits: long polls have no latency, and a fetch's wait for data does not count.
    pub(crate) fn request(&mut self, request: &Request) {
        self.requests += 1;
        let Some(second) = self.seconds.at(request.last_seen()) else { return };
        second.requests += 1;
        let latency = request.latency().map(|latency| latency - request.max_data_wait());
        if let Some(latency) = latency.filter(|_| request.intended_wait().is_none()) {
            second.latencies.add(latency);
        }
    }

    pub(crate) fn reach(&mut self, now: Nanos) {
        self.seconds.reach(now);
    }

    /// Figures of the last [`WINDOW`] complete seconds.
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

    /// Requests in each of the last complete seconds, oldest first.
    pub(crate) fn rates(&self, most: usize) -> Vec<u64> {
        self.seconds.over(most).map(|second| second.requests).collect()
    }

    /// The maximum latency in each of them; `None` without an answer.
    pub(crate) fn longest(&self, most: usize) -> Vec<Option<Nanos>> {
        self.seconds.over(most).map(|second| second.latencies.longest).collect()
    }
}

/// Latencies of one second: 16 steps per factor of two, so that a percentile is accurate to one part in 30. The maximum
/// is exact.
#[derive(Clone, Debug)]
struct Latencies {
    histogram: Histogram<u32>,
    longest: Option<Nanos>,
}

/// Finest resolution: a microsecond, with 16 steps per factor of two.
const FINEST_NS: u64 = 1 << 10;
const DIGITS: u8 = 1;
/// Longer ones are counted as a day; the maximum is stored separately.
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
        // The histogram grows up to the highest value, so this cannot fail.
        let _ = self.histogram.record(latency.0.unsigned_abs().min(MAX_NS));
        self.longest = self.longest.max(Some(latency));
    }

    fn add_all(&mut self, other: &Self) {
        // The histogram grows, so this cannot fail.
        let _ = self.histogram.add(&other.histogram);
        self.longest = self.longest.max(other.longest);
    }

    /// The quantile for this share; `None` without latencies.
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
    fn percentiles_are_approximate_and_the_maximum_is_exact() {
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
