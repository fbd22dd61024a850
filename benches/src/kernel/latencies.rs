//! Latencies of many requests, and their text form to pass between processes.

use std::time::Duration;

use anyhow::{Context as _, bail};

/// Every latency, exact.
#[derive(Default)]
pub(crate) struct Latencies(Vec<u32>);

/// Requests that take longer are in the tail.
const SLOW: Duration = Duration::from_millis(2);

/// A producer's results.
#[derive(Clone, Debug)]
pub(crate) struct LatencyStats {
    /// All answered requests, including those before and after the measurement.
    pub(crate) answered: u64,
    pub(crate) requests: u64,
    pub(crate) seconds: f64,
    pub(crate) median: Duration,
    pub(crate) p99: Duration,
    pub(crate) longest: Duration,
}

impl Latencies {
    /// Adds a latency; none is longer than an hour.
    pub(crate) fn add(&mut self, latency: Duration) {
        self.0.push(u32::try_from(latency.as_micros()).unwrap_or(u32::MAX));
    }

    /// Formats the quantiles of requests due within a time, for [`Quantiles::parse`].
    pub(crate) fn quantiles(mut self, within: Duration) -> String {
        self.0.sort_unstable();
        let millis = |share| f64::from(self.at(share)) / 1e3;
        let slow = self.0.len() - self.0.partition_point(|&micros| u128::from(micros) <= SLOW.as_micros());
        let quantiles =
            [millis(0.5), millis(0.9), millis(0.95), millis(0.99), slow as f64 / self.0.len() as f64];
        let quantiles: Vec<String> = quantiles.iter().map(f64::to_string).collect();
        format!("{} {} {}", self.0.len(), within.as_secs_f64(), quantiles.join(" "))
    }

    /// The quantile of sorted latencies, in microseconds.
    fn at(&self, share: f64) -> u32 {
        let index = (self.0.len() as f64 * share) as usize;
        self.0.get(index.min(self.0.len().saturating_sub(1))).copied().unwrap_or(0)
    }

    /// Formats the results for [`LatencyStats::parse`].
    pub(crate) fn line(mut self, within: Duration) -> String {
        self.0.sort_unstable();
        let at = |share| self.at(share);
        format!("{} {} {} {} {}", self.0.len(), within.as_micros(), at(0.5), at(0.99), at(1.0))
    }
}

/// Results for requests that were due in a window.
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
    /// Parses the output of [`Latencies::quantiles`].
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
    /// Parses the number of answers and the output of [`Latencies::line`].
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
