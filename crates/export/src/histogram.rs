//! The values of a series: counts by classic and native buckets at once, the maximum of the last minute, and exemplars.
//! Counts only ever grow.
//!
//! Native buckets are exponential, eight per factor of two (schema 3), so that a quantile is off by less than 5 %.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{Nanos, Request, Verdict};

use crate::label;

/// A histogram.
#[derive(Clone, Debug)]
pub(crate) struct Histogram {
    bounds: &'static [f64],
    /// Observations in each bucket, not cumulative; the last has no upper bound.
    counts: Vec<u64>,
    /// Observations by native buckets.
    pub(crate) native: Native,
    /// Sum of all observations.
    pub(crate) sum: f64,
    /// Number of observations.
    pub(crate) count: u64,
    /// An exemplar for each bucket, if any was added.
    exemplars: Vec<Option<Exemplar>>,
}

impl Histogram {
    /// Creates a histogram with these classic bounds, in rising order.
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

    /// Counts a value and returns its bucket.
    /// Values below zero, from clocks that disagree, count as zero.
    pub(crate) fn observe(&mut self, value: f64) -> usize {
        let value = if value > 0.0 { value } else { 0.0 };
        self.sum += value;
        self.count_values(value, 1)
    }

    /// Counts each value the given number of times; `sum` is more exact than the sum of the values.
    pub(crate) fn observe_counts(&mut self, values: impl Iterator<Item = (f64, u64)>, sum: f64) {
        self.sum += sum;
        for (value, count) in values {
            self.count_values(value, count);
        }
    }

    fn count_values(&mut self, value: f64, count: u64) -> usize {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        if let Some(counted) = self.counts.get_mut(bucket) {
            *counted += count;
        }
        self.native.observe(value, count);
        self.count += count;
        bucket
    }

    /// Counts a duration. Makes an exemplar of it unless the bucket has a recent one.
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

    /// Each bucket's upper bound, the number of values up to it, and its exemplar.
    pub(crate) fn buckets(&self) -> impl Iterator<Item = (f64, u64, Option<&Exemplar>)> {
        let bounds = self.bounds.iter().copied().chain([f64::INFINITY]);
        let up_to = self.counts.iter().scan(0, |sum, count| {
            *sum += count;
            Some(*sum)
        });
        let example = |bucket: usize| self.exemplars.get(bucket).and_then(Option::as_ref);
        bounds.zip(up_to).enumerate().map(move |(bucket, (bound, count))| (bound, count, example(bucket)))
    }
}

/// Converts to Prometheus' unit.
pub(crate) fn seconds(length: Nanos) -> f64 {
    length.0 as f64 / 1e9
}

/// Bucket bounds grow by a factor of 2^(2^-SCHEMA).
pub(crate) const SCHEMA: i32 = 3;
/// Values up to this count as zero, which has its own bucket.
pub(crate) const ZERO_THRESHOLD: f64 = 1e-9;
/// Buckets per factor of two.
const PER_DOUBLING: f64 = (1 << SCHEMA) as f64;

/// Native buckets.
/// There are at most some five hundred, because no observation is above 2^34 or below the zero bucket.
#[derive(Clone, Debug, Default)]
pub(crate) struct Native {
    /// Observations in the zero bucket.
    pub(crate) zero: u64,
    counts: BTreeMap<i32, u64>,
}

/// Runs of consecutive buckets, and each count less the count before it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Spans {
    /// The number of empty buckets before each run (for the first: its index), and its length.
    pub(crate) spans: Vec<(i32, u32)>,
    /// The count of each bucket in all runs, less the count of the one before.
    pub(crate) deltas: Vec<i64>,
}

impl Native {
    pub(crate) fn observe(&mut self, value: f64, count: u64) {
        if value > ZERO_THRESHOLD {
            *self.counts.entry(index(value)).or_default() += count;
        } else {
            self.zero += count;
        }
    }

    /// Encodes the buckets as the protobuf format does.
    pub(crate) fn spans(&self) -> Spans {
        let mut runs = Spans::default();
        let (mut next, mut before) = (0, 0);
        for (&index, &count) in &self.counts {
            match runs.spans.last_mut() {
                Some((_, length)) if index == next => *length += 1,
                _ => runs.spans.push((index - next, 1)),
            }
            runs.deltas.push(count as i64 - before);
            (next, before) = (index + 1, count as i64);
        }
        runs
    }
}

/// The bucket with the least upper bound that is not below the value.
fn index(value: f64) -> i32 {
    (value.log2() * PER_DOUBLING).ceil() as i32
}

/// Parts of a minute: the maximum covers the last 50 to 60 seconds.
const PARTS: i64 = 6;
const PART: Nanos = Nanos::from_millis(10_000);

/// The maximum of each part.
#[derive(Clone, Debug, Default)]
pub(crate) struct Peak {
    /// Number of the interval of ten seconds, and its maximum.
    parts: [(i64, Nanos); PARTS as usize],
}

impl Peak {
    /// Adds a duration that ended then.
    pub(crate) fn add(&mut self, length: Nanos, at: Nanos) {
        let part = part(at);
        let Some(slot) = self.parts.get_mut(part.rem_euclid(PARTS) as usize) else { return };
        if slot.0 < part {
            *slot = (part, Nanos::ZERO);
        }
        // A value that comes more than a minute late has no slot any more.
        if slot.0 == part {
            slot.1 = slot.1.max(length);
        }
    }

