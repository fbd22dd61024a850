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
    times: Times,
}

/// `/proc/PID/task/TID/schedstat` (Documentation/scheduler/sched-stats.rst): nanoseconds on a processor and waiting for one, and
/// how often it was put on one.
type Times = [u64; 3];

/// What the threads of one role did since the last reading.
#[derive(Default)]
struct Done {
    times: Times,
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
            role.times = combine(role.times, increase, u64::saturating_add);
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
    fn read(dir: &Path, role: Option<&'static str>, before: Option<&Self>) -> Option<(Self, Times)> {
        let times = parse(&text::read(&dir.join("schedstat"))?)?;
        let readings = before.map_or(0, |before| before.readings.saturating_add(1));
        let known = before.filter(|_| readings > 2 && readings % NAME_EVERY != 0).map(|before| before.role);
        let comm = || text::read(&dir.join("comm")).map(|comm| Role::of(comm.trim_end()).as_str());
        let role = role.or(known).or_else(comm)?;
        let earlier = before.map(|before| before.times).unwrap_or_default();
        Some((Self { role, readings, times }, combine(times, earlier, u64::saturating_sub)))
    }
}

fn parse(text: &str) -> Option<Times> {
    let mut words = text.split_whitespace().map_while(|word| word.parse().ok());
    Some([words.next()?, words.next()?, words.next()?])
}

/// Each with its counterpart.
fn combine(mut times: Times, others: Times, with: fn(u64, u64) -> u64) -> Times {
    times.iter_mut().zip(others).for_each(|(time, other)| *time = with(*time, other));
    times
}

impl Done {
    fn sample(&self, name: &str, elapsed_s: Option<f64>, figures: &mut Figures) {
        let per_second = |count: u64| elapsed_s.map(|elapsed_s| count as f64 / elapsed_s);
        let ratio = |ns: u64| per_second(ns).map(|ns| ns / 1e9);
        let [ran_ns, waited_ns, switches] = self.times;
        let mut figure = figures.of(HostScope::Threads, name);
        figure.stands("cpu_ratio", ratio(ran_ns));
        figure.stands("run_queue_ratio", ratio(waited_ns));
        figure.stands("switches_per_second", per_second(switches));
        figure.stands("thread_count", f64::from(self.threads));
    }
}
