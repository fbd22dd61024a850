//! The 99.9th percentile over the time of the run, one row per configuration: its repetitions are overlaid.

use model::Nanos;

use crate::counts::{Axis, Sum};
use crate::resample::PreparedRun;

/// Slow requests of each configuration over the time of its runs.
#[derive(Clone, Debug, PartialEq)]
pub struct OverTime {
    /// The width of a cell.
    pub bucket: Nanos,
    /// The 99.9th percentile in nanoseconds in each cell of each configuration. It is computed over the requests of all
    /// its runs that arrived then: the slowest if there were fewer than a thousand, `None` if there was none. All rows
    /// have the same length.
    pub rows: Vec<Vec<Option<u64>>>,
}

impl OverTime {
    /// The lowest and the highest cell: the range of a scale.
    pub fn range(&self) -> Option<(u64, u64)> {
        let cells = || self.rows.iter().flatten().flatten().copied();
        cells().min().zip(cells().max())
    }
}

/// Every configuration's blocks.
#[derive(Clone, Debug)]
pub(crate) struct Rows {
    axis: Axis,
    runs: Vec<Vec<PreparedRun>>,
}

impl Rows {
    pub(crate) fn of(axis: Axis, runs: Vec<Vec<PreparedRun>>) -> Self {
        Self { axis, runs }
    }

    pub(crate) fn over_time(&self, most: usize) -> OverTime {
        let runs = || self.runs.iter().flatten();
        let widest = runs().map(|run| run.width.0).max().unwrap_or(1).max(1);
        let length = runs().map(|run| run.width.0.saturating_mul(run.blocks.len() as i64)).max().unwrap_or(0);
        let each = (length as u64).div_ceil(widest as u64).div_ceil(most.max(1) as u64).max(1);
        let bucket = widest.saturating_mul(each as i64);
        let cells = (length as u64).div_ceil(bucket as u64) as usize;
        let rows = self.runs.iter().map(|runs| self.row(runs, bucket, cells)).collect();
        OverTime { bucket: Nanos(bucket), rows }
    }

    fn row(&self, runs: &[PreparedRun], bucket: i64, cells: usize) -> Vec<Option<u64>> {
        let mut sum = Sum::new(&self.axis);
        let cell = |cell: usize| {
            sum.clear();
            for run in runs {
                let each = (bucket / run.width.0.max(1)) as usize;
                run.blocks.iter().skip(cell * each).take(each).for_each(|block| sum.add(block, 1));
            }
            sum.quantiles([0.999])[0].map(|value| value as u64)
        };
        (0..cells).map(cell).collect()
    }
}
