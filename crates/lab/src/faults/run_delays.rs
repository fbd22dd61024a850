//! The scheduler's own account of how long the broker's request threads waited for a processor
//! (`/proc/PID/task/TID/schedstat`, Documentation/scheduler/sched-stats.rst): a witness where nothing is planted.
//!
//! Read often, so that it says when to some milliseconds. Costs a processor some per cent: not while anything is planted.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::plan::Truth;
use super::told::Told;
use crate::client::now_ns;
use crate::error::Error;

/// Kafka's network threads and request handlers begin with this; the kernel keeps 15 bytes.
const THREADS: &str = "data-plane";
/// How often it is read, and so how exactly it says when.
const EVERY: Duration = Duration::from_millis(4);
/// Waits of less are not worth telling.
const SHORTEST_NS: i64 = 1_000_000;

/// Reads until it is stopped; ends when dropped.
pub(super) struct RunDelays {
    over: Arc<AtomicBool>,
    reader: Option<JoinHandle<Vec<Told>>>,
}

impl RunDelays {
    /// Of the threads that a process has now.
    pub(super) fn of(pid: u32) -> Result<Self, Error> {
        let tasks = PathBuf::from(format!("/proc/{pid}/task"));
        let listing = fs::read_dir(&tasks).map_err(Error::io("list", &tasks))?;
        let all = listing.filter_map(Result::ok).map(|entry| entry.path());
        let is_one = |task: &PathBuf| {
            fs::read_to_string(task.join("comm")).is_ok_and(|name| name.starts_with(THREADS))
        };
        let threads: Vec<PathBuf> = all.filter(is_one).map(|task| task.join("schedstat")).collect();
        let first =
            threads.first().ok_or_else(|| Error::Unusable(format!("process {pid} has no {THREADS}")))?;
        delay_ns(first).ok_or_else(|| Error::Unusable(format!("{} tells nothing", first.display())))?;
        let over = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&over);
        let reader = Some(thread::spawn(move || read(&threads, &told)));
        Ok(Self { over, reader })
    }

    /// What it says.
    pub(super) fn stop(mut self) -> Result<Vec<Told>, Error> {
        self.over.store(true, Ordering::Relaxed);
        let died = || Error::Unusable("the reader of run delays died".to_owned());
        self.reader.take().map_or_else(|| Ok(Vec::new()), |reader| reader.join().map_err(|_| died()))
    }
}

impl Drop for RunDelays {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

fn read(threads: &[PathBuf], over: &AtomicBool) -> Vec<Told> {
    let mut told = Vec::new();
    let mut before: HashMap<&PathBuf, i64> = HashMap::new();
    let mut since_ns = now_ns();
    while !over.load(Ordering::Relaxed) {
        thread::sleep(EVERY);
        let begun_ns = now_ns();
        for thread in threads {
            let Some(delay) = delay_ns(thread) else { continue };
            let more_ns = before.insert(thread, delay).map_or(0, |before| delay.saturating_sub(before));
            told.extend(wait(more_ns, since_ns, now_ns()));
        }
        since_ns = begun_ns;
    }
    told
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

/// The second figure: nanoseconds for which it could have run and did not.
fn delay_ns(schedstat: &Path) -> Option<i64> {
    fs::read_to_string(schedstat).ok()?.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_began_its_length_before_it_was_added_at_the_earliest() {
        assert_eq!(wait(999_999, 10_000_000, 14_000_000), None);
        let told = wait(6_000_000, 10_000_000, 14_000_000).unwrap();
        assert_eq!((told.start_ns, told.end_ns), (4_000_000, 14_000_000));
        assert!(told.truth.allows("run-queue", &[]) && !told.alone);
    }

    #[test]
    fn this_thread_has_an_account() {
        assert!(delay_ns(Path::new("/proc/self/schedstat")).is_some());
        assert_eq!(delay_ns(Path::new("/proc/self/comm")), None);
    }
}
