//! The kernel's statistics, read every few milliseconds: ground truth of what was not injected.
//!
//! How long the broker's request threads waited for a processor (`/proc/PID/task/TID/schedstat`,
//! Documentation/scheduler/sched-stats.rst), when its device was at work, and when requests of the machine's own disk were
//! slow, where the broker's files lie there (`/sys/dev/block/MAJOR:MINOR/stat`, Documentation/block/stat.rst). Costs a
//! processor some per cent.

use std::os::linux::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{fs, thread};

use super::ground_truth::Observation;
use super::plan::Truth;
use crate::background::Background;
use crate::client::now_ns;
use crate::error::Error;
use crate::files;

/// Kafka's network threads and request handlers begin with this; the kernel keeps 15 bytes.
const THREADS: &str = "data-plane";
/// How often they are read, and so how exactly they say when.
const EVERY: Duration = Duration::from_millis(4);
/// Waits of less are not worth telling.
const SHORTEST_NS: i64 = 1_000_000;
/// In schedstat, how long a thread has waited for a processor; the kernel adds a wait when it ends.
const DELAY_NS: usize = 1;
/// In a device's stat, how many requests of a kind are done, and the milliseconds they took: reads, writes, flushes.
const KINDS: [(usize, usize); 3] = [(0, 3), (4, 7), (15, 16)];
/// There, how many requests are under way.
const UNDER_WAY: usize = 8;
/// Requests that take less slow nobody over any threshold.
const SLOW_MS: i64 = 20;

/// Reads until it is stopped; ends when dropped.
pub(super) struct KernelStats(Background<HostObservations>);

/// What they say.
#[derive(Clone, Debug, Default)]
pub(super) struct HostObservations {
    /// Of the JVM's pauses, by its log; `run` reads that.
    pub(super) pauses: Vec<Observation>,
    /// Of waits for a processor.
    pub(super) waits: Vec<Observation>,
    /// Of the device, when it was at work.
    pub(super) busy: Vec<Observation>,
    /// Of the machine's disk, when its requests were slow.
    pub(super) slow: Vec<Observation>,
}

