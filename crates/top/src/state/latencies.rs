//! How long requests of one second took, in little room: 16 steps to each doubling, so that a percentile is right to one
//! part in 30. The longest is exact. Knows no requests.

use model::Nanos;

/// Steps to each doubling, as a power of two.
const STEPS_LOG2: u32 = 4;
const STEPS: u64 = 1 << STEPS_LOG2;
/// Nanoseconds of the finest step, as a power of two: about a microsecond.
const FINEST_LOG2: u32 = 10;

/// Counts of latencies.
#[derive(Clone, Debug, Default)]
pub(crate) struct Latencies {
    counts: Vec<u32>,
    count: u64,
    longest: Nanos,
}

impl Latencies {
    /// Counts one.
    pub(crate) fn add(&mut self, latency: Nanos) {
        let latency = latency.at_least_zero();
        let step = step_of(latency.0.unsigned_abs());
        if self.counts.len() <= step {
            // At most some 850 of them, for the longest that there is.
            self.counts.resize(step + 1, 0);
        }
        if let Some(count) = self.counts.get_mut(step) {
            *count = count.saturating_add(1);
        }
        self.count += 1;
        self.longest = self.longest.max(latency);
    }

    /// Adds all of another's.
    pub(crate) fn add_all(&mut self, other: &Self) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (sum, more) in self.counts.iter_mut().zip(&other.counts) {
            *sum = sum.saturating_add(*more);
        }
        self.count += other.count;
        self.longest = self.longest.max(other.longest);
    }

    /// The longest; none of none.
    pub(crate) fn longest(&self) -> Option<Nanos> {
        (self.count > 0).then_some(self.longest)
    }

    /// The latency that this share of them does not exceed; none of none.
    pub(crate) fn quantile(&self, share: f64) -> Option<Nanos> {
        let rank = (share * self.count as f64).ceil().max(1.0) as u64;
        if rank >= self.count {
            return self.longest();
        }
        let mut seen = 0;
        for (step, &count) in self.counts.iter().enumerate() {
            seen += u64::from(count);
            if seen >= rank {
                return Some(Nanos(middle_of(step)).min(self.longest));
            }
        }
        None
    }
}

/// The step that a latency is in: linear up to [`STEPS`], then so many to each doubling.
fn step_of(ns: u64) -> usize {
    let fine = ns >> FINEST_LOG2;
    if fine < STEPS {
        return fine as usize;
    }
    let doubling = fine.ilog2() - STEPS_LOG2;
    let within = (fine >> doubling) - STEPS;
    (STEPS * u64::from(doubling + 1) + within) as usize
}

/// The nanoseconds in the middle of a step.
fn middle_of(step: usize) -> i64 {
    let step = step as u64;
    let (low, width) = match (step / STEPS).checked_sub(1) {
        None => (step, 1),
        Some(doubling) => ((STEPS + step % STEPS) << doubling, 1 << doubling),
    };
    let middle = (low << FINEST_LOG2).saturating_add((width << FINEST_LOG2) / 2);
    i64::try_from(middle).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::{Latencies, middle_of, step_of};
    use model::Nanos;

    #[test]
    fn steps_follow_each_other_and_their_middles_are_in_them() {
        let mut last = 0;
        for shift in 0..62 {
            for part in 0..8_u64 {
                let ns = (1 << shift) + (part << shift) / 8;
                let step = step_of(ns);
                assert!(step >= last && step - last <= 16, "{ns}");
                last = step;
                assert_eq!(step_of(middle_of(step) as u64), step, "{ns}");
            }
        }
        assert!(step_of(i64::MAX as u64) < 1_000);
    }

    #[test]
    fn percentiles_are_near_and_the_longest_is_exact() {
        let mut latencies = Latencies::default();
        assert_eq!((latencies.quantile(0.5), latencies.longest()), (None, None));
        for n in 1..=1_000_i64 {
            latencies.add(Nanos(n * n * 1_000));
        }
        for (share, exact) in [(0.5, 250_000_000.0), (0.99, 980_100_000.0)] {
            let found = latencies.quantile(share).unwrap().0 as f64;
            assert!((found / exact - 1.0).abs() < 0.035, "{share}: {found}");
        }
        assert_eq!(latencies.longest(), Some(Nanos(1_000_000_000)));
        assert_eq!(latencies.quantile(1.0), Some(Nanos(1_000_000_000)));
        let mut two = Latencies::default();
        two.add(Nanos(-5));
        two.add_all(&latencies);
        assert_eq!(two.longest(), latencies.longest());
        assert_eq!(two.quantile(0.0), Some(Nanos(512)));
    }
}
