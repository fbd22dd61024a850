//! One window: the load's results, everybody's CPU time, and how much of the machine others used.

use std::collections::BTreeMap;
use std::fs;
use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::Context as _;

use super::treatment::Treatment;
use crate::kernel::accounts::{self, Ran};
use crate::kernel::latencies::Quantiles;
use crate::table;

/// Length of a window: short, so that both windows of a pair have the same conditions; some 15,000 requests, 150 of
/// them beyond the p99.
pub(super) const LENGTH: Duration = Duration::from_secs(3);
/// `USER_HZ`: the unit of `/proc/stat` on every architecture Debian has.
const TICKS_PER_SECOND: f64 = 100.0;
const SPINS: usize = 5;
const SPIN_STEPS: u64 = 200_000;

/// A figure of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Metric {
    /// The broker's CPU time per request, including programs in its threads.
    Broker,
    /// The same, plus the watchers' own.
    All,
    P90,
    P95,
    P99,
    /// The share of requests that took longer than 2 ms.
    Slow,
    /// Requests per second.
    Throughput,
}

/// Results of a window.
pub(super) struct Window {
    /// `None` without a watcher.
    pub(super) treatment: Option<Treatment>,
    pub(super) seen: Quantiles,
    broker: Duration,
    watchers: Duration,
    /// CPU time of everything except broker, load and watchers. Relative to the window's length. By ticks, which may
    /// interfere with the load's even rate: it shows that something else ran in a window, not how much.
    others: f64,
    pub(super) steal: f64,
    /// Time of a constant loop before the window, in microseconds.
    spin_us: f64,
    programs: BTreeMap<String, Ran>,
}

/// CPU time of everybody so far.
pub(super) struct Accounts {
    broker: BTreeMap<u32, Duration>,
    load: BTreeMap<u32, Duration>,
    watchers: Vec<BTreeMap<u32, Duration>>,
    machine: Machine,
    programs: BTreeMap<String, Ran>,
    spin_us: f64,
    at: Instant,
}

impl Accounts {
    pub(super) fn read(broker: u32, load: u32, watchers: &[u32]) -> anyhow::Result<Self> {
        let spin_us = spin();
        let mut programs = BTreeMap::new();
        for &pid in watchers {
            programs.extend(accounts::programs(pid)?);
        }
        Ok(Self {
            broker: thread_times(broker)?,
            load: thread_times(load)?,
            watchers: watchers.iter().map(|&pid| thread_times(pid)).collect::<anyhow::Result<_>>()?,
            machine: Machine::read()?,
            programs,
            spin_us,
            at: Instant::now(),
        })
    }
}

/// Run time of each thread of a process and of its children, from the scheduler: a recorder's packets are parsed by
/// another process.
pub(super) fn thread_times(pid: u32) -> anyhow::Result<BTreeMap<u32, Duration>> {
    let path = format!("/proc/{pid}/task");
    let mut times = BTreeMap::new();
    for entry in fs::read_dir(&path).with_context(|| path.clone())? {
        let entry = entry?;
        // A thread may end meanwhile.
        let Ok(text) = fs::read_to_string(entry.path().join("schedstat")) else { continue };
        let ran = text.split_whitespace().next().and_then(|ran| ran.parse().ok());
        let tid = entry.file_name().to_str().and_then(|tid| tid.parse().ok());
        if let Some((tid, ran)) = tid.zip(ran) {
            times.insert(tid, Duration::from_nanos(ran));
        }
    }
    for child in lab::program::children(pid) {
        times.extend(thread_times(child)?);
    }
    Ok(times)
}

/// Run time of threads between two readings; that of threads that ended meanwhile is not known.
pub(super) fn ran_between(before: &BTreeMap<u32, Duration>, after: &BTreeMap<u32, Duration>) -> Duration {
    after.iter().map(|(tid, ran)| ran.saturating_sub(before.get(tid).copied().unwrap_or_default())).sum()
}

/// Times of all CPUs together, in seconds.
#[derive(Clone, Copy)]
struct Machine {
    busy: f64,
    steal: f64,
    cpus: f64,
}

impl Machine {
    fn read() -> anyhow::Result<Self> {
        let stat = fs::read_to_string("/proc/stat").context("/proc/stat")?;
        let line = stat.lines().next().context("/proc/stat is empty")?;
        let ticks: Vec<f64> =
            line.split_whitespace().skip(1).filter_map(|ticks| ticks.parse().ok()).collect();
        // user, nice, system, idle, iowait, irq, softirq, steal; guest time is in user time (fs/proc/stat.c).
        let [user, nice, system, _, _, irq, softirq, steal, ..] = ticks[..] else {
            anyhow::bail!("/proc/stat: {line}")
        };
        let cpus = stat.lines().skip(1).filter(|line| line.starts_with("cpu")).count() as f64;
        let busy = (user + nice + system + irq + softirq) / TICKS_PER_SECOND;
        Ok(Self { busy, steal: steal / TICKS_PER_SECOND, cpus })
    }
}

/// Time of a loop without memory accesses, in microseconds: the fastest of a few.
fn spin() -> f64 {
    let once = || {
        let begun = Instant::now();
        let mut state = 88_172_645_463_325_252_u64;
        for _ in 0..SPIN_STEPS {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
        }
        black_box(state);
        begun.elapsed().as_secs_f64() * 1e6
    };
    (0..SPINS).map(|_| once()).fold(f64::INFINITY, f64::min)
}

