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

/// Kafka's network threads and request handlers begin with this; the kernel keeps 15 bytes.
const THREADS: &str = "data-plane";
/// How often they are read, and so how exactly they say when.
const EVERY: Duration = Duration::from_millis(4);
/// Waits of less are not worth telling.
const SHORTEST_NS: i64 = 1_000_000;

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
    /// Of the machine's disk, when its requests were slow; `disk` reads that.
    pub(super) slow: Vec<Observation>,
}

impl KernelStats {
    /// Of the request threads that a process has now, and of a device, if there is one.
    ///
    /// # Errors
    /// Where the kernel does not tell them.
    pub(super) fn of(pid: u32, device: Option<(u32, u32)>) -> Result<Self, Error> {
        let tasks = PathBuf::from(format!("/proc/{pid}/task"));
        let listing = fs::read_dir(&tasks).map_err(Error::io("list", &tasks))?;
        let all = listing.filter_map(Result::ok).map(|entry| entry.path());
        let is_one = |task: &PathBuf| {
            fs::read_to_string(task.join("comm")).is_ok_and(|name| name.starts_with(THREADS))
        };
        let threads: Vec<ThreadDelay> =
            all.filter(is_one).filter_map(|task| ThreadDelay::of(&task)).collect();
        if threads.is_empty() {
            return Err(Error::Unusable(format!(
                "the kernel tells nothing of the {THREADS} threads of {pid}"
            )));
        }
        let stat = device.map(|(major, minor)| PathBuf::from(format!("/sys/dev/block/{major}:{minor}/stat")));
        let device = stat.map(Device::of).transpose()?;
        let work = move |over: &AtomicBool| read(threads, device, over);
        Ok(Self(Background::start("the reader of the kernel's figures", work)))
    }

    /// What they say.
    pub(super) fn stop(self) -> Result<HostObservations, Error> {
        self.0.stop()
    }
}

fn read(mut threads: Vec<ThreadDelay>, mut device: Option<Device>, over: &AtomicBool) -> HostObservations {
    let mut heard = HostObservations::default();
    let mut since_ns = now_ns();
    while !over.load(Ordering::Relaxed) {
        thread::sleep(EVERY);
        let begun_ns = now_ns();
        for thread in &mut threads {
            heard.waits.extend(thread.more_ns().and_then(|more_ns| wait(more_ns, since_ns, now_ns())));
        }
        if device.as_mut().is_some_and(Device::was_busy) {
            heard.busy.push(busy(since_ns, now_ns()));
        }
        since_ns = begun_ns;
    }
    heard
}

/// How long a thread has waited for a processor in all.
struct ThreadDelay {
    schedstat: PathBuf,
    delay_ns: i64,
}

impl ThreadDelay {
    fn of(task: &Path) -> Option<Self> {
        let schedstat = task.join("schedstat");
        let delay_ns = number(&schedstat, 1)?;
        Some(Self { schedstat, delay_ns })
    }

    /// Since this was last asked.
    fn more_ns(&mut self) -> Option<i64> {
        let delay_ns = number(&self.schedstat, 1)?;
        let before = std::mem::replace(&mut self.delay_ns, delay_ns);
        Some(delay_ns.saturating_sub(before))
    }
}

/// A wait that ended between two looks: the kernel adds its length when it ends.
fn wait(length_ns: i64, since_ns: i64, until_ns: i64) -> Option<Observation> {
    (length_ns >= SHORTEST_NS).then(|| Observation {
        start_ns: since_ns.saturating_sub(length_ns),
        end_ns: until_ns,
        truth: Truth::of(&["run-queue"]),
        alone: false,
        said: format!("schedstat: {} us without a processor", length_ns / 1_000),
    })
}

/// A device's requests, by their number and how many are under way.
struct Device {
    stat: PathBuf,
    done: i64,
}

impl Device {
    fn of(stat: PathBuf) -> Result<Self, Error> {
        let Some(done) = Self::read(&stat).map(|(done, _)| done) else {
            return Err(Error::Unusable(format!("{} tells nothing", stat.display())));
        };
        Ok(Self { stat, done })
    }

    /// Reads, writes and flushes that it has done; how many are under way.
    fn read(stat: &Path) -> Option<(i64, i64)> {
        let numbers = numbers(stat)?;
        let done = [0, 4, 15].into_iter().map(|at| numbers.get(at)).sum::<Option<i64>>()?;
        Some((done, *numbers.get(8)?))
    }

    /// Whether it was at work since this was last asked, or is.
    fn was_busy(&mut self) -> bool {
        let Some((done, under_way)) = Self::read(&self.stat) else { return false };
        let before = std::mem::replace(&mut self.done, done);
        done > before || under_way > 0
    }
}

fn busy(since_ns: i64, until_ns: i64) -> Observation {
    Observation {
        start_ns: since_ns,
        end_ns: until_ns,
        truth: Truth::of(&["journal-commit", "slow-device"]),
        alone: false,
        said: "the device's stat: at work".to_owned(),
    }
}

