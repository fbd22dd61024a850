//! Observations of causes that nobody injected, independent of brokerscope. The sources are the JVM's own log of its
//! pauses, and the kernel's statistics. A real collection during an injected stall is as true a cause of what it slowed
//! as the stall.
//!
//! Does not know which requests it slowed: [`super::score`] decides that, by time.

use std::os::linux::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{fs, thread};

use serde::{Deserialize, Serialize};

use super::plan::Truth;
use crate::client::now_ns;
use crate::error::{Error, Result};
use crate::files;
use crate::jvm::Pause;
use crate::process::Background;

/// The JVM's log has whole milliseconds.
const STAMP_NS: i64 = 1_000_000;
/// Pauses shorter than this slow no request over any threshold.
const SHORTEST_NS: i64 = 1_000_000;
/// The shortest wait for a processor that is recorded: the slowest requests of an idle broker take about a millisecond.
const SHORTEST_WAIT_NS: i64 = 100_000;

/// A stretch of time with an observed cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Observation {
    /// Its start, UTC nanoseconds.
    pub(super) start_ns: i64,
    /// Its end.
    pub(super) end_ns: i64,
    /// How much of the stretch it took, if it is not known which part; without this, all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) length_ns: Option<i64>,
    /// The causes that are right for a request that lies mostly in it.
    pub(super) truth: Truth,
    /// Whether nothing else can have happened in it, because all threads were stopped.
    pub(super) alone: bool,
    /// Its description.
    pub(super) said: String,
}

impl Observation {
    /// Observations from the log of the broker's own JVM.
    pub(super) fn by_jvm(pauses: &[Pause]) -> Vec<Self> {
        let (gc, safepoint) = ("gc-pause", "safepoint");
        let of_pause = |pause: &Pause| {
            // The log does not say which thread was late, nor what it was doing.
            let truth = match (pause.was_long_to_reach(), pause.is_collection()) {
                (true, true) => Truth::of(&[safepoint, gc]).through(&[safepoint]),
                (true, false) => Truth::of(&[safepoint]).through(&[safepoint]),
                (false, true) => Truth::of(&[gc]),
                (false, false) => Truth::of(&[safepoint]),
            };
            Self { alone: !pause.was_long_to_reach(), ..Self::during(pause, truth, "the JVM's log") }
        };
        long(pauses).map(of_pause).collect()
    }

    /// Observations from the JVM log of a follower. A follower fetches nothing during a pause.
    pub(super) fn by_follower(pauses: &[Pause]) -> Vec<Self> {
        let truth = Truth::of(&["replication-wait"]).through(&["replication-wait"]);
        long(pauses).map(|pause| Self::during(pause, truth.clone(), "a follower's log")).collect()
    }

    fn during(pause: &Pause, truth: Truth, by: &str) -> Self {
        let Pause { operation, start_ns, end_ns, reaching_ns } = pause;
        let [length_ms, reaching_ms] = [pause.length_ns(), *reaching_ns].map(|ns| ns / 1_000_000);
        let said = format!("{by}: {operation}, {length_ms} ms, {reaching_ms} ms of it until all had stopped");
        observation(*start_ns, end_ns.saturating_add(STAMP_NS), truth, said)
    }

    /// The part of a stretch in which it can have been. Includes the most that it took of that part, in nanoseconds.
    fn part_of(&self, start_ns: i64, end_ns: i64) -> Option<Part> {
        let (start, end) = (self.start_ns.max(start_ns), self.end_ns.min(end_ns));
        let most = self.length_ns.filter(|length| *length < end.saturating_sub(start));
        (start < end).then_some(Part { start, end, most })
    }
}

fn long(pauses: &[Pause]) -> impl Iterator<Item = &Pause> {
    pauses.iter().filter(|pause| pause.length_ns() >= SHORTEST_NS)
}

/// A part of a stretch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Part {
    start: i64,
    end: i64,
    /// The most that it took of the part; without this, all of it.
    most: Option<i64>,
}

/// Nanoseconds of a stretch covered by the observations that `select` picks. Counts each moment once, and each
/// observation for no longer than it lasted.
pub(super) fn observed_ns(
    observed: &[Observation],
    start_ns: i64,
    end_ns: i64,
    select: impl Fn(&Observation) -> bool,
) -> i64 {
    let picked = observed.iter().filter(|observed| select(observed));
    let mut parts: Vec<Part> = picked.filter_map(|observed| observed.part_of(start_ns, end_ns)).collect();
    parts.sort_unstable();
    let whole = covered_ns(parts.iter().filter(|part| part.most.is_none()));
    let shorter: i64 = parts.iter().filter_map(|part| part.most).sum();
    covered_ns(parts.iter()).min(whole.saturating_add(shorter))
}

