//! One time axis for everything a page shows over time. Its buckets double in width as the input grows, so that their
//! number is bounded for any length. Does not know what is counted.

use std::collections::BTreeMap;

use model::Nanos;

/// The narrowest bucket. Widths are this times a power of two.
const FINEST: i64 = 25_000_000;
/// Limit on buckets.
const MAX: i64 = 480;

/// Buckets of the axis per cell of data that is not drawn over time. Such data is summed up over the selected time.
pub(super) const COARSE: i64 = 4;

/// The axis.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grid {
    pub(super) origin: Nanos,
    /// The width of a bucket.
    pub(super) width: i64,
    pub(super) end: Nanos,
}

impl Grid {
    /// Creates an axis that starts here.
    pub(super) fn new(origin: Nanos) -> Self {
        Self { origin, width: FINEST, end: origin }
    }

    /// Extends the axis to this moment.
    pub(super) fn reach(&mut self, at: Nanos) {
        self.end = self.end.max(at);
        while (at - self.origin).0 / self.width >= MAX {
            self.width = self.width.saturating_mul(2);
        }
    }

    /// Number of buckets.
    pub(super) fn buckets(&self) -> u32 {
        self.bucket(self.end) + 1
    }

    /// The bucket of a moment; earlier moments are in the first bucket.
    pub(super) fn bucket(&self, at: Nanos) -> u32 {
        ((at - self.origin).0.max(0) / self.width).min(MAX - 1) as u32
    }

    /// A moment as nanoseconds after the origin. A JavaScript number holds it exactly.
    pub(super) fn since(&self, at: Nanos) -> i64 {
        (at - self.origin).0
    }

    /// The buckets that a span overlaps, each with its share of the time.
    pub(super) fn shares(&self, start: Nanos, end: Nanos) -> impl Iterator<Item = (u32, i64)> + use<> {
        let grid = *self;
        let (first, last) = (grid.bucket(start), grid.bucket(end));
        (first..=last).filter_map(move |bucket| {
            let from = grid.origin + Nanos(i64::from(bucket) * grid.width);
            let until = from + Nanos(grid.width);
            let share = (end.min(until) - start.max(from)).0;
            (share > 0).then_some((bucket, share))
        })
    }
}

/// A value that can be merged with another one.
pub(super) trait Merge: Default {
    /// Adds the other value.
    fn merge(&mut self, other: Self);
}

impl Merge for i64 {
    fn merge(&mut self, other: Self) {
        *self = self.saturating_add(other);
    }
}

/// Sums of one bucket, and the longest single time.
#[derive(Clone, Debug)]
pub(super) struct Sums<const N: usize> {
    pub(super) sums: [i64; N],
    pub(super) longest: i64,
}

impl<const N: usize> Default for Sums<N> {
    fn default() -> Self {
        Self { sums: [0; N], longest: 0 }
    }
}

impl<const N: usize> Merge for Sums<N> {
    fn merge(&mut self, other: Self) {
        self.sums.iter_mut().zip(other.sums).for_each(|(sum, more)| sum.merge(more));
        self.longest = self.longest.max(other.longest);
    }
}

impl<const N: usize> Sums<N> {
    /// The bucket and its sums; the sums from index `times` on are times, converted to microseconds.
    pub(super) fn numbers(&self, bucket: u32, times: usize) -> Vec<i64> {
        let sums = self.sums.iter().enumerate().map(|(at, sum)| if at < times { *sum } else { sum / 1_000 });
        [i64::from(bucket)].into_iter().chain(sums).collect()
    }
}

/// The numbers of each bucket, with the longest time at the end.
pub(super) fn rows<const N: usize>(cells: &BTreeMap<u32, Sums<N>>, times: usize) -> Vec<Vec<i64>> {
    let row = |(&at, bucket): (&u32, &Sums<N>)| {
        let mut numbers = bucket.numbers(at, times);
        numbers.push(bucket.longest / 1_000);
        numbers
    };
    cells.iter().map(row).collect()
}

