//! Latencies of many requests, and what is said of them from one process to another.

use std::time::Duration;

use anyhow::{Context as _, bail};

/// Every latency, exact.
#[derive(Default)]
pub(crate) struct Latencies(Vec<u32>);

/// A request that takes longer is one of the tail.
const SLOW: Duration = Duration::from_millis(2);

/// What a producer saw of its load.
#[derive(Clone, Debug)]
pub(crate) struct LatencyStats {
    /// All requests ever answered, those before and after what was measured too.
    pub(crate) answered: u64,
    pub(crate) requests: u64,
    pub(crate) seconds: f64,
    pub(crate) median: Duration,
    pub(crate) p99: Duration,
    pub(crate) longest: Duration,
}

impl Latencies {
    /// Adds one; none is over an hour.
    pub(crate) fn add(&mut self, latency: Duration) {
        self.0.push(u32::try_from(latency.as_micros()).unwrap_or(u32::MAX));
    }

    /// What [`Quantiles::parse`] reads, of all that were due within such a time.
    pub(crate) fn quantiles(mut self, within: Duration) -> String {
        self.0.sort_unstable();
        let millis = |share| f64::from(self.at(share)) / 1e3;
        let slow = self.0.len() - self.0.partition_point(|&micros| u128::from(micros) <= SLOW.as_micros());
        let quantiles =
            [millis(0.5), millis(0.9), millis(0.95), millis(0.99), slow as f64 / self.0.len() as f64];
        let quantiles: Vec<String> = quantiles.iter().map(f64::to_string).collect();
        format!("{} {} {}", self.0.len(), within.as_secs_f64(), quantiles.join(" "))
    }

    /// The latency that so many are below, of sorted ones; in microseconds.
    fn at(&self, share: f64) -> u32 {
        let index = (self.0.len() as f64 * share) as usize;
        self.0.get(index.min(self.0.len().saturating_sub(1))).copied().unwrap_or(0)
    }

    /// What [`LatencyStats::parse`] reads.
    pub(crate) fn line(mut self, within: Duration) -> String {
        self.0.sort_unstable();
        let at = |share| self.at(share);
        format!("{} {} {} {} {}", self.0.len(), within.as_micros(), at(0.5), at(0.99), at(1.0))
    }
}

/// What requests that were due in a window saw.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quantiles {
    pub(crate) requests: u64,
    pub(crate) seconds: f64,
    /// Latencies in milliseconds.
    pub(crate) p50: f64,
    pub(crate) p90: f64,
    pub(crate) p95: f64,
    pub(crate) p99: f64,
    /// The share of the requests that took longer than [`SLOW`].
    pub(crate) slow: f64,
}

impl Quantiles {
    /// Reads what [`Latencies::quantiles`] says.
    pub(crate) fn parse(line: &str) -> anyhow::Result<Self> {
        let numbers = line.split_whitespace().map(str::parse).collect::<Result<Vec<f64>, _>>();
        let numbers = numbers.with_context(|| format!("not what a producer says: {line}"))?;
        let [requests, seconds, p50, p90, p95, p99, slow] = numbers[..] else {
            bail!("not what a producer says: {line}")
        };
        Ok(Self { requests: requests as u64, seconds, p50, p90, p95, p99, slow })
    }
}

impl LatencyStats {
    /// Reads how many were answered, and what [`Latencies::line`] says.
    pub(crate) fn parse(line: &str) -> anyhow::Result<Self> {
        let numbers = line.split_whitespace().map(str::parse).collect::<Result<Vec<u64>, _>>();
        let numbers = numbers.with_context(|| format!("not what a producer says: {line}"))?;
        let [answered, requests, within, median, p99, longest] = numbers[..] else {
            bail!("not what a producer says: {line}")
        };
        let [median, p99, longest] = [median, p99, longest].map(Duration::from_micros);
        Ok(Self { answered, requests, seconds: within as f64 / 1e6, median, p99, longest })
    }

    pub(crate) fn per_second(&self) -> f64 {
        self.requests as f64 / self.seconds
    }
}
