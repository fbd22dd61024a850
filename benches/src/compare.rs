//! Measures `brokerscope compare` of ten million requests: time and memory. Also checks that equal data differs in
//! nothing: the recording is invented like those of `explain`, and compared with itself.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, ensure};
use serde_json::Value;

use crate::explain::SyntheticData;
use crate::run::run;
use crate::stop;
use crate::target::Target;

const MILLION: u64 = 1_000_000;
/// Requests of each side.
const REQUESTS: u64 = 5 * MILLION;
const ROUNDS: usize = 3;
const MOST_SECONDS: f64 = 40.0;
const MOST_MIB: f64 = 1_024.0;

/// Writes the recording, compares it with itself, and returns the results.
pub(crate) fn hold(brokerscope: &Path, directory: &Path) -> anyhow::Result<Vec<Target>> {
    let made = SyntheticData::seldom_slow(directory, REQUESTS)?;
    let path = made.directory.to_string_lossy().into_owned();
    // The whole recording, specified in two ways.
    let sides = [format!("first={path}@0s-"), format!("second={path}@-100000s")];
    check(brokerscope, &sides)?;
    let arguments = ["compare", &sides[0], &sides[1], "--quiet", "--format", "json"];
    let costs = (0..ROUNDS)
        .map(|_| run(&brokerscope.to_string_lossy(), &arguments))
        .collect::<Result<Vec<_>, _>>()?;
    let what =
        format!("compare 2 x {} M requests, {} M other events", REQUESTS / MILLION, made.events() / MILLION);
    Ok(Target::of_costs(&what, &costs, MOST_SECONDS, MOST_MIB).into())
}

/// Checks that every request of both is counted, and that they do not differ.
fn check(brokerscope: &Path, sides: &[String; 2]) -> anyhow::Result<()> {
    stop::check()?;
    let output = Command::new(brokerscope)
        .arg("compare")
        .args(sides)
        .args(["--quiet", "--format", "json"])
        .output()?;
    ensure!(output.status.success(), "brokerscope compare: {}", output.status);
    let text = String::from_utf8(output.stdout)?;
    let lines = text.lines().map(serde_json::from_str).collect::<Result<Vec<Value>, _>>()?;
    let of = |kind: &str| {
        lines.iter().filter(|line| line.get("type").and_then(Value::as_str) == Some(kind)).collect::<Vec<_>>()
    };
    for side in of("configuration") {
        let requests = side.get("requests").and_then(Value::as_u64);
        ensure!(requests == Some(REQUESTS), "{requests:?} requests were compared of {REQUESTS}");
        let causes = side.get("causes").and_then(Value::as_array).context("no causes")?;
        ensure!(!causes.is_empty(), "nothing was slow");
    }
    let differing = of("difference").into_iter().filter(|line| {
        !matches!(
            line.get("outcome").and_then(Value::as_str),
            Some("no-difference" | "untested" | "too-short")
        )
    });
    ensure!(differing.count() == 0, "a recording differs from itself");
    Ok(())
}
