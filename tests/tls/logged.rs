//! Tests `record --request-log`: its rows against the log read by another reader, and its verdicts against those of
//! `--see-tls` on the same requests.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use e2e::agreement::{few, none};
use e2e::brokerscope;
use e2e::comparison::with_log;
use e2e::export::Export;
use e2e::frames::Sizes;
use e2e::kafka_log::{self, LoggedRequest};
use e2e::recorder::Recorder;
use e2e::recording::Recording;
use e2e::row::{self, Output};
use e2e::table::rows;
use e2e::traffic::directory;
use lab::broker::make_keystore;
use lab::device::DeviceOptions;
use lab::kafka::{DEFAULT_VERSION, Kafka};
use lab::load::{Load, Producer};
use lab::volume::{FileSystem, Volume, VolumeOptions};
use lab::{Broker, BrokerOptions, Site as LabSite};
use serde_json::{Value, json};

use crate::site::{Site, comes_true, done, only_judged, rows_of, sizes_of};

const PRODUCED: &str = "brokerscope_requests_total{api=\"PRODUCE\"}";

/// Checks that each request logged after the recorder's start has exactly one row. Produce requests must be joined with
/// their appends.
pub(crate) fn rows_are_those_of_the_log(name: &str) {
    let site = Site::start(name, DEFAULT_VERSION, Path::new("java"), false);
    site.create_topic("tls");
    let log_path = site.broker.request_log.clone().unwrap();
    live_commands_read_the_log(&site, log_path.to_str().unwrap());
    let before = kafka_log::read(&log_path).len();
    let recording = site.directory.join("recording");
    let recorder =
        Recorder::start_with(&recording, site.broker.pid, &["--request-log", log_path.to_str().unwrap()]);
    assert!(!site.has_agent(), "nothing is loaded into the JVM");
    let clients = [
        site.produce("TLSv1.2", 2_000, 100, 400, &["acks=all", "linger.ms=0", "batch.size=1"]),
        site.produce("TLSv1.3", 100, 60_000, -1, &["acks=1", "compression.type=lz4"]),
        site.produce("TLSv1.3", 10_000, 500, -1, &["acks=0", "batch.size=100000"]),
    ];
    clients.into_iter().for_each(done);
    site.consume("TLSv1.3", 10_000);
    sleep(Duration::from_secs(1));
    recorder.stop();
    let listener = site.address();
    site.broker.stop();
    let log: Vec<_> = kafka_log::read(&log_path)
        .into_iter()
        .skip(before)
        .filter(|logged| logged.broker == listener)
        .collect();
    let written: Vec<_> =
        rows(&recording, "requests").into_iter().filter(|row| row.text("broker") == listener).collect();
    let keys: HashSet<_> = written
        .iter()
        .map(|row| (row.text("client"), row.number("correlation_id").map(|id| id as i64)))
        .collect();
    println!("{name}: {} rows, {} keys, {} requests logged", written.len(), keys.len(), log.len());
    assert!(log.len() > 500, "too few requests to prove much");
    assert_eq!((written.len(), keys.len()), (log.len(), log.len()), "each is there once");
    let recording = Recording::read(&recording);
    let rows = rows_of(&recording, &listener);
    assert!(rows.iter().all(|row| row["seen_by"] == "request-log" && row["sequence"].is_null()));
    joins_are_by_base_offset(&recording.summary, &log);
    let log = only_judged(log, &rows, &recording.summary);
    // The log has no frame sizes: only whether there was an answer.
    let sizes = sizes_of(&rows).into_iter();
    let sizes = sizes.map(|(key, of)| (key, Sizes { response: of.whole.then_some(0), ..of })).collect();
    let output = Output { rows, summary: json!({}) };
    assert_eq!(few(with_log(&output, &log, &sizes)), none());
    assert_eq!(recording.summary["losses"], json!({}), "{}", recording.summary);
}

/// Checks that `export` and `explain live` take requests from the log: nothing else shows those of this listener.
fn live_commands_read_the_log(site: &Site, log_path: &str) {
    let pid = site.broker.pid.to_string();
    let watched = ["--pid", &pid, "--request-log", log_path];
    let client = site.produce("TLSv1.3", 6_000, 100, 50, &["linger.ms=0", "batch.size=1"]);
    let export = Export::start(&site.directory.join("export.log"), &watched);
    let mut explain = brokerscope::command();
    explain
        .args(["explain", "live", "--slower-than", "1us", "--format", "json", "--for", "90s"])
        .args(watched);
    let mut explain = explain.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let lines = BufReader::new(explain.stdout.take().unwrap()).lines();
    let mut requests =
        lines.map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap()["request"].take());
    let is_logged = |row: Value| row["api"] == "PRODUCE" && row["seen_by"] == "request-log";
    assert!(requests.any(is_logged), "explain live");
    let produced = || {
        let metrics = export.metrics();
        let count = metrics.lines().find_map(|line| line.strip_prefix(PRODUCED));
        count.is_some_and(|count| count.trim().parse::<f64>().unwrap() >= 10.0)
    };
    assert!(comes_true(Duration::from_secs(60), produced), "export: {}", export.metrics());
    export.stop();
    explain.kill().unwrap();
    explain.wait().unwrap();
    drop(client);
}

/// Checks the joins of all answered requests; the others have no base offset.
fn joins_are_by_base_offset(summary: &Value, log: &[LoggedRequest]) {
    let joins = &summary["joins"];
    let produced = log.iter().filter_map(|logged| logged.produce.as_ref()).flat_map(|of| &of.partitions);
    let written =
        produced.filter(|of| of.result.is_some_and(|result| result.base_offset.is_some())).count() as u64;
    println!("joins: {joins}, {written} partitions were written and answered");
    let joined = joins["by_base_offset"].as_u64().unwrap();
    assert_eq!(joins["by_crc"], 0, "{joins}");
    assert!(written > 200 && joined * 100 >= written * 99 && joined <= written, "{joins}");
}

