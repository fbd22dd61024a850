//! What a contended wait costs by the JVM's own probes, traps and BPF programs together: the processor time of threads
//! that do nothing but wait for a monitor, with `-XX:+DTraceMonitorProbes` and without it, which is all that differs. Both
//! are recorded as if they were brokers.

mod contender;

use std::fs;
use std::path::Path;

use anyhow::ensure;

use super::wait::{self, From};
use crate::kernel::stage::claim;
use crate::kernel::watcher::Watcher;
use crate::target::{Bound, Target};
use crate::{stop, table};
use contender::{Contender, Waited};

const ROUNDS: usize = 11;
const ROUND_MS: u64 = 1_500;
const WAIT_NANOS: f64 = 3_000.0;
const FLAG: &str = "DTraceMonitorProbes";

/// Measures, prints a table, and judges.
pub(super) fn hold(brokerscope: &Path, sites: &Path) -> anyhow::Result<Vec<Target>> {
    let site = claim(sites)?;
    let (on, off) = (site.directory("probed")?, site.directory("not-probed")?);
    let mut probed = Contender::start(&on, &format!("-XX:+{FLAG}"))?;
    let mut other = Contender::start(&off, &format!("-XX:-{FLAG}"))?;
    let watch = |directory: &Path, pid| {
        Watcher::brokerscope(brokerscope, &directory.join("recording"), pid, &["--no-attach"])
    };
    let watchers = [watch(&on, probed.pid())?, watch(&off, other.pid())?];
    // Until all is compiled, and mapped.
    probed.run(ROUND_MS)?;
    other.run(ROUND_MS)?;
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        stop::check()?;
        rounds.push((probed.run(ROUND_MS)?, other.run(ROUND_MS)?));
    }
    for watcher in watchers {
        watcher.stop()?;
    }
    let seen = wait::read(brokerscope, From::Recording, &on.join("recording"), "usdt")?.len();
    ensure!(
        wait::read(brokerscope, From::Recording, &off.join("recording"), "usdt")?.is_empty(),
        "seen without the flag"
    );
    drop((probed, other));
    fs::remove_dir_all(&on)?;
    println!("contended waits for a monitor, with the JVM's probes and without (a thread's processor time):");
    table::print(
        &["waits/s", "us each, probed", "waits/s", "us each, not probed", "difference"],
        rounds.iter().map(|(with, without)| {
            let micros = |waited: &Waited| format!("{:.2}", waited.nanos_each() / 1e3);
            let rate = |waited: &Waited| format!("{:.0}", waited.waits as f64 * 1e3 / ROUND_MS as f64);
            let more = (with.nanos_each() - without.nanos_each()) / 1e3;
            vec![rate(with), micros(with), rate(without), micros(without), format!("{more:.2}")]
        }),
    );
    let waits: u64 = rounds.iter().map(|(with, _)| with.waits).sum();
    println!(
        "{seen} of {waits} waits and those of the first round, recorded: the others were shorter than 100 us"
    );
    ensure!(seen as u64 * 2 > waits, "most waits were not seen");
    let more: Vec<f64> =
        rounds.iter().map(|(with, without)| with.nanos_each() - without.nanos_each()).collect();
    let what = "the JVM's probes, a contended wait (upper quartile)".to_owned();
    let target = Target::of_runs(what, &more, Bound::AtMost(WAIT_NANOS), "ns");
    Ok(vec![Target { measured: upper_quartile(&more), ..target }])
}

/// What counts: where the rounds differ by more than the bound, their median would prove nothing.
fn upper_quartile(runs: &[f64]) -> f64 {
    let mut sorted = runs.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() * 3 / 4).copied().unwrap_or(f64::NAN)
}
