//! Measures the extra cost of a contended wait due to the JVM's own probes: `-XX:+DTraceMonitorProbes`, the kernel's
//! traps, and the BPF programs that they call.
//!
//! Two threads pass a monitor to each other on one CPU, so nothing happens in parallel: the CPU time of a wait is also
//! the time from one wait to the next, and determines their number per second. How threads are distributed over several
//! CPUs is not part of it.

mod contender;
mod listener;
mod rounds;

use std::path::Path;

use crate::kernel::test_bed::claim;
use crate::target::{Bound, Target};
use crate::{stop, table};
use listener::Ran;
use rounds::{LOADS, Round, Subjects};

const ROUNDS: usize = 21;
/// Rounds with the kernel's count of the programs' run time.
const COUNTED_ROUNDS: usize = 5;
const WAIT_NANOS: f64 = 3_000.0;

/// Measures, prints tables, and judges.
pub(super) fn hold(sites: &Path) -> anyhow::Result<Vec<Target>> {
    let site = claim(sites)?;
    let directory = |name: &str| site.directory(name);
    let mut subjects = Subjects::start(&directory("without-flag")?, &directory("with-flag")?)?;
    let mut by_load = [const { Vec::new() }; LOADS.len()];
    for number in 0..ROUNDS {
        let round = subjects.round(number)?;
        by_load.iter_mut().zip(round).for_each(|(rounds, round)| rounds.push(round));
    }
    let mut counted = Vec::new();
    for _ in 0..COUNTED_ROUNDS {
        stop::check()?;
        counted.extend(subjects.programs()?);
    }
    drop(subjects);
    let mut targets = Vec::new();
    for (load, rounds) in LOADS.iter().zip(&by_load) {
        let through = match load.kib {
            0 => "nothing between two".to_owned(),
            kib => format!("{kib} KiB gone through between two"),
        };
        print(&through, rounds);
        let all: Vec<f64> = rounds.iter().map(|round| round.reported - round.without_flag).collect();
        let what = format!("the JVM's probes, a contended wait, {through} (upper quartile)");
        let target = Target::of_runs(what, &all, Bound::AtMost(WAIT_NANOS), "ns");
        targets.push(Target { measured: quantile(&all, 0.75), ..target });
    }
    print_programs(&counted);
    Ok(targets)
}

/// A line of the table: its name, and its value for a round.
type Line = (&'static str, fn(&Round) -> f64);

const LINES: [Line; 6] = [
    ("the flag alone", |round| round.with_flag - round.without_flag),
    ("traps into programs that do nothing", |round| round.nothing - round.with_flag),
    ("ours, each wait counted", |round| round.counted - round.nothing),
    ("ours, each wait told", |round| round.reported - round.nothing),
    ("all, each wait counted", |round| round.counted - round.without_flag),
    ("all, each wait told", |round| round.reported - round.without_flag),
];

fn print(through: &str, rounds: &[Round]) {
    let each = |take: fn(&Round) -> f64| quantile(&rounds.iter().map(take).collect::<Vec<f64>>(), 0.5);
    let (without, reported) = (each(|round| round.without_flag), each(|round| round.reported));
    println!(
        "contended waits for a monitor, {through}: {:.0} a second without any of it, {} us each; {:.0} with each told",
        1e9 / without,
        micros(without),
        1e9 / reported
    );
    let rows = LINES.iter().map(|(name, take)| {
        let all: Vec<f64> = rounds.iter().map(take).collect();
        let share = |share| micros(quantile(&all, share));
        vec![(*name).to_owned(), share(0.25), share(0.5), share(0.75)]
    });
    table::print(&["more for each wait, us", "quartile", "median", "quartile"], rows);
    println!();
}

fn print_programs(counted: &[Ran]) {
    let mut names: Vec<&str> = counted.iter().map(|ran| ran.program.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let of = |name: &str| {
        let own = counted.iter().filter(|ran| ran.program == name);
        quantile(&own.map(|ran| ran.nanos_a_wait).collect::<Vec<f64>>(), 0.5)
    };
    let each: Vec<String> = names.iter().map(|name| format!("{name} {:.0} ns", of(name))).collect();
    let sum: f64 = names.iter().map(|name| of(name)).sum();
    println!(
        "by the kernel's count, of both, ours take of a wait: {}; together {sum:.0} ns\n",
        each.join(", ")
    );
}

fn micros(nanos: f64) -> String {
    format!("{:.2}", nanos / 1e3)
}

/// A quantile. The upper quartile is compared with the bound: if the rounds differ by more than the bound, their median
/// would prove nothing.
fn quantile(runs: &[f64], share: f64) -> f64 {
    let mut sorted = runs.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get((sorted.len() as f64 * share) as usize).copied().unwrap_or(f64::NAN)
}