/// The sum of ordered parts, counting each moment once.
fn covered_ns<'a>(parts: impl Iterator<Item = &'a Part>) -> i64 {
    let (mut until, mut sum) = (i64::MIN, 0_i64);
    for part in parts {
        sum = sum.saturating_add(part.end.saturating_sub(part.start.max(until)).max(0));
        until = until.max(part.end);
    }
    sum
}

/// Name prefix of Kafka's network threads and request handlers; the kernel keeps 15 bytes of a name.
const THREADS: &str = "data-plane";
/// How often the files are read, and so the precision of the times.
const EVERY: Duration = Duration::from_millis(4);
/// Field of schedstat: how long a thread has waited for a processor; the kernel adds a wait when it ends.
const DELAY_NS: usize = 1;
/// Fields of a device's stat: completed requests of a kind, and the milliseconds they took: reads, writes, flushes.
const KINDS: [(usize, usize); 3] = [(0, 3), (4, 7), (15, 16)];
/// Field of a device's stat: requests in flight.
const UNDER_WAY: usize = 8;
/// Requests faster than this slow nothing over any threshold.
const SLOW_MS: i64 = 20;
/// A unit of the processors' times in `/proc/stat` (`USER_HZ`, `proc_stat(5)`).
const TICK_NS: i64 = 10_000_000;
/// Field of the processors' times: those that the hypervisor gave to other guests.
const STEAL: usize = 7;

/// Reads the statistics until it is stopped; ends when dropped.
pub(super) struct KernelStats(Background<HostObservations>);

/// Observations from the kernel's statistics and the JVM's log.
#[derive(Clone, Debug, Default)]
pub(super) struct HostObservations {
    /// The JVM's pauses, from its log, which `run` reads.
    pub(super) pauses: Vec<Observation>,
    /// Waits for a processor.
    pub(super) waits: Vec<Observation>,
    /// Times when the device was busy.
    pub(super) busy: Vec<Observation>,
    /// Times when requests of the machine's disk were slow.
    pub(super) slow: Vec<Observation>,
}

impl KernelStats {
    /// Reads the statistics of a process's present request threads. Also those of a device, if there is one.
    ///
    /// # Errors
    /// The kernel does not report them.
    pub(super) fn of_broker(pid: u32, device: Option<(u32, u32)>) -> Result<Self> {
        let mut tasks = files::list(&PathBuf::from(format!("/proc/{pid}/task")))?;
        tasks
            .retain(|task| fs::read_to_string(task.join("comm")).is_ok_and(|name| name.starts_with(THREADS)));
        let threads: Vec<Counts> =
            tasks.iter().filter_map(|task| Counts::of(task.join("schedstat"), DELAY_NS)).collect();
        if threads.is_empty() {
            let why = format!("the kernel reports nothing of the {THREADS} threads of {pid}");
            return Err(Error::Unusable(why));
        }
        let device = device.map(|device| {
            let why = || Error::Unusable(format!("{} reports nothing", stat(device).display()));
            Counts::of_device(stat(device)).ok_or_else(why)
        });
        Ok(Self::start(threads, device.transpose()?, None))
    }

    /// Reads the statistics of the disk that holds a directory; `None` if its file system is not on a single device.
    pub(super) fn of_disk(directory: &Path) -> Option<Self> {
        let device = fs::metadata(directory).ok()?.st_dev();
        let disk = Counts::of_device(stat((rustix::fs::major(device), rustix::fs::minor(device))))?;
        Some(Self::start(Vec::new(), None, Some(disk)))
    }

    fn start(threads: Vec<Counts>, device: Option<Counts>, disk: Option<Counts>) -> Self {
        let work = move |over: &AtomicBool| read(threads, device, disk, over);
        Self(Background::start("the reader of the kernel's figures", work))
    }

    /// Stops reading, and returns the observations.
    pub(super) fn stop(self) -> Result<HostObservations> {
        self.0.stop()
    }
}

fn stat((major, minor): (u32, u32)) -> PathBuf {
    PathBuf::from(format!("/sys/dev/block/{major}:{minor}/stat"))
}

