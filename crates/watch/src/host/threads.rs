//! Processor time of the broker's threads, by role. Where full names are not known, the kernel keeps 15 characters:
//! request handlers, network threads and acceptors of the data plane share theirs (`data-plane-kafk`) and are one role.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

use jvm::Role;
use model::{HostScope, Nanos};

use super::Moment;
use super::figures::{Figures, seconds};
use super::text::{self, Kernel};
use crate::thread_names::NameReader;

/// More threads than this are not looked at: a broker has one or two hundred.
const MAX_THREADS: usize = 8_192;
/// A thread is started first and named then: its name is read again at its second and third reading, and now
/// and again afterwards. In readings.
const NAME_EVERY: u32 = 60;

/// The threads as they were at the last reading.
pub(super) struct Threads {
    names: NameReader,
    pid: u32,
    known: HashMap<u32, Known>,
    /// When that was.
    read: Option<Nanos>,
}

#[derive(Clone, Copy)]
struct Known {
    role: &'static str,
    readings: u32,
    times: Times,
    at: Nanos,
}

/// `/proc/PID/task/TID/schedstat` (Documentation/scheduler/sched-stats.rst): nanoseconds on a processor and waiting for one, and
/// how often it was put on one.
type Times = [u64; 3];

/// What a thread did since the last reading: of its [`Times`], how much per second.
type Rates = [f64; 3];

/// What the threads of one role did since the last reading.
#[derive(Default)]
struct Done {
    rates: Rates,
    threads: u32,
}

impl Threads {
    pub(super) fn of(names: NameReader) -> Self {
        Self { names, pid: 0, known: HashMap::new(), read: None }
    }

    /// A broker has hundreds of threads: between them may be a rest, so that each thread has its own time.
    pub(super) fn sample(
        &mut self,
        kernel: &Kernel,
        pid: u32,
        figures: &mut Figures,
        moment: &mut Moment<'_>,
    ) {
        let first = std::mem::replace(&mut self.pid, pid) != pid;
        let since = self.read.filter(|_| !first);
        let before = std::mem::take(&mut self.known);
        let mut roles: BTreeMap<&'static str, Done> = BTreeMap::new();
        let tasks = fs::read_dir(kernel.of_process(pid, "task")).into_iter().flatten().flatten();
        let mut path = kernel.of_process(pid, "task");
        for task in tasks.take(MAX_THREADS) {
            let name = task.file_name();
            let Some(tid) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
            path.push(&name);
            let role = self.names.of(tid).map(|name| Role::of(name).as_str());
            let before = before.get(&tid).filter(|_| !first);
            let thread = Known::read(&path, role, before, moment());
            path.pop();
            let Some(thread) = thread else { continue };
            let role = roles.entry(thread.role).or_default();
            role.threads += 1;
            role.add(&thread, before, since);
            self.known.insert(tid, thread);
        }
        let at = moment();
        self.read = Some(at);
        for (name, role) in roles {
            role.sample(name, since, at, figures);
        }
    }
}

impl Known {
    /// The thread at this time.
    fn read(dir: &Path, role: Option<&'static str>, before: Option<&Self>, at: Nanos) -> Option<Self> {
        let times = parse(&text::read(&dir.join("schedstat"))?)?;
        let readings = before.map_or(0, |before| before.readings.saturating_add(1));
        let known = before.filter(|_| readings > 2 && readings % NAME_EVERY != 0).map(|before| before.role);
        let comm = || text::read(&dir.join("comm")).map(|comm| Role::of(comm.trim_end()).as_str());
        let role = role.or(known).or_else(comm)?;
        Some(Self { role, readings, times, at })
    }
}

fn parse(text: &str) -> Option<Times> {
    let mut words = text.split_whitespace().map_while(|word| word.parse().ok());
    Some([words.next()?, words.next()?, words.next()?])
}

impl Done {
    /// Adds a thread, beside itself at the reading before, which was at `since`; one that was not there then did all of it
    /// since.
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
            figure.holds("cpu_ratio", (since, at), ran_ns / 1e9);
            figure.holds("run_queue_ratio", (since, at), waited_ns / 1e9);
            figure.holds("switches_per_second", (since, at), switches);
        }
        figure.holds("thread_count", (since.unwrap_or(at), at), f64::from(self.threads));
    }
}