/// One of the numbers that a file has, from 0 on.
fn number(path: &Path, at: usize) -> Option<i64> {
    numbers(path)?.get(at).copied()
}

/// The numbers that a file has, all of one moment.
pub(super) fn numbers(path: &Path) -> Option<Vec<i64>> {
    fs::read_to_string(path).ok()?.split_whitespace().map(|number| number.parse().ok()).collect()
}

/// Requests that take less slow nobody over any threshold.
const SLOW_MS: i64 = 20;
/// In the file, how many of a kind are done, and the milliseconds they took: reads, writes, flushes.
const KINDS: [(usize, usize); 3] = [(0, 3), (4, 7), (15, 16)];

/// Reads until it is stopped; ends when dropped.
pub(super) struct DiskStats(Background<Vec<Observation>>);

impl DiskStats {
    /// That a directory is on; none of a file system that is on no one device.
    pub(super) fn under(directory: &Path) -> Option<Self> {
        let device = fs::metadata(directory).ok()?.st_dev();
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let mut counts = DiskCounts::of(PathBuf::from(format!("/sys/dev/block/{major}:{minor}/stat")))?;
        let read = move |over: &AtomicBool| {
            let mut heard = Vec::new();
            while !over.load(Ordering::Relaxed) {
                thread::sleep(EVERY);
                heard.extend(counts.slowest_ms().map(|ms| slow(ms, now_ns())));
            }
            heard
        };
        Some(Self(Background::start("the reader of the disk's counts", read)))
    }

    /// When its requests were slow.
    pub(super) fn stop(self) -> Result<Vec<Observation>, Error> {
        self.0.stop()
    }
}

/// What it has done, by kind: how many requests, and their milliseconds.
struct DiskCounts {
    stat: PathBuf,
    done: [(i64, i64); KINDS.len()],
}

impl DiskCounts {
    fn of(stat: PathBuf) -> Option<Self> {
        let done = Self::read(&stat)?;
        Some(Self { stat, done })
    }

    fn read(stat: &Path) -> Option<[(i64, i64); KINDS.len()]> {
        let numbers = numbers(stat)?;
        let number = |at: usize| numbers.get(at).copied();
        let [reads, writes, flushes] = KINDS.map(|(done, ms)| number(done).zip(number(ms)));
        Some([reads?, writes?, flushes?])
    }

    /// How long requests of a kind took in the mean that ended since this was last asked, of the slowest kind, if that is long.
    fn slowest_ms(&mut self) -> Option<i64> {
        let now = Self::read(&self.stat)?;
        let before = std::mem::replace(&mut self.done, now);
        let means = now
            .iter()
            .zip(before)
            .filter_map(|(now, before)| (now.1 - before.1).checked_div(now.0 - before.0));
        means.max().filter(|ms| *ms >= SLOW_MS)
    }
}

/// Requests that ended just now.
fn slow(ms: i64, now_ns: i64) -> Observation {
    Observation {
        start_ns: now_ns.saturating_sub(ms.saturating_mul(1_000_000)),
        end_ns: now_ns,
        truth: Truth::of(&["slow-device", "journal-commit"]),
        alone: false,
        said: format!("the disk's stat: requests of {ms} ms"),
    }
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
        let mut device = Device::of(stat.clone()).unwrap();
        assert!(!device.was_busy());
        say(5, 6, 0, 0);
        assert!(device.was_busy() && !device.was_busy());
        say(5, 6, 1, 0);
        assert!(device.was_busy() && device.was_busy());
        say(5, 6, 0, 1);
        assert!(device.was_busy() && !device.was_busy());
        assert!(Device::of(directory.path().join("none")).is_err());
    }

    #[test]
    fn this_process_has_an_account() {
        assert!(
            ThreadDelay::of(Path::new("/proc/self")).is_some_and(|mut thread| thread.more_ns().is_some())
        );
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
        let mut counts = DiskCounts::of(stat.clone()).unwrap();
        assert_eq!(counts.slowest_ms(), None);
        say([6, 210], [105, 20], [1, 1]);
        assert_eq!(counts.slowest_ms(), Some(201));
        assert_eq!(counts.slowest_ms(), None);
        say([6, 210], [107, 50], [2, 30]);
        assert_eq!(counts.slowest_ms(), Some(29));
        say([7, 229], [107, 50], [2, 30]);
        assert_eq!(counts.slowest_ms(), None, "quick enough");
        assert!(DiskCounts::of(directory.path().join("none")).is_none());
    }

    #[test]
    fn what_it_tells_lasts_as_long_as_the_requests_took() {
        let observed = slow(201, 1_000_000_000);
        assert_eq!((observed.start_ns, observed.end_ns), (799_000_000, 1_000_000_000));
        assert!(observed.truth.allows("slow-device", &[]) && !observed.truth.allows("memory-reclaim", &[]));
    }
}
