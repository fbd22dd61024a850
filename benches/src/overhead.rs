//! What watching costs a broker under a load that it must bear, measured in pairs: one load runs all the time, and who watches
//! changes from window to window. Between two windows with a treatment there is one without, so each is compared with its
//! neighbours: what drifts, other guests of the host and the JVM, drifts for both. A control is treated like the others, with
//! nothing, and shows how much of a difference is noise. Intervals are of 95 %, by a bootstrap over pairs.
//!
//! Two parts. `overhead`: `brokerscope record` in the session of the broker, in a cgroup as a service has it, and in one that
//! only gets idle time; and what one would use instead. `overhead-hooks`: what the kernel takes for hooks whose programs return at
//! once. Every window is in a file.
//!
//! Latencies are of the load, which is on the same CPUs.

mod attach;
mod load;
mod pairs;
mod treatment;
mod window;

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;

use crate::kernel::accounts::Counting;
use crate::kernel::stage::{Setting, Stage};
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

/// Requests a second.
const RATE: u64 = 5_100;
const CONNECTIONS: usize = 8;
/// Until the JVM has compiled what it runs.
const WARM_UP: Duration = Duration::from_secs(20);
/// Windows in which the kernel counts what BPF programs take; that costs its own time, so they count for nothing else.
const COUNTED: usize = 2;
/// Of a window or a neighbour of it: with more steal time neither counts.
const MAX_STEAL: f64 = 0.02;
const PROGRAMS_PERCENT: f64 = 8.0;
const BROKER_PERCENT: f64 = 10.0;
const ALWAYS_ON_PERCENT: f64 = 3.0;
const CONTROL_PERCENT: f64 = 5.0;

/// What is compared.
struct Plan {
    part: &'static str,
    /// What a request carries.
    shape: &'static str,
    records: u64,
    /// How long windows are taken; `OVERHEAD_MINUTES` says otherwise.
    minutes: f64,
    treatments: &'static [Treatment],
}

/// The control comes often: it costs no start and no end, and its interval says what the others' are worth.
const PLANS: [Plan; 3] = [
    Plan {
        part: "overhead",
        shape: "one record",
        records: 1,
        minutes: 24.0,
        treatments: &[
            Treatment::Control,
            Treatment::Record(Group::Same),
            Treatment::Control,
            Treatment::Record(Group::Weight),
            Treatment::Control,
            Treatment::Record(Group::Idle),
            Treatment::AlwaysOn,
            Treatment::Control,
            Treatment::Tools,
            Treatment::AlwaysOn,
        ],
    },
    Plan {
        part: "overhead",
        shape: "16 KiB",
        records: 144,
        minutes: 10.0,
        treatments: &[
            Treatment::Control,
            Treatment::Record(Group::Weight),
            Treatment::Control,
            Treatment::Tools,
        ],
    },
    Plan {
        part: "overhead-hooks",
        shape: "one record",
        records: 1,
        minutes: 24.0,
        treatments: &[
            Treatment::Control,
            Treatment::Hooks(Hooks::SystemCalls),
            Treatment::Hooks(Hooks::Scheduler),
            Treatment::Control,
            Treatment::Hooks(Hooks::Tap),
            Treatment::Hooks(Hooks::IdleRecorder),
        ],
    },
];

/// Measures a part, prints tables and says what was reached.
pub(crate) fn hold(part: &str, brokerscope: &Path, directory: &Path) -> anyhow::Result<Vec<Target>> {
    let mut targets = Vec::new();
    for plan in PLANS.iter().filter(|plan| plan.part == part) {
        let stage = Stage::set(&directory.join("overhead"), &Setting::default())?;
        let bench = Bench { stage: &stage, tools: Tools::new(brokerscope, &stage), plan };
        targets.extend(bench.hold(directory)?);
    }
    Ok(targets)
}

struct Bench<'s> {
    stage: &'s Stage,
    tools: Tools<'s>,
    plan: &'static Plan,
}

