//! CPU time of the broker's threads, by role.
//! Without full names, only the kernel's 15 characters are known: request handlers, network threads and acceptors of
//! the data plane share theirs (`data-plane-kafk`) and are one role.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use ahash::RandomState;
use jvm::Role;
use model::{HostScope, Nanos};
use probes::ThreadTimes;
use probes::thread_times::{Portions, ThreadList, ThreadLister};
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
/// Limit of portions to list, each of some hundred threads.
const MAX_PORTIONS: usize = 256;
/// How often threads are listed until none is missing: the kernel may leave some out while others end.
const LISTINGS: u32 = 3;

/// The threads at the last reading.
pub(super) struct Threads {
    names: NameReader,
    /// The table of names at the last reading.
    edition: u64,
    pid: u32,
    known: HashMap<u32, Known, RandomState>,
    /// Lists the threads of a process, if the kernel can.
    lister: Option<ThreadLister>,
    listed: Option<ThreadList>,
    max_open_files: usize,
    /// Time of the last reading.
    read: Option<Nanos>,
}

struct Known {
    role: &'static str,
    readings: u32,
    times: ThreadTimes,
    at: Nanos,
    /// Its `schedstat`, if that is read and stays open.
    file: Option<File>,
    /// Whether the present reading has it.
    is_read: bool,
}

/// Increase of a thread's times per second since the last reading: nanoseconds on a CPU, waiting for one, and switches.
type Rates = [f64; 3];

/// Rates of the threads of one role since the last reading.
#[derive(Default)]
struct RoleRates {
    rates: Rates,
    threads: u32,
}

/// A reading of all threads.
struct Reading<'d> {
    directory: &'d Path,
    /// There are new names.
    is_renamed: bool,
    threads: usize,
    roles: BTreeMap<&'static str, RoleRates>,
}

impl Threads {
    pub(super) fn of(names: NameReader, lister: Option<ThreadLister>) -> Self {
        let max_open_files = raise_open_files() as usize;
        let known = HashMap::default();
        Self { names, edition: 0, pid: 0, known, lister, listed: None, max_open_files, read: None }
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
            (self.known, self.read) = (HashMap::default(), None);
            self.listed = self.lister.as_ref().and_then(|lister| lister.of_process(pid).ok());
        }
        let directory = kernel.of_process(pid, "task");
        let edition = self.names.edition();
        let is_renamed = std::mem::replace(&mut self.edition, edition) != edition;
        let mut reading = Reading { directory: &directory, is_renamed, threads: 0, roles: BTreeMap::new() };
        if self.listed.is_some() {
            self.read_listed(&mut reading, moment);
        } else {
            self.read_files(&mut reading, moment);
        }
        let at = moment();
        let since = self.read.replace(at);
        for (name, role) in reading.roles {
            role.sample(name, since, at, figures);
        }
    }

    /// Reads the threads that the kernel lists.
    fn read_listed(&mut self, reading: &mut Reading<'_>, moment: &mut Moment<'_>) {
        for _ in 0..LISTINGS {
            let Some(portions) = self.listed.as_ref().and_then(|threads| threads.begin().ok()) else { break };
            self.read_portions(portions, reading, moment);
            if count_threads(reading.directory).is_none_or(|count| reading.threads >= count) {
                return self.finish(true);
            }
        }
        // They may only have been left out: the next reading compares with their last one.
        self.finish(false);
    }

    fn read_portions(&mut self, mut portions: Portions, reading: &mut Reading<'_>, moment: &mut Moment<'_>) {
        for _ in 0..MAX_PORTIONS {
            let at = moment();
            let Ok(portion) = portions.next_portion() else { return };
            let mut is_over = true;
            for times in portion {
                is_over = false;
                self.add(times, at, None, reading);
            }
            if is_over {
                return;
            }
        }
    }

    /// Reads each thread's file.
    fn read_files(&mut self, reading: &mut Reading<'_>, moment: &mut Moment<'_>) {
        let is_same = count_threads(reading.directory) == Some(self.known.len());
        let tids =
            if is_same { self.known.keys().copied().collect() } else { list_threads(reading.directory) };
        let count = tids.len();
        self.read_files_of(tids, reading, moment);
        if is_same && reading.threads < count {
            // As many threads have started as have ended.
            let mut tids = list_threads(reading.directory);
            tids.retain(|tid| !self.known.contains_key(tid));
            self.read_files_of(tids, reading, moment);
        }
        self.finish(true);
    }

    fn read_files_of(&mut self, tids: Vec<u32>, reading: &mut Reading<'_>, moment: &mut Moment<'_>) {
        for tid in tids {
            let open = self.known.get_mut(&tid).and_then(|thread| thread.file.take());
            let at = moment();
            let Some((times, file)) = read_file(reading.directory, tid, open) else { continue };
            self.add(times, at, Some(file), reading);
        }
    }

    /// Adds a thread's times, compared with its last reading.
    fn add(&mut self, times: ThreadTimes, at: Nanos, file: Option<File>, reading: &mut Reading<'_>) {
        let open_files = reading.threads;
        let known = self.known.get(&times.tid);
        if known.is_some_and(|thread| thread.is_read) {
            return;
        }
        let readings = known.map_or(0, |thread| thread.readings.saturating_add(1));
        let known = known.filter(|_| readings > 2 && readings % NAME_EVERY != 0).map(|thread| thread.role);
        let role = match known {
            Some(role) if !reading.is_renamed => role,
            _ => {
                let by_name = self.names.of(times.tid).map(|name| Role::of(name).as_str());
                let role = by_name.or(known).or_else(|| role_by_file(reading.directory, times.tid));
                let Some(role) = role else { return };
                role
            }
        };
        reading.threads += 1;
        let rates = reading.roles.entry(role).or_default();
        rates.threads += 1;
        let file = file.filter(|_| open_files < self.max_open_files);
        let thread = Known { role, readings, times, at, file, is_read: true };
        let before = self.known.insert(times.tid, thread);
        rates.add((&times, at), before.as_ref(), self.read);
    }

    /// Ends a reading. Threads that it does not have are forgotten if it has all.
    fn finish(&mut self, is_complete: bool) {
        self.known.retain(|_, thread| std::mem::replace(&mut thread.is_read, false) || !is_complete);
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

/// Reads a thread's times from its `schedstat`, which may be open already.
#[allow(clippy::disallowed_methods, reason = "/proc or /sys")]
fn read_file(directory: &Path, tid: u32, open: Option<File>) -> Option<(ThreadTimes, File)> {
    let file = open.or_else(|| File::open(directory.join(format!("{tid}/schedstat"))).ok())?;
    let mut line = [0; MAX_LINE_BYTES];
    let length = file.read_at(&mut line, 0).ok()?;
    let text = std::str::from_utf8(line.get(..length)?).ok()?;
    let mut words = text.split_ascii_whitespace().map_while(|word| word.parse().ok());
    let mut next = || words.next();
    let times = ThreadTimes { tid, ran_ns: next()?, waited_ns: next()?, switches: next()? };
    Some((times, file))
}

fn role_by_file(directory: &Path, tid: u32) -> Option<&'static str> {
    let comm = text::read(&directory.join(format!("{tid}/comm")))?;
    Some(Role::of(comm.trim_end()).as_str())
}

