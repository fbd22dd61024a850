//! CPU time of the broker's threads, by role.
//! Without full names, only the kernel's 15 characters are known: request handlers, network threads and acceptors of
//! the data plane share theirs (`data-plane-kafk`) and are one role.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use jvm::Role;
use model::{HostScope, Nanos};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::Moment;
use super::figures::{Figures, seconds};
use super::text::{self, Kernel};
use crate::thread_names::{NameReader, count_threads, list_threads};

/// Interval of reading a thread's name, in readings.
/// A thread is named after it has started, so its name is also read again at its second and third reading.
const NAME_EVERY: u32 = 60;

/// Fewest and most threads whose files stay open; in between, half of the process's descriptor limit.
/// Opening such a file takes three times as long as reading it. Each also takes a page of kernel memory. The probes take
/// about a hundred descriptors.
const MIN_OPEN_FILES: u64 = 256;
const MAX_OPEN_FILES: u64 = 1_024;
/// Limit of a `schedstat` line, which has three numbers.
const MAX_LINE_BYTES: usize = 64;

/// The threads at the last reading.
pub(super) struct Threads {
    names: NameReader,
    pid: u32,
    known: HashMap<u32, Known>,
    max_open_files: usize,
    /// Time of the last reading.
    read: Option<Nanos>,
}

struct Known {
    role: &'static str,
    readings: u32,
    times: Times,
    at: Nanos,
    /// Its `schedstat`, if that stays open.
    file: Option<File>,
}

/// `/proc/PID/task/TID/schedstat` (Documentation/scheduler/sched-stats.rst): nanoseconds on a CPU, nanoseconds waiting for
/// one, and times scheduled.
type Times = [u64; 3];

/// Increase of a thread's [`Times`] per second since the last reading.
type Rates = [f64; 3];

/// Rates of the threads of one role since the last reading.
#[derive(Default)]
struct RoleRates {
    rates: Rates,
    threads: u32,
}

impl Threads {
    pub(super) fn of(names: NameReader) -> Self {
        let max_open_files = raise_open_files() as usize;
        Self { names, pid: 0, known: HashMap::new(), max_open_files, read: None }
    }

    /// Samples all threads.
    /// A broker has hundreds, and there may be pauses between them, so each thread has its own time.
    pub(super) fn sample(
        &mut self,
        kernel: &Kernel,
        pid: u32,
        figures: &mut Figures,
        moment: &mut Moment<'_>,
    ) {
        if std::mem::replace(&mut self.pid, pid) != pid {
            (self.known, self.read) = (HashMap::new(), None);
        }
        let directory = kernel.of_process(pid, "task");
        let mut before = std::mem::take(&mut self.known);
        let is_same = count_threads(&directory) == Some(before.len());
        let tids = if is_same { before.keys().copied().collect() } else { list_threads(&directory) };
        let mut roles = BTreeMap::new();
        let count = tids.len();
        self.read_all(&directory, tids, &mut before, &mut roles, moment);
        if is_same && self.known.len() < count {
            // As many threads have started as have ended.
            let new_tids =
                list_threads(&directory).into_iter().filter(|tid| !self.known.contains_key(tid)).collect();
            self.read_all(&directory, new_tids, &mut before, &mut roles, moment);
        }
        let at = moment();
        let since = self.read.replace(at);
        for (name, role) in roles {
            role.sample(name, since, at, figures);
        }
    }

    /// Reads these threads, and compares each with its last reading.
    fn read_all(
        &mut self,
        directory: &Path,
        tids: Vec<u32>,
        before: &mut HashMap<u32, Known>,
        roles: &mut BTreeMap<&'static str, RoleRates>,
        moment: &mut Moment<'_>,
    ) {
        for tid in tids {
            let role = self.names.of(tid).map(|name| Role::of(name).as_str());
            let mut before = before.remove(&tid);
            let file = before.as_mut().and_then(|before| before.file.take());
            let at = moment();
            let thread = Known::read(&Thread { directory, tid }, role, before.as_ref(), (file, at));
            let Some(mut thread) = thread else { continue };
            let done = roles.entry(thread.role).or_default();
            done.threads += 1;
            done.add(&thread, before.as_ref(), self.read);
            thread.file.take_if(|_| self.known.len() >= self.max_open_files);
            self.known.insert(tid, thread);
        }
    }
}

/// Raises the process's descriptor limit to its maximum.
/// Returns how many files of threads may stay open. The usual limit, 1,024, is for programs that use `select`.
fn raise_open_files() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    // If that is refused, the limit stays.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    (descriptors / 2).clamp(MIN_OPEN_FILES, MAX_OPEN_FILES)
}