    /// The maximum of the minute before `now`.
    pub(crate) fn max_of_last_minute(&self, now: Nanos) -> Nanos {
        let now = part(now);
        let recent = self.parts.iter().filter(|(part, _)| now - part < PARTS);
        recent.map(|(_, length)| *length).max().unwrap_or_default()
    }
}

fn part(at: Nanos) -> i64 {
    at.0.div_euclid(PART.0)
}

/// Limits of an exemplar's texts: with their names, all labels together may have 128 characters (`OpenMetrics` 1.0).
const CLIENT_CHARS: usize = 32;
const ROOT_CHARS: usize = 48;
/// Age from which an exemplar is replaced.
pub(crate) const STALE: Nanos = Nanos::from_millis(1_000);

/// An exemplar: a request that stands for the values of a bucket.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Exemplar {
    client_id: Option<Arc<str>>,
    correlation_id: i32,
    root: Option<Arc<str>>,
    /// The observed value.
    pub(crate) value: f64,
    /// The time of the observation.
    pub(crate) at: Nanos,
}

impl Exemplar {
    /// An exemplar from a request.
    pub(crate) fn of(request: &Request, value: f64) -> Self {
        Self {
            client_id: request.client_id.clone(),
            correlation_id: request.correlation_id,
            root: None,
            value,
            at: request.last_seen(),
        }
    }

    /// An exemplar from a slow request, with its root.
    pub(crate) fn of_slow(verdict: &Verdict, value: f64) -> Self {
        Self { root: Some(Arc::clone(&verdict.root)), ..Self::of(&verdict.request, value) }
    }

    /// Its labels.
    pub(crate) fn labels(&self) -> Vec<(&'static str, Arc<str>)> {
        let client = self.client_id.as_deref().map(|id| ("client_id", label::clean_to(id, CLIENT_CHARS)));
        let number = ("correlation_id", Arc::from(self.correlation_id.to_string()));
        let root = self.root.as_deref().map(|root| ("root", label::clean_to(root, ROOT_CHARS)));
        client.into_iter().chain([number]).chain(root).collect()
    }
}

#[cfg(test)]
mod tests {
    use model::Nanos;

    use super::{Histogram, Native, Peak, Spans, index, seconds};

    #[test]
    fn buckets_are_cumulative_and_include_their_upper_bound() {
        let mut histogram = Histogram::within(&[1.0, 4.0, 16.0, 64.0, 256.0, 1_024.0, 4_096.0]);
        for value in [1.0, 2.0, 4.0, 5.0, 1e9, -3.0] {
            histogram.observe(value);
        }
        let counts: Vec<_> = histogram.buckets().map(|(bound, count, _)| (bound, count)).collect();
        assert_eq!(counts[..3], [(1.0, 2), (4.0, 4), (16.0, 5)]);
        assert_eq!(counts[7], (f64::INFINITY, 6));
        assert_eq!((histogram.count, histogram.sum), (6, 1_000_000_012.0));
        assert_eq!(histogram.native.zero, 1, "what two clocks make negative is none");
    }

    #[test]
    fn observes_durations_in_seconds() {
        let mut histogram = Histogram::within(&[0.1, 0.25, 0.5]);
        histogram.observe(seconds(Nanos::from_millis(250)));
        assert_eq!((histogram.count, histogram.sum), (1, 0.25));
        let first = histogram.buckets().find(|(_, count, _)| *count > 0).unwrap();
        assert_eq!((first.0, first.1), (0.25, 1));
    }

    #[test]
    fn native_bucket_index_includes_the_upper_bound() {
        for (value, bucket) in [(1.0, 0), (1.01, 1), (2.0, 8), (2.01, 9), (0.5, -8), (0.125, -24)] {
            assert_eq!(index(value), bucket, "{value}");
        }
    }

    #[test]
    fn encodes_native_buckets_as_spans_and_count_deltas() {
        let mut native = Native::default();
        for value in [0.0, 1.0, 1.0, 1.0, 1.05, 4.0, 4.0] {
            native.observe(value, 1);
        }
        assert_eq!(native.zero, 1);
        // Buckets 0 and 1, then 14 empty ones, then 16.
        assert_eq!(native.spans(), Spans { spans: vec![(0, 2), (14, 1)], deltas: vec![3, -2, 1] });
        assert_eq!(Native::default().spans(), Spans::default());
    }

    fn s(n: i64) -> Nanos {
        Nanos::from_millis(n * 1_000)
    }

    #[test]
    fn peak_is_the_maximum_of_the_last_minute() {
        let mut peak = Peak::default();
        assert_eq!(peak.max_of_last_minute(s(1_000)), Nanos::ZERO);
        peak.add(s(2), s(1_000));
        peak.add(s(1), s(1_009));
        peak.add(s(1), s(1_030));
        assert_eq!(peak.max_of_last_minute(s(1_031)), s(2));
        assert_eq!(peak.max_of_last_minute(s(1_059)), s(2));
        assert_eq!(peak.max_of_last_minute(s(1_061)), s(1));
        assert_eq!(peak.max_of_last_minute(s(1_100)), Nanos::ZERO);
        // Reusing a slot discards its old value.
        peak.add(Nanos(7), s(1_121));
        assert_eq!(peak.max_of_last_minute(s(1_122)), Nanos(7));
        peak.add(s(9), s(1_000));
        assert_eq!(peak.max_of_last_minute(s(1_122)), Nanos(7), "too late to be of the last minute");
    }
}
