//! The kernel's own figures, read every few milliseconds: witnesses where nothing is planted, or where the machine does
//! other things too. How long the broker's
//! request threads waited for a processor (`/proc/PID/task/TID/schedstat`, Documentation/scheduler/sched-stats.rst), and
//! when its device was at work (`/sys/dev/block/MAJOR:MINOR/stat`, Documentation/block/stat.rst).
//!
//! Costs a processor some per cent.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::plan::Truth;
use super::told::Told;
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
pub(super) struct Figures(Background<Heard>);

/// What they say.
#[derive(Clone, Debug, Default)]
pub(super) struct Heard {
    /// Of waits for a processor.
    pub(super) waits: Vec<Told>,
    /// Of the device, when it was at work.
    pub(super) busy: Vec<Told>,
    /// Of the machine's disk, when its requests were slow; `disk` reads that.
    pub(super) slow: Vec<Told>,
}

impl Figures {
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
        let threads: Vec<Thread> = all.filter(is_one).filter_map(|task| Thread::of(&task)).collect();
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
    pub(super) fn stop(self) -> Result<Heard, Error> {
        self.0.stop()
    }
}

fn read(mut threads: Vec<Thread>, mut device: Option<Device>, over: &AtomicBool) -> Heard {
    let mut heard = Heard::default();
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
struct Thread {
    schedstat: PathBuf,
    delay_ns: i64,
}

impl Thread {
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
fn wait(length_ns: i64, since_ns: i64, until_ns: i64) -> Option<Told> {
    (length_ns >= SHORTEST_NS).then(|| Told {
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

fn busy(since_ns: i64, until_ns: i64) -> Told {
    Told {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_began_its_length_before_it_was_added_at_the_earliest() {
        assert_eq!(wait(999_999, 10_000_000, 14_000_000), None);
        let told = wait(6_000_000, 10_000_000, 14_000_000).unwrap();
        assert_eq!((told.start_ns, told.end_ns), (4_000_000, 14_000_000));
        assert!(told.truth.allows("run-queue", &[]) && !told.truth.allows("journal-commit", &[]));
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
        assert!(Thread::of(Path::new("/proc/self")).is_some_and(|mut thread| thread.more_ns().is_some()));
    }
}