impl Bench<'_> {
    fn hold(&self, directory: &Path) -> anyhow::Result<Vec<Target>> {
        let Plan { part, shape, records, .. } = *self.plan;
        let mut load = PacedLoad::start(self.stage, records, RATE, CONNECTIONS)?;
        std::thread::sleep(WARM_UP);
        let log = directory.join(format!("{part}-{}.tsv", shape.replace(' ', "-")));
        let windows = self.alternate(&mut load, &log)?;
        println!(
            "requests of {shape}, {RATE} a second, {} windows of {} s ({}):",
            windows.len(),
            window::LENGTH.as_secs(),
            log.display()
        );
        window::print_noise(&windows);
        let pairs = Pairs::of(&windows, MAX_STEAL);
        let mut targets = self.compare(&pairs);
        if part == "overhead" {
            targets.extend(self.count(&mut load)?);
        }
        Ok(targets)
    }

    /// A window without anybody between any two with one of the treatments, which take turns until the time is over.
    fn alternate(&self, load: &mut PacedLoad, log: &Path) -> anyhow::Result<Vec<Window>> {
        let minutes = std::env::var("OVERHEAD_MINUTES").ok().and_then(|minutes| minutes.parse().ok());
        let end = Instant::now() + Duration::from_secs_f64(60.0 * minutes.unwrap_or(self.plan.minutes));
        let mut log = File::create(log).with_context(|| log.display().to_string())?;
        writeln!(log, "{}", Window::LOG_HEADINGS)?;
        let mut windows = Vec::new();
        let mut add = |window: Window| {
            writeln!(log, "{}", window.log_line())?;
            windows.push(window);
            anyhow::Ok(())
        };
        while Instant::now() < end {
            for &treatment in self.plan.treatments {
                stop::check()?;
                add(load.window(self.stage, None, &[])?)?;
                let watchers = self.tools.start(treatment)?;
                add(load.window(self.stage, Some(treatment), &watchers.pids())?)?;
                watchers.stop()?;
            }
        }
        add(load.window(self.stage, None, &[])?)?;
        Ok(windows)
    }

    /// Prints how much more everything is with each treatment.
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
            let metrics = [Metric::Broker, Metric::All, Metric::P90, Metric::P95, Metric::P99, Metric::Slow];
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
        ];
        table::print(&headings, rows);
        println!("{} pairs with more than 2 % of steal time do not count\n", pairs.dropped);
        targets
    }

    fn judge(&self, treatment: Treatment, estimate: &dyn Fn(Metric) -> Option<Estimate>) -> Vec<Target> {
        let target = |what: &str, measured: f64, spread, most| Target {
            what: format!("{}: {}: {what}", self.plan.part, self.plan.shape),
            measured,
            spread,
            bound: Bound::AtMost(most),
            unit: "%",
        };
        match treatment {
            Treatment::Control => {
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
            Treatment::AlwaysOn => {
                let upper_end = |what, metric, most| {
                    let found = estimate(metric)?;
                    Some(target(
                        &format!("always on, {what}, upper end"),
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

    /// What programs and watchers take, of windows in which the kernel counts that.
    fn count(&self, load: &mut PacedLoad) -> anyhow::Result<Vec<Target>> {
        let _counting = Counting::start()?;
        let mut targets = Vec::new();
        for (treatment, most) in
            [(Treatment::Record(Group::Weight), PROGRAMS_PERCENT), (Treatment::AlwaysOn, ALWAYS_ON_PERCENT)]
        {
            let mut counted = Vec::new();
            for _ in 0..COUNTED {
                let watchers = self.tools.start(treatment)?;
                counted.push(load.window(self.stage, Some(treatment), &watchers.pids())?);
                watchers.stop()?;
            }
            window::print_programs(treatment, &counted);
            let shares: Vec<f64> = counted.iter().map(|window| window.watching_share() * 100.0).collect();
            let (shape, name) = (self.plan.shape, treatment.name());
            let what = format!("overhead: {shape}: {name}: programs and process over the broker");
            targets.push(Target::of_runs(what, &shares, Bound::AtMost(most), "%"));
        }
        Ok(targets)
    }
}
