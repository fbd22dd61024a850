//! Measures `brokerscope fleet` on nine brokers' recordings of an hour: time and memory. Also checks that the injected
//! broker is first, with its files as the reason. The recordings are invented.

mod made;

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::ensure;
use serde_json::Value;

use crate::run::run;
use crate::stop;
use crate::target::Target;
use made::Size;

/// An hour, as written by a recorder of everything.
const SIZE: Size = Size { brokers: 9, seconds: 3_600, requests: 100 };
const ROUNDS: usize = 5;
const MOST_SECONDS: f64 = 5.0;
const MOST_MIB: f64 = 512.0;

/// Writes the recordings, compares them, and returns the results.
pub(crate) fn hold(brokerscope: &Path, directory: &Path) -> anyhow::Result<Vec<Target>> {
    let directory = directory.join("fleet");
    let _ = std::fs::remove_dir_all(&directory);
    let begun = Instant::now();
    let events = made::write(&directory, SIZE)?;
    let (brokers, took) = (SIZE.brokers, begun.elapsed().as_secs_f64());
    println!("{}: {brokers} brokers, {events} events, made in {took:.0} s", directory.display());
    let measured = measure(brokerscope, &directory, events);
    // If it cannot be removed, only disk space is lost.
    let _ = std::fs::remove_dir_all(&directory);
    measured
}

fn measure(brokerscope: &Path, directory: &Path, events: u64) -> anyhow::Result<Vec<Target>> {
    check(brokerscope, directory)?;
    let path = directory.to_string_lossy();
    let arguments = ["fleet", &path, "--quiet", "--format", "json"];
    let costs = (0..ROUNDS)
        .map(|_| run(&brokerscope.to_string_lossy(), &arguments))
        .collect::<Result<Vec<_>, _>>()?;
    let what = format!("fleet of {} brokers, {} s, {events} events", SIZE.brokers, SIZE.seconds);
    Ok(Target::of_costs(&what, &costs, MOST_SECONDS, MOST_MIB).into())
}

/// Checks the answer: a fast answer must also be right.
fn check(brokerscope: &Path, directory: &Path) -> anyhow::Result<()> {
    stop::check()?;
    let output = Command::new(brokerscope)
        .arg("fleet")
        .arg(directory)
        .args(["--quiet", "--format", "json"])
        .output()?;
    ensure!(output.status.success(), "brokerscope fleet: {}", output.status);
    let text = String::from_utf8(output.stdout)?;
    let first: Value = serde_json::from_str(text.lines().next().unwrap_or_default())?;
    let text_of = |pointer: &str| first.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    ensure!(text_of("/broker") == made::READS_STATE.to_string(), "not the odd broker: {first}");
    ensure!(text_of("/because/0/part") == "tierstate", "not for its state files: {first}");
    ensure!(text_of("/because/0/items/0/name") == made::STATE_FILE, "not for the right one: {first}");
    Ok(())
}
