//! The cost of watching: measures BPF programs and this process, over a minute, as a share of the broker's CPU time, and sheds
//! parts of the watch if that is too much. Does not attach or detach anything: each source checks whether it is shed.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use model::Pid;
use probes::overhead;
use rustix::time::{ClockId, clock_gettime};

use crate::plan::{Outcome, Purpose};
use crate::process::{Stat, children_seconds};
use crate::queue::lock;
use crate::source::{Feed, Pace, Source, WatchSummary};

/// Time between two readings.
const INTERVAL: Duration = Duration::from_secs(10);
/// How long programs are measured in each interval: measuring takes about 60 ns per run, so doing it all the time would cost more
/// than the programs.
const SAMPLE: Duration = Duration::from_millis(250);
/// Time over which the cost is averaged. Nothing is shed earlier, nor again within this time.
const WINDOW: Duration = Duration::from_secs(60);
/// CPUs below which watching never costs too much.
/// This holds even if an idle broker uses less.
const MIN_CPUS: f64 = 0.01;

/// Parts of a watch that can be shed, in order: first the one that explains least for its cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    /// CPU samples.
    CpuSamples,
    /// Off-CPU times of an always-on watch.
    Waits,
    /// Host figures.
    Host,
    /// All hooks of a full watch; in an always-on watch, the hooks on rare events.
    /// Only requests are left then.
    Probes,
}

/// The cost of watching, as shares of the broker's CPU time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// BPF programs, mostly in the broker's own threads.
    /// `None` if the kernel does not measure them.
    pub programs: Option<f64>,
    /// This process and its parser processes.
    pub process: f64,
}

/// The cost of a watch, and the parts that were shed. Clones share one state.
#[derive(Clone, Debug, Default)]
pub struct Costs(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    cost: Option<Cost>,
    /// Parts that run and can be shed, with their purposes.
    offered: Vec<(Part, Vec<String>)>,
    shed: Vec<Part>,
    /// Purposes of the parts that were shed, in that order.
    missing: Vec<Purpose>,
    why: String,
    /// Whether an escalation is active, to which the limit does not apply.
    is_escalated: bool,
}

impl Costs {
    /// The cost in the last minute; `None` in the first minute.
    pub fn cost(&self) -> Option<Cost> {
        lock(&self.0).cost
    }

    /// Purposes that are no longer watched, with reasons, except the first `known`.
    pub fn shed_after(&self, known: usize) -> Vec<Purpose> {
        lock(&self.0).missing.get(known..).unwrap_or_default().to_vec()
    }

    /// Registers a part that can be shed.
    pub(crate) fn offer(&self, part: Part, purposes: &[impl AsRef<str>]) {
        let purposes = purposes.iter().map(|purpose| purpose.as_ref().to_owned()).collect();
        lock(&self.0).offered.push((part, purposes));
    }

    pub(crate) fn is_shed(&self, part: Part) -> bool {
        lock(&self.0).shed.contains(&part)
    }

    /// Whether an escalation is active. Its cost is bounded by its length.
    pub(crate) fn is_escalated(&self) -> bool {
        lock(&self.0).is_escalated
    }

    pub(crate) fn set_escalated(&self, is_escalated: bool) {
        lock(&self.0).is_escalated = is_escalated;
    }

    pub(crate) fn why_shed(&self) -> String {
        lock(&self.0).why.clone()
    }

    /// Sheds the next part for good, if there is one.
    pub(crate) fn shed_next(&self, why: String) {
        let mut state = lock(&self.0);
        let State { offered, shed, missing, .. } = &mut *state;
        let left = offered.iter().filter(|(part, _)| !shed.contains(part));
        let Some((part, purposes)) = left.min_by_key(|(part, _)| *part) else { return };
        shed.push(*part);
        missing.extend(
            purposes
                .iter()
                .map(|purpose| Purpose { purpose: purpose.clone(), outcome: Outcome::Missing(why.clone()) }),
        );
        state.why = why;
    }
}

/// CPU time used up to a moment, in seconds; for programs, CPUs in use.
#[derive(Clone, Copy, Debug)]
struct Reading {
    at: Instant,
    pid: Pid,
    broker_seconds: f64,
    process_seconds: f64,
    programs: Option<f64>,
}

/// Readings of one broker process, a [`WINDOW`] of them.
#[derive(Debug, Default)]
struct Window(VecDeque<Reading>);

