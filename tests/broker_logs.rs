//! Tests `logs` on a real broker's logs. Compares it with counts as by `grep`, with the segments on disk, and with its
//! output for the same log while it was written.
//!
//! Live tests need root and run where `BROKERSCOPE_LIVE_TESTS=1`; see README.md.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "what cannot go on panics, and the test fails with it"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::thread::sleep;
use std::time::{Duration, Instant};

use e2e::brokerscope;
use e2e::gate;
use e2e::traffic::directory;
use lab::kafka::{DEFAULT_VERSION, Kafka, OLD_VERSION};
use lab::load::{Load, Producer};
use lab::{Broker, BrokerOptions};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const TOPIC: &str = "rolled";
/// Minimum number of rolled segments.
const SEGMENTS: usize = 12;
const PATIENCE: Duration = Duration::from_secs(100);

/// The files of a stopped broker.
struct Remains {
    server_log: PathBuf,
    request_log: PathBuf,
    partition: PathBuf,
    /// Output of `logs --follow` while the log was written.
    followed: Vec<Value>,
}

/// `logs --follow`, ended when dropped.
struct Following {
    child: Child,
    output: PathBuf,
}

impl Following {
    fn start(log: &Path, output: PathBuf) -> Self {
        let out = File::create(&output).unwrap();
        let mut command = brokerscope::command();
        command.args(["logs", "--follow", "--quiet", "--format", "json"]).arg(log).stdout(out);
        Self { child: command.spawn().unwrap(), output }
    }

    /// Stops it once its output is complete, and returns the output.
    fn stop(mut self, entries: usize) -> Vec<Value> {
        let end = Instant::now() + PATIENCE;
        while objects(&fs::read_to_string(&self.output).unwrap(), "log-entry").len() < entries {
            assert!(Instant::now() < end, "{} are not {entries} entries", self.output.display());
            sleep(Duration::from_millis(100));
        }
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
        assert!(self.child.wait().unwrap().success());
        objects(&fs::read_to_string(&self.output).unwrap(), "log-entry")
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        // It may already have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The objects of this type; the last line may be incomplete.
fn objects(text: &str, of: &str) -> Vec<Value> {
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let objects = whole.lines().map(|line| serde_json::from_str::<Value>(line).expect(line));
    objects.filter(|object| object["type"] == of).collect()
}

fn logs(arguments: &[&str]) -> String {
    brokerscope::run([&["logs", "--format", "json"], arguments].concat()).done().stdout
}

/// Runs a broker that rolls small segments under load, and stops it; its GC log is in the same directory as its own.
fn run_broker(version: &str) -> Remains {
    let directory = directory(&format!("logs-{version}"));
    let kafka = Kafka::prepare(version).unwrap_or_else(|error| panic!("{error}"));
    let mut options = BrokerOptions::new(directory.join("broker"));
    options.request_log = true;
    options.properties = vec![("log.segment.bytes".to_owned(), (1 << 20).to_string())];
    options.jvm_arguments = vec!["-Xlog:gc:stdout:time,level,tags".to_owned()];
    let broker = Broker::start(&kafka, options).unwrap_or_else(|error| panic!("{error}"));
    let following = Following::start(&broker.server_log, directory.join("followed.jsonl"));
    broker.create_topic(&kafka, TOPIC, 1).unwrap();
    let producer = Producer {
        topic: TOPIC.to_owned(),
        client_id: "logs".to_owned(),
        rate: 4_000,
        record_bytes: 1_000,
        properties: vec!["acks=1".to_owned()],
    };
    let load = Load::start(&kafka, &broker, &[producer], &directory.join("load")).unwrap();
    let partition = broker.log_dir.join(format!("{TOPIC}-0"));
    let end = Instant::now() + PATIENCE;
    while segments(&partition).len() < SEGMENTS {
        assert!(Instant::now() < end, "{} segments", segments(&partition).len());
        sleep(Duration::from_millis(100));
    }
    drop(load);
    let (server_log, request_log) = (broker.server_log.clone(), broker.request_log.clone().unwrap());
    broker.stop();
    let entries = objects(&logs(&[server_log.to_str().unwrap()]), "log-entry").len();
    Remains { followed: following.stop(entries), server_log, request_log, partition }
}

/// The base offsets of a partition's segments.
fn segments(partition: &Path) -> BTreeSet<i64> {
    let names = fs::read_dir(partition).into_iter().flatten().flatten();
    let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter_map(|name| name.strip_suffix(".log")?.parse().ok()).collect()
}

/// Counts the lines that contain a text.
fn grep(log: &str, text: &str) -> usize {
    log.lines().filter(|line| line.contains(text)).count()
}

fn of_kind<'a>(entries: &'a [Value], kind: &str) -> Vec<&'a Value> {
    entries.iter().filter(|entry| entry["kind"] == kind).collect()
}

