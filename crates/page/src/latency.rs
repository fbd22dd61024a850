//! Latency of all requests, over time: counts by bucket of time and level of latency, for each API. Does not judge.

use std::collections::BTreeMap;

use model::row_summary::RequestColumns;
use serde::Serialize;

use super::grid::{Cells, Grid, Merge};
use report::distribution::Distribution;

/// The first level's upper bound, and the number of levels per factor of ten.
const LOWEST_NS: f64 = 10_000.0;
const PER_DECADE: f64 = 10.0;
/// Levels: below 10 µs, seven decades from there, and 100 s and longer.
const LEVELS: usize = 72;

/// Requests by API. Intended waits are separate.
#[derive(Debug, Default)]
pub(super) struct Latency {
    apis: BTreeMap<(&'static str, bool), OfApi>,
    unanswered: u64,
}

#[derive(Debug, Default)]
struct OfApi {
    spread: Distribution,
    cells: Cells<Levels>,
}

#[derive(Clone, Debug)]
struct Levels(Box<[u32; LEVELS]>);

impl Default for Levels {
    fn default() -> Self {
        Self(Box::new([0; LEVELS]))
    }
}

impl Merge for Levels {
    fn merge(&mut self, other: Self) {
        for (sum, more) in self.0.iter_mut().zip(other.0.iter()) {
            *sum = sum.saturating_add(*more);
        }
    }
}

/// Latencies over time.
#[derive(Clone, Debug, Serialize)]
pub struct LatencyData {
    /// The upper bound of each level but the last, nanoseconds.
    pub bounds_ns: Vec<i64>,
    /// By API.
    pub apis: Vec<ApiData>,
    /// Requests whose response was due but not seen.
    pub unanswered: u64,
}

/// One API.
#[derive(Clone, Debug, Serialize)]
pub struct ApiData {
    /// Kafka's name.
    pub api: &'static str,
    /// Whether the broker kept the requests on purpose: a long poll, a rebalance.
    pub intended_wait: bool,
    /// Number of answered requests.
    pub requests: u64,
    /// Median, nanoseconds.
    pub p50_ns: u64,
    /// 90th percentile.
    pub p90_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile.
    pub p999_ns: u64,
    /// Maximum.
    pub max_ns: u64,
    /// Triples of bucket, level and count.
    pub cells: Vec<u32>,
}

impl Latency {
    pub(super) fn request(&mut self, grid: &Grid, request: &RequestColumns) {
        let Some(latency) = request.latency_less_wait() else {
            self.unanswered += u64::from(request.is_unanswered());
            return;
        };
        let latency = latency.as_length_ns();
        let api = self.apis.entry((request.api, request.intended_wait().is_some())).or_default();
        api.spread.add(latency);
        if let Some(count) = api.cells.at(grid, request.arrival).0.get_mut(level(latency)) {
            *count = count.saturating_add(1);
        }
    }

    pub(super) fn finish(self, grid: &Grid) -> LatencyData {
        let apis =
            self.apis.into_iter().map(|((api, intended_wait), of)| of.finish(grid, api, intended_wait));
        LatencyData { bounds_ns: bounds(), apis: apis.collect(), unanswered: self.unanswered }
    }
}

impl OfApi {
    fn finish(self, grid: &Grid, api: &'static str, intended_wait: bool) -> ApiData {
        let quantile = |share| self.spread.quantile(share).unwrap_or(0);
        let mut data = ApiData {
            api,
            intended_wait,
            requests: self.spread.count(),
            p50_ns: quantile(0.5),
            p90_ns: quantile(0.9),
            p99_ns: quantile(0.99),
            p999_ns: quantile(0.999),
            max_ns: self.spread.max().unwrap_or(0),
            cells: Vec::new(),
        };
        for (bucket, levels) in self.cells.finish(grid, 1) {
            let counts = (0..).zip(levels.0.iter()).filter(|(_, count)| **count > 0);
            data.cells.extend(counts.flat_map(|(level, &count)| [bucket, level, count]));
        }
        data
    }
}

fn level(latency_ns: u64) -> usize {
    let above = (latency_ns.max(1) as f64 / LOWEST_NS).log10() * PER_DECADE;
    ((above.floor() + 1.0).max(0.0) as usize).min(LEVELS - 1)
}

fn bounds() -> Vec<i64> {
    (0..LEVELS as i32 - 1)
        .map(|i| (LOWEST_NS * 10_f64.powf(f64::from(i) / PER_DECADE)).round() as i64)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{LEVELS, bounds, level};

    #[test]
    fn latency_is_between_the_bounds_of_its_level() {
        let bounds = bounds();
        assert_eq!((bounds.len(), bounds[0], bounds[10]), (LEVELS - 1, 10_000, 100_000));
        for latency in [0_u64, 1, 9_999, 10_001, 99_000, 101_000, 65_000_000, 99_000_000_000, u64::MAX] {
            let level = level(latency);
            assert!(level == 0 || latency as f64 >= bounds[level - 1] as f64 * 0.999, "{latency}");
            assert!(level == LEVELS - 1 || latency as f64 <= bounds[level] as f64 * 1.001, "{latency}");
        }
    }
}