/// CPUs used in a window, on average.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Usage {
    broker: f64,
    process: f64,
    programs: Option<f64>,
}

impl Window {
    fn push(&mut self, reading: Reading) {
        if self.0.back().is_some_and(|last| last.pid != reading.pid) {
            self.0.clear();
        }
        let has_passed = |first: &Reading| reading.at.duration_since(first.at) >= WINDOW;
        // Keep the last reading that is at least a whole window old.
        while self.0.get(1).is_some_and(has_passed) {
            self.0.pop_front();
        }
        self.0.push_back(reading);
    }

    /// Usage in the window; `None` until it is full.
    fn usage(&self) -> Option<Usage> {
        let (first, last) = (self.0.front()?, self.0.back()?);
        let passed = last.at.duration_since(first.at);
        if passed < WINDOW {
            return None;
        }
        let seconds = passed.as_secs_f64();
        let measured: Vec<f64> = self.0.iter().filter_map(|reading| reading.programs).collect();
        let mean = measured.iter().sum::<f64>() / measured.len() as f64;
        Some(Usage {
            broker: (last.broker_seconds - first.broker_seconds) / seconds,
            // The total drops when a parser process ends.
            process: (last.process_seconds - first.process_seconds).max(0.0) / seconds,
            programs: (!measured.is_empty()).then_some(mean),
        })
    }
}

impl Usage {
    /// Usage as shares of the broker's; `None` if the broker used nothing.
    fn cost(&self) -> Option<Cost> {
        let share = |cpus: f64| cpus / self.broker;
        (self.broker > 0.0).then(|| Cost { programs: self.programs.map(share), process: share(self.process) })
    }

    /// Reason to shed a part; `None` if the cost is low enough.
    fn why_shed(&self, max: f64) -> Option<String> {
        let cpus = self.process + self.programs.unwrap_or(0.0);
        let is_too_much = cpus >= MIN_CPUS && cpus > max * self.broker;
        is_too_much.then(|| {
            format!(
                "over --max-cost {} %: watching took {:.1} % of a CPU in a minute, the broker {:.1} %",
                max * 100.0,
                cpus * 100.0,
                self.broker * 100.0
            )
        })
    }
}

/// Measures the cost, and sheds one part after another while it is too high.
pub(crate) struct CostSource {
    /// Share of the broker's CPU time.
    max: f64,
    window: Window,
}

impl CostSource {
    pub(crate) fn new(max: f64) -> Self {
        Self { max, window: Window::default() }
    }
}

impl Source for CostSource {
    type Error = Infallible;

    const NAME: &'static str = "cost";
    const PACE: Pace = Pace::Every(INTERVAL);

    fn drop_capabilities() {
        let _ = crate::privileges::keep_measuring_capability();
    }

    fn poll(&mut self, feed: &Feed, _: Duration) -> Result<(), Infallible> {
        if feed.costs.is_escalated() {
            self.window = Window::default();
            return Ok(());
        }
        let broker = feed.current.get().filter(|_| !feed.is_stopped());
        let Some(reading) = broker.and_then(|broker| read(broker.pid)) else { return Ok(()) };
        self.window.push(reading);
        let Some(usage) = self.window.usage() else { return Ok(()) };
        lock(&feed.costs.0).cost = usage.cost();
        if let Some(why) = usage.why_shed(self.max) {
            feed.costs.shed_next(why);
            // The cost without that part is known in a minute.
            self.window = Window::default();
        }
        Ok(())
    }

    fn summarize(self, _: Result<(), Infallible>) -> WatchSummary {
        WatchSummary::default()
    }
}

fn read(pid: Pid) -> Option<Reading> {
    let programs = measure_programs("self");
    let broker_seconds = Stat::of(pid)?.cpu_seconds();
    let process = clock_gettime(ClockId::ProcessCPUTime);
    let own_seconds = process.tv_sec as f64 + process.tv_nsec as f64 / 1e9;
    let process_seconds = own_seconds + children_seconds(std::process::id());
    Some(Reading { at: Instant::now(), pid, broker_seconds, process_seconds, programs })
}

