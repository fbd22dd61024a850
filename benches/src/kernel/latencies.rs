//! Latencies of many requests, and what is said of them from one process to another.

use std::time::Duration;

use anyhow::{Context as _, bail};

/// Every latency, exact.
#[derive(Default)]
pub(crate) struct Latencies(Vec<u32>);

/// The share of the latencies that a producer hands on one by one, the longest first.
const SLOWEST_SHARE: f64 = 0.1;

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
    /// The longest latencies of all, in microseconds, longest first.
    slowest: Vec<u32>,
}

impl Latencies {
    /// Adds one; none is over an hour.
    pub(crate) fn add(&mut self, latency: Duration) {
        self.0.push(u32::try_from(latency.as_micros()).unwrap_or(u32::MAX));
    }

    /// What [`LatencyStats::parse`] reads.
    pub(crate) fn line(mut self, within: Duration) -> String {
        self.0.sort_unstable();
        let at = |share: f64| {
            let index = (self.0.len() as f64 * share) as usize;
            self.0.get(index.min(self.0.len().saturating_sub(1))).copied().unwrap_or(0)
        };
        let summary = format!("{} {} {} {} {}", self.0.len(), within.as_micros(), at(0.5), at(0.99), at(1.0));
        let slowest = (self.0.len() as f64 * SLOWEST_SHARE) as usize;
        let slowest = self.0.iter().rev().take(slowest).map(u32::to_string);
        std::iter::once(summary).chain(slowest).collect::<Vec<_>>().join(" ")
    }
}

impl LatencyStats {
    /// Reads how many were answered, and what [`Latencies::line`] says.
    pub(crate) fn parse(line: &str) -> anyhow::Result<Self> {
        let numbers = line.split_whitespace().map(str::parse).collect::<Result<Vec<u64>, _>>();
        let numbers = numbers.with_context(|| format!("not what a producer says: {line}"))?;
        let [answered, requests, within, median, p99, longest, ref slowest @ ..] = numbers[..] else {
            bail!("not what a producer says: {line}")
        };
        let slowest = slowest.iter().map(|&micros| u32::try_from(micros).unwrap_or(u32::MAX)).collect();
        let [median, p99, longest] = [median, p99, longest].map(Duration::from_micros);
        Ok(Self { answered, requests, seconds: within as f64 / 1e6, median, p99, longest, slowest })
    }

    /// The p99 of the requests of several loads taken together, in seconds; exact for up to ten of the same size, even where
    /// all that lies beyond is of one.
    pub(crate) fn p99_of_all<'a>(all: impl Iterator<Item = &'a Self>) -> f64 {
        let (mut slowest, mut requests) = (Vec::new(), 0);
        for seen in all {
            slowest.extend_from_slice(&seen.slowest);
            requests += seen.requests;
        }
        slowest.sort_unstable_by_key(|&micros| std::cmp::Reverse(micros));
        slowest.get((requests as f64 * 0.01) as usize).map_or(f64::NAN, |&micros| f64::from(micros) / 1e6)
    }

    pub(crate) fn per_second(&self) -> f64 {
        self.requests as f64 / self.seconds
    }
}
