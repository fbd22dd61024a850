//! Measures how late threads wake up next to a recorder. A burst of the recorder's work delays a thread of the broker
//! that wakes up on the same CPU; the scheduler's policy helps only within one group.
//!
//! A broker serves an even load. One thread on each CPU sleeps until fixed times and records how late it wakes up, in
//! windows without a watcher, with `record` in the bench's own session, and with `record` in a cgroup with the weight
//! that the service's unit had, or idle. Windows of all kinds alternate, and ratios are of windows of the same round,
//! because the broker, its load and the hypervisor delay threads too.
//!
//! If `BROKERSCOPE_BEFORE` names another `brokerscope`, its windows are included.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::prctl::set_timerslack;
use nix::unistd::Pid;
use serde_json::Value;

use crate::kernel::PRODUCE;
use crate::kernel::test_bed::{Setting, TestBed};
use crate::kernel::watcher::Watcher;
use crate::target::{Bound, Target};
use crate::{stop, table};

/// Requests per second, of one record each.
const RATE: u64 = 5_100;
/// Odd, so that the median is a window.
const ROUNDS: usize = 3;
const WINDOW: Duration = Duration::from_secs(6);
/// Warm-up for the JVM's compiler.
const WARM_UP: Duration = Duration::from_secs(12);
/// Longer than all rounds; the load is ended before.
const LOAD_SECONDS: u64 = 3_600;
/// Interval between two wake-up times.
const BEAT: Duration = Duration::from_millis(1);
/// A window with a larger share of steal time is discarded.
const MAX_STEAL: f64 = 0.02;
/// Maximum p99 with `record` in a separate cgroup.
const MAX_P99_MS: f64 = 0.3;
/// What `CPUWeight=10` sets: of 100 in version 2, of 1,024 shares in version 1.
const WEIGHT: &str = "10";
const SHARES: &str = "102";

/// The recorder's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Session,
    Weight,
    Idle,
}

/// The watcher: none, or the recorder with this number in this place.
type Kind = Option<(usize, Place)>;

/// Measures and prints a line for each kind.
pub(crate) fn hold(brokerscope: &Path, directory: &Path) -> anyhow::Result<Vec<Target>> {
    let bed = TestBed::set(&directory.join("wakeups"), &Setting::default())?;
    let before = std::env::var_os("BROKERSCOPE_BEFORE").map(PathBuf::from);
    let binaries: Vec<PathBuf> = before.into_iter().chain([brokerscope.to_owned()]).collect();
    let places = [Place::Session, Place::Weight, Place::Idle];
    let of_binary = |number| places.map(|place| Some((number, place)));
    let mut kinds: Vec<Kind> = vec![None];
    kinds.extend((0..binaries.len()).flat_map(of_binary));
    let _load = Load::start(&bed)?;
    sleep(WARM_UP);
    let mut windows = Vec::new();
    for round in 0..ROUNDS {
        for &kind in &kinds {
            windows.push(Window::hold(&bed, &binaries, kind, round)?);
        }
        kinds.rotate_left(1);
    }
    let nobody = kinds.iter().position(Option::is_none).unwrap_or(0);
    kinds.rotate_left(nobody);
    Ok(judge(&windows, &kinds, binaries.len()))
}

fn judge(windows: &[Window], kinds: &[Kind], binaries: usize) -> Vec<Target> {
    let quiet_windows: Vec<&Window> = windows.iter().filter(|window| window.steal <= MAX_STEAL).collect();
    println!(
        "threads that wake every {BEAT:?} on each CPU beside a broker of {RATE} requests/s: how late, in ms; medians of windows \
         (least to greatest); {} of {} windows had more than {:.0} % steal and are left out",
        windows.len() - quiet_windows.len(),
        windows.len(),
        MAX_STEAL * 100.0
    );
    table::print(&HEADINGS, kinds.iter().map(|&kind| row(&quiet_windows, kind, binaries)));
    let nobody = median(&of_kind(&quiet_windows, None, |window| window.late_ms[1]));
    if nobody > MAX_P99_MS {
        println!(
            "nobody's own p99 is {nobody:.2} ms: the broker and its load alone miss the target here; only the differences say \
             what a recorder does"
        );
    }
    let target = |(place, name)| {
        let p99 = of_kind(&quiet_windows, Some((binaries - 1, place)), |window| window.late_ms[1]);
        Target::of_runs(format!("wakeups: p99 beside record, {name}"), &p99, Bound::AtMost(MAX_P99_MS), "ms")
    };
    [(Place::Weight, "cgroup, weight 10"), (Place::Idle, "cgroup, idle")].map(target).into()
}

const HEADINGS: [&str; 9] = [
    "watched by",
    "windows",
    "p50",
    "p99",
    "p99.9",
    "p99 less nobody's",
    "p99 / nobody's",
    "recorder's CPU",
    "lost",
];