fn read(
    mut threads: Vec<Counts>,
    mut device: Option<Counts>,
    mut disk: Option<Counts>,
    over: &AtomicBool,
) -> HostObservations {
    let mut observations = HostObservations::default();
    // Once, not by the reader of the disk too.
    let mut steal = Counts::of("/proc/stat".into(), STEAL).filter(|_| !threads.is_empty());
    let mut since_ns = now_ns();
    while !over.load(Ordering::Relaxed) {
        thread::sleep(EVERY);
        let begun_ns = now_ns();
        let delays = threads.iter_mut().filter_map(|thread| thread.read_increases()?.get(DELAY_NS).copied());
        observations.waits.extend(delays.filter_map(|delay_ns| wait(delay_ns, since_ns, now_ns())));
        let ticks = steal.as_mut().and_then(|steal| steal.read_increases()?.get(STEAL).copied());
        observations.waits.extend(ticks.and_then(|ticks| stolen(ticks, since_ns, now_ns())));
        if device.as_mut().is_some_and(|device| device.was_busy() == Some(true)) {
            observations.busy.push(busy(since_ns, now_ns()));
        }
        let slow_ms = disk.as_mut().and_then(Counts::slowest_ms);
        observations.slow.extend(slow_ms.map(|ms| slow(ms, now_ns())));
        since_ns = begun_ns;
    }
    observations
}

/// Numbers of a file at its last reading.
struct Counts {
    file: PathBuf,
    numbers: Vec<i64>,
}

impl Counts {
    /// Reads a file that must have a number at index `last`.
    fn of(file: PathBuf, last: usize) -> Option<Self> {
        let numbers = numbers(&file)?;
        (numbers.len() > last).then_some(Self { file, numbers })
    }

    fn of_device(stat: PathBuf) -> Option<Self> {
        Self::of(stat, KINDS.iter().map(|(_, ms)| *ms).max()?)
    }

    /// Reads the file again; returns by how much each number has grown.
    fn read_increases(&mut self) -> Option<Vec<i64>> {
        let before = std::mem::replace(&mut self.numbers, numbers(&self.file)?);
        Some(self.numbers.iter().zip(before).map(|(now, before)| now.saturating_sub(before)).collect())
    }

    /// Whether a device was busy since the last reading, or is.
    fn was_busy(&mut self) -> Option<bool> {
        let grown = self.read_increases()?;
        let is_done = KINDS.iter().any(|(done, _)| grown.get(*done).is_some_and(|done| *done > 0));
        Some(is_done || *self.numbers.get(UNDER_WAY)? > 0)
    }

    /// The mean time of the slowest kind of requests, if it is at least [`SLOW_MS`]. Counts the requests that ended
    /// since the last reading.
    fn slowest_ms(&mut self) -> Option<i64> {
        let grown = self.read_increases()?;
        let means = KINDS.iter().filter_map(|(done, ms)| grown.get(*ms)?.checked_div(*grown.get(*done)?));
        means.max().filter(|ms| *ms >= SLOW_MS)
    }
}

/// Reads the numbers in the first line of a file, all of one moment. Skips the line's name, which `/proc/stat` has.
fn numbers(path: &Path) -> Option<Vec<i64>> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().next()?.trim_start_matches("cpu");
    line.split_whitespace().map(|number| number.parse().ok()).collect()
}

fn observation(start_ns: i64, end_ns: i64, truth: Truth, said: String) -> Observation {
    Observation { start_ns, end_ns, length_ns: None, truth, alone: false, said }
}

/// Something that took this long in all and ended between two readings: when is not known.
fn at_some_time(length_ns: i64, since_ns: i64, until_ns: i64, truth: Truth, said: String) -> Observation {
    let within = observation(since_ns.saturating_sub(length_ns), until_ns, truth, said);
    Observation { length_ns: Some(length_ns), ..within }
}

/// Waits of a thread for a processor.
fn wait(length_ns: i64, since_ns: i64, until_ns: i64) -> Option<Observation> {
    let said = || format!("schedstat: {} us without a processor", length_ns / 1_000);
    (length_ns >= SHORTEST_WAIT_NS)
        .then(|| at_some_time(length_ns, since_ns, until_ns, Truth::of(&["run-queue"]), said()))
}