impl KernelStats {
    /// Of the request threads that a process has now, and of a device, if there is one.
    ///
    /// # Errors
    /// Where the kernel does not report them.
    pub(super) fn of_broker(pid: u32, device: Option<(u32, u32)>) -> Result<Self, Error> {
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

    /// Of the disk that a directory is on; none of a file system that is on no one device.
    pub(super) fn of_disk(directory: &Path) -> Option<Self> {
        let device = fs::metadata(directory).ok()?.st_dev();
        let disk = Counts::of_device(stat((rustix::fs::major(device), rustix::fs::minor(device))))?;
        Some(Self::start(Vec::new(), None, Some(disk)))
    }

    fn start(threads: Vec<Counts>, device: Option<Counts>, disk: Option<Counts>) -> Self {
        let work = move |over: &AtomicBool| read(threads, device, disk, over);
        Self(Background::start("the reader of the kernel's figures", work))
    }

    /// What they say.
    pub(super) fn stop(self) -> Result<HostObservations, Error> {
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
    let mut heard = HostObservations::default();
    let mut since_ns = now_ns();
    while !over.load(Ordering::Relaxed) {
        thread::sleep(EVERY);
        let begun_ns = now_ns();
        let delays = threads.iter_mut().filter_map(|thread| thread.grown()?.get(DELAY_NS).copied());
        heard.waits.extend(delays.filter_map(|delay_ns| wait(delay_ns, since_ns, now_ns())));
        if device.as_mut().is_some_and(|device| device.was_busy() == Some(true)) {
            heard.busy.push(busy(since_ns, now_ns()));
        }
        let slow_ms = disk.as_mut().and_then(Counts::slowest_ms);
        heard.slow.extend(slow_ms.map(|ms| slow(ms, now_ns())));
        since_ns = begun_ns;
    }
    heard
}

/// The numbers of a file, when it was last read.
struct Counts {
    file: PathBuf,
    numbers: Vec<i64>,
}

impl Counts {
    /// Of a file that has numbers up to this one.
    fn of(file: PathBuf, last: usize) -> Option<Self> {
        let numbers = numbers(&file)?;
        (numbers.len() > last).then_some(Self { file, numbers })
    }

    fn of_device(stat: PathBuf) -> Option<Self> {
        Self::of(stat, KINDS.iter().map(|(_, ms)| *ms).max()?)
    }

    /// By how much each has grown since this was last asked.
    fn grown(&mut self) -> Option<Vec<i64>> {
        let before = std::mem::replace(&mut self.numbers, numbers(&self.file)?);
        Some(self.numbers.iter().zip(before).map(|(now, before)| now.saturating_sub(before)).collect())
    }

    /// Whether a device was at work since this was last asked, or is.
    fn was_busy(&mut self) -> Option<bool> {
        let grown = self.grown()?;
        let is_done = KINDS.iter().any(|(done, _)| grown.get(*done).is_some_and(|done| *done > 0));
        Some(is_done || *self.numbers.get(UNDER_WAY)? > 0)
    }

    /// How long requests of a kind took in the mean that ended since this was last asked, of the slowest kind, if that is long.
    fn slowest_ms(&mut self) -> Option<i64> {
        let grown = self.grown()?;
        let means = KINDS.iter().filter_map(|(done, ms)| grown.get(*ms)?.checked_div(*grown.get(*done)?));
        means.max().filter(|ms| *ms >= SLOW_MS)
    }
}

/// The numbers that a file has, all of one moment.
fn numbers(path: &Path) -> Option<Vec<i64>> {
    fs::read_to_string(path).ok()?.split_whitespace().map(|number| number.parse().ok()).collect()
}

fn observed(start_ns: i64, end_ns: i64, causes: &[&str], said: String) -> Observation {
    Observation { start_ns, end_ns, truth: Truth::of(causes), alone: false, said }
}

/// A wait that ended between two looks.
fn wait(length_ns: i64, since_ns: i64, until_ns: i64) -> Option<Observation> {
    let said = || format!("schedstat: {} us without a processor", length_ns / 1_000);
    (length_ns >= SHORTEST_NS)
        .then(|| observed(since_ns.saturating_sub(length_ns), until_ns, &["run-queue"], said()))
}

fn busy(since_ns: i64, until_ns: i64) -> Observation {
    observed(since_ns, until_ns, &["journal-commit", "slow-device"], "the device's stat: at work".to_owned())
}

/// Requests that ended just now.
fn slow(ms: i64, now_ns: i64) -> Observation {
    let start_ns = now_ns.saturating_sub(ms.saturating_mul(1_000_000));
    let said = format!("the disk's stat: requests of {ms} ms");
    observed(start_ns, now_ns, &["slow-device", "journal-commit"], said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_began_its_length_before_it_was_added_at_the_earliest() {
        assert_eq!(wait(999_999, 10_000_000, 14_000_000), None);
        let observed = wait(6_000_000, 10_000_000, 14_000_000).unwrap();
        assert_eq!((observed.start_ns, observed.end_ns), (4_000_000, 14_000_000));
        assert!(observed.truth.allows("run-queue", &[]) && !observed.truth.allows("journal-commit", &[]));
        assert!(busy(0, 1).truth.allows("journal-commit", &[]));
    }

    #[test]
    fn a_device_is_busy_that_has_done_something_or_is_at_it() {
        let directory = tempfile::tempdir().unwrap();
        let stat = directory.path().join("stat");
        let say = |reads: i64, writes: i64, under_way: i64, flushes: i64| {
            let text = format!("{reads} 0 9 9 {writes} 0 9 9 {under_way} 9 9 0 0 0 0 {flushes} 9\n");
            fs::write(&stat, text).unwrap();
        };
        say(5, 5, 0, 0);
        let mut device = Counts::of_device(stat.clone()).unwrap();
        let mut was_busy = || device.was_busy().unwrap();
        assert!(!was_busy());
        say(5, 6, 0, 0);
        assert!(was_busy() && !was_busy());
        say(5, 6, 1, 0);
        assert!(was_busy() && was_busy());
        say(5, 6, 0, 1);
        assert!(was_busy() && !was_busy());
        assert!(Counts::of_device(directory.path().join("none")).is_none());
    }

    #[test]
    fn this_process_has_an_account() {
        let mut counts = Counts::of("/proc/self/schedstat".into(), DELAY_NS).unwrap();
        assert!(counts.grown().unwrap().len() > DELAY_NS);
    }

    #[test]
    fn a_disk_is_slow_when_the_requests_of_a_kind_were() {
        let directory = tempfile::tempdir().unwrap();
        let stat = directory.path().join("stat");
        let say = |reads: [i64; 2], writes: [i64; 2], flushes: [i64; 2]| {
            let ([r, r_ms], [w, w_ms], [f, f_ms]) = (reads, writes, flushes);
            fs::write(&stat, format!("{r} 0 9 {r_ms} {w} 0 9 {w_ms} 0 9 9 0 0 0 0 {f} {f_ms}\n")).unwrap();
        };
        say([5, 9], [5, 9], [1, 1]);
        let mut counts = Counts::of_device(stat.clone()).unwrap();
        assert_eq!(counts.slowest_ms(), None);
        say([6, 210], [105, 20], [1, 1]);
        assert_eq!(counts.slowest_ms(), Some(201));
        assert_eq!(counts.slowest_ms(), None);
        say([6, 210], [107, 50], [2, 30]);
        assert_eq!(counts.slowest_ms(), Some(29));
        say([7, 229], [107, 50], [2, 30]);
        assert_eq!(counts.slowest_ms(), None, "quick enough");
        assert!(Counts::of_device(directory.path().join("none")).is_none());
    }

    #[test]
    fn what_it_tells_lasts_as_long_as_the_requests_took() {
        let observed = slow(201, 1_000_000_000);
        assert_eq!((observed.start_ns, observed.end_ns), (799_000_000, 1_000_000_000));
        assert!(observed.truth.allows("slow-device", &[]) && !observed.truth.allows("memory-reclaim", &[]));
    }
}
