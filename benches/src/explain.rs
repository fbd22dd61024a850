//! Measures `brokerscope explain` on long recordings: its time, which must grow linearly, its memory, which must not
//! grow, and the time to the first verdict of a one-minute recording. The recordings are invented: see load.rs.

mod beside;
mod load;
mod simulation;

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde_json::Value;

use crate::contest::{middle, millis};
use crate::run::{Cost, run};
use crate::target::{Bound, Target};
use crate::{stop, table};
use load::Contents;
use simulation::Incidents;
pub(crate) use simulation::RATE;

const MILLION: u64 = 1_000_000;
/// Requests in the compared recordings, up to ten times as many as in the smallest.
const SIZES: [u64; 3] = [MILLION, 3 * MILLION, 10 * MILLION];
/// Runs of each recording.
const ROUNDS: usize = 3;
const MOST_SECONDS: f64 = 20.0;
const MOST_MIB: f64 = 1_024.0;
/// Maximum time per request of a larger recording, relative to the smallest one.
const LINEAR: f64 = 1.25;
/// Length of the recording for the first verdict, and the time limit, in seconds.
const SHORT_SECONDS: u64 = 60;
const FIRST_SECONDS: f64 = 1.0;
const FIRST_ROUNDS: usize = 7;

/// Writes the recordings, explains them, prints a table, and returns the results.
pub(crate) fn hold(brokerscope: &Path, directory: &Path) -> anyhow::Result<Vec<Target>> {
    let mut targets =
        first_verdicts(brokerscope, &SyntheticData::new(directory, SHORT_SECONDS * RATE, Incidents::Often)?)?;
    // Growth is measured on recordings with slow requests.
    for (incidents, sizes) in [(Incidents::Seldom, &SIZES[..]), (Incidents::None, &[10 * MILLION])] {
        let mut measured = Vec::new();
        for &requests in sizes {
            let made = SyntheticData::new(directory, requests, incidents)?;
            let costs = explained(brokerscope, &made)?;
            measured.push((made.contents.clone(), costs));
        }
        println!();
        let headings =
            ["requests", "slow", "events", "MB", "median", "processor", "us/request", "events/s", "peak MiB"];
        table::print(&headings, measured.iter().map(|(contents, costs)| row(contents, costs)));
        targets.extend(targets_of(incidents, &measured));
    }
    Ok(targets)
}

/// An invented recording; removed when dropped.
pub(crate) struct SyntheticData {
    pub(crate) directory: PathBuf,
    contents: Contents,
}

impl SyntheticData {
    fn new(directory: &Path, requests: u64, incidents: Incidents) -> anyhow::Result<Self> {
        Self::of(directory, requests, incidents, false)
    }

    /// One with host figures and CPU samples.
    pub(crate) fn with_host(directory: &Path, requests: u64) -> anyhow::Result<Self> {
        Self::of(directory, requests, Incidents::Often, true)
    }

    /// One with few slow requests.
    pub(crate) fn seldom_slow(directory: &Path, requests: u64) -> anyhow::Result<Self> {
        Self::of(directory, requests, Incidents::Seldom, false)
    }

    /// Number of events besides requests.
    pub(crate) fn events(&self) -> u64 {
        self.contents.events
    }

    fn of(directory: &Path, requests: u64, incidents: Incidents, with_host: bool) -> anyhow::Result<Self> {
        stop::check()?;
        let directory = directory.join(format!("explain-{requests}"));
        remove(&directory);
        let begun = Instant::now();
        let contents = load::write(&directory, requests, incidents, with_host)?;
        println!(
            "{}: {requests} requests and {} other events, {} of them slow, {} MB, made in {:.0} s",
            directory.display(),
            contents.events,
            contents.slow,
            contents.bytes / MILLION,
            begun.elapsed().as_secs_f64(),
        );
        Ok(Self { directory, contents })
    }
}

impl Drop for SyntheticData {
    fn drop(&mut self) {
        remove(&self.directory);
    }
}

fn remove(directory: &Path) {
    // If it cannot be removed, only disk space is lost.
    let _ = std::fs::remove_dir_all(directory);
}

/// Costs of explaining a recording, after checking the answer.
fn explained(brokerscope: &Path, made: &SyntheticData) -> anyhow::Result<Vec<Cost>> {
    check(brokerscope, made)?;
    let (brokerscope, directory) = (brokerscope.to_string_lossy(), made.directory.to_string_lossy());
    (0..ROUNDS).map(|_| run(&brokerscope, &["explain", &directory, "--format", "json"])).collect()
}

