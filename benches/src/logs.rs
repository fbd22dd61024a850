//! Compares `logs` with `grep -c` and `zgrep -c` on the same broker log, in turns. `grep` searches for one text, and
//! for all those that `logs` searches for. Measures the bytes per second that one core reads.

mod write;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};
use serde_json::Value;

use crate::contest::{middle, millis};
use crate::run::{Cost, run};
use crate::target::{Bound, Target};
use crate::{stop, table};

const LOG_BYTES: u64 = 500_000_000;
const REQUEST_LOG_BYTES: u64 = 250_000_000;
const ROUNDS: usize = 9;
const MEGABYTES_A_SECOND: f64 = 500.0;

/// A generated log; its files are removed when dropped.
struct Log {
    path: PathBuf,
    bytes: u64,
    /// Number of events in its lines.
    entries: u64,
}

/// A program that reads a log.
struct Reader {
    name: String,
    program: String,
    arguments: Vec<String>,
    /// Bytes of text that it reads.
    bytes: u64,
    costs: Vec<Cost>,
}

/// Runs all readers in turns and prints their costs. Returns the throughput per core.
pub(crate) fn hold(brokerscope: &Path, directory: &Path) -> anyhow::Result<Vec<Target>> {
    let log = Log::make(directory.join("server.log"), LOG_BYTES, write::server_log)?;
    let requests = Log::make(directory.join("kafka-request.log"), REQUEST_LOG_BYTES, write::request_log)?;
    check(brokerscope, &log, "log-entry", |entries| entries.len() as u64)?;
    let counts = |apis: &[Value]| apis.iter().filter_map(|api| api["count"].as_u64()).sum();
    check(brokerscope, &requests, "log-requests", counts)?;
    let texts = Log { path: write::texts(directory)?, bytes: 0, entries: 0 };
    let mut readers = readers(brokerscope, &log, &requests, &texts.path);
    for _ in 0..ROUNDS {
        for reader in &mut readers {
            let arguments: Vec<&str> = reader.arguments.iter().map(String::as_str).collect();
            reader.costs.push(run(&reader.program, &arguments)?);
        }
    }
    println!();
    table::print(
        &["reader", "runs", "median", "fastest", "slowest", "processor", "MB/s", "MB/s a core", "peak MiB"],
        readers.iter().map(Reader::row),
    );
    println!();
    Ok(readers.iter().filter(|reader| reader.name.starts_with("logs")).map(Reader::target).collect())
}

impl Log {
    fn make(
        path: PathBuf,
        bytes: u64,
        write: fn(&Path, u64) -> std::io::Result<(u64, u64)>,
    ) -> anyhow::Result<Self> {
        stop::check()?;
        let (bytes, entries) =
            write(&path, bytes).with_context(|| format!("cannot write {}", path.display()))?;
        let log = Self { path, bytes, entries };
        let status = Command::new("gzip").args(["--keep", "--force", "-6"]).arg(&log.path).status()?;
        ensure!(status.success(), "gzip: {status}");
        println!("{}: {} MB, {} lines tell something", log.name(), bytes / 1_000_000, entries);
        Ok(log)
    }

    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn packed(&self) -> String {
        format!("{}.gz", self.name())
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        for path in [self.name(), self.packed()] {
            // If it cannot be removed, only disk space is lost.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Checks the answer: a fast answer must also be right.
fn check(brokerscope: &Path, log: &Log, of: &str, count: impl Fn(&[Value]) -> u64) -> anyhow::Result<()> {
    let output = Command::new(brokerscope).args(["logs", "--format", "json"]).arg(&log.path).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout)?;
    let objects = lines.lines().map(serde_json::from_str).collect::<Result<Vec<Value>, _>>()?;
    let objects: Vec<Value> = objects.into_iter().filter(|object| object["type"] == of).collect();
    ensure!(count(&objects) == log.entries, "{} of {} in {}", count(&objects), log.entries, log.name());
    Ok(())
}

fn readers(brokerscope: &Path, log: &Log, requests: &Log, texts: &Path) -> Vec<Reader> {
    let ours = brokerscope.display().to_string();
    let texts = texts.display().to_string();
    let reader = |name: &str, program: &str, arguments: &[&str], bytes: u64| Reader {
        name: name.to_owned(),
        program: program.to_owned(),
        arguments: arguments.iter().map(|&argument| argument.to_owned()).collect(),
        bytes,
        costs: Vec::new(),
    };
    let (path, packed) = (log.name(), log.packed());
    let of_requests = (requests.name(), requests.bytes);
    let one = "Rolled new log segment";
    // Bytewise, and into a pipe: a grep whose output is /dev/null ends at the first match.
    let grep = r#"LC_ALL=C grep -c "$@" | cat"#;
    let zgrep = r#"LC_ALL=C zgrep -c "$@" | cat"#;
    vec![
        reader("logs", &ours, &["logs", &path], log.bytes),
        reader("grep -c, one text", "sh", &["-c", grep, "sh", one, &path], log.bytes),
        reader("grep -c, all texts", "sh", &["-c", grep, "sh", "-F", "-f", &texts, &path], log.bytes),
        reader("logs, request log", &ours, &["logs", &of_requests.0], of_requests.1),
        reader(
            "grep -c, request log",
            "sh",
            &["-c", grep, "sh", "totalTimeMs", &of_requests.0],
            of_requests.1,
        ),
        reader("gzip: logs", &ours, &["logs", &packed], log.bytes),
        reader("gzip: zgrep -c, one text", "sh", &["-c", zgrep, "sh", one, &packed], log.bytes),
        reader("gzip: gzip -dc", "gzip", &["-dc", &packed], log.bytes),
    ]
}

impl Reader {
    fn row(&self) -> Vec<String> {
        let median = middle(&self.costs, |cost| cost.wall);
        let walls = || self.costs.iter().map(|cost| cost.wall);
        let peak = self.costs.iter().map(|cost| cost.peak_kib).max().unwrap_or(0);
        vec![
            self.name.clone(),
            self.costs.len().to_string(),
            millis(median),
            millis(walls().min().unwrap_or_default()),
            millis(walls().max().unwrap_or_default()),
            millis(middle(&self.costs, |cost| cost.cpu)),
            format!("{:.0}", self.bytes as f64 / 1e6 / median.as_secs_f64()),
            format!("{:.0}", self.a_core(middle(&self.costs, |cost| cost.cpu).as_secs_f64())),
            format!("{:.1}", peak as f64 / 1024.0),
        ]
    }

    fn a_core(&self, seconds: f64) -> f64 {
        self.bytes as f64 / 1e6 / seconds
    }

    fn target(&self) -> Target {
        let runs: Vec<f64> = self.costs.iter().map(|cost| self.a_core(cost.cpu.as_secs_f64())).collect();
        let what = format!("{}, megabytes a second and core", self.name);
        Target::of_runs(what, &runs, Bound::AtLeast(MEGABYTES_A_SECOND), "MB/s")
    }
}
