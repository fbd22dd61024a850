//! How far behind verdicts were, where requests are explained as they come. Reads no clock.

use model::Nanos;

use crate::distribution::Distribution;

/// How long after their requests' ends verdicts were told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lag {
    /// Half of them sooner.
    pub median: Nanos,
    /// 99 of a hundred sooner.
    pub p99: Nanos,
    /// The last.
    pub longest: Nanos,
}

/// Collects a [`Lag`] of any number of verdicts, in bounded memory.
#[derive(Clone, Debug)]
pub struct Lags(Distribution);

impl Default for Lags {
    fn default() -> Self {
        Self(Distribution::of_latencies())
    }
}

impl Lags {
    /// Counts a verdict that was told so long after its request's end.
    pub fn add(&mut self, lag: Nanos) {
        self.0.add(lag.0.max(0).unsigned_abs());
    }

    /// What they come to; none without verdicts.
    pub fn conclude(&self) -> Option<Lag> {
        let at = |share| self.0.quantile(share).map(|lag| Nanos(i64::try_from(lag).unwrap_or(i64::MAX)));
        Some(Lag { median: at(0.5)?, p99: at(0.99)?, longest: at(1.0)? })
    }
}

#[cfg(test)]
mod tests {
    use model::Nanos;

    use super::{Lag, Lags};

    #[test]
    fn the_longest_is_exact_and_none_is_less_than_nothing() {
        let mut lags = Lags::default();
        assert_eq!(lags.conclude(), None);
        lags.add(Nanos(-5));
        lags.add(Nanos::from_millis(1_400));
        lags.add(Nanos::from_millis(1_900));
        let (median, longest) = (Nanos::from_millis(1_400), Nanos::from_millis(1_900));
        assert_eq!(lags.conclude(), Some(Lag { median, p99: longest, longest }));
    }
}