impl Window {
    pub(super) fn between(
        before: &Accounts,
        after: Accounts,
        seen: Quantiles,
        treatment: Option<Treatment>,
    ) -> Self {
        let seconds = (after.at - before.at).as_secs_f64();
        let broker = ran_between(&before.broker, &after.broker);
        let watchers = before.watchers.iter().zip(&after.watchers);
        let watchers = watchers.map(|(before, after)| ran_between(before, after)).sum();
        let known = broker + watchers + ran_between(&before.load, &after.load);
        let busy = after.machine.busy - before.machine.busy;
        let ran = |(name, ran): (String, Ran)| {
            let ran = ran.since(before.programs.get(&name).copied().unwrap_or_default());
            (name, ran)
        };
        Self {
            treatment,
            seen,
            broker,
            watchers,
            others: (busy - known.as_secs_f64()).max(0.0) / seconds,
            steal: (after.machine.steal - before.machine.steal) / (seconds * after.machine.cpus),
            spin_us: before.spin_us,
            programs: after.programs.into_iter().map(ran).collect(),
        }
    }

    pub(super) fn figure(&self, metric: Metric) -> f64 {
        let of_request = |time: Duration| time.as_secs_f64() * 1e6 / self.seen.requests as f64;
        match metric {
            Metric::Broker => of_request(self.broker),
            Metric::All => of_request(self.broker + self.watchers),
            Metric::P90 => self.seen.p90,
            Metric::P95 => self.seen.p95,
            Metric::P99 => self.seen.p99,
            Metric::Slow => self.seen.slow,
            Metric::Throughput => self.seen.requests as f64 / self.seen.seconds,
        }
    }

    fn in_programs(&self) -> Duration {
        self.programs.values().map(|ran| ran.time).sum()
    }

    /// Time of the watchers and of their programs, relative to the broker's own.
    pub(super) fn watching_share(&self) -> f64 {
        let own = self.broker.saturating_sub(self.in_programs());
        (self.watchers + self.in_programs()).as_secs_f64() / own.as_secs_f64()
    }

    pub(super) const LOG_HEADINGS: &str = "watched by\trequests\tp50 ms\tp90 ms\tp95 ms\tp99 ms\tover 2 ms\tbroker us/request\t\
                                           watchers us/request\tothers\tsteal\tspin us";

    pub(super) fn log_line(&self) -> String {
        let Quantiles { requests, p50, p90, p95, p99, slow, .. } = self.seen;
        let broker = self.figure(Metric::Broker);
        let watchers = self.figure(Metric::All) - broker;
        let name = self.treatment.map_or("nobody", Treatment::name);
        format!(
            "{name}\t{requests}\t{p50}\t{p90}\t{p95}\t{p99}\t{slow:.5}\t{broker:.2}\t{watchers:.2}\t{:.3}\t{:.4}\t{:.1}",
            self.others, self.steal, self.spin_us
        )
    }
}

/// Prints the results of windows without a watcher. Also prints how much of the machine others used overall.
pub(super) fn print_noise(windows: &[Window]) {
    let spread = |of: &dyn Fn(&Window) -> f64, of_all: bool| {
        let chosen = windows.iter().filter(|window| of_all || window.treatment.is_none());
        let mut values: Vec<f64> = chosen.map(of).collect();
        values.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let last = values.len().saturating_sub(1);
            values.get((last as f64 * share) as usize).copied().unwrap_or(f64::NAN)
        };
        format!("{:.2} ({:.2} to {:.2})", at(0.5), at(0.0), at(1.0))
    };
    let rows = [
        (
            "nobody watches: broker's CPU, us a request",
            spread(&|window| window.figure(Metric::Broker), false),
        ),
        ("nobody watches: p50, ms", spread(&|window| window.seen.p50, false)),
        ("nobody watches: p95, ms", spread(&|window| window.seen.p95, false)),
        ("nobody watches: p99, ms", spread(&|window| window.seen.p99, false)),
        ("requests/s", spread(&|window| window.figure(Metric::Throughput), true)),
        ("steal time, %", spread(&|window| window.steal * 100.0, true)),
        ("CPU of other processes by ticks, % of one", spread(&|window| window.others * 100.0, true)),
        ("a loop of the same steps, us", spread(&|window| window.spin_us, true)),
    ];
    table::print(
        &["windows", "median (least to greatest)"],
        rows.into_iter().map(|(what, spread)| vec![what.to_owned(), spread]),
    );
    println!();
}

/// Prints the run time of BPF programs, the most expensive first. Covers windows in which the kernel counted it.
pub(super) fn print_programs(treatment: Treatment, windows: &[Window]) {
    let mut programs: BTreeMap<&str, Ran> = BTreeMap::new();
    for (name, ran) in windows.iter().flat_map(|window| &window.programs) {
        programs.entry(name).or_default().add(*ran);
    }
    let requests: f64 = windows.iter().map(|window| window.seen.requests as f64).sum();
    let mut ran: Vec<_> = programs.iter().filter(|(_, ran)| ran.count > 0).collect();
    ran.sort_by_key(|(_, ran)| std::cmp::Reverse(ran.time));
    let row = |name: &str, ran: &Ran| {
        let nanos = ran.time.as_nanos() as f64;
        vec![
            name.to_owned(),
            format!("{:.2}", ran.count as f64 / requests),
            format!("{:.0}", nanos / ran.count as f64),
            format!("{:.0}", nanos / requests),
            ran.skipped.to_string(),
        ]
    };
    let mut all = Ran::default();
    for (_, ran) in &ran {
        all.add(**ran);
    }
    let rows = ran.iter().map(|(name, ran)| row(name, ran)).chain([row("all programs", &all)]);
    println!("{}: BPF programs, counted by the kernel (counting costs time too):", treatment.name());
    table::print(&["program", "runs/request", "ns a run", "ns/request", "skipped"], rows);
    let watchers: f64 = windows.iter().map(|window| window.watchers.as_nanos() as f64).sum();
    println!("its process: {:.0} ns/request\n", watchers / requests);
}
