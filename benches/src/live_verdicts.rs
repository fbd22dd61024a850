//! Measures `explain live` on a real broker: the lag of its verdicts, and its CPU time, under a steady load with a
//! journal that is sometimes slow.
//!
//! A verdict's lag is from the captured end of its request to the moment when its line can be read. The part `kernel`
//! measures the run time of its BPF programs in the broker's threads.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, ensure};
use lab::device::DeviceOptions;
use lab::volume::{FileSystem, Volume, VolumeOptions};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::Deserialize;
use serde_json::Value;

use crate::kernel::Load;
use crate::kernel::accounts::processor_time;
use crate::kernel::run::measure;
use crate::kernel::test_bed::{Setting, TestBed};
use crate::kernel::watcher::Kind;
use crate::target::{Bound, Target};
use crate::{stop, table};

/// Sparse.
const VOLUME_BYTES: u64 = 2 << 30;
const WARM_UP: Load = Load { records: 1, rate: 5_000, seconds: 3 };
const LOAD: Load = Load { records: 1, rate: 5_000, seconds: 20 };
/// Alternating lengths of slow and normal journal operation.
const SLOW: Duration = Duration::from_millis(1_500);
const QUICK: Duration = Duration::from_millis(2_500);
/// Interval at which to check for the end.
const GLANCE: Duration = Duration::from_millis(20);
const INJECTED_MS: (u64, u64) = (80, 160);
const SLOWER_THAN: &str = "50ms";
/// Timeout for attaching, and for ending.
const PATIENCE: Duration = Duration::from_secs(120);
/// Its message once everything is attached.
const BEGUN: &str = "explaining requests of broker";
const LEAST_VERDICTS: usize = 100;
const LAG_MS: f64 = 2_000.0;
const CORE_PERCENT: f64 = 20.0;

/// Measures, prints a table, and returns the results.
pub(crate) fn hold(brokerscope: &Path, directory: &Path) -> anyhow::Result<Vec<Target>> {
    let device = DeviceOptions { size_bytes: VOLUME_BYTES, seed: 7 };
    let mount_options = "commit=1".to_owned();
    let volume = VolumeOptions { device, file_system: FileSystem::Ext4, mount_options };
    let sites = directory.join("live-verdicts");
    let mut bed = TestBed::set_slow(&sites, &Setting::default(), &volume)?;
    measure(&bed, Kind::Nobody, WARM_UP, &[])?;
    let mut explaining = Explaining::start(brokerscope, &bed)?;
    // After this run, one-time reads are done.
    measure(&bed, Kind::Brokerscope, WARM_UP, &[])?;
    let (per_second, percent) = load(&mut bed, explaining.child.id())?;
    let VerdictLags { mut lags_ms, requests, lost, lag } = explaining.stop()?;
    lags_ms.sort_by(f64::total_cmp);
    ensure!(lags_ms.len() >= LEAST_VERDICTS, "only {} requests were slow", lags_ms.len());
    let at = |share: usize| {
        let last = lags_ms.len().saturating_sub(1);
        lags_ms.get((lags_ms.len() * share / 100).min(last)).copied().unwrap_or(f64::NAN)
    };
    let (median, p99, longest) = (at(50), at(99), at(100));
    println!("explain live, {} requests/s answered, the journal slow now and then:", per_second.round());
    let row = [requests as f64, lags_ms.len() as f64, median, p99, longest, percent];
    table::print(
        &["requests seen", "verdicts", "lag median ms", "p99 ms", "max ms", "of a core, %"],
        std::iter::once(row.iter().map(|figure| format!("{figure:.0}")).collect()),
    );
    println!("lost: {lost}; behind, by its own account: {lag}");
    let target = |what: &str, measured, most, unit| Target {
        what: what.to_owned(),
        measured,
        spread: None,
        bound: Bound::AtMost(most),
        unit,
    };
    Ok(vec![
        target("live verdicts at 5,000/s: the longest behind", longest, LAG_MS, "ms"),
        target("live verdicts at 5,000/s: of a core", percent, CORE_PERCENT, "%"),
    ])
}

/// Runs the load with a journal that is slow at intervals: returns the rate of answers, and the CPU time of
/// `explaining` meanwhile, in per cent.
fn load(bed: &mut TestBed, explaining: u32) -> anyhow::Result<(f64, f64)> {
    let mut volume = bed.take_volume().context("a test bed without a device")?;
    let over = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        let steering = scope.spawn(move || {
            let steered = slow_in_turns(&mut volume, over);
            (volume, steered)
        });
        let loaded = loaded(bed, explaining);
        over.store(true, Ordering::Relaxed);
        let (volume, steered) = steering.join().map_err(|_| anyhow::anyhow!("who steers the device died"))?;
        bed.give_back(volume);
        steered.and(loaded)
    })
}