/// Time that the hypervisor took from all processors. A thread on one of them seems to be busy.
fn stolen(ticks: i64, since_ns: i64, until_ns: i64) -> Option<Observation> {
    let length_ns = ticks.saturating_mul(TICK_NS);
    let said = || format!("/proc/stat: {} ms stolen", length_ns / 1_000_000);
    let causes = ["cpu-steal", "host-paused", "run-queue", "network-threads-busy", "handlers-busy"];
    (ticks > 0).then(|| at_some_time(length_ns, since_ns, until_ns, Truth::of(&causes), said()))
}

fn busy(since_ns: i64, until_ns: i64) -> Observation {
    let truth = Truth::of(&["journal-commit", "slow-device"]);
    observation(since_ns, until_ns, truth, "the device's stat: at work".to_owned())
}

/// Slow requests that have just ended.
fn slow(ms: i64, now_ns: i64) -> Observation {
    let start_ns = now_ns.saturating_sub(ms.saturating_mul(1_000_000));
    let said = format!("the disk's stat: requests of {ms} ms");
    observation(start_ns, now_ns, Truth::of(&["slow-device", "journal-commit"]), said)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pause(operation: &str, begin: i64, end: i64, reached_after: i64) -> Pause {
        let [start_ns, end_ns, reaching_ns] = [begin, end, reached_after].map(|ms| ms * 1_000_000);
        Pause { operation: operation.to_owned(), start_ns, end_ns, reaching_ns }
    }

    #[test]
    fn logged_pause_allows_the_matching_causes() {
        let observed = Observation::by_jvm(&[
            pause("G1CollectForAllocation", 0, 40, 1),
            pause("Cleanup", 50, 90, 1),
            pause("G1CollectFull", 100, 140, 39),
        ]);
        let chain = |name: &str| vec![name.to_owned()];
        let allows = |at: usize, cause: &str| observed[at].truth.allows(cause, &chain(cause));
        assert!(allows(0, "gc-pause") && !allows(0, "safepoint") && !allows(0, "journal-commit"));
        assert!(allows(1, "safepoint") && !allows(1, "gc-pause"));
        assert!(allows(2, "safepoint") && allows(2, "gc-pause"));
        let held_up = ["safepoint".to_owned(), "run-queue".to_owned()];
        assert!(
            observed[2].truth.allows("run-queue", &held_up)
                && !observed[0].truth.allows("run-queue", &held_up)
        );
        assert!(observed[0].alone && observed[1].alone && !observed[2].alone);
        assert!(
            Observation::by_follower(&[pause("G1CollectFull", 0, 9, 0)])[0]
                .truth
                .allows("replication-wait", &[])
        );
    }

    #[test]
    fn ignores_short_pauses() {
        let short = Pause { end_ns: 900_000, ..pause("Cleanup", 0, 0, 0) };
        assert_eq!(Observation::by_jvm(&[short]), []);
    }

    #[test]
    fn overlapping_observations_count_once() {
        // The stamp's millisecond is added to each.
        let observed = Observation::by_jvm(&[
            pause("G1A", 10, 20, 0),
            pause("G1B", 15, 29, 0),
            pause("Cleanup", 50, 59, 0),
        ]);
        let ms = |from: i64, to: i64, of: &dyn Fn(&Observation) -> bool| {
            observed_ns(&observed, from * 1_000_000, to * 1_000_000, of) / 1_000_000
        };
        assert_eq!(ms(0, 100, &|_| true), 30);
        assert_eq!(ms(12, 55, &|_| true), 23);
        assert_eq!(ms(0, 100, &|observed| observed.truth.allows("gc-pause", &[])), 20);
        assert_eq!(ms(31, 49, &|_| true), 0);
    }
}

#[cfg(test)]
mod kernel_stats_tests {
    use super::*;

    #[test]
    fn wait_starts_at_most_its_length_before_the_previous_reading() {
        assert_eq!(wait(99_999, 10_000_000, 14_000_000), None);
        let observed = wait(6_000_000, 10_000_000, 14_000_000).unwrap();
        assert_eq!((observed.start_ns, observed.end_ns), (4_000_000, 14_000_000));
        assert!(observed.truth.allows("run-queue", &[]) && !observed.truth.allows("journal-commit", &[]));
        assert!(busy(0, 1).truth.allows("journal-commit", &[]));
    }

