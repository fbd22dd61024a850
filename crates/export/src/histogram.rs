//! How often what was observed: by classic buckets and by native ones at once. Counts only ever grow.

use model::Nanos;

use crate::bounds;
use crate::exemplar::{Exemplar, STALE};
use crate::native::Native;

/// A histogram.
#[derive(Clone, Debug)]
pub(crate) struct Histogram {
    bounds: &'static [f64],
    /// Observations in each bucket, not added up; the last is without bound.
    counts: Vec<u64>,
    native: Native,
    sum: f64,
    count: u64,
    /// Of each bucket, where any was given.
    exemplars: Vec<Option<Exemplar>>,
}

/// Of times.
impl Default for Histogram {
    fn default() -> Self {
        Self::within(bounds::SECONDS)
    }
}

impl Histogram {
    /// With these classic bounds, in rising order.
    pub(crate) fn within(bounds: &'static [f64]) -> Self {
        Self {
            bounds,
            counts: vec![0; bounds.len() + 1],
            native: Native::default(),
            sum: 0.0,
            count: 0,
            exemplars: Vec::new(),
        }
    }

    /// Counts a value; which bucket it fell into. What is below zero, because two clocks disagreed, counts as zero.
    pub(crate) fn observe(&mut self, value: f64) -> usize {
        let value = if value > 0.0 { value } else { 0.0 };
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        if let Some(count) = self.counts.get_mut(bucket) {
            *count += 1;
        }
        self.native.observe(value);
        self.sum += value;
        self.count += 1;
        bucket
    }

    /// Counts a length of time.
    pub(crate) fn observe_time(&mut self, length: Nanos) {
        self.observe(seconds(length));
    }

    /// Counts a length of time that has an example, which is made where the bucket's own is old.
    pub(crate) fn observe_with(&mut self, length: Nanos, at: Nanos, example: impl FnOnce(f64) -> Exemplar) {
        let value = seconds(length);
        let bucket = self.observe(value);
        if self.exemplars.is_empty() {
            self.exemplars = vec![None; self.counts.len()];
        }
        let Some(slot) = self.exemplars.get_mut(bucket) else { return };
        if slot.as_ref().is_none_or(|known| at - known.at >= STALE) {
            *slot = Some(example(value));
        }
    }

    /// How many were observed.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// All of them added up.
    pub(crate) fn sum(&self) -> f64 {
        self.sum
    }

    /// Each bucket's upper bound, how many were not above it, and an example.
    pub(crate) fn buckets(&self) -> impl Iterator<Item = (f64, u64, Option<&Exemplar>)> {
        let bounds = self.bounds.iter().copied().chain([f64::INFINITY]);
        let up_to = self.counts.iter().scan(0, |sum, count| {
            *sum += count;
            Some(*sum)
        });
        let example = |bucket: usize| self.exemplars.get(bucket).and_then(Option::as_ref);
        bounds.zip(up_to).enumerate().map(move |(bucket, (bound, count))| (bound, count, example(bucket)))
    }

    /// The same by native buckets.
    pub(crate) fn native(&self) -> &Native {
        &self.native
    }
}

/// In Prometheus' unit.
pub(crate) fn seconds(length: Nanos) -> f64 {
    length.0 as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use model::Nanos;

    use super::Histogram;
    use crate::bounds;

    #[test]
    fn buckets_add_up_and_take_their_bounds_in() {
        let mut histogram = Histogram::within(bounds::RECORDS);
        for value in [1.0, 2.0, 4.0, 5.0, 1e9, -3.0] {
            histogram.observe(value);
        }
        let counts: Vec<_> = histogram.buckets().map(|(bound, count, _)| (bound, count)).collect();
        assert_eq!(counts[..3], [(1.0, 2), (4.0, 4), (16.0, 5)]);
        assert_eq!(counts[7], (f64::INFINITY, 6));
        assert_eq!((histogram.count(), histogram.sum()), (6, 1_000_000_012.0));
        assert_eq!(histogram.native().zero(), 1, "what two clocks make negative is none");
    }

    #[test]
    fn times_are_in_seconds() {
        let mut histogram = Histogram::default();
        histogram.observe_time(Nanos::from_millis(250));
        assert_eq!((histogram.count(), histogram.sum()), (1, 0.25));
        let first = histogram.buckets().find(|(_, count, _)| *count > 0).unwrap();
        assert_eq!((first.0, first.1), (0.25, 1));
    }
}
