//! Tests `export --from`: the metrics of a recording agree with `explain`, `io` and `requests`. Needs no privilege.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::float_cmp)]

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

/// Timeout: a process that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(120);

fn sample() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/journal-stall")
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_brokerscope"));
    command.args(arguments).stdin(Stdio::null());
    command
}

/// The lines of JSON that a command prints for the sample.
fn lines(arguments: &[&str]) -> Vec<Value> {
    let output = command(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A running exporter; killed when dropped.
struct Exporting {
    child: Child,
    address: SocketAddr,
}

impl Exporting {
    fn of_sample(more: &[&str]) -> Self {
        let sample = sample();
        let mut command = command(&["export", "--from", sample.to_str().unwrap(), "--listen", "127.0.0.1:0"]);
        let mut child = command.args(more).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("http://").and_then(|rest| rest.strip_suffix("/metrics"));
        let address = address.unwrap_or_else(|| panic!("it says where it is: {line:?}")).parse().unwrap();
        Self { child, address }
    }

    /// Status and body.
    fn get(&self, path: &str, accept: &str) -> (u16, Vec<u8>) {
        let mut stream = TcpStream::connect(self.address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nAccept: {accept}\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
        let head = String::from_utf8_lossy(&answer[..end]).into_owned();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), answer.split_off(end + 4))
    }

    fn await_all_read(&self) {
        let end = Instant::now() + PATIENCE;
        loop {
            let (status, body) = self.get("/readyz", "");
            if status == 200 {
                return;
            }
            assert_eq!(status, 503);
            assert!(Instant::now() < end, "{}", String::from_utf8_lossy(&body));
            sleep(Duration::from_millis(50));
        }
    }

    fn scrape(&self) -> BTreeMap<String, f64> {
        let (status, body) = self.get("/metrics", "text/plain");
        assert_eq!(status, 200);
        let text = String::from_utf8(body).unwrap();
        let series = text.lines().filter(|line| !line.starts_with('#'));
        let split = |line: &str| {
            let (name, value) = line.rsplit_once(' ').unwrap();
            (name.to_owned(), value.parse().unwrap())
        };
        series.map(split).collect()
    }
}

impl Drop for Exporting {
    fn drop(&mut self) {
        // Both fail if it has already ended, which is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The sum of a metric's series whose labels contain a text.
fn sum(scraped: &BTreeMap<String, f64>, name: &str, label: &str) -> f64 {
    let of = |series: &str| series.split('{').next() == Some(name) && series.contains(label);
    scraped.iter().filter(|(series, _)| of(series)).map(|(_, value)| value).sum()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn metrics_of_the_sample_match_explain() {
    let exporting = Exporting::of_sample(&[]);
    exporting.await_all_read();
    let scraped = exporting.scrape();
    let expected = lines(&["explain", sample().to_str().unwrap(), "--format", "json"]);
    let (summary, verdicts) = expected.split_last().unwrap();
    assert!(verdicts.len() >= 6, "{summary}");
    assert_eq!(sum(&scraped, "brokerscope_requests_total", ""), number(&summary["requests"]));
    assert_eq!(sum(&scraped, "brokerscope_slow_requests_total", ""), number(&summary["slow"]));
    for (cause, total) in summary["by_cause"].as_object().unwrap() {
        let label = format!("cause=\"{cause}\"");
        let of = |name| sum(&scraped, name, &label);
        assert_eq!(of("brokerscope_slow_requests_total"), number(&total["requests"]), "{cause}");
        let time = of("brokerscope_slow_request_seconds_total");
        assert!((time - number(&total["time_ns"]) / 1e9).abs() < 1e-6, "{cause}: {time}");
        let roots = summary["by_root"].as_array().unwrap().iter().filter(|root| root["cause"] == *cause);
        if cause != "unobserved" {
            assert_eq!(of("brokerscope_slow_roots_total"), roots.count() as f64, "{cause}");
        }
    }
    let joins = &summary["joins"];
    for (key, field) in [("batch-crc", "by_crc"), ("base-offset", "by_base_offset"), ("none", "unjoined")] {
        let expected = sum(&scraped, "brokerscope_append_joins_total", &format!("key=\"{key}\""));
        assert_eq!(expected, number(&joins[field]), "{key}");
    }
    let lost: f64 = summary["losses"].as_object().unwrap().values().map(number).sum();
    assert_eq!(sum(&scraped, "brokerscope_losses_total", ""), lost);
    assert_eq!(scraped["brokerscope_slow_request_threshold_seconds"], 0.1);
    let slow = "brokerscope_slow_requests_total{api=\"PRODUCE\",cause=\"journal-commit\"}";
    assert!(scraped[slow] >= 6.0, "the sample's own cause");
}

#[test]
fn stage_sums_match_explain_and_add_up_to_the_latency() {
    // With threshold 0, `explain` has the stages of all requests.
    let exporting = Exporting::of_sample(&["--slower-than", "0"]);
    exporting.await_all_read();
    let of_all = exporting.scrape();
    let exporting = Exporting::of_sample(&[]);
    exporting.await_all_read();
    let scraped = exporting.scrape();
    let expected = lines(&["explain", sample().to_str().unwrap(), "--format", "json", "--slower-than", "0"]);
    for stage in ["network_in", "receive", "queue", "handler", "lock", "append", "unobserved"] {
        let of_produce = expected.iter().filter(|line| line["request"]["api"] == "PRODUCE");
        let expected_sum: f64 = of_produce.map(|verdict| number(&verdict["stages"][stage]) / 1e9).sum();
        let label = format!("{{api=\"PRODUCE\",stage=\"{stage}\"}}");
        for scraped in [&of_all, &scraped] {
            let found = scraped[&format!("brokerscope_request_stage_duration_seconds_sum{label}")];
            assert!(
                (found - expected_sum).abs() <= 1e-6 + expected_sum * 1e-9,
                "{stage}: {found}, known: {expected_sum}"
            );
        }
    }
    let stages = sum(&scraped, "brokerscope_request_stage_duration_seconds_sum", "api=\"PRODUCE\"");
    let latencies = scraped["brokerscope_request_duration_seconds_sum{api=\"PRODUCE\"}"];
    assert!((stages - latencies).abs() < 1e-6, "{stages} of {latencies}");
    assert!(scraped["brokerscope_request_duration_seconds_count{api=\"PRODUCE\"}"] > 1_000.0);
}

#[test]
fn file_and_commit_metrics_match_io_and_kernel() {
    let exporting = Exporting::of_sample(&[]);
    exporting.await_all_read();
    let scraped = exporting.scrape();
    let sample = sample();
    let expected = lines(&["io", "--from", sample.to_str().unwrap(), "--format", "json"]);
    let writes: Vec<_> = expected
        .iter()
        .filter(|op| op["type"] == "file-op" && op["op"] == "write" && op["kind"] == "log")
        .collect();
    let counted = "brokerscope_file_operations_total{op=\"write\",kind=\"log\"}";
    assert_eq!(scraped[counted], writes.len() as f64);
    let bytes: f64 = writes.iter().filter_map(|op| op["bytes"].as_f64()).sum();
    assert_eq!(scraped["brokerscope_file_written_bytes_total{kind=\"log\"}"], bytes);
    let commits = lines(&["kernel", "--from", sample.to_str().unwrap(), "--format", "json"]);
    let commits = commits.iter().filter(|call| call["function"] == "jbd2_journal_commit_transaction").count();
    assert!(commits > 0);
    assert_eq!(sum(&scraped, "brokerscope_journal_commit_duration_seconds_count", ""), commits as f64);
}

#[test]
fn serves_every_format_and_path_and_ends_after_the_given_time() {
    let mut exporting = Exporting::of_sample(&["--for", "8s", "--speed", "1000"]);
    let (status, body) = exporting.get("/metrics", "application/openmetrics-text; version=1.0.0");
    assert!(status == 200 && body.ends_with(b"# EOF\n"));
    let protobuf =
        "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.7";
    let (status, body) = exporting.get("/metrics", protobuf);
    assert_eq!(status, 200);
    let families = families(&body);
    assert!(families > 10, "{families} families: {:?}", &body[..8]);
    assert_eq!(exporting.get("/healthz", "").0, 200);
    assert_eq!(exporting.get("/nothing", "").0, 404);
    let end = Instant::now() + PATIENCE;
    let status = loop {
        if let Some(status) = exporting.child.try_wait().unwrap() {
            break status;
        }
        assert!(Instant::now() < end, "it does not end");
        sleep(Duration::from_millis(50));
    };
    assert!(status.success(), "{status}");
}

/// The number of families. Each is preceded by its length and starts with its name (field 1, its length, text).
fn families(mut delimited: &[u8]) -> usize {
    let mut count = 0;
    while !delimited.is_empty() {
        let family = prefixed(&mut delimited);
        let (&tag, mut name) = family.split_first().unwrap();
        assert_eq!(tag, 0x0a, "a family does not begin with its name: {family:?}");
        assert!(std::str::from_utf8(prefixed(&mut name)).unwrap().is_ascii());
        count += 1;
    }
    count
}

/// Takes a value preceded by its length, a protobuf varint.
fn prefixed<'b>(bytes: &mut &'b [u8]) -> &'b [u8] {
    let of_length = bytes.iter().position(|byte| byte & 0x80 == 0).unwrap() + 1;
    let length =
        bytes[..of_length].iter().rev().fold(0, |length, &byte| length << 7 | usize::from(byte & 0x7f));
    let (taken, rest) = bytes[of_length..].split_at(length);
    *bytes = rest;
    taken
}

#[test]
fn refuses_impossible_exports_with_a_message() {
    let sample = sample();
    let sample = sample.to_str().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    for (arguments, status, expected_sum) in [
        (&["--from", "/no/such/place"][..], 1, "/no/such/place"),
        (&["--from", sample, "--listen", &taken], 1, taken.as_str()),
        (&["--from", sample, "--topic", "orders"], 2, "--topic"),
        (&["--speed", "10"], 2, "--from"),
        (&["--from", sample, "--speed", "0"], 2, "speed"),
        (&["--from", sample, "--watch", "full"], 2, "--watch"),
        (&["--watch", "always-on", "--slower-than", "0"], 2, "--slower-than"),
    ] {
        let output = command(&[&["export", "--listen", "127.0.0.1:0"], arguments].concat());
        let output = without_first_listen(output, arguments).output().unwrap();
        let messages = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {messages}");
        assert!(messages.contains(expected_sum), "{arguments:?}: {messages}");
    }
}

/// Removes the default `--listen`, because a flag may be given only once.
fn without_first_listen(whole: Command, arguments: &[&str]) -> Command {
    if arguments.contains(&"--listen") { command(&[&["export"], arguments].concat()) } else { whole }
}
