//! The distribution of a quantity over many requests: percentiles from an HDR histogram, which holds any number
//! of values in a few KiB; a small number of values is stored exactly. Does not know what the values mean.

use hdrhistogram::Histogram;
use model::Nanos;

/// Higher values count as this one: a day in nanoseconds.
const HIGHEST: u64 = 86_400 * 1_000_000_000;

/// Number of values stored exactly: most groups have no more, and a histogram takes more memory.
const FEW: usize = 64;

/// The values of one quantity.
/// Percentiles of more than `FEW` values are accurate to one part in 200 (latencies) or 2,000 (sizes); percentiles of
/// up to `FEW` values, count, mean and maximum are exact.
#[derive(Clone, Debug)]
pub struct Distribution {
    values: Values,
    /// The lowest value distinguished from 0, and the number of significant digits.
    precision: (u64, u8),
    count: u64,
    sum: u128,
    min: u64,
    max: u64,
}

#[derive(Clone, Debug)]
enum Values {
    Few(Vec<u64>),
    Many(Histogram<u32>),
}

impl Default for Distribution {
    /// A distribution of durations in nanoseconds. Distinguishes them down to half a microsecond.
    fn default() -> Self {
        Self::new((1_000, 2))
    }
}

impl Distribution {
    /// A distribution of counts or sizes.
    pub fn of_sizes() -> Self {
        Self::new((1, 3))
    }

    fn new(precision: (u64, u8)) -> Self {
        Self { values: Values::Few(Vec::new()), precision, count: 0, sum: 0, min: u64::MAX, max: 0 }
    }

    /// Adds a value.
    pub fn add(&mut self, value: u64) {
        self.count += 1;
        self.sum += u128::from(value);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        match &mut self.values {
            Values::Few(values) if values.len() < FEW => values.push(value),
            Values::Few(values) => {
                values.push(value);
                self.values = Values::Many(histogram(self.precision, values));
            }
            Values::Many(histogram) => record(histogram, value),
        }
    }

    /// Adds a duration; a negative one counts as 0.
    pub fn add_length(&mut self, length: Nanos) {
        self.add(length.as_length_ns());
    }

    /// Sum of the durations.
    pub fn total(&self) -> Nanos {
        Nanos(i64::try_from(self.sum).unwrap_or(i64::MAX))
    }

    /// The duration at a quantile, 0 to 1; `None` without values.
    pub fn length_at(&self, share: f64) -> Option<Nanos> {
        self.quantile(share).map(|ns| Nanos(i64::try_from(ns).unwrap_or(i64::MAX)))
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Sum of the values.
    pub fn sum(&self) -> u128 {
        self.sum
    }

    /// The mean; `None` without values.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// The highest value; `None` without values.
    pub fn max(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max)
    }

    /// The value at a quantile, 0 to 1; `None` without values.
    pub fn quantile(&self, share: f64) -> Option<u64> {
        if share >= 1.0 || self.count == 0 {
            return self.max();
        }
        match &self.values {
            Values::Few(values) => {
                let mut values = values.clone();
                values.sort_unstable();
                let rank = (share * values.len() as f64).ceil().max(1.0) as usize;
                values.get(rank - 1).copied()
            }
            Values::Many(histogram) => {
                // Values of one bucket count as the middle of the bucket.
                let value = histogram.median_equivalent(histogram.value_at_quantile(share));
                Some(value.clamp(self.min, self.max))
            }
        }
    }
}

#[expect(clippy::expect_used, reason = "the bounds are constants")]
fn histogram((lowest, digits): (u64, u8), values: &[u64]) -> Histogram<u32> {
    let mut histogram = Histogram::new_with_bounds(lowest, lowest * 2, digits).expect("sound bounds");
    histogram.auto(true);
    for &value in values {
        record(&mut histogram, value);
    }
    histogram
}

fn record(histogram: &mut Histogram<u32>, value: u64) {
    // It grows up to `HIGHEST`, so this cannot fail.
    let _ = histogram.record(value.min(HIGHEST));
}

#[cfg(test)]
mod tests {
    use super::{Distribution, FEW};

    #[test]
    fn percentiles_are_accurate_over_nine_orders_of_magnitude() {
        for (mut spread, within) in [(Distribution::default(), 0.005), (Distribution::of_sizes(), 0.0005)] {
            let values = (0..10_000_u64).map(|n| 20_000 + n.pow(3)).collect::<Vec<_>>();
            for &value in &values {
                spread.add(value);
            }
            for (share, rank) in [(0.5, 5_000), (0.9, 9_000), (0.99, 9_900), (0.999, 9_990)] {
                // Definitions of a percentile differ by one rank.
                let (low, high) = (values[rank - 2] as f64, values[rank] as f64);
                let found = spread.quantile(share).unwrap() as f64;
                assert!(found >= low * (1.0 - within) && found <= high * (1.0 + within), "{share}: {found}");
            }
            assert_eq!(spread.max(), values.last().copied());
            assert_eq!(spread.quantile(1.0), spread.max());
            assert_eq!(spread.sum(), values.iter().map(|&value| u128::from(value)).sum());
        }
    }

    #[test]
    fn empty_has_no_percentile_and_the_maximum_value_is_accepted() {
        let mut spread = Distribution::default();
        assert_eq!((spread.quantile(0.5), spread.mean(), spread.max()), (None, None, None));
        spread.add(u64::MAX);
        assert_eq!((spread.max(), spread.quantile(0.5)), (Some(u64::MAX), Some(u64::MAX)));
        for _ in 0..FEW {
            spread.add(u64::MAX);
        }
        assert_eq!((spread.max(), spread.count()), (Some(u64::MAX), FEW as u64 + 1));
        // The histogram is capped, but no value was lower.
        assert_eq!(spread.quantile(0.5), Some(u64::MAX));
    }

    #[test]
    fn percentiles_of_a_few_values_are_exact() {
        let mut spread = Distribution::default();
        for value in [999_999, 123_457, 7] {
            spread.add(value);
        }
        assert_eq!(spread.quantile(0.5), Some(123_457));
        assert_eq!((spread.quantile(0.0), spread.quantile(0.99)), (Some(7), Some(999_999)));
    }
}
