//! Block devices, journals and the host, over time. Holds a bounded number of each.

use std::collections::BTreeMap;

use model::{BlockIo, Direction, HostSample, JournalCommit};
use serde::Serialize;

use super::grid::{Cells, Grid, Merge, Sums, rows};
use report::slowest::Slowest;

/// Limits on devices, figures of the host and commits.
const MAX_DEVICES: usize = 64;
const MAX_FIGURES: usize = 600;
const MAX_COMMITS: usize = 1_000;

/// The devices, host figures and journals below the broker.
pub(super) struct Beneath {
    devices: BTreeMap<String, Cells<Sums<6>>>,
    figures: BTreeMap<(&'static str, String, String), Cells<Mean>>,
    commits: Slowest<JournalCommit>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    sum: f64,
    count: u32,
}

impl Merge for Mean {
    fn merge(&mut self, other: Self) {
        self.sum += other.sum;
        self.count = self.count.saturating_add(other.count);
    }
}

/// The block requests of one device.
#[derive(Clone, Debug, Serialize)]
pub struct DeviceData {
    /// Its name.
    pub device: String,
    /// By bucket of issue: the bucket, reads, writes, flushes and others, bytes, and in microseconds the time in the device,
    /// the time before the device, and the longest time in the device.
    pub cells: Vec<Vec<i64>>,
}

/// One figure of the host, about once a second.
#[derive(Clone, Debug, Serialize)]
pub struct FigureData {
    /// Its scope.
    pub scope: &'static str,
    /// Its instance within the scope.
    pub name: String,
    /// The figure, with its unit.
    pub metric: String,
    /// Pairs of bucket and the mean in it.
    pub cells: Vec<(u32, f64)>,
}

/// One commit of a journal; times are nanoseconds after the origin.
#[derive(Clone, Debug, Serialize)]
pub struct CommitData {
    /// Its start.
    pub start_ns: i64,
    /// Its end.
    pub end_ns: i64,
    /// The device.
    pub device: String,
    /// The transaction.
    pub transaction: u32,
    /// Its phases in order, milliseconds, if they were seen.
    pub phases: Vec<(&'static str, i64)>,
    /// Blocks it logged.
    pub blocks: Option<u32>,
}

impl Beneath {
    pub(super) fn new() -> Self {
        Self { devices: BTreeMap::new(), figures: BTreeMap::new(), commits: Slowest::new(MAX_COMMITS) }
    }

    pub(super) fn block_io(&mut self, grid: &Grid, io: &BlockIo) {
        let device = io.device.to_string();
        if self.devices.len() >= MAX_DEVICES && !self.devices.contains_key(&device) {
            return;
        }
        let service = io.latency().at_least_zero().0;
        let is = |direction| i64::from(io.direction == direction);
        self.devices.entry(device).or_default().at(grid, io.start).merge(Sums {
            sums: [
                is(Direction::Read),
                is(Direction::Write),
                is(Direction::Other),
                io.bytes.into(),
                service,
                io.queue_time().map_or(0, |time| time.at_least_zero().0),
            ],
            longest: service,
        });
    }

    pub(super) fn sample(&mut self, grid: &Grid, sample: &HostSample) {
        let figure = (sample.scope.as_str(), sample.name.to_string(), sample.metric.to_string());
        let full = self.figures.len() >= MAX_FIGURES && !self.figures.contains_key(&figure);
        if !full && sample.value.is_finite() {
            self.figures
                .entry(figure)
                .or_default()
                .at(grid, sample.end)
                .merge(Mean { sum: sample.value, count: 1 });
        }
    }

    pub(super) fn commit(&mut self, commit: &JournalCommit) {
        self.commits.offer(commit.latency(), || commit.clone());
    }

    pub(super) fn finish(mut self, grid: &Grid) -> (Vec<DeviceData>, Vec<FigureData>, Vec<CommitData>) {
        let devices = self
            .devices
            .into_iter()
            .map(|(device, cells)| DeviceData { device, cells: rows(&cells.finish(grid, 1), 4) });
        let figures = self.figures.into_iter().map(|((scope, name, metric), cells)| {
            let means = cells.finish(grid, 1).into_iter().map(|(at, mean)| (at, mean.value()));
            FigureData { scope, name, metric, cells: means.collect() }
        });
        let mut commits: Vec<_> = self.commits.take().map(|commit| CommitData::of(grid, &commit)).collect();
        commits.sort_by_key(|commit| commit.start_ns);
        (devices.collect(), figures.collect(), commits)
    }
}

impl CommitData {
    pub(super) fn of(grid: &Grid, commit: &JournalCommit) -> Self {
        let phases = commit.phases.map(|phases| {
            let lengths = [
                ("running", phases.running),
                ("locked", phases.locked),
                ("flushing", phases.flushing),
                ("logging", phases.logging),
            ];
            lengths.map(|(phase, length)| (phase, length.as_millis_rounded())).to_vec()
        });
        Self {
            start_ns: grid.since(commit.start),
            end_ns: grid.since(commit.end),
            device: commit.device.to_string(),
            transaction: commit.transaction,
            phases: phases.unwrap_or_default(),
            blocks: commit.phases.map(|phases| phases.blocks_logged),
        }
    }
}

impl Mean {
    /// The mean, rounded to four significant digits: a chart shows no more, and digits take space.
    fn value(self) -> f64 {
        let mean = self.sum / f64::from(self.count.max(1));
        format!("{mean:.3e}").parse().unwrap_or(mean)
    }
}