/// Checks the answer: every request, every write of it, every slow request and its cause.
fn check(brokerscope: &Path, made: &SyntheticData) -> anyhow::Result<()> {
    let mut explain = explain(brokerscope, made)?;
    let output = BufReader::new(explain.stdout.take().context("no pipe")?);
    let (mut verdicts, mut right, mut summary) = (0, 0, Value::Null);
    for line in output.lines() {
        let line: Value = serde_json::from_str(&line?)?;
        if line.get("type").and_then(Value::as_str) == Some("verdict") {
            verdicts += 1;
            right += u64::from(load::is_injected(&line));
        } else {
            summary = line;
        }
    }
    let status = explain.wait()?;
    ensure!(status.success(), "brokerscope explain: {status}");
    let contents = &made.contents;
    let requests = summary.get("requests").and_then(Value::as_u64);
    ensure!(requests == Some(contents.requests), "{requests:?} requests of {}", contents.requests);
    ensure!(verdicts == contents.slow, "{verdicts} verdicts on {} slow requests", contents.slow);
    let unjoined = summary.pointer("/joins/unjoined").and_then(Value::as_u64);
    ensure!(unjoined == Some(0), "{unjoined:?} produce partitions did not find their write");
    ensure!(right * 100 >= verdicts * 95, "only {right} of {verdicts} verdicts name an injected cause");
    Ok(())
}

fn explain(brokerscope: &Path, made: &SyntheticData) -> anyhow::Result<std::process::Child> {
    Ok(Command::new(brokerscope)
        .arg("explain")
        .arg(&made.directory)
        .args(["--format", "json"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?)
}

/// Time until the first verdict, and until all of them.
fn first_verdicts(brokerscope: &Path, made: &SyntheticData) -> anyhow::Result<Vec<Target>> {
    check(brokerscope, made)?;
    let (mut first, mut all) = (Vec::new(), Vec::new());
    for _ in 0..FIRST_ROUNDS {
        stop::check()?;
        let begun = Instant::now();
        let mut explain = explain(brokerscope, made)?;
        let mut output = BufReader::new(explain.stdout.take().context("no pipe")?);
        output.read_line(&mut String::new())?;
        first.push(begun.elapsed().as_secs_f64());
        std::io::copy(&mut output, &mut std::io::sink())?;
        let status = explain.wait()?;
        ensure!(status.success(), "brokerscope explain: {status}");
        all.push(begun.elapsed().as_secs_f64());
    }
    let target = |what: &str, runs: &[f64]| {
        let what = format!("explain {SHORT_SECONDS} s of {RATE} requests/s: {what}");
        Target::of_runs(what, runs, Bound::AtMost(FIRST_SECONDS), "s")
    };
    Ok(vec![target("first verdict", &first), target("all of it", &all)])
}

fn row(contents: &Contents, costs: &[Cost]) -> Vec<String> {
    let wall = middle(costs, |cost| cost.wall);
    vec![
        contents.requests.to_string(),
        format!("{} ({:.2} %)", contents.slow, contents.slow as f64 * 100.0 / contents.requests as f64),
        contents.events.to_string(),
        (contents.bytes / MILLION).to_string(),
        millis(wall),
        millis(middle(costs, |cost| cost.cpu)),
        format!("{:.2}", of_seconds(wall) * 1e6 / contents.requests as f64),
        format!("{:.0}", (contents.requests + contents.events) as f64 / wall.as_secs_f64()),
        format!("{:.0}", peak_mib(costs)),
    ]
}

fn peak_mib(costs: &[Cost]) -> f64 {
    costs.iter().map(|cost| cost.peak_kib).max().unwrap_or(0) as f64 / 1_024.0
}

fn targets_of(incidents: Incidents, measured: &[(Contents, Vec<Cost>)]) -> Vec<Target> {
    let each = |(contents, costs): &(Contents, Vec<Cost>)| {
        of_seconds(middle(costs, |cost| cost.wall)) / contents.requests as f64
    };
    let mut targets = Vec::new();
    for (contents, costs) in measured {
        let (requests, events) = (contents.requests / MILLION, contents.events / MILLION);
        let what = format!("explain {requests} M requests, {events} M other events, {}", incidents.as_str());
        let seconds: Vec<f64> = costs.iter().map(|cost| of_seconds(cost.wall)).collect();
        if contents.requests == 10 * MILLION {
            targets.push(Target::of_runs(
                format!("{what}: time"),
                &seconds,
                Bound::AtMost(MOST_SECONDS),
                "s",
            ));
            targets.push(Target {
                what: format!("{what}: peak memory"),
                measured: peak_mib(costs),
                spread: None,
                bound: Bound::AtMost(MOST_MIB),
                unit: "MiB",
            });
        }
        if let Some(small) = measured.first().filter(|(small, _)| small.requests < contents.requests) {
            let grown: Vec<f64> =
                seconds.iter().map(|seconds| seconds / contents.requests as f64 / each(small)).collect();
            let what = format!("{what}: time per request / that of {} M", small.0.requests / MILLION);
            targets.push(Target::of_runs(what, &grown, Bound::AtMost(LINEAR), "x"));
        }
    }
    targets
}

fn of_seconds(time: Duration) -> f64 {
    time.as_secs_f64()
}
