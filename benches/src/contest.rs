//! Reads the same capture with brokerscope, tcpdump and tshark, in turns. Other activity of the machine thus affects
//! all of them.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::ensure;

use crate::frames::MESSAGE_ID_HEADER;
use crate::rows::Rows;
use crate::run::{Cost, run};
use crate::target::{Bound, Target};
use crate::{Capture, table};

const ROUNDS: usize = 9;
/// Few rounds, because tshark takes long, and its ratio is far from its bound.
const TSHARK_ROUNDS: usize = 3;

/// A program that reads the capture.
struct Reader<'a> {
    name: &'static str,
    program: &'a str,
    arguments: Vec<&'a str>,
    rounds: usize,
    costs: Vec<Cost>,
}

/// Runs all readers in turns and prints their costs. Returns how brokerscope compares.
pub(crate) fn hold(brokerscope: &Path, capture: &Capture) -> anyhow::Result<Vec<Target>> {
    let brokerscope = brokerscope.to_str().unwrap_or_default();
    check(brokerscope, capture)?;
    let mut readers = readers(brokerscope, capture.name());
    for round in 0..ROUNDS {
        for reader in readers.iter_mut().filter(|reader| round < reader.rounds) {
            reader.costs.push(run(reader.program, &reader.arguments)?);
        }
    }
    println!();
    let tcpdump = find(&readers, "tcpdump").map(|reader| middle(&reader.costs, |cost| cost.wall));
    let rows = readers.iter().map(|reader| reader.row(capture, tcpdump));
    table::print(
        &["reader", "runs", "median", "fastest", "slowest", "processor", "MB/s", "peak MiB", "x tcpdump"],
        rows,
    );
    Ok(targets(&readers))
}

fn readers<'a>(brokerscope: &'a str, capture: &'a str) -> Vec<Reader<'a>> {
    let reader = |name, program, arguments: &[&'a str]| Reader {
        name,
        program,
        arguments: arguments.to_vec(),
        rounds: ROUNDS,
        costs: Vec::new(),
    };
    let requests = ["requests", "--format", "json", capture];
    let fields = ["-r", capture, "-Y", "kafka", "-T", "fields", "-e", "kafka.api_key", "-e"];
    let tshark = reader("tshark", "tshark", &[&fields[..], &["kafka.correlation_id"]].concat());
    vec![
        reader("requests", brokerscope, &requests),
        reader(
            "requests --message-id",
            brokerscope,
            &[&requests[..], &["--message-id", MESSAGE_ID_HEADER]].concat(),
        ),
        reader("tcpdump", "tcpdump", &["-r", capture, "-w", "/dev/null"]),
        Reader { rounds: TSHARK_ROUNDS, ..tshark },
    ]
}

/// Checks the answer: a fast answer must also be right.
fn check(brokerscope: &str, capture: &Capture) -> anyhow::Result<()> {
    let arguments = ["requests", "--format", "json", "--message-id", MESSAGE_ID_HEADER, capture.name()];
    let output = Command::new(brokerscope).args(arguments).output()?;
    ensure!(output.status.success(), "{brokerscope}: {}", String::from_utf8_lossy(&output.stderr));
    let rows = Rows::count(output.stdout.as_slice())?;
    let found = (rows.packets, rows.requests, rows.message_ids);
    let contents = &capture.contents;
    let expected = (contents.packets, contents.requests, contents.records);
    ensure!(found == expected, "{found:?} packets, requests and message ids, of {expected:?}");
    Ok(())
}

impl Reader<'_> {
    fn row(&self, capture: &Capture, tcpdump: Option<Duration>) -> Vec<String> {
        let median = middle(&self.costs, |cost| cost.wall);
        let walls = || self.costs.iter().map(|cost| cost.wall);
        let peak = self.costs.iter().map(|cost| cost.peak_kib).max().unwrap_or(0);
        vec![
            self.name.to_owned(),
            self.costs.len().to_string(),
            millis(median),
            millis(walls().min().unwrap_or_default()),
            millis(walls().max().unwrap_or_default()),
            millis(middle(&self.costs, |cost| cost.cpu)),
            format!("{:.0}", capture.contents.bytes as f64 / 1e6 / median.as_secs_f64()),
            format!("{:.1}", peak as f64 / 1024.0),
            tcpdump.map_or_else(
                || "-".to_owned(),
                |tcpdump| format!("{:.2}", median.as_secs_f64() / tcpdump.as_secs_f64()),
            ),
        ]
    }
}

fn targets(readers: &[Reader<'_>]) -> Vec<Target> {
    let target = |one: &str, other: &str, bound| {
        let (measured, beside) = (find(readers, one)?, find(readers, other)?);
        let runs = ratios(&measured.costs, &beside.costs);
        Some(Target::of_runs(format!("{one} / {other}"), &runs, bound, "x"))
    };
    [
        target("requests", "tcpdump", Bound::AtMost(1.0)),
        target("requests --message-id", "tcpdump", Bound::AtMost(2.0)),
        target("tshark", "requests", Bound::AtLeast(35.0)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Ratios of the times of adjacent runs.
pub(crate) fn ratios(one: &[Cost], other: &[Cost]) -> Vec<f64> {
    one.iter().zip(other).map(|(one, other)| one.wall.as_secs_f64() / other.wall.as_secs_f64()).collect()
}

fn find<'r, 'a>(readers: &'r [Reader<'a>], name: &str) -> Option<&'r Reader<'a>> {
    readers.iter().find(|reader| reader.name == name)
}

/// The median.
pub(crate) fn middle(costs: &[Cost], of: impl Fn(&Cost) -> Duration) -> Duration {
    let mut times: Vec<Duration> = costs.iter().map(of).collect();
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// Formats milliseconds for a table.
pub(crate) fn millis(time: Duration) -> String {
    format!("{:.0} ms", time.as_secs_f64() * 1_000.0)
}