fn row(windows: &[&Window], kind: Kind, binaries: usize) -> Vec<String> {
    let figure = |of: fn(&Window) -> f64| format_range(&of_kind(windows, kind, of));
    let pairs = windows.iter().filter(|window| window.kind == kind).filter_map(|window| {
        let nobody = windows.iter().find(|other| other.kind.is_none() && other.round == window.round)?;
        Some((window.late_ms[1], nobody.late_ms[1]))
    });
    let pairs: Vec<(f64, f64)> = pairs.collect();
    let of_pairs = |of: fn(&(f64, f64)) -> f64| format_range(&pairs.iter().map(of).collect::<Vec<_>>());
    vec![
        name(kind, binaries),
        of_kind(windows, kind, |_| 0.0).len().to_string(),
        figure(|window| window.late_ms[0]),
        figure(|window| window.late_ms[1]),
        figure(|window| window.late_ms[2]),
        of_pairs(|(with, without)| with - without),
        of_pairs(|(with, without)| with / without),
        format!("{:.1} %", median(&of_kind(windows, kind, |window| window.recorder)) * 100.0),
        of_kind(windows, kind, |window| window.lost as f64).iter().sum::<f64>().to_string(),
    ]
}

fn name(kind: Kind, binaries: usize) -> String {
    let Some((number, place)) = kind else { return "nobody".to_owned() };
    let of = if number + 1 < binaries { "record before" } else { "record" };
    let place = match place {
        Place::Session => "same session",
        Place::Weight => "cgroup, weight 10",
        Place::Idle => "cgroup, idle",
    };
    format!("{of}, {place}")
}

fn of_kind(windows: &[&Window], kind: Kind, of: impl Fn(&Window) -> f64) -> Vec<f64> {
    windows.iter().filter(|window| window.kind == kind).map(|window| of(window)).collect()
}

fn format_range(figures: &[f64]) -> String {
    let (least, most) =
        figures.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), &f| (a.min(f), b.max(f)));
    if figures.is_empty() {
        return "-".to_owned();
    }
    format!("{:.3} ({least:.3} to {most:.3})", median(figures))
}

fn median(figures: &[f64]) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

/// A window with one kind of watcher.
struct Window {
    kind: Kind,
    round: usize,
    /// Lateness of all threads: p50, p99 and p99.9.
    late_ms: [f64; 3],
    /// Share of steal time of all CPUs.
    steal: f64,
    /// CPU time of the recorder: 1 is one CPU.
    recorder: f64,
    /// Losses in the recording.
    lost: u64,
}

impl Window {
    fn hold(bed: &TestBed, binaries: &[PathBuf], kind: Kind, round: usize) -> anyhow::Result<Self> {
        stop::check()?;
        let Some((number, place)) = kind else {
            let (late_ms, steal) = measure()?;
            return Ok(Self { kind, round, late_ms, steal, recorder: 0.0, lost: 0 });
        };
        let binary = binaries.get(number).context("no such binary")?;
        let group = (place != Place::Session).then(|| Group::make(place)).transpose()?;
        let starter = match &group {
            Some(group) => group.starter(binary, &bed.path("starter"))?,
            None => binary.clone(),
        };
        let recording = bed.path("recording");
        let watcher = Watcher::brokerscope(&starter, &recording, bed.pid(), &[])?;
        let before = watcher.processor_time()?;
        let (late_ms, steal) = measure()?;
        let ran = watcher.processor_time()?.saturating_sub(before);
        // An idle group may not finish for minutes if others use all CPUs.
        if place == Place::Idle {
            group.iter().try_for_each(|group| group.write("cpu.idle", "0"))?;
        }
        watcher.stop()?;
        let lost = sum_losses(&recording)?;
        fs::remove_dir_all(&recording)?;
        Ok(Self { kind, round, late_ms, steal, recorder: ran.as_secs_f64() / WINDOW.as_secs_f64(), lost })
    }
}

/// Measures a window that starts now: how late threads woke up, and the share of steal time.
fn measure() -> anyhow::Result<([f64; 3], f64)> {
    let before = cpu_ticks()?;
    let start = Instant::now();
    let cpus = thread::available_parallelism()?.get();
    let sleepers: Vec<_> = (0..cpus).map(|cpu| thread::spawn(move || lateness(cpu, start))).collect();
    let mut late: Vec<Duration> = Vec::new();
    for sleeper in sleepers {
        late.extend(sleeper.join().map_err(|_| anyhow::anyhow!("a sleeping thread failed"))??);
    }
    let after = cpu_ticks()?;
    late.sort_unstable();
    let at = |share: f64| {
        late.get((late.len() as f64 * share) as usize).map_or(f64::NAN, |late| late.as_secs_f64() * 1e3)
    };
    let steal = (after.0 - before.0) as f64 / (after.1 - before.1).max(1) as f64;
    Ok(([at(0.5), at(0.99), at(0.999)], steal))
}

