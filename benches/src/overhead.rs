//! Measures the cost of watching for a broker under a load that it must sustain. Works in pairs: one load runs all the
//! time, and the watcher changes from window to window. Between two windows with a treatment there is one without, so
//! each is compared with its neighbours: drift, by other guests of the host or the JVM, affects both. A control is
//! treated like the others, with no watcher, and shows how much of a difference is noise. Intervals are 95 %, by a
//! bootstrap over pairs.
//!
//! Four parts. `overhead`: `brokerscope record` in the broker's session, in a cgroup like a service's, and in one that
//! only gets idle time; and the tools that one would use instead. `always-on`: an always-on watch under loads of
//! several shapes, and the CPU time of its process while the broker's journal is slow. `overhead-hooks`: the kernel's
//! cost of hooks whose programs return at once, and the cost of the programs of an always-on watch without its process.
//! `overhead-tls`: the cost of the agent that copies TLS plaintext, for a recorder that runs all the time; without a
//! watcher the agent pauses. Every window is written to a file.
//!
//! Latencies are measured by the load, which runs on the same CPUs.

mod attach;
mod incident;
mod load;
mod pairs;
mod tls;
mod treatment;
mod window;

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::kernel::accounts::Counting;
use crate::kernel::test_bed::{Setting, TestBed};
use crate::target::{Bound, Target};
use crate::{stop, table};
pub(crate) use attach::attach;
use load::PacedLoad;
use pairs::{Estimate, Pairs};
use treatment::{Group, Hooks, Tools, Treatment};
use window::{Metric, Window};

/// The first argument that makes this binary [`attach()`].
pub(crate) const ATTACH: &str = "--attach";
/// The first argument that makes this binary [`crate::kernel::pace`].
pub(crate) const PACE: &str = "--pace";

/// Variable with the names of load shapes to measure, separated by spaces; all if it is not set.
const SHAPES: &str = "OVERHEAD_SHAPES";
/// Variable with the measuring time for each shape, instead of its plan's.
const MINUTES: &str = "OVERHEAD_MINUTES";
/// Requests per second.
const RATE: u64 = 5_100;
/// The default load.
const ONE_RECORD: Shape = Shape { name: "one-record", records: 1, connections: 8, rate: RATE };
const SIXTEEN_KIB: Shape = Shape { name: "16k", records: 144, ..ONE_RECORD };
/// Warm-up for the JVM's compiler.
const WARM_UP: Duration = Duration::from_secs(20);
/// Windows in which the kernel counts BPF run time; that has a cost, so they count for nothing else.
const COUNTED: usize = 2;
/// Maximum share of steal time in a window and its neighbours; with more, they do not count.
const MAX_STEAL: f64 = 0.02;
const PROGRAMS_PERCENT: f64 = 8.0;
const BROKER_PERCENT: f64 = 10.0;
const ALWAYS_ON_PERCENT: f64 = 3.0;
const CONTROL_PERCENT: f64 = 5.0;
const THROUGHPUT_PERCENT: f64 = -1.0;
const TLS_CPU_PERCENT: f64 = 5.0;
const TLS_P99_PERCENT: f64 = 10.0;

/// A load.
#[derive(Clone, Copy)]
struct Shape {
    name: &'static str,
    /// Records in each request.
    records: u64,
    connections: usize,
    /// Requests per second over all connections; as many as the broker answers if 0.
    rate: u64,
}

/// The treatments to compare.
struct Plan {
    part: &'static str,
    shape: Shape,
    /// Measuring time.
    minutes: f64,
    treatments: &'static [Treatment],
}

