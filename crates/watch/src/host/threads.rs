//! Processor time of the broker's threads, by role. Where full names are not known, the kernel keeps 15 characters:
//! request handlers, network threads and acceptors of the data plane share theirs (`data-plane-kafk`) and are one role.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

use jvm::Role;
use model::HostScope;

use super::figures::Figures;
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
}

#[derive(Clone, Copy)]
struct Known {
    role: &'static str,
    readings: u32,
    time: Time,
}

/// `/proc/PID/task/TID/schedstat` (Documentation/scheduler/sched-stats.rst).
#[derive(Clone, Copy, Default)]
struct Time {
    ran_ns: u64,
    waited_ns: u64,
    switches: u64,
}

/// What the threads of one role did since the last reading.
#[derive(Default)]
struct Done {
    time: Time,
    threads: u32,
}

impl Threads {
    pub(super) fn of(names: NameReader) -> Self {
        Self { names, pid: 0, known: HashMap::new() }
    }

    pub(super) fn sample(&mut self, kernel: &Kernel, pid: u32, figures: &mut Figures) {
        let first = std::mem::replace(&mut self.pid, pid) != pid;
        let before = std::mem::take(&mut self.known);
        let mut roles: BTreeMap<&'static str, Done> = BTreeMap::new();
        let tasks = fs::read_dir(kernel.of_process(pid, "task")).into_iter().flatten().flatten();
        let mut path = kernel.of_process(pid, "task");
        for task in tasks.take(MAX_THREADS) {
            let name = task.file_name();
            let Some(tid) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
            path.push(&name);
            let role = self.names.of(tid).map(|name| Role::of(name).as_str());
            let thread = Known::read(&path, role, before.get(&tid).filter(|_| !first));
            path.pop();
            let Some((thread, increase)) = thread else { continue };
            let role = roles.entry(thread.role).or_default();
            role.threads += 1;
            role.time.add(increase);
            self.known.insert(tid, thread);
        }
        let elapsed_s = figures.elapsed_s().filter(|_| !first);
        for (name, role) in roles {
            role.sample(name, elapsed_s, figures);
        }
    }
}

impl Known {
    /// The thread now, and what it did since `before`; a thread that was not there then did all of it since.
    fn read(dir: &Path, role: Option<&'static str>, before: Option<&Self>) -> Option<(Self, Time)> {
        let time = Time::parse(&text::read(&dir.join("schedstat"))?)?;
        let readings = before.map_or(0, |before| before.readings.saturating_add(1));
        let known = before.filter(|_| readings > 2 && readings % NAME_EVERY != 0).map(|before| before.role);
        let comm = || text::read(&dir.join("comm")).map(|comm| Role::of(comm.trim_end()).as_str());
        let role = role.or(known).or_else(comm)?;
        let increase = time.since(before.map(|before| before.time).unwrap_or_default());
        Some((Self { role, readings, time }, increase))
    }
}

impl Time {
    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace().map_while(|word| word.parse().ok());
        Some(Self { ran_ns: words.next()?, waited_ns: words.next()?, switches: words.next()? })
    }

    fn since(self, before: Self) -> Self {
        Self {
            ran_ns: self.ran_ns.saturating_sub(before.ran_ns),
            waited_ns: self.waited_ns.saturating_sub(before.waited_ns),
            switches: self.switches.saturating_sub(before.switches),
        }
    }

    fn add(&mut self, other: Self) {
        self.ran_ns = self.ran_ns.saturating_add(other.ran_ns);
        self.waited_ns = self.waited_ns.saturating_add(other.waited_ns);
        self.switches = self.switches.saturating_add(other.switches);
    }
}

impl Done {
    fn sample(&self, name: &str, elapsed_s: Option<f64>, figures: &mut Figures) {
        let per_second = |count: u64| elapsed_s.map(|elapsed_s| count as f64 / elapsed_s);
        let ratio = |ns: u64| per_second(ns).map(|ns| ns / 1e9);
        let mut figure = figures.of(HostScope::Threads, name);
        figure.stands("cpu_ratio", ratio(self.time.ran_ns));
        figure.stands("run_queue_ratio", ratio(self.time.waited_ns));
        figure.stands("switches_per_second", per_second(self.time.switches));
        figure.stands("thread_count", f64::from(self.threads));
    }
}