/// One of the sums over all buckets.
pub(super) fn total<const N: usize>(cells: &BTreeMap<u32, Sums<N>>, which: usize) -> i64 {
    cells.values().filter_map(|bucket| bucket.sums.get(which)).sum()
}

/// The data with the highest ranks, at most `most`; equal ranks are sorted by name.
pub(super) fn highest<R: Ord, T, N: Ord>(
    ranked: impl Iterator<Item = (R, T)>,
    name: impl Fn(&T) -> N,
    most: usize,
) -> Vec<T> {
    let mut ranked: Vec<_> = ranked.collect();
    ranked.sort_by(|(a, of_a), (b, of_b)| b.cmp(a).then_with(|| name(of_a).cmp(&name(of_b))));
    ranked.into_iter().take(most).map(|(_, data)| data).collect()
}

/// Values of the buckets that are not empty.
#[derive(Clone, Debug)]
pub(super) struct Cells<V> {
    width: i64,
    cells: BTreeMap<u32, V>,
}

impl<V> Default for Cells<V> {
    fn default() -> Self {
        Self { width: FINEST, cells: BTreeMap::new() }
    }
}

impl<V: Merge> Cells<V> {
    /// The cell of a bucket of the axis, at its current width.
    pub(super) fn of(&mut self, grid: &Grid, bucket: u32) -> &mut V {
        self.coarsen(grid.width);
        self.cells.entry(bucket).or_default()
    }

    /// The cell of a moment.
    pub(super) fn at(&mut self, grid: &Grid, moment: Nanos) -> &mut V {
        self.of(grid, grid.bucket(moment))
    }

    /// The cells, each as wide as `buckets` buckets of the axis.
    pub(super) fn finish(mut self, grid: &Grid, buckets: i64) -> BTreeMap<u32, V> {
        self.coarsen(grid.width.saturating_mul(buckets));
        self.cells
    }

    fn coarsen(&mut self, width: i64) {
        if width <= self.width {
            return;
        }
        let factor = u32::try_from(width / self.width).unwrap_or(u32::MAX);
        self.width = width;
        for (bucket, value) in std::mem::take(&mut self.cells) {
            self.cells.entry(bucket / factor).or_default().merge(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Cells, FINEST, Grid, MAX};
    use model::Nanos;

    #[test]
    fn buckets_double_without_losing_counts() {
        let mut grid = Grid::new(Nanos(1_000));
        let mut cells = Cells::<i64>::default();
        for second in 0..3_600 {
            let at = Nanos(1_000 + second * 1_000_000_000);
            grid.reach(at);
            *cells.at(&grid, at) += 1;
        }
        assert!(i64::from(grid.buckets()) <= MAX && grid.width % FINEST == 0);
        let cells = cells.finish(&grid, 1);
        assert_eq!(cells.values().sum::<i64>(), 3_600);
        assert!(cells.keys().all(|&bucket| bucket < grid.buckets()));
        let each = grid.width / 1_000_000_000;
        assert!(cells.values().all(|&count| count <= each + 1), "{each} {cells:?}");
    }

    #[test]
    fn span_is_split_between_its_buckets() {
        let mut grid = Grid::new(Nanos(0));
        grid.reach(Nanos(10 * FINEST));
        let (start, end) = (Nanos(FINEST / 2), Nanos(3 * FINEST + 7));
        let shares: Vec<_> = grid.shares(start, end).collect();
        assert_eq!(shares, [(0, FINEST - FINEST / 2), (1, FINEST), (2, FINEST), (3, 7)]);
        // A span that starts before the axis counts from the axis' start.
        assert_eq!(grid.shares(Nanos(-5), Nanos(5)).collect::<Vec<_>>(), [(0, 5)]);
        assert_eq!(grid.shares(Nanos(5), Nanos(5)).count(), 0);
    }
}