/// The control is frequent: it has no start and end, and its interval shows what the others' are worth.
const PLANS: [Plan; 11] = [
    Plan {
        part: "overhead",
        shape: ONE_RECORD,
        minutes: 24.0,
        treatments: &[
            Treatment::Control,
            Treatment::Record(Group::Same),
            Treatment::Control,
            Treatment::Record(Group::Weight),
            Treatment::Control,
            Treatment::Record(Group::Idle),
            Treatment::Control,
            Treatment::Tools,
        ],
    },
    Plan {
        part: "overhead",
        shape: SIXTEEN_KIB,
        minutes: 10.0,
        treatments: &[
            Treatment::Control,
            Treatment::Record(Group::Weight),
            Treatment::Control,
            Treatment::Tools,
        ],
    },
    always_on(ONE_RECORD, 9.0),
    always_on(SIXTEEN_KIB, 3.0),
    always_on(Shape { name: "connections-1", connections: 1, ..ONE_RECORD }, 3.0),
    always_on(Shape { name: "connections-100", connections: 100, ..ONE_RECORD }, 3.0),
    always_on(Shape { name: "connections-5000", connections: 5_000, ..ONE_RECORD }, 3.0),
    always_on(Shape { name: "unthrottled", rate: 0, ..ONE_RECORD }, 3.0),
    Plan {
        part: "overhead-hooks",
        shape: ONE_RECORD,
        minutes: 24.0,
        treatments: &[
            Treatment::Control,
            Treatment::Hooks(Hooks::SystemCalls),
            Treatment::Hooks(Hooks::Scheduler),
            Treatment::Control,
            Treatment::Hooks(Hooks::Tap),
            Treatment::Hooks(Hooks::IdleRecorder),
            Treatment::Control,
            Treatment::Hooks(Hooks::AlwaysOn),
            Treatment::Hooks(Hooks::AlwaysOnRequests),
        ],
    },
    tls(ONE_RECORD, 8.0),
    tls(SIXTEEN_KIB, 6.0),
];

const TLS: &str = "overhead-tls";

const fn tls(shape: Shape, minutes: f64) -> Plan {
    let treatments = &[Treatment::Control, Treatment::TlsAgent, Treatment::TlsAgent, Treatment::TlsAgent];
    Plan { part: TLS, shape, minutes, treatments }
}

const fn always_on(shape: Shape, minutes: f64) -> Plan {
    let treatments = &[Treatment::Control, Treatment::AlwaysOn, Treatment::AlwaysOn, Treatment::AlwaysOn];
    Plan { part: "always-on", shape, minutes, treatments }
}

/// Measures a part, prints tables and returns the results.
pub(crate) fn hold(part: &str, brokerscope: &Path, directory: &Path) -> anyhow::Result<Vec<Target>> {
    let chosen = std::env::var(SHAPES).unwrap_or_default();
    let is_chosen = |name| chosen.trim().is_empty() || chosen.split_whitespace().any(|shape| shape == name);
    let plans = || PLANS.iter().filter(|plan| plan.part == part && is_chosen(plan.shape.name));
    let has_incident = part == "always-on" && is_chosen(incident::SHAPE);
    let is_known = |shape| shape == incident::SHAPE || PLANS.iter().any(|plan| plan.shape.name == shape);
    let unknown = chosen.split_whitespace().find(|shape| !is_known(*shape));
    ensure!(unknown.is_none(), "{SHAPES}: there is no shape {}", unknown.unwrap_or_default());
    ensure!(has_incident || plans().next().is_some(), "{SHAPES}: part {part} has none of {chosen}");
    raise_limit_of_files()?;
    let mut targets = Vec::new();
    let mut add = |shape, measured: anyhow::Result<Vec<Target>>| {
        // The other shapes are still measured.
        targets.extend(measured.unwrap_or_else(|error| {
            println!("{shape}: {error:#}");
            vec![unmeasured(format!("{part}: {shape}: not measured"))]
        }));
        stop::check()
    };
    for plan in plans() {
        add(plan.shape.name, Bench::stage_and_hold(plan, brokerscope, directory))?;
    }
    if has_incident {
        add(incident::SHAPE, incident::hold(brokerscope, directory))?;
    }
    Ok(targets)
}

fn unmeasured(what: String) -> Target {
    Target { what, measured: f64::NAN, spread: None, bound: Bound::AtMost(0.0), unit: "" }
}

/// Also applies to the broker and the load, which are started later: each needs a descriptor per connection.
fn raise_limit_of_files() -> anyhow::Result<()> {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    Ok(setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?)
}

