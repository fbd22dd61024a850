//! Measures `brokerscope advise` on a real broker of 2,000 partitions: its memory, and its time beyond the requested
//! watch time. The broker is otherwise idle: the cost of watching under load is measured elsewhere.

use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::ensure;
use lab::kafka::{DEFAULT_VERSION, Kafka};
use lab::{Broker, BrokerOptions};

use crate::kernel::test_bed::claim;
use crate::run::run;
use crate::stop;
use crate::target::{Bound, Target};

const PARTITIONS: usize = 2_000;
const TOPIC: &str = "many";
/// Odd, so that the median is a run.
const ROUNDS: usize = 11;
const WATCHED_ROUNDS: usize = 5;
const WINDOW_SECONDS: u32 = 3;
const MOST_SECONDS: f64 = 5.0;
const MOST_MIB: f64 = 256.0;
/// Timeout for creating the partitions, and for electing their leaders.
const PATIENCE: Duration = Duration::from_secs(120);
const SETTLE: Duration = Duration::from_secs(2);

/// Starts the broker, runs `advise`, and returns the results.
pub(crate) fn hold(brokerscope: &Path, directory: &Path) -> anyhow::Result<Vec<Target>> {
    let site = claim(&directory.join("advise"))?;
    let kafka = Kafka::prepare(DEFAULT_VERSION)?;
    let mut options = BrokerOptions::new(site.directory("broker")?);
    options.site = Some(site.path().to_owned());
    options.is_throwaway = true;
    let broker = Broker::start(&kafka, options)?;
    broker.create_topic(&kafka, TOPIC, PARTITIONS as u32)?;
    await_partitions(&broker)?;
    let measured = measure(&brokerscope.to_string_lossy(), broker.pid);
    drop(broker);
    measured
}

/// Waits for the partitions: the controller answers for a new topic before the broker has created its directories.
fn await_partitions(broker: &Broker) -> anyhow::Result<()> {
    let (begun, last) = (Instant::now(), PARTITIONS - 1);
    while !(0..=last).all(|number| broker.log_dir.join(format!("{TOPIC}-{number}")).is_dir()) {
        stop::check()?;
        ensure!(begun.elapsed() < PATIENCE, "the broker does not make the topic's partitions");
        sleep(Duration::from_millis(200));
    }
    sleep(SETTLE);
    println!("{PARTITIONS} partitions were there after {:.0} s", begun.elapsed().as_secs_f64());
    Ok(())
}

fn measure(brokerscope: &str, pid: u32) -> anyhow::Result<Vec<Target>> {
    check(brokerscope, pid)?;
    let (pid, window) = (pid.to_string(), format!("{WINDOW_SECONDS}s"));
    let at_once = ["advise", "--pid", &pid, "--quiet", "--format", "json"];
    let costs = (0..ROUNDS).map(|_| run(brokerscope, &at_once)).collect::<Result<Vec<_>, _>>()?;
    let what = format!("advise, a broker of {PARTITIONS} partitions");
    let mut targets = Vec::from(Target::of_costs(&what, &costs, MOST_SECONDS, MOST_MIB));
    let watching = [&at_once[..], &["--for", &window]].concat();
    let costs = (0..WATCHED_ROUNDS).map(|_| run(brokerscope, &watching)).collect::<Result<Vec<_>, _>>()?;
    let beside: Vec<f64> =
        costs.iter().map(|cost| cost.wall.as_secs_f64() - f64::from(WINDOW_SECONDS)).collect();
    let what = format!("{what}, --for {window}: time beside it");
    targets.push(Target::of_runs(what, &beside, Bound::AtMost(MOST_SECONDS), "s"));
    Ok(targets)
}

/// Checks the answer: a fast answer must also be about this broker.
fn check(brokerscope: &str, pid: u32) -> anyhow::Result<()> {
    stop::check()?;
    let output = Command::new(brokerscope)
        .args(["advise", "--pid", &pid.to_string(), "--all", "--quiet", "--format", "json"])
        .output()?;
    ensure!(output.status.success(), "brokerscope advise: {}", output.status);
    let text = String::from_utf8(output.stdout)?;
    ensure!(text.contains(&format!("{PARTITIONS} partitions")), "it does not count them: {text}");
    Ok(())
}