fn agree(left: &Remains) {
    let log = String::from_utf8_lossy(&fs::read(&left.server_log).unwrap()).into_owned();
    let output = logs(&[left.server_log.to_str().unwrap()]);
    let entries = objects(&output, "log-entry");
    for (kind, text) in [
        ("segment-roll", "Rolled new log segment at offset "),
        ("producer-snapshot", "Wrote producer snapshot at offset "),
        ("logs-load", " logs in "),
        ("gc-pause", " Pause "),
        ("quorum", "Completed transition to "),
        ("leader-election", " starts at leader epoch "),
    ] {
        let expected = grep(&log, text);
        assert!(expected > 0, "the log has no {text:?}");
        assert_eq!(of_kind(&entries, kind).len(), expected, "{kind}");
    }
    assert_eq!(objects(&output, "summary")[0]["lines"], log.lines().count());
    assert!(entries.iter().all(|entry| entry["at_ns"].is_i64()), "{entries:#?}");
    rolls_are_the_segments(&entries, &left.partition);
    stopped(&entries);
    assert_eq!(left.followed, entries, "what was followed is what was read");
}

/// Checks that each segment except the first has a roll, and each roll its file.
fn rolls_are_the_segments(entries: &[Value], partition: &Path) {
    let rolls = of_kind(entries, "segment-roll");
    let rolls = rolls.iter().filter(|roll| roll["topic"] == TOPIC);
    let rolled: BTreeSet<i64> = rolls.map(|roll| roll["offset"].as_i64().unwrap()).collect();
    let mut expected = segments(partition);
    expected.remove(&0);
    assert_eq!(rolled, expected);
}

/// Checks the shutdown: from the broker's first line about it to its last, its parts stop in between.
fn stopped(entries: &[Value]) {
    let stops = of_kind(entries, "shutdown");
    let [began, ended] = stops[..] else { panic!("{stops:#?}") };
    let says = |stop: &Value, words: &str| stop["message"].as_str().unwrap().ends_with(words);
    assert!(says(began, "Server id=1] shutting down") && says(ended, "shut down completed"), "{stops:#?}");
    let took = ended["at_ns"].as_i64().unwrap() - began["at_ns"].as_i64().unwrap();
    assert_eq!(ended["duration_ns"], took, "{stops:#?}");
    assert!(!of_kind(entries, "controlled-shutdown").is_empty(), "it did not ask to be relieved");
}

/// Checks percentiles of the request log against all of its times. Another reader reads the times.
fn requests_agree(left: &Remains) {
    let log = String::from_utf8_lossy(&fs::read(&left.request_log).unwrap()).into_owned();
    let mut expected: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for line in log.lines() {
        let json = line.split_once("Completed request:").unwrap().1;
        let json = &json[..=json.rfind('}').unwrap()];
        let request: Value = serde_json::from_str(json).unwrap();
        let api = request["requestHeader"]["requestApiKeyName"].as_str().unwrap().to_owned();
        expected.entry(api).or_default().push(request["totalTimeMs"].as_f64().unwrap());
    }
    let output = logs(&[left.request_log.to_str().unwrap()]);
    let found = objects(&output, "log-requests");
    assert_eq!(objects(&output, "summary")[0]["unreadable_requests"], 0);
    assert_eq!(found.len(), expected.len());
    for api in found {
        let times = expected.get_mut(api["api"].as_str().unwrap()).unwrap();
        times.sort_by(f64::total_cmp);
        assert_eq!(api["count"], times.len(), "{api}");
        let ms = |name: &str| api["total"][name].as_f64().unwrap() / 1e6;
        assert!((ms("max_ns") - times.last().unwrap()).abs() < 1e-6, "{api}");
        // The resolution is one part in 200; the median of an even number may be either of two.
        let middle = [times[(times.len() - 1) / 2], times[times.len() / 2]];
        let near =
            |median: f64| middle.iter().any(|middle| (median - middle).abs() <= middle / 150.0 + 0.001);
        assert!(near(ms("median_ns")), "{api}: {middle:?}");
    }
    of_a_topic(left, &log);
}

/// Checks the filter by topic: Kafka 4.1's producers name a topic only by its id.
fn of_a_topic(left: &Remains, log: &str) {
    let metadata = fs::read_to_string(left.partition.join("partition.metadata")).unwrap();
    let id = metadata.lines().find_map(|line| line.strip_prefix("topic_id: ")).unwrap();
    let names = [format!("\"{TOPIC}\""), format!("\"{id}\"")];
    let produced = |line: &&str| line.contains("\"PRODUCE\"") && names.iter().any(|name| line.contains(name));
    let expected = log.lines().filter(produced).count();
    assert!(expected > 0, "nothing was produced");
    let (name, id) = (format!("--topic={TOPIC}"), format!("--topic={id}"));
    let output = logs(&[left.request_log.to_str().unwrap(), &name, &id, "--api", "produce"]);
    assert_eq!(objects(&output, "log-requests")[0]["count"], expected);
}

#[test]
fn logs_output_agrees_with_what_the_broker_did() {
    let Some(_alone) = gate::live("logs against a broker's own") else { return };
    let left = run_broker(DEFAULT_VERSION);
    agree(&left);
    requests_agree(&left);
}

#[test]
fn logs_output_agrees_with_what_an_old_broker_did() {
    let Some(_alone) = gate::live("logs against an old broker's own") else { return };
    let left = run_broker(OLD_VERSION);
    agree(&left);
    requests_agree(&left);
}