impl Shape {
    fn describe(&self) -> String {
        let Self { records, connections, rate, .. } = self;
        let rate =
            if *rate > 0 { format!("{rate} a second") } else { "as fast as the broker answers".to_owned() };
        format!("requests of {records} records of 100 bytes over {connections} connections, {rate}")
    }
}

struct Bench<'s> {
    bed: &'s TestBed,
    tools: Tools<'s>,
    plan: &'static Plan,
}

impl Bench<'_> {
    fn stage_and_hold(
        plan: &'static Plan,
        brokerscope: &Path,
        directory: &Path,
    ) -> anyhow::Result<Vec<Target>> {
        let is_tls = plan.part == TLS;
        let setting = Setting { is_tls, ..Setting::default() };
        let bed = TestBed::set(&directory.join("overhead"), &setting)?;
        let mut tools = Tools::new(brokerscope, &bed);
        if is_tls {
            tools.see_tls()?;
        }
        let bench = Bench { bed: &bed, tools, plan };
        let held = bench.hold(directory)?;
        bench.tools.stop()?;
        Ok(held)
    }

    fn hold(&self, directory: &Path) -> anyhow::Result<Vec<Target>> {
        let Plan { part, shape, .. } = *self.plan;
        let mut load = PacedLoad::start(self.bed, shape)?;
        std::thread::sleep(WARM_UP);
        let log = directory.join(format!("{part}-{}.tsv", shape.name));
        let windows = self.alternate(&mut load, &log)?;
        println!(
            "{}: {}, {} windows of {} s ({}):",
            shape.name,
            shape.describe(),
            windows.len(),
            window::LENGTH.as_secs(),
            log.display()
        );
        window::print_noise(&windows);
        let pairs = Pairs::of(&windows, MAX_STEAL);
        let mut targets = self.compare(&pairs);
        targets.extend(self.count(&mut load)?);
        Ok(targets)
    }

    /// Measures windows with treatments in turn until the time is over. A window without treatment follows each of
    /// them.
    fn alternate(&self, load: &mut PacedLoad, log: &Path) -> anyhow::Result<Vec<Window>> {
        let minutes = std::env::var(MINUTES).ok().map_or(Ok(self.plan.minutes), |minutes| minutes.parse())?;
        let end = Instant::now() + Duration::from_secs_f64(60.0 * minutes);
        let mut log = File::create(log).with_context(|| log.display().to_string())?;
        writeln!(log, "{}", Window::LOG_HEADINGS)?;
        let (always, mut windows) = (self.tools.pids(), Vec::new());
        let mut add = |window: Window| {
            writeln!(log, "{}", window.log_line())?;
            windows.push(window);
            anyhow::Ok(())
        };
        while Instant::now() < end {
            for &treatment in self.plan.treatments {
                stop::check()?;
                add(load.window(self.bed, None, &always)?)?;
                let watchers = self.tools.start(treatment)?;
                let pids = [&always[..], &watchers.pids()].concat();
                add(load.window(self.bed, Some(treatment), &pids)?)?;
                watchers.stop()?;
            }
        }
        add(load.window(self.bed, None, &always)?)?;
        Ok(windows)
    }

    /// Prints the increase of every metric with each treatment.
    fn compare(&self, pairs: &Pairs) -> Vec<Target> {
        let mut rows = Vec::new();
        let mut targets = Vec::new();
        let mut shown = Vec::new();
        for &treatment in self.plan.treatments {
            if shown.contains(&treatment) {
                continue;
            }
            shown.push(treatment);
            let estimate = |metric| pairs.estimate(treatment, metric);
            let metrics = [
                Metric::Broker,
                Metric::All,
                Metric::P90,
                Metric::P95,
                Metric::P99,
                Metric::Slow,
                Metric::Throughput,
            ];
            let mut row = vec![treatment.name().to_owned(), pairs.count(treatment).to_string()];
            row.extend(metrics.map(|metric| estimate(metric).map_or_else(|| "-".to_owned(), Estimate::text)));
            rows.push(row);
            targets.extend(self.judge(treatment, &estimate));
        }
        let headings = [
            "watched by",
            "pairs",
            "broker's CPU",
            "with the watcher's",
            "p90",
            "p95",
            "p99",
            "over 2 ms, points",
            "requests/s",
        ];
        table::print(&headings, rows);
        println!("{} pairs with more than 2 % of steal time do not count\n", pairs.dropped);
        targets
    }

    fn judge(&self, treatment: Treatment, estimate: &dyn Fn(Metric) -> Option<Estimate>) -> Vec<Target> {
        let target = |what: &str, measured: f64, spread, most| Target {
            what: format!("{}: {}: {what}", self.plan.part, self.plan.shape.name),
            measured,
            spread,
            bound: Bound::AtMost(most),
            unit: "%",
        };
        let is_paced = self.plan.shape.rate > 0;
        match treatment {
            Treatment::Control if is_paced => {
                let Some(p95) = estimate(Metric::P95) else { return Vec::new() };
                let farthest = p95.low.abs().max(p95.high.abs());
                vec![target(
                    "the control's p95, farthest end",
                    farthest,
                    Some((p95.low, p95.high)),
                    CONTROL_PERCENT,
                )]
            }
            Treatment::Record(Group::Weight) => {
                let Some(broker) = estimate(Metric::Broker) else { return Vec::new() };
                let spread = Some((broker.low, broker.high));
                vec![target("the broker's CPU, as a service", broker.middle, spread, BROKER_PERCENT)]
            }
            Treatment::TlsAgent => {
                let limits = [
                    ("the broker's CPU", Metric::Broker, TLS_CPU_PERCENT),
                    ("p99", Metric::P99, TLS_P99_PERCENT),
                ];
                let judged = limits.into_iter().filter_map(|(what, metric, most)| {
                    let found = estimate(metric)?;
                    Some(target(what, found.middle, Some((found.low, found.high)), most))
                });
                judged.collect()
            }
            Treatment::AlwaysOn if !is_paced => {
                let Some(found) = estimate(Metric::Throughput) else { return Vec::new() };
                let spread = Some((found.low, found.high));
                let lower_end = target("throughput, lower end", found.low, spread, THROUGHPUT_PERCENT);
                vec![Target { bound: Bound::AtLeast(THROUGHPUT_PERCENT), ..lower_end }]
            }
            Treatment::AlwaysOn => {
                let upper_end = |what, metric, most| {
                    let found = estimate(metric)?;
                    Some(target(
                        &format!("{what}, upper end"),
                        found.high,
                        Some((found.low, found.high)),
                        most,
                    ))
                };
                let all = [
                    upper_end("all CPU", Metric::All, ALWAYS_ON_PERCENT),
                    upper_end("p95", Metric::P95, CONTROL_PERCENT),
                    upper_end("p99", Metric::P99, CONTROL_PERCENT),
                ];
                all.into_iter().flatten().collect()
            }
            _ => Vec::new(),
        }
    }

    /// CPU time of programs and watchers, from windows in which the kernel counts it.
    fn count(&self, load: &mut PacedLoad) -> anyhow::Result<Vec<Target>> {
        let _counting = Counting::start()?;
        let mut targets = Vec::new();
        let counted_treatments =
            [(Treatment::Record(Group::Weight), PROGRAMS_PERCENT), (Treatment::AlwaysOn, ALWAYS_ON_PERCENT)];
        let is_of_plan = |(treatment, _): &(Treatment, f64)| self.plan.treatments.contains(treatment);
        for (treatment, most) in counted_treatments.into_iter().filter(is_of_plan) {
            let mut counted = Vec::new();
            for _ in 0..COUNTED {
                let watchers = self.tools.start(treatment)?;
                counted.push(load.window(self.bed, Some(treatment), &watchers.pids())?);
                watchers.stop()?;
            }
            window::print_programs(treatment, &counted);
            let shares: Vec<f64> = counted.iter().map(|window| window.watching_share() * 100.0).collect();
            let Plan { part, shape, .. } = self.plan;
            let (shape, name) = (shape.name, treatment.name());
            let what = format!("{part}: {shape}: {name}: programs and process over the broker");
            targets.push(Target::of_runs(what, &shares, Bound::AtMost(most), "%"));
        }
        Ok(targets)
    }
}
