//! Measures an always-on recorder's CPU time, second by second: while nothing is slow, while the journal is, and after.

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use lab::device::DeviceOptions;
use lab::volume::{FileSystem, VolumeOptions};

use super::load::PacedLoad;
use super::window::{ran_between, thread_times};
use super::{ONE_RECORD, WARM_UP};
use crate::kernel::latencies::Quantiles;
use crate::kernel::test_bed::{Setting, TestBed};
use crate::kernel::watcher::Watcher;
use crate::target::{Bound, Target};
use crate::{stop, table};

/// Its name among the loads.
pub(super) const SHAPE: &str = "incident";
/// Size of the sparse image; has room for everything the load writes.
const VOLUME_BYTES: u64 = 3 << 30;
const SLOWER_THAN: &str = "65ms";
/// Delay of each write to the journal while it is slow.
const COMMIT_MS: u64 = 150;
/// Time between the recorder's start and the measurement, for its one-time reads.
const SETTLE: Duration = Duration::from_secs(15);
const CALM_SECONDS: usize = 60;
const INCIDENT_SECONDS: usize = 30;
const CALM_PERCENT: f64 = 0.3;
const INCIDENT_PERCENT: f64 = 3.0;

/// A phase of the run: the recorder's CPU time in each second, in per cent of a core, and the load's results.
struct Phase {
    name: &'static str,
    mean: f64,
    least: f64,
    greatest: f64,
    seen: Quantiles,
}

/// Measures, prints a table, and returns the results.
pub(super) fn hold(brokerscope: &Path, directory: &Path) -> anyhow::Result<Vec<Target>> {
    let device = DeviceOptions { size_bytes: VOLUME_BYTES, seed: 11 };
    let volume =
        VolumeOptions { device, file_system: FileSystem::Ext4, mount_options: "commit=1".to_owned() };
    let mut bed = TestBed::set_slow(&directory.join("overhead"), &Setting::default(), &volume)?;
    let mut load = PacedLoad::start(&bed, ONE_RECORD)?;
    sleep(WARM_UP);
    let watcher = Watcher::always_on(brokerscope, &bed.path("recording"), bed.pid(), SLOWER_THAN)?;
    sleep(SETTLE);
    let calm = Phase::measure("nothing is slow", CALM_SECONDS, &mut load, &watcher)?;
    bed.volume().context("a test bed without a device")?.inject_journal_delay(COMMIT_MS, COMMIT_MS)?;
    let incident = Phase::measure("the journal is slow", INCIDENT_SECONDS, &mut load, &watcher)?;
    bed.volume().context("a test bed without a device")?.device().clear()?;
    let after = Phase::measure("after", CALM_SECONDS, &mut load, &watcher)?;
    println!("an always-on recorder, {}:", ONE_RECORD.describe());
    table::print(
        &["phase", "requests", "of a core: mean %", "greatest second %", "p50 ms", "p99 ms", "over 2 ms, %"],
        [&calm, &incident, &after].map(Phase::row),
    );
    println!("{}", watcher.stop()?.trim());
    Ok(vec![calm.target(CALM_PERCENT), incident.target(INCIDENT_PERCENT)])
}

impl Phase {
    fn measure(
        name: &'static str,
        seconds: usize,
        load: &mut PacedLoad,
        watcher: &Watcher,
    ) -> anyhow::Result<Self> {
        load.begin()?;
        let of_a_second = (0..seconds).map(|_| percent_of_a_second(watcher.pid()));
        let percents = of_a_second.collect::<anyhow::Result<Vec<_>>>()?;
        load.end()?;
        let mean = percents.iter().sum::<f64>() / percents.len() as f64;
        let least = percents.iter().copied().fold(f64::INFINITY, f64::min);
        let greatest = percents.iter().copied().fold(0.0, f64::max);
        Ok(Self { name, mean, least, greatest, seen: load.read_quantiles()? })
    }

    fn row(&self) -> Vec<String> {
        let Quantiles { requests, p50, p99, slow, .. } = self.seen;
        let figures = [self.mean, self.greatest, p50, p99, slow * 100.0].map(|figure| format!("{figure:.2}"));
        [vec![self.name.to_owned(), requests.to_string()], figures.into()].concat()
    }

    /// The target is for the mean: seconds with slow requests cost more than others.
    fn target(&self, most: f64) -> Target {
        Target {
            what: format!("always-on: {SHAPE}: recorder, of a core, {}", self.name),
            measured: self.mean,
            spread: Some((self.least, self.greatest)),
            bound: Bound::AtMost(most),
            unit: "%",
        }
    }
}

/// CPU time of a process in the next second, in per cent of a core. The scheduler counts it.
fn percent_of_a_second(pid: u32) -> anyhow::Result<f64> {
    stop::check()?;
    let (before, begun) = (thread_times(pid)?, Instant::now());
    sleep(Duration::from_secs(1));
    let after = thread_times(pid)?;
    Ok(ran_between(&before, &after).as_secs_f64() / begun.elapsed().as_secs_f64() * 100.0)
}