/// A slow journal, and six producers on TLS connections that meet it.
struct SlowJournal {
    broker: Broker,
    load: Load,
    volume: Volume,
    // Dropped last.
    _site: LabSite,
}

impl SlowJournal {
    fn start(directory: &Path) -> Self {
        let site = LabSite::claim().unwrap();
        let options = VolumeOptions {
            device: DeviceOptions { size_bytes: 1 << 30, seed: 7 },
            file_system: FileSystem::Ext4,
            mount_options: "commit=5".to_owned(),
        };
        let mut volume = Volume::prepare(&site, &options).unwrap();
        let kafka = Kafka::prepare(DEFAULT_VERSION).unwrap();
        let mut options = BrokerOptions::new(directory.join("broker"));
        options.log_dir = Some(volume.directory().to_owned());
        options.metadata_dir = Some(directory.join("metadata"));
        options.keystore = Some(make_keystore(directory).unwrap());
        options.request_log = true;
        options.site = Some(site.path().to_owned());
        let broker = Broker::start(&kafka, options).unwrap();
        broker.create_topics(&kafka, &[("orders", 2)]).unwrap();
        let producer = |number: u32| Producer {
            topic: "orders".to_owned(),
            client_id: format!("orders-{number}"),
            rate: 100,
            record_bytes: 1024,
            properties: ["acks=1", "linger.ms=0"].map(str::to_owned).to_vec(),
        };
        let producers: Vec<Producer> = (1..=3).map(producer).collect();
        let load = Load::start(&kafka, &broker, &producers, &directory.join("load")).unwrap();
        sleep(Duration::from_secs(6));
        volume.inject_journal_delay(120, 400).unwrap();
        Self { broker, load, volume, _site: site }
    }
}

type Verdicts = HashMap<(String, i64), Value>;

fn verdicts(recording: &Path) -> (Verdicts, Value) {
    let arguments = ["explain", recording.to_str().unwrap(), "--slower-than", "50ms", "--format", "json"];
    let (verdicts, summary) = brokerscope::run(arguments).done().objects();
    let of_producers = verdicts.into_iter().filter(|verdict| verdict["request"]["api"] == "PRODUCE");
    let key = |verdict: &Value| (row::client(&verdict["request"]), row::correlation_id(&verdict["request"]));
    (of_producers.map(|verdict| (key(&verdict), verdict)).collect(), summary)
}

/// Checks that two recorders that watch the same requests agree. One uses the agent, and one the log.
pub(crate) fn verdicts_agree(name: &str) {
    let directory = directory(name);
    let SlowJournal { broker, load, mut volume, _site } = SlowJournal::start(&directory);
    let log = broker.request_log.clone().unwrap();
    let paths: [PathBuf; 2] = ["by-agent", "by-log"].map(|name| directory.join(name));
    let by_agent = Recorder::start_with(&paths[0], broker.pid, &["--see-tls"]);
    let by_log = Recorder::start_with(&paths[1], broker.pid, &["--request-log", log.to_str().unwrap()]);
    sleep(Duration::from_secs(16));
    by_log.stop();
    by_agent.stop();
    load.stop();
    volume.device().clear().unwrap();
    broker.stop();
    let [(agents, _), (logs, summary)] = paths.map(|path| verdicts(&path));
    joins_of_slow(&summary);
    let both = logs.iter().filter_map(|(key, log)| Some((log, agents.get(key)?)));
    let both: Vec<_> = both.filter(|(log, agent)| is_same_time(log, agent)).collect();
    let cause = |verdict: &Value| verdict["cause"].as_str().unwrap().to_owned();
    let same = both.iter().filter(|(log, agent)| cause(log) == cause(agent)).count();
    let commits = both.iter().filter(|(log, _)| cause(log) == "journal-commit").count();
    let differ: Vec<_> = both.iter().filter(|(log, agent)| is_other(log, agent)).collect();
    println!("{name}: {} slow by both, {same} with the same cause, {commits} of commits", both.len());
    for (log, agent) in &differ {
        println!("by the log {log}\nby the agent {agent}");
    }
    assert!(both.len() >= 10 && commits >= 5, "too few slow requests to prove much");
    assert!(differ.is_empty(), "{} verdicts differ", differ.len());
    fs::remove_dir_all(&directory).unwrap();
}

/// Whether both times agree: the log does not include how long a request took to arrive.
fn is_same_time(log: &Value, agent: &Value) -> bool {
    let [log, agent] = [log, agent].map(|verdict| verdict["request"]["latency_ns"].as_f64().unwrap());
    (log - agent).abs() * 10.0 <= agent
}

/// Whether a verdict by the log names a cause that the agent's does not. The log shows how long a request was in the
/// queue: if several causes took about as long, another one may have taken the most.
fn is_other(log: &Value, agent: &Value) -> bool {
    let chain = agent["chain"].as_array().unwrap();
    let mut evidence = agent["evidence"].as_array().unwrap().iter().map(|of| of["text"].as_str().unwrap());
    let lacked_cpu = log["cause"] == "run-queue" && evidence.any(|text| text.contains("without a CPU"));
    log["cause"] != "unobserved" && !chain.contains(&log["cause"]) && !lacked_cpu
}

fn joins_of_slow(summary: &Value) {
    let joins = &summary["joins"];
    println!("joins: {joins}");
    let count = |name: &str| joins[name].as_u64().unwrap_or_default();
    let all = count("by_base_offset") + count("unjoined");
    assert!(all > 100 && count("by_base_offset") * 100 >= all * 99, "{joins}");
}
