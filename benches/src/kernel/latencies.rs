//! Latencies of many requests, and what is said of them from one process to another.

use std::time::Duration;

use anyhow::{Context as _, bail};

/// Every latency, exact.
#[derive(Default)]
pub(crate) struct Latencies(Vec<u32>);

/// What a producer saw of its load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
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

    /// What [`Seen::parse`] reads.
    pub(crate) fn line(mut self, within: Duration) -> String {
        self.0.sort_unstable();
        let at = |share: f64| {
            let index = (self.0.len() as f64 * share) as usize;
            self.0.get(index.min(self.0.len().saturating_sub(1))).copied().unwrap_or(0)
        };
        format!("{} {} {} {} {}", self.0.len(), within.as_micros(), at(0.5), at(0.99), at(1.0))
    }
}

impl Seen {
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
