//! Compares `requests live:` with `tcpdump -i` at 100,000 packets per second. Measures the CPU time of each on an
//! interface, and whether it receives every packet.
//!
//! The packets are those of a generated capture, sent through a veth pair in a network namespace. The kernel copies
//! them into the reader's ring in the sender's time, for all readers alike.

mod inject;
mod namespace;

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context as _, bail};

use crate::rows::Rows;
use crate::run::{MEASURE_UNTIL_CLOSED, Running, errors_of};
use crate::target::{Bound, Target};
use crate::{Capture, stop, table, traffic};
pub(crate) use inject::inject;
use namespace::{Namespace, SENDING, WATCHED};

/// The first argument that makes this binary [`inject()`].
pub(crate) const INJECT: &str = "--inject";
const ROUNDS: usize = 3;
/// Some nine seconds at this rate.
const CAPTURE_TIMES: u64 = 3;
const PROCESSOR_PERCENT: f64 = 25.0;
/// Minimum rate that counts as the intended one.
const LEAST_RATE: f64 = 0.99 * inject::RATE as f64;
/// Time until the last block of a ring is delivered and read.
const DRAIN: Duration = Duration::from_millis(500);

/// What one reader received.
struct Watch {
    sent: u64,
    per_second: f64,
    seen: u64,
    drops: u64,
    /// `None` for a reader that does not parse requests.
    requests: Option<u64>,
    processor_percent: f64,
}

/// Runs both readers in turns and prints what they received. Returns how brokerscope compares.
pub(crate) fn hold(brokerscope: &Path, directory: &Path) -> anyhow::Result<Vec<Target>> {
    let capture = Capture::make(directory, CAPTURE_TIMES)?;
    let namespace = Namespace::make()?;
    let bed =
        TestBed { namespace, capture: &capture, watcher_output: CaptureOutput(directory.join("live.out")) };
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        ours.push(bed.requests(brokerscope)?);
        theirs.push(bed.tcpdump()?);
    }
    println!();
    let rows = ours.iter().map(|watch| watch.row("requests live:"));
    table::print(
        &["watcher", "packets/s", "sent", "seen", "kernel drops", "requests", "processor"],
        rows.chain(theirs.iter().map(|watch| watch.row("tcpdump -i"))),
    );
    Ok(targets(&ours, capture.contents.requests))
}

struct TestBed<'a> {
    namespace: Namespace,
    capture: &'a Capture,
    watcher_output: CaptureOutput,
}

/// A watcher's output file; removed when dropped.
struct CaptureOutput(PathBuf);

impl Drop for CaptureOutput {
    fn drop(&mut self) {
        for file in [&self.0, &errors_of(&self.0)] {
            // It may never have been written.
            let _ = std::fs::remove_file(file);
        }
    }
}

impl TestBed<'_> {
    fn requests(&self, brokerscope: &Path) -> anyhow::Result<Watch> {
        let (port, interface) = (traffic::PORT.to_string(), format!("live:{WATCHED}"));
        let program = brokerscope.to_str().unwrap_or_default();
        let watch = self.watch(&[program, "requests", &interface, "--port", &port, "--format", "json"])?;
        let rows = Rows::count(BufReader::new(File::open(&self.watcher_output.0)?))?;
        Ok(Watch { seen: rows.packets, drops: rows.kernel_drops, requests: Some(rows.requests), ..watch })
    }

    fn tcpdump(&self) -> anyhow::Result<Watch> {
        let port = traffic::PORT.to_string();
        let watch = self.watch(&["tcpdump", "-i", WATCHED, "-w", "/dev/null", "tcp", "port", &port])?;
        let stderr = std::fs::read_to_string(errors_of(&self.watcher_output.0))?;
        let count = |what: &str| {
            let line = stderr.lines().find(|line| line.ends_with(what))?;
            line.split_whitespace().next()?.parse().ok()
        };
        let seen = count("captured").with_context(|| format!("tcpdump did not count: {stderr}"))?;
        let drops = count("dropped by kernel").with_context(|| format!("tcpdump did not count: {stderr}"))?;
        Ok(Watch { seen, drops, ..watch })
    }

    /// Runs one program while everything is sent once.
    fn watch(&self, command: &[&str]) -> anyhow::Result<Watch> {
        stop::check()?;
        let bench = std::env::current_exe()?;
        let mut watcher = self.namespace.command(&bench);
        watcher.arg(MEASURE_UNTIL_CLOSED).arg(&self.watcher_output.0).args(command);
        let watcher = Running::start(watcher)?;
        let mut sender = self.namespace.command(&bench);
        sender.args([INJECT, SENDING, WATCHED, self.capture.name()]).stderr(Stdio::inherit());
        let output = sender.output().context("cannot run the sender")?;
        sleep(DRAIN);
        let cost = watcher.stop().with_context(|| command.join(" "))?;
        stop::check()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let numbers: Vec<u64> = text.split_whitespace().filter_map(|number| number.parse().ok()).collect();
        let [sent, micros] = numbers[..] else { bail!("the sender failed") };
        let seconds = micros as f64 / 1e6;
        Ok(Watch {
            sent,
            per_second: sent as f64 / seconds,
            seen: 0,
            drops: 0,
            requests: None,
            processor_percent: 100.0 * cost.cpu.as_secs_f64() / seconds,
        })
    }
}

impl Watch {
    fn row(&self, name: &str) -> Vec<String> {
        vec![
            name.to_owned(),
            format!("{:.0}", self.per_second),
            self.sent.to_string(),
            self.seen.to_string(),
            self.drops.to_string(),
            self.requests.map_or_else(|| "-".to_owned(), |requests| requests.to_string()),
            format!("{:.1} %", self.processor_percent),
        ]
    }
}

fn targets(watches: &[Watch], requests: u64) -> Vec<Target> {
    let runs = |of: &dyn Fn(&Watch) -> f64| watches.iter().map(of).collect::<Vec<_>>();
    // Even one lost packet in one run is a failure.
    let worst = |what: &str, runs: &[f64]| Target {
        measured: runs.iter().copied().fold(0.0, f64::max),
        ..Target::of_runs(what.to_owned(), runs, Bound::AtMost(0.0), "")
    };
    let rate = runs(&|watch| watch.per_second);
    let share = runs(&|watch| watch.processor_percent);
    let unseen = runs(&|watch| watch.sent.abs_diff(watch.seen) as f64);
    let without_row = runs(&|watch| requests.abs_diff(watch.requests.unwrap_or(0)) as f64);
    vec![
        Target::of_runs("live: packets a second".to_owned(), &rate, Bound::AtLeast(LEAST_RATE), "/s"),
        worst("live: packets dropped by the kernel", &runs(&|watch| watch.drops as f64)),
        worst("live: packets sent and not seen", &unseen),
        worst("live: requests sent without a row", &without_row),
        Target::of_runs(
            "live: share of one processor".to_owned(),
            &share,
            Bound::AtMost(PROCESSOR_PERCENT),
            "%",
        ),
    ]
}