/// Sleeps until each beat on this CPU. A missed beat counts together with the next one.
fn lateness(cpu: usize, start: Instant) -> anyhow::Result<Vec<Duration>> {
    let mut only = CpuSet::new();
    only.set(cpu)?;
    sched_setaffinity(Pid::from_raw(0), &only)?;
    set_timerslack(1)?;
    let mut late = Vec::new();
    let mut due = start + BEAT;
    while due < start + WINDOW {
        sleep(due.saturating_duration_since(Instant::now()));
        let now = Instant::now();
        late.push(now.saturating_duration_since(due));
        while due <= now {
            due += BEAT;
        }
    }
    Ok(late)
}

/// Stolen ticks of all CPUs, and all ticks (`proc_stat(5)`; guest time is in user time).
fn cpu_ticks() -> anyhow::Result<(u64, u64)> {
    let stat = fs::read_to_string("/proc/stat").context("/proc/stat")?;
    let line = stat.lines().next().context("/proc/stat is empty")?;
    let ticks = line.split_whitespace().skip(1).take(8).map(str::parse::<u64>);
    let ticks = ticks.collect::<Result<Vec<_>, _>>()?;
    Ok((ticks.last().copied().unwrap_or(0), ticks.iter().sum()))
}

/// All losses in a recording's manifest.
fn sum_losses(recording: &Path) -> anyhow::Result<u64> {
    let manifest: Value = serde_json::from_str(&fs::read_to_string(recording.join("manifest.json"))?)?;
    let losses = manifest.get("losses").and_then(Value::as_object).context("the manifest has no losses")?;
    Ok(losses.values().filter_map(Value::as_u64).sum())
}

/// An even load, until it is dropped.
struct Load(Child);

impl Load {
    fn start(bed: &TestBed) -> anyhow::Result<Self> {
        let numbers = [u64::from(bed.port()), bed.partitions().into(), 1, RATE, LOAD_SECONDS];
        let mut producer = Command::new(std::env::current_exe()?);
        producer.arg(PRODUCE).args(numbers.map(|number| number.to_string()));
        Ok(Self(producer.stdin(Stdio::null()).stdout(Stdio::null()).spawn()?))
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        // Both fail if it has already ended, which is fine.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A cgroup for the recorder, with another process. A lone recorder would make the group idle by itself. Removed when
/// dropped.
struct Group {
    directory: PathBuf,
    company: Child,
}

impl Group {
    fn make(place: Place) -> anyhow::Result<Self> {
        let version_1 = Path::new("/sys/fs/cgroup/cpu/cpu.shares").exists();
        let root = Path::new(if version_1 { "/sys/fs/cgroup/cpu" } else { "/sys/fs/cgroup" });
        if !version_1 {
            fs::write(root.join("cgroup.subtree_control"), "+cpu").context("cgroup.subtree_control")?;
        }
        let directory = root.join(format!("brokerscope-bench-{}", std::process::id()));
        fs::create_dir(&directory).with_context(|| directory.display().to_string())?;
        let company = Command::new("sleep").arg("3600").stdin(Stdio::null()).spawn()?;
        let group = Self { directory, company };
        let (file, value) = match (place, version_1) {
            (Place::Idle, _) => ("cpu.idle", "1"),
            (_, true) => ("cpu.shares", SHARES),
            (_, false) => ("cpu.weight", WEIGHT),
        };
        group.write(file, value)?;
        group.write("cgroup.procs", &group.company.id().to_string())?;
        Ok(group)
    }

    fn write(&self, file: &str, value: &str) -> anyhow::Result<()> {
        let path = self.directory.join(file);
        fs::write(&path, value).with_context(|| path.display().to_string())
    }

    /// A script that runs the binary in the group.
    fn starter(&self, binary: &Path, script: &Path) -> anyhow::Result<PathBuf> {
        let (procs, binary) = (self.directory.join("cgroup.procs"), binary.display());
        let text = format!("#!/bin/sh\necho $$ >'{}' && exec '{binary}' \"$@\"\n", procs.display());
        fs::write(script, text)?;
        fs::set_permissions(script, fs::Permissions::from_mode(0o755))?;
        ensure!(self.directory.is_dir(), "the group is gone");
        Ok(script.to_owned())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // All fail if it has already ended, which is fine.
        let _ = self.company.kill();
        let _ = self.company.wait();
        // The process that detaches the hooks outlives its recorder by some seconds.
        for _ in 0..200 {
            if fs::remove_dir(&self.directory).is_ok() {
                return;
            }
            sleep(Duration::from_millis(100));
        }
        println!("{} is left: processes are in it", self.directory.display());
    }
}