/// CPUs that the BPF programs of a process use at the moment.
/// `process` is its name in `/proc`. `None` if the kernel does not measure them.
pub(crate) fn measure_programs(process: &str) -> Option<f64> {
    let measuring = overhead::count_run_time();
    let programs = overhead::Programs::of(process);
    let (start, before) = (Instant::now(), programs.run_times());
    std::thread::sleep(SAMPLE);
    let (passed, after) = (start.elapsed(), programs.run_times());
    let of_program = |(id, now): (&u32, &overhead::RunTime)| {
        let before = before.get(id).copied().unwrap_or_default();
        now.run_time_ns.saturating_sub(before.run_time_ns)
    };
    let run_time_ns = after.iter().map(of_program).sum::<u64>();
    // Another process may have enabled the measurement.
    let is_measured = measuring.is_some() || run_time_ns > 0;
    is_measured.then(|| run_time_ns as f64 / 1e9 / passed.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::{Costs, Duration, INTERVAL, Instant, Part, Pid, Reading, Usage, WINDOW, Window};

    /// Readings of a broker and a watch over `count` intervals.
    /// The broker uses half a CPU, and the watch `process` and `programs` CPUs.
    fn window(pid: Pid, count: u32, process: f64, programs: Option<f64>) -> Window {
        let (start, mut window) = (Instant::now(), Window::default());
        for number in 0..=count {
            let passed = INTERVAL * number;
            let seconds = passed.as_secs_f64();
            let (broker_seconds, process_seconds) = (0.5 * seconds, process * seconds);
            let at = start + passed;
            window.push(Reading { at, pid, broker_seconds, process_seconds, programs });
        }
        window
    }

    #[test]
    fn usage_is_unknown_before_one_minute() {
        let full = (WINDOW.as_secs() / INTERVAL.as_secs()) as u32;
        assert_eq!(window(1, full - 1, 0.1, None).usage(), None);
        let usage = window(1, full, 0.1, Some(0.05)).usage().unwrap();
        assert!((usage.broker - 0.5).abs() < 1e-9 && (usage.process - 0.1).abs() < 1e-9, "{usage:?}");
        let cost = usage.cost().unwrap();
        assert!((cost.process - 0.2).abs() < 1e-9, "{cost:?}");
        assert!((cost.programs.unwrap() - 0.1).abs() < 1e-9, "{cost:?}");
        // Old readings are removed, and so are those of another process.
        let mut long = window(1, 10 * full, 0.1, None);
        assert_eq!(long.0.len() as u32, full + 1);
        let at = long.0.back().unwrap().at + Duration::from_secs(1);
        long.push(Reading { at, pid: 2, broker_seconds: 0.0, process_seconds: 0.0, programs: None });
        assert_eq!((long.0.len(), long.usage()), (1, None));
    }

    #[test]
    fn cost_limit_is_a_share_of_the_broker_with_a_minimum() {
        let usage = |broker, process, programs| Usage { broker, process, programs };
        let is_shed = |usage: Usage| usage.why_shed(0.03).is_some();
        assert!(!is_shed(usage(1.0, 0.02, Some(0.009))));
        assert!(is_shed(usage(1.0, 0.02, Some(0.011))));
        assert!(!is_shed(usage(1.0, 0.02, None)), "what is not measured is not guessed");
        assert!(!is_shed(usage(0.0, 0.009, None)), "a large share of a broker that does nothing");
        assert!(is_shed(usage(0.0, 0.011, None)));
        assert!(usage(0.1, 2.0, Some(1.0)).why_shed(f64::INFINITY).is_none());
        let why = usage(0.5, 0.02, Some(0.03)).why_shed(0.03).unwrap();
        assert_eq!(why, "over --max-cost 3 %: watching took 5.0 % of a CPU in a minute, the broker 50.0 %");
        assert_eq!(usage(0.0, 0.1, None).cost(), None);
    }

    #[test]
    fn sheds_the_least_useful_parts_first() {
        let costs = Costs::default();
        costs.offer(Part::Probes, &["file-writes", "journal"]);
        costs.offer(Part::CpuSamples, &["cpu-samples"]);
        costs.offer(Part::Host, &["host-samples"]);
        let mut shed = Vec::new();
        for number in 0..4 {
            costs.shed_next(format!("why {number}"));
            shed.extend(costs.shed_after(shed.len()).into_iter().map(|one| one.purpose));
        }
        assert_eq!(shed, ["cpu-samples", "host-samples", "file-writes", "journal"]);
        assert!(costs.is_shed(Part::Probes) && !costs.is_shed(Part::Waits));
        assert_eq!(costs.why_shed(), "why 2", "there was nothing left");
    }
}
