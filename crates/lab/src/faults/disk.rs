//! The machine's own disk as a witness, where a broker's files lie there and not on a device that is the lab's: nobody plants
//! anything in it, and it serves others as well. How many requests it has done and how long they took is the kernel's to say
//! (`/sys/dev/block/MAJOR:MINOR/stat`, Documentation/block/stat.rst).

use std::fs;
use std::os::linux::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::figures::numbers;
use super::plan::Truth;
use super::told::Told;
use crate::background::Background;
use crate::client::now_ns;
use crate::error::Error;

/// How often it is read: requests that end between two looks are told by their mean.
const EVERY: Duration = Duration::from_millis(4);
/// Requests that take less slow nobody over any threshold.
const SLOW_MS: i64 = 20;
/// In the file, how many of a kind are done, and the milliseconds they took: reads, writes, flushes.
const KINDS: [(usize, usize); 3] = [(0, 3), (4, 7), (15, 16)];

/// Reads until it is stopped; ends when dropped.
pub(super) struct Disk(Background<Vec<Told>>);

impl Disk {
    /// That a directory is on; none of a file system that is on no one device.
    pub(super) fn under(directory: &Path) -> Option<Self> {
        let device = fs::metadata(directory).ok()?.st_dev();
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let mut counts = Counts::of(PathBuf::from(format!("/sys/dev/block/{major}:{minor}/stat")))?;
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
    pub(super) fn stop(self) -> Result<Vec<Told>, Error> {
        self.0.stop()
    }
}

/// What it has done, by kind: how many requests, and their milliseconds.
struct Counts {
    stat: PathBuf,
    done: [(i64, i64); KINDS.len()],
}

impl Counts {
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
fn slow(ms: i64, now_ns: i64) -> Told {
    Told {
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
    fn a_disk_is_slow_when_the_requests_of_a_kind_were() {
        let directory = tempfile::tempdir().unwrap();
        let stat = directory.path().join("stat");
        let say = |reads: [i64; 2], writes: [i64; 2], flushes: [i64; 2]| {
            let ([r, r_ms], [w, w_ms], [f, f_ms]) = (reads, writes, flushes);
            fs::write(&stat, format!("{r} 0 9 {r_ms} {w} 0 9 {w_ms} 0 9 9 0 0 0 0 {f} {f_ms}\n")).unwrap();
        };
        say([5, 9], [5, 9], [1, 1]);
        let mut counts = Counts::of(stat.clone()).unwrap();
        assert_eq!(counts.slowest_ms(), None);
        say([6, 210], [105, 20], [1, 1]);
        assert_eq!(counts.slowest_ms(), Some(201));
        assert_eq!(counts.slowest_ms(), None);
        say([6, 210], [107, 50], [2, 30]);
        assert_eq!(counts.slowest_ms(), Some(29));
        say([7, 229], [107, 50], [2, 30]);
        assert_eq!(counts.slowest_ms(), None, "quick enough");
        assert!(Counts::of(directory.path().join("none")).is_none());
    }

    #[test]
    fn what_it_tells_lasts_as_long_as_the_requests_took() {
        let told = slow(201, 1_000_000_000);
        assert_eq!((told.start_ns, told.end_ns), (799_000_000, 1_000_000_000));
        assert!(told.truth.allows("slow-device", &[]) && !told.truth.allows("memory-reclaim", &[]));
    }
}