    #[test]
    fn waits_count_for_their_length_not_for_the_reading_interval() {
        let waits = [wait(730_000, 10_000_000, 14_000_000), wait(300_000, 10_000_000, 14_000_000)];
        let waits: Vec<Observation> = waits.into_iter().flatten().collect();
        let of = |waits: &[Observation], start_ns, end_ns| observed_ns(waits, start_ns, end_ns, |_| true);
        assert_eq!(of(&waits[..1], 11_000_000, 12_200_000), 730_000);
        assert_eq!(of(&waits[..1], 13_900_000, 15_100_000), 100_000, "no more than lies in it");
        assert_eq!(of(&waits, 11_000_000, 12_200_000), 1_030_000, "of two threads, one after the other");
        assert_eq!(of(&waits, 11_000_000, 11_500_000), 500_000, "no more than there is");
        let with_device = [waits[0].clone(), busy(10_000_000, 11_500_000)];
        assert_eq!(of(&with_device, 11_000_000, 12_200_000), 1_200_000);
        assert_eq!(of(&with_device, 10_000_000, 14_000_000), 2_230_000);
    }

    #[test]
    fn device_is_busy_with_finished_or_pending_requests() {
        let directory = tempfile::tempdir().unwrap();
        let stat = directory.path().join("stat");
        let write_stat = |reads: i64, writes: i64, under_way: i64, flushes: i64| {
            let text = format!("{reads} 0 9 9 {writes} 0 9 9 {under_way} 9 9 0 0 0 0 {flushes} 9\n");
            fs::write(&stat, text).unwrap();
        };
        write_stat(5, 5, 0, 0);
        let mut device = Counts::of_device(stat.clone()).unwrap();
        let mut was_busy = || device.was_busy().unwrap();
        assert!(!was_busy());
        write_stat(5, 6, 0, 0);
        assert!(was_busy() && !was_busy());
        write_stat(5, 6, 1, 0);
        assert!(was_busy() && was_busy());
        write_stat(5, 6, 0, 1);
        assert!(was_busy() && !was_busy());
        assert!(Counts::of_device(directory.path().join("none")).is_none());
    }

    #[test]
    fn stolen_time_explains_threads_that_seem_busy() {
        assert_eq!(stolen(0, 50_000_000, 54_000_000), None);
        let taken = stolen(2, 50_000_000, 54_000_000).unwrap();
        assert_eq!(
            (taken.start_ns, taken.end_ns, taken.length_ns),
            (30_000_000, 54_000_000, Some(20_000_000))
        );
        let allows = |cause: &str| taken.truth.allows(cause, &[cause.to_owned()]);
        assert!(allows("network-threads-busy") && allows("cpu-steal") && !allows("journal-commit"));
        let mut steal = Counts::of("/proc/stat".into(), STEAL).unwrap();
        assert!(steal.read_increases().unwrap().iter().all(|ticks| *ticks >= 0));
    }

    #[test]
    fn reads_schedstat_of_this_process() {
        let mut counts = Counts::of("/proc/self/schedstat".into(), DELAY_NS).unwrap();
        assert!(counts.read_increases().unwrap().len() > DELAY_NS);
    }

    #[test]
    fn disk_is_slow_if_one_kind_of_requests_is_slow() {
        let directory = tempfile::tempdir().unwrap();
        let stat = directory.path().join("stat");
        let write_stat = |reads: [i64; 2], writes: [i64; 2], flushes: [i64; 2]| {
            let ([r, r_ms], [w, w_ms], [f, f_ms]) = (reads, writes, flushes);
            fs::write(&stat, format!("{r} 0 9 {r_ms} {w} 0 9 {w_ms} 0 9 9 0 0 0 0 {f} {f_ms}\n")).unwrap();
        };
        write_stat([5, 9], [5, 9], [1, 1]);
        let mut counts = Counts::of_device(stat.clone()).unwrap();
        assert_eq!(counts.slowest_ms(), None);
        write_stat([6, 210], [105, 20], [1, 1]);
        assert_eq!(counts.slowest_ms(), Some(201));
        assert_eq!(counts.slowest_ms(), None);
        write_stat([6, 210], [107, 50], [2, 30]);
        assert_eq!(counts.slowest_ms(), Some(29));
        write_stat([7, 229], [107, 50], [2, 30]);
        assert_eq!(counts.slowest_ms(), None, "quick enough");
        assert!(Counts::of_device(directory.path().join("none")).is_none());
    }

    #[test]
    fn slow_disk_observation_lasts_as_long_as_its_requests() {
        let observed = slow(201, 1_000_000_000);
        assert_eq!((observed.start_ns, observed.end_ns), (799_000_000, 1_000_000_000));
        assert!(observed.truth.allows("slow-device", &[]) && !observed.truth.allows("memory-reclaim", &[]));
    }
}
