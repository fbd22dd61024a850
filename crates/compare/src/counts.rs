//! Counts of a stretch of time, their sums, and the figures of sums. Does not know which stretches.

use std::sync::Arc;

use crate::figure::{Figure, Figures};

/// Totals of the requests of one or more blocks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    /// The time over which they were counted.
    pub(crate) seconds: f64,
    pub(crate) requests: u64,
    pub(crate) answered: u64,
    pub(crate) bytes: u64,
    pub(crate) misses: u64,
    pub(crate) max_ns: u64,
}

impl Totals {
    /// Adds other totals `times` times.
    pub(crate) fn add(&mut self, other: &Self, times: u64) {
        self.seconds += other.seconds * times as f64;
        self.requests += other.requests * times;
        self.answered += other.answered * times;
        self.bytes = self.bytes.saturating_add(other.bytes.saturating_mul(times));
        self.misses += other.misses * times;
        self.max_ns = self.max_ns.max(other.max_ns);
    }
}

/// Counts of one block.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) totals: Totals,
    /// Latencies, and how many of each; after [`Axis::place`], positions on the axis instead of latencies.
    pub(crate) levels: Vec<(u64, u32)>,
}

/// Every latency counted anywhere, in order: sums are kept by position on it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Axis(Arc<[u64]>);

impl Axis {
    /// The axis of all these blocks.
    pub(crate) fn of<'a>(blocks: impl Iterator<Item = &'a Counts>) -> Self {
        let mut values: Vec<u64> =
            blocks.flat_map(|block| block.levels.iter().map(|level| level.0)).collect();
        values.sort_unstable();
        values.dedup();
        Self(values.into())
    }

    /// Replaces latencies by positions.
    pub(crate) fn place(&self, block: &mut Counts) {
        for level in &mut block.levels {
            level.0 = self.0.partition_point(|&value| value < level.0) as u64;
        }
    }
}

/// Blocks added up.
#[derive(Clone, Debug)]
pub(crate) struct Sum {
    axis: Axis,
    pub(crate) totals: Totals,
    at: Vec<u64>,
}

impl Sum {
    pub(crate) fn new(axis: &Axis) -> Self {
        Self { axis: axis.clone(), totals: Totals::default(), at: vec![0; axis.0.len()] }
    }

    pub(crate) fn of<'a>(axis: &Axis, blocks: impl IntoIterator<Item = &'a Counts>) -> Self {
        let mut sum = Self::new(axis);
        for block in blocks {
            sum.add(block, 1);
        }
        sum
    }

    /// Resets to zero, but keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.totals = Totals::default();
        self.at.fill(0);
    }

    /// Adds a block `times` times.
    pub(crate) fn add(&mut self, block: &Counts, times: u64) {
        self.totals.add(&block.totals, times);
        for &(place, count) in &block.levels {
            if let Some(sum) = self.at.get_mut(place as usize) {
                *sum += u64::from(count) * times;
            }
        }
    }

    /// Adds another sum.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.totals.add(&other.totals, 1);
        for (sum, more) in self.at.iter_mut().zip(&other.at) {
            *sum += more;
        }
    }

    /// Positions on the axis that these shares of latencies do not exceed. The shares are in ascending order. A
    /// position is past the axis's end if there are no latencies.
    pub(crate) fn places<const N: usize>(&self, shares: [f64; N]) -> [u64; N] {
        let mut found = [self.at.len() as u64; N];
        let mut counts = (0_u64..).zip(&self.at);
        let (mut cumulative, mut at) = (0, 0);
        for (slot, share) in found.iter_mut().zip(shares) {
            let rank = ((share * self.totals.answered as f64).ceil() as u64).max(1);
            while cumulative < rank {
                let Some((place, &count)) = counts.next() else { return found };
                cumulative += count;
                at = place;
            }
            *slot = at;
        }
        found
    }

    /// Latencies that these shares, in ascending order, do not exceed; `None` without requests.
    pub(crate) fn quantiles<const N: usize>(&self, shares: [f64; N]) -> [Option<f64>; N] {
        let value =
            |place: u64| self.axis.0.get(place as usize).map(|&value| value.min(self.totals.max_ns) as f64);
        self.places(shares).map(value)
    }

    pub(crate) fn figures(&self) -> Figures {
        let Totals { seconds, requests, answered, bytes, misses, max_ns } = self.totals;
        let mut figures = Figures::default();
        let a_second = |count: u64| (seconds > 0.0).then(|| count as f64 / seconds);
        figures.set(Figure::RequestsPerSecond, a_second(requests));
        figures.set(Figure::BytesPerSecond, a_second(bytes));
        let percentiles = [Figure::P50, Figure::P90, Figure::P99, Figure::P999];
        let shares = percentiles.map(|figure| figure.quantile().unwrap_or(1.0));
        for (figure, value) in percentiles.into_iter().zip(self.quantiles(shares)) {
            figures.set(figure, value);
        }
        figures.set(Figure::Max, (answered > 0).then_some(max_ns as f64));
        figures.set(Figure::SloMisses, (answered > 0).then(|| misses as f64 / answered as f64));
        figures
    }
}

#[cfg(test)]
mod tests {
    use super::{Axis, Counts, Sum, Totals};

    #[test]
    fn quantiles_of_a_sum_match_the_added_blocks() {
        let block = |values: &[u64]| Counts {
            totals: Totals {
                seconds: 1.0,
                requests: values.len() as u64,
                answered: values.len() as u64,
                max_ns: values.iter().copied().max().unwrap_or(0),
                ..Totals::default()
            },
            levels: values.iter().map(|&value| (value, 1)).collect(),
        };
        let mut blocks = [block(&[1, 2, 3, 4, 5]), block(&[6, 7, 8, 9]), block(&[10])];
        let axis = Axis::of(blocks.iter());
        for block in &mut blocks {
            axis.place(block);
        }
        let sum = Sum::of(&axis, &blocks);
        assert_eq!(sum.quantiles([0.5, 0.9, 0.91, 1.0]), [Some(5.0), Some(9.0), Some(10.0), Some(10.0)]);
        let mut twice = Sum::new(&axis);
        twice.add(&blocks[2], 9);
        twice.merge(&Sum::of(&axis, &blocks[..1]));
        assert_eq!(twice.quantiles([0.1, 0.5]), [Some(2.0), Some(10.0)]);
        assert_eq!(Sum::new(&axis).quantiles([0.5]), [None]);
        assert_eq!(Sum::new(&axis).figures(), crate::Figures::default());
    }
}
