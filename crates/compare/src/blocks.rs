//! Counts of one run by block of time. Blocks double in width as the run goes on, so that their number is bounded for a
//! run of any length. Does not compute figures.

use hdrhistogram::Histogram;
use model::Nanos;

use crate::counts::{Counts, Totals};

/// The narrowest block.
const FINEST: i64 = 1_000_000_000;
/// Maximum number of blocks: a histogram takes some KiB.
const MAX: i64 = 256;
/// Latencies are resolved to half a microsecond, and to one part in 200.
const LOWEST_NS: u64 = 1_000;
const DIGITS: u8 = 2;
/// Higher latencies are counted as one day.
const HIGHEST_NS: u64 = 86_400 * 1_000_000_000;

/// The counted fields of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestSample {
    pub(crate) arrival: Nanos,
    /// `None` if no response was seen.
    pub(crate) latency_ns: Option<u64>,
    pub(crate) bytes: u64,
    pub(crate) missed: bool,
}

/// One run's blocks.
#[derive(Clone, Debug)]
pub(crate) struct Blocks {
    origin: Option<Nanos>,
    end: Nanos,
    width: i64,
    all: Vec<Block>,
}

#[derive(Clone, Debug, Default)]
struct Block {
    totals: Totals,
    latencies: Option<Histogram<u32>>,
}

impl Blocks {
    pub(crate) fn new() -> Self {
        Self { origin: None, end: Nanos::MIN, width: FINEST, all: Vec::new() }
    }

    pub(crate) fn add(&mut self, request: RequestSample) {
        let origin = *self.origin.get_or_insert(request.arrival);
        self.end = self.end.max(request.arrival);
        // A request that arrived before the one that was answered first is in the first block.
        let after = (request.arrival - origin).0.max(0);
        while after / self.width >= MAX {
            self.widen();
        }
        let at = (after / self.width) as usize;
        if self.all.len() <= at {
            self.all.resize_with(at + 1, Block::default);
        }
        if let Some(block) = self.all.get_mut(at) {
            block.add(request);
        }
    }

    fn widen(&mut self) {
        self.width = self.width.saturating_mul(2);
        let mut blocks = std::mem::take(&mut self.all).into_iter();
        while let Some(mut block) = blocks.next() {
            if let Some(other) = blocks.next() {
                block.merge(other);
            }
            self.all.push(block);
        }
    }

    /// The width of a block.
    pub(crate) fn width(&self) -> Nanos {
        Nanos(self.width)
    }

    /// Returns the counts, each block with the time that it was open.
    pub(crate) fn finish(self) -> Vec<Counts> {
        let whole = self.origin.map_or(0, |origin| (self.end - origin).0);
        let width = self.width;
        let open = |at: i64| (whole - at * width).clamp(0, width) as f64 / 1e9;
        (0..).zip(self.all).map(|(at, block)| block.finish(open(at))).collect()
    }
}

impl Block {
    fn add(&mut self, request: RequestSample) {
        let totals = &mut self.totals;
        totals.requests += 1;
        totals.bytes = totals.bytes.saturating_add(request.bytes);
        let Some(latency_ns) = request.latency_ns else { return };
        totals.answered += 1;
        totals.misses += u64::from(request.missed);
        totals.max_ns = totals.max_ns.max(latency_ns);
        // The histogram grows up to the highest value: this cannot fail.
        let _ = self.latencies.get_or_insert_with(histogram).record(latency_ns.min(HIGHEST_NS));
    }

    fn merge(&mut self, other: Self) {
        self.totals.add(&other.totals, 1);
        match (&mut self.latencies, other.latencies) {
            (Some(all), Some(more)) => {
                // Both have the same levels: this cannot fail.
                let _ = all.add(more);
            }
            (all, more) => *all = all.take().or(more),
        }
    }

    fn finish(self, seconds: f64) -> Counts {
        let levels = self.latencies.iter().flat_map(|latencies| {
            let levels = latencies.iter_recorded();
            // Latencies of one level count as its middle.
            levels
                .map(|level| (latencies.median_equivalent(level.value_iterated_to()), level.count_at_value()))
        });
        Counts { totals: Totals { seconds, ..self.totals }, levels: levels.collect() }
    }
}

#[expect(clippy::expect_used, reason = "the bounds are constants")]
fn histogram() -> Histogram<u32> {
    let mut histogram = Histogram::new_with_bounds(LOWEST_NS, LOWEST_NS * 2, DIGITS).expect("sound bounds");
    histogram.auto(true);
    histogram
}

#[cfg(test)]
mod tests {
    use super::{Blocks, MAX, RequestSample};
    use model::Nanos;

    fn counted(second: i64, latency_ns: u64) -> RequestSample {
        let arrival = Nanos(7 + second * 1_000_000_000);
        RequestSample { arrival, latency_ns: Some(latency_ns), bytes: 10, missed: latency_ns >= 1_000_000 }
    }

    #[test]
    fn blocks_double_without_losing_counts() {
        let mut blocks = Blocks::new();
        for second in 0..7_200 {
            blocks.add(counted(second, 500_000 + second as u64 * 1_000));
        }
        assert_eq!(blocks.width(), Nanos(32_000_000_000));
        let counts = blocks.finish();
        assert!(counts.len() as i64 <= MAX);
        assert_eq!(counts.iter().map(|block| block.totals.requests).sum::<u64>(), 7_200);
        assert_eq!(
            counts.iter().flat_map(|block| &block.levels).map(|level| u64::from(level.1)).sum::<u64>(),
            7_200
        );
        assert_eq!(counts.iter().map(|block| block.totals.misses).sum::<u64>(), 6_700);
        assert!((counts.iter().map(|block| block.totals.seconds).sum::<f64>() - 7_199.0).abs() < 1e-6);
        assert_eq!(counts.last().unwrap().totals.max_ns, 500_000 + 7_199_000);
    }

    #[test]
    fn accepts_extreme_arrival_times() {
        let mut blocks = Blocks::new();
        for arrival in [Nanos(0), Nanos::MAX, Nanos::MIN, Nanos(5)] {
            blocks.add(RequestSample { arrival, latency_ns: Some(u64::MAX), bytes: u64::MAX, missed: true });
        }
        assert_eq!(blocks.finish().iter().map(|block| block.totals.requests).sum::<u64>(), 4);
    }
}