impl Known {
    /// Reads a thread at this time, from its open file if there is one.
    #[allow(clippy::disallowed_methods, reason = "/proc or /sys")]
    fn read(
        thread: &Thread<'_>,
        role: Option<&'static str>,
        before: Option<&Self>,
        (file, at): (Option<File>, Nanos),
    ) -> Option<Self> {
        let file = file.or_else(|| File::open(thread.path("schedstat")).ok())?;
        let mut line = [0; MAX_LINE_BYTES];
        let length = file.read_at(&mut line, 0).ok()?;
        let times = parse(std::str::from_utf8(line.get(..length)?).ok()?)?;
        let readings = before.map_or(0, |before| before.readings.saturating_add(1));
        let known = before.filter(|_| readings > 2 && readings % NAME_EVERY != 0).map(|before| before.role);
        let comm = || text::read(&thread.path("comm")).map(|comm| Role::of(comm.trim_end()).as_str());
        let role = role.or(known).or_else(comm)?;
        Some(Self { role, readings, times, at, file: Some(file) })
    }
}

/// A thread in `/proc/PID/task`.
struct Thread<'d> {
    directory: &'d Path,
    tid: u32,
}

impl Thread<'_> {
    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{}/{name}", self.tid))
    }
}

fn parse(text: &str) -> Option<Times> {
    let mut words = text.split_ascii_whitespace().map_while(|word| word.parse().ok());
    Some([words.next()?, words.next()?, words.next()?])
}

impl RoleRates {
    /// Adds a thread's increase since its last reading.
    /// The times of a thread that is new all count as since `since`, the last reading of all.
    fn add(&mut self, thread: &Known, before: Option<&Known>, since: Option<Nanos>) {
        let (earlier, since) = match before {
            Some(before) => (before.times, Some(before.at)),
            None => (Times::default(), since),
        };
        let Some(elapsed_s) = since.and_then(|since| seconds(since, thread.at)) else { return };
        for (rate, (now, then)) in self.rates.iter_mut().zip(thread.times.into_iter().zip(earlier)) {
            *rate += now.saturating_sub(then) as f64 / elapsed_s;
        }
    }

    fn sample(&self, name: &str, since: Option<Nanos>, at: Nanos, figures: &mut Figures) {
        let [ran_ns, waited_ns, switches] = self.rates;
        let mut figure = figures.of(HostScope::Threads, name);
        if let Some(since) = since {
            figure.add_over("cpu_ratio", (since, at), ran_ns / 1e9);
            figure.add_over("run_queue_ratio", (since, at), waited_ns / 1e9);
            figure.add_over("switches_per_second", (since, at), switches);
        }
        figure.add_over("thread_count", (since.unwrap_or(at), at), f64::from(self.threads));
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::Threads;
    use crate::host::figures::Figures;
    use crate::host::tests::fixture::Fixture;
    use crate::thread_names::ThreadNames;
    use model::{Event, Nanos};

    fn begin(fixture: &Fixture, tid: u32, ran_ms: u64) {
        fixture.file(&format!("proc/7/task/{tid}/comm"), "kafka-scheduler\n");
        fixture
            .file(&format!("proc/7/task/{tid}/schedstat"), &format!("{} 0 {ran_ms}\n", ran_ms * 1_000_000));
    }

    /// Switches per second and the number of threads.
    fn sample(threads: &mut Threads, fixture: &Fixture, second: i64) -> (Option<f64>, Option<f64>) {
        let (now, mut figures) = (Nanos(second * 1_000_000_000), Figures::default());
        threads.sample(&fixture.kernel(), 7, &mut figures, &mut || now);
        let value = |name: &str| {
            figures.samples.iter().find_map(|event| match event {
                Event::HostSample(sample) if &*sample.metric == name => Some(sample.value),
                _ => None,
            })
        };
        (value("switches_per_second"), value("thread_count"))
    }

    #[test]
    fn files_of_five_hundred_threads_stay_open() {
        let (fixture, names) = (Fixture::new("many-threads"), ThreadNames::default());
        let mut threads = Threads::of(names.reader());
        (8..508).for_each(|tid| begin(&fixture, tid, 10));
        assert_eq!(sample(&mut threads, &fixture, 1).1, Some(500.0));
        assert_eq!(threads.known.values().filter(|thread| thread.file.is_some()).count(), 500);
    }

    #[test]
    fn detects_started_and_ended_threads() {
        let (fixture, names) = (Fixture::new("threads"), ThreadNames::default());
        let mut threads = Threads::of(names.reader());
        (8..11).for_each(|tid| begin(&fixture, tid, 10));
        assert_eq!(sample(&mut threads, &fixture, 1), (None, Some(3.0)));
        begin(&fixture, 8, 15);
        begin(&fixture, 11, 40);
        assert_eq!(sample(&mut threads, &fixture, 2), (Some(45.0), Some(4.0)));
        // One thread starts as another ends, so the count stays. The file of a thread that has ended cannot be read.
        begin(&fixture, 9, 0);
        fixture.file("proc/7/task/9/schedstat", "");
        fs::remove_dir_all(fixture.path("proc/7/task/9")).unwrap();
        begin(&fixture, 12, 7);
        assert_eq!(sample(&mut threads, &fixture, 3), (Some(7.0), Some(4.0)));
        fs::remove_dir_all(fixture.path("proc/7/task/12")).unwrap();
        assert_eq!(sample(&mut threads, &fixture, 4), (Some(0.0), Some(3.0)));
    }
}
