//! Counts by exponential buckets, as Prometheus' native histograms have them: eight to each factor of two (schema 3), so that
//! a quantile is off by less than 5 %. Does not know classic buckets.

use std::collections::BTreeMap;

/// Buckets grow by the 2^(2^-SCHEMA)th.
pub(crate) const SCHEMA: i32 = 3;
/// What is not more than this is no time at all: it has a bucket of its own.
pub(crate) const ZERO_THRESHOLD: f64 = 1e-9;
/// Buckets a factor of two has.
const PER_DOUBLING: f64 = (1 << SCHEMA) as f64;

/// The counts. There are at most some five hundred: nothing that is observed is above 2^34 or below the zero bucket.
#[derive(Clone, Debug, Default)]
pub(crate) struct Native {
    zero: u64,
    counts: BTreeMap<i32, u64>,
}

/// A run of buckets one after the other, and by how much each differs from the one before.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Spans {
    /// How many empty buckets come before each run (the first: its index), and how many it has.
    pub(crate) spans: Vec<(i32, u32)>,
    /// Of all buckets in all runs: the count less that of the one before.
    pub(crate) deltas: Vec<i64>,
}

impl Native {
    pub(crate) fn observe(&mut self, value: f64) {
        if value > ZERO_THRESHOLD {
            *self.counts.entry(index(value)).or_default() += 1;
        } else {
            self.zero += 1;
        }
    }

    /// How many were no time at all.
    pub(crate) fn zero(&self) -> u64 {
        self.zero
    }

    /// As the format wants them.
    pub(crate) fn spans(&self) -> Spans {
        let mut told = Spans::default();
        let (mut next, mut before) = (0, 0);
        for (&index, &count) in &self.counts {
            match told.spans.last_mut() {
                Some((_, length)) if index == next => *length += 1,
                _ => told.spans.push((index - next, 1)),
            }
            told.deltas.push(count as i64 - before);
            (next, before) = (index + 1, count as i64);
        }
        told
    }
}

/// The bucket whose upper bound is the least that is not below the value.
fn index(value: f64) -> i32 {
    (value.log2() * PER_DOUBLING).ceil() as i32
}

#[cfg(test)]
mod tests {
    use super::{Native, Spans, index};

    #[test]
    fn a_bucket_reaches_up_to_its_bound_and_takes_it_in() {
        for (value, bucket) in [(1.0, 0), (1.01, 1), (2.0, 8), (2.01, 9), (0.5, -8), (0.125, -24)] {
            assert_eq!(index(value), bucket, "{value}");
        }
    }

    #[test]
    fn runs_of_buckets_are_told_by_their_gaps_and_counts_by_their_differences() {
        let mut native = Native::default();
        for value in [0.0, 1.0, 1.0, 1.0, 1.05, 4.0, 4.0] {
            native.observe(value);
        }
        assert_eq!(native.zero(), 1);
        // Buckets 0 and 1, then 14 empty ones, then 16.
        assert_eq!(native.spans(), Spans { spans: vec![(0, 2), (14, 1)], deltas: vec![3, -2, 1] });
        assert_eq!(Native::default().spans(), Spans::default());
    }
}