impl RoleRates {
    /// Adds a thread's increase since its last reading.
    /// The times of a thread that is new all count as since `since`, the last reading of all.
    fn add(&mut self, (times, at): (&ThreadTimes, Nanos), before: Option<&Known>, since: Option<Nanos>) {
        let Some(since) = before.map(|before| before.at).or(since) else { return };
        let Some(elapsed_s) = seconds(since, at) else { return };
        let increase = |of: fn(&ThreadTimes) -> u64| {
            of(times).saturating_sub(before.map_or(0, |before| of(&before.times))) as f64 / elapsed_s
        };
        let [ran, waited, switches] = &mut self.rates;
        *ran += increase(|times| times.ran_ns);
        *waited += increase(|times| times.waited_ns);
        *switches += increase(|times| times.switches);
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
    use std::collections::BTreeMap;
    use std::fs;
    use std::path::Path;
    use std::time::Duration;

    use super::{Reading, ThreadTimes, Threads};
    use crate::host::figures::Figures;
    use crate::host::tests::fixture::Fixture;
    use crate::thread_names::{ThreadName, ThreadNames};
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
        let mut threads = Threads::of(names.reader(), None);
        (8..508).for_each(|tid| begin(&fixture, tid, 10));
        assert_eq!(sample(&mut threads, &fixture, 1).1, Some(500.0));
        assert_eq!(threads.known.values().filter(|thread| thread.file.is_some()).count(), 500);
    }

    #[test]
    fn detects_started_and_ended_threads() {
        let (fixture, names) = (Fixture::new("threads"), ThreadNames::default());
        let mut threads = Threads::of(names.reader(), None);
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

    /// Reads these threads at a second, each with its milliseconds on a CPU; returns the CPU time per second.
    fn read(threads: &mut Threads, listed: &[(u32, u64)], second: i64, is_complete: bool) -> Duration {
        let directory = Path::new("/");
        let mut reading = Reading { directory, is_renamed: true, threads: 0, roles: BTreeMap::new() };
        for &(tid, ran_ms) in listed {
            let times = ThreadTimes { tid, ran_ns: ran_ms * 1_000_000, waited_ns: 0, switches: 0 };
            threads.add(times, Nanos(second * 1_000_000_000), None, &mut reading);
        }
        threads.finish(is_complete);
        threads.read = Some(Nanos(second * 1_000_000_000));
        Duration::from_secs_f64(reading.roles.values().map(|role| role.rates[0] / 1e9).sum())
    }

    #[test]
    fn thread_left_out_of_a_list_is_compared_with_its_last_reading() {
        let names = ThreadNames::default();
        let thread = |comm: &str| ThreadName { comm: comm.into(), full: comm.into() };
        names.publish([(8, thread("a")), (9, thread("b"))].into());
        let mut threads = Threads::of(names.reader(), None);
        read(&mut threads, &[(8, 100), (9, 5_000)], 1, true);
        assert_eq!(read(&mut threads, &[(8, 200)], 2, false), Duration::from_millis(100));
        assert_eq!(
            read(&mut threads, &[(8, 200), (9, 5_400), (9, 5_400)], 3, true),
            Duration::from_millis(200),
            "over two seconds, and once"
        );
        assert_eq!(read(&mut threads, &[(8, 300)], 4, true), Duration::from_millis(100));
        assert_eq!(threads.known.len(), 1, "the other one has ended");
    }
}
