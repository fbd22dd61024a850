//! The same capture read by brokerscope, tcpdump and tshark, in turns, so that whatever else the machine
//! does happens to all of them.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{bail, ensure};

use crate::frames::MESSAGE_ID_HEADER;
use crate::run::{Cost, run};
use crate::{Bound, Capture, Target, table};

const ROUNDS: usize = 9;
/// tshark takes long, and its ratio is far from its bound.
const TSHARK_ROUNDS: usize = 3;

/// A program that reads the capture.
struct Reader<'a> {
    name: &'static str,
    program: &'a str,
    arguments: Vec<&'a str>,
    rounds: usize,
    costs: Vec<Cost>,
}

/// Lets all read the capture in turns, prints what they took, and says how brokerscope compares.
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
    let mut readers = vec![
        reader("requests", brokerscope, &requests),
        reader(
            "requests --message-id",
            brokerscope,
            &[&requests[..], &["--message-id", MESSAGE_ID_HEADER]].concat(),
        ),
    ];
    if is_installed("tcpdump") {
        readers.push(reader("tcpdump", "tcpdump", &["-r", capture, "-w", "/dev/null"]));
    } else {
        println!("tcpdump is not installed: left out");
    }
    if is_installed("tshark") {
        let fields = ["-r", capture, "-Y", "kafka", "-T", "fields", "-e", "kafka.api_key", "-e"];
        let arguments = [&fields[..], &["kafka.correlation_id"]].concat();
        readers.push(Reader { rounds: TSHARK_ROUNDS, ..reader("tshark", "tshark", &arguments) });
    } else {
        println!("tshark is not installed: left out");
    }
    readers
}

fn is_installed(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// A fast answer must be the right one as well.
fn check(brokerscope: &str, capture: &Capture) -> anyhow::Result<()> {
    let arguments = ["requests", "--format", "json", "--message-id", MESSAGE_ID_HEADER, capture.name()];
    let output = Command::new(brokerscope).args(arguments).output()?;
    ensure!(output.status.success(), "{brokerscope}: {}", String::from_utf8_lossy(&output.stderr));
    let (mut requests, mut ids) = (0, 0);
    for line in output.stdout.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
        let row: serde_json::Value = serde_json::from_slice(line)?;
        if row.get("type").and_then(serde_json::Value::as_str) != Some("request") {
            continue;
        }
        let partitions = row.get("partitions").and_then(serde_json::Value::as_array);
        let of = |partition: &serde_json::Value| partition.get("message_ids")?.as_array().map(Vec::len);
        requests += 1;
        ids += partitions.into_iter().flatten().filter_map(of).sum::<usize>() as u64;
        if !row.get("error").is_some_and(serde_json::Value::is_null) {
            bail!("{row}");
        }
    }
    let expected = (capture.contents.requests, capture.contents.records);
    ensure!((requests, ids) == expected, "{:?} requests and message ids, of {expected:?}", (requests, ids));
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
    let ratio = |one: &str, other: &str| {
        let wall = |name| find(readers, name).map(|reader| middle(&reader.costs, |cost| cost.wall));
        Some(wall(one)?.as_secs_f64() / wall(other)?.as_secs_f64())
    };
    let target = |one: &str, other: &str, bound, unit| {
        Some(Target { what: format!("{one} / {other}"), measured: ratio(one, other)?, bound, unit })
    };
    [
        target("requests", "tcpdump", Bound::AtMost(1.0), "x"),
        target("requests --message-id", "tcpdump", Bound::AtMost(2.0), "x"),
        target("tshark", "requests", Bound::AtLeast(35.0), "x"),
    ]
    .into_iter()
    .flatten()
    .collect()
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

/// Milliseconds, as a table shows them.
pub(crate) fn millis(time: Duration) -> String {
    format!("{:.0} ms", time.as_secs_f64() * 1_000.0)
}