/// Makes the journal slow at intervals until the end; then restores it.
fn slow_in_turns(volume: &mut Volume, over: &AtomicBool) -> anyhow::Result<()> {
    let goes_on = |time: Duration| {
        let end = Instant::now() + time;
        while Instant::now() < end && !over.load(Ordering::Relaxed) {
            sleep(GLANCE);
        }
        !over.load(Ordering::Relaxed)
    };
    while goes_on(QUICK) {
        volume.inject_journal_delay(INJECTED_MS.0, INJECTED_MS.1)?;
        goes_on(SLOW);
        volume.device().clear()?;
    }
    Ok(())
}

fn loaded(bed: &TestBed, explaining: u32) -> anyhow::Result<(f64, f64)> {
    let (cpu, wall) = (processor_time(explaining)?, Instant::now());
    let run = measure(bed, Kind::Brokerscope, LOAD, &[])?;
    let took = processor_time(explaining)?.saturating_sub(cpu);
    Ok((run.seen.per_second(), took.as_secs_f64() * 100.0 / wall.elapsed().as_secs_f64()))
}

/// A running `explain live`, whose verdicts are read as they come; killed when dropped.
struct Explaining {
    child: Child,
    reader: Option<JoinHandle<anyhow::Result<VerdictLags>>>,
}

/// Its results.
#[derive(Default)]
struct VerdictLags {
    /// Times from a request's end to its verdict's line, in milliseconds.
    lags_ms: Vec<f64>,
    requests: u64,
    /// Its own report of losses and of its lag.
    lost: String,
    lag: String,
}

/// The parts of a line that are parsed: only few, because the reader uses one of the two CPUs that all share.
#[derive(Deserialize)]
struct Line<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    request: Option<EndState>,
    requests: Option<u64>,
    losses: Option<Value>,
    lag: Option<Value>,
}

#[derive(Deserialize)]
struct EndState {
    end_ns: i64,
}

impl Explaining {
    fn start(brokerscope: &Path, bed: &TestBed) -> anyhow::Result<Self> {
        let mut child = Command::new(brokerscope)
            .args(["explain", "live", "--format", "json", "--slower-than", SLOWER_THAN])
            .args(["--pid", &bed.pid().to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot run {}", brokerscope.display()))?;
        let output = child.stdout.take().context("no pipe")?;
        let errors = BufReader::new(child.stderr.take().context("no pipe")?);
        let (sender, receiver) = std::sync::mpsc::channel();
        // Reads to the end, so that the process never waits for a reader.
        spawn(move || {
            for line in errors.lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        let explaining = Self { child, reader: Some(spawn(move || read(output))) };
        let end = Instant::now() + PATIENCE;
        let mut log_lines = Vec::new();
        loop {
            stop::check()?;
            let left = end.saturating_duration_since(Instant::now());
            let line =
                receiver.recv_timeout(left).with_context(|| format!("it did not begin: {log_lines:?}"))?;
            if line.contains(BEGUN) {
                return Ok(explaining);
            }
            log_lines.push(line);
        }
    }

    /// Ends it as Ctrl-C does.
    fn stop(&mut self) -> anyhow::Result<VerdictLags> {
        kill(Pid::from_raw(self.child.id() as i32), Signal::SIGINT)?;
        let reader = self.reader.take().context("it was stopped before")?;
        let end = Instant::now() + PATIENCE;
        while !reader.is_finished() {
            ensure!(Instant::now() < end, "explain live does not end");
            sleep(Duration::from_millis(20));
        }
        let status = self.child.wait()?;
        ensure!(status.success(), "explain live ended with {status}");
        reader.join().map_err(|_| anyhow::anyhow!("its reader died"))?
    }
}

impl Drop for Explaining {
    fn drop(&mut self) {
        // Both fail if it has already ended, which is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read(output: ChildStdout) -> anyhow::Result<VerdictLags> {
    let mut verdict_lags = VerdictLags::default();
    for line in BufReader::new(output).lines() {
        let (line, now_ns) = (line?, now_ns());
        let object: Line = serde_json::from_str(&line)?;
        match object.kind {
            "verdict" => {
                let EndState { end_ns } = object.request.context("a verdict without a request")?;
                verdict_lags.lags_ms.push((now_ns - end_ns) as f64 / 1e6);
            }
            "summary" => {
                verdict_lags.requests = object.requests.unwrap_or_default();
                verdict_lags.lost = object.losses.unwrap_or_default().to_string();
                verdict_lags.lag = object.lag.unwrap_or_default().to_string();
            }
            _ => {}
        }
    }
    Ok(verdict_lags)
}

fn now_ns() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as i64)
}
