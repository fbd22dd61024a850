//! Tests `export` with a real broker: its metrics match what the clients did, in every format, and a restart breaks
//! nothing. By default it is always-on, and each request of a client that counts them is counted once.
//!
//! Live tests need root and run where `BROKERSCOPE_LIVE_TESTS=1`; see README.md.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::float_cmp,
    reason = "what cannot go on panics, and the test fails with it"
)]

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use e2e::brokerscope;
use e2e::first::ahead;
use e2e::gate;
use e2e::ground::Ground;
use e2e::losses;
use e2e::tcpdump::signal;
use e2e::traffic::directory;
use lab::client::{Connection, Request};
use lab::kafka::{DEFAULT_VERSION, Kafka};
use lab::load::{Load, Producer};
use lab::{Broker, BrokerOptions};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Timeout: what takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(120);
const TOPIC: &str = "exported";
const RECORD_BYTES: u32 = 500;
/// Delay of each request to the journal, and so the minimum duration of a commit.
const COMMIT_MS: u64 = 150;
/// Number of requests, or writes, that is enough: the producer decides how many records each has.
const ENOUGH: f64 = 15.0;
const REQUESTS: &str = "brokerscope_requests_total";
const STAGES: &str = "brokerscope_request_stage_duration_seconds_count";

/// A running exporter; killed when dropped.
struct Exporting {
    child: Child,
    address: SocketAddr,
    log_path: PathBuf,
}

impl Exporting {
    fn start(pid: u32, log_path: &Path, mode: &[&str]) -> Self {
        let mut command = brokerscope::command();
        command.args(["export", "--listen", "127.0.0.1:0", "--pid", &pid.to_string()]).args(mode);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(fs::File::create(log_path).unwrap());
        // The test must not depend on how much CPU time other processes leave to it.
        let mut child = ahead(|| command.spawn()).unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("http://").and_then(|rest| rest.strip_suffix("/metrics"));
        let log_path = log_path.to_owned();
        let log = || fs::read_to_string(&log_path).unwrap_or_default();
        let address = address.unwrap_or_else(|| panic!("it says where it is: {line:?}, {}", log()));
        Self { child, address: address.parse().unwrap(), log_path }
    }

    fn get(&self, path: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").expect(&answer);
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    fn scrape(&self) -> BTreeMap<String, f64> {
        let (status, text) = self.get("/metrics");
        assert_eq!(status, 200, "{text}");
        let series = text.lines().filter(|line| !line.starts_with('#'));
        let split = |line: &str| {
            let (name, value) = line.rsplit_once(' ').unwrap();
            (name.to_owned(), value.parse().unwrap())
        };
        series.map(split).collect()
    }

    /// Scrapes until a condition holds, and returns that scrape.
    fn await_scrape(
        &self,
        what: &str,
        mut is_so: impl FnMut(&BTreeMap<String, f64>) -> bool,
    ) -> BTreeMap<String, f64> {
        let end = Instant::now() + PATIENCE;
        loop {
            let scraped = self.scrape();
            if is_so(&scraped) {
                return scraped;
            }
            assert!(Instant::now() < end, "not so: {what}: {scraped:#?}\n{}", self.log());
            sleep(Duration::from_millis(200));
        }
    }

    fn log(&self) -> String {
        fs::read_to_string(&self.log_path).unwrap_or_default()
    }

    fn stop(mut self) {
        signal(&self.child, Signal::INT);
        let end = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < end, "it does not end: {}", self.log());
            sleep(Duration::from_millis(20));
        };
        assert!(status.success(), "{status}: {}", self.log());
    }
}

impl Drop for Exporting {
    fn drop(&mut self) {
        // Both fail if it has already ended, which is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn sum(scraped: &BTreeMap<String, f64>, name: &str, label: &str) -> f64 {
    let of = |series: &str| series.split('{').next() == Some(name) && series.contains(label);
    scraped.iter().filter(|(series, _)| of(series)).map(|(_, value)| value).sum()
}

fn start(kafka: &Kafka, directory: &Path, log_dir: &Path, port: Option<u16>) -> Broker {
    let mut options = BrokerOptions::new(directory.join("broker"));
    options.log_dir = Some(log_dir.to_owned());
    options.metadata_dir = Some(directory.join("metadata"));
    options.port = port;
    Broker::start(kafka, options).unwrap_or_else(|error| panic!("{error}"))
}

fn load(kafka: &Kafka, broker: &Broker, directory: &Path) -> Load {
    let producer = Producer {
        topic: TOPIC.to_owned(),
        client_id: "exporting-producer".to_owned(),
        rate: 200,
        record_bytes: RECORD_BYTES,
        properties: vec!["acks=1".to_owned()],
    };
    Load::start(kafka, broker, &[producer], directory).unwrap_or_else(|error| panic!("{error}"))
}

/// A client that counts its produce requests.
struct Client {
    connection: Connection,
    sent: f64,
    answered: f64,
}

impl Client {
    fn connect(broker: &Broker) -> Self {
        let connection = Connection::open(broker.listener(), "counting-client").unwrap();
        Self { connection, sent: 0.0, answered: 0.0 }
    }

    /// Sends one to each partition; returns how long they took together.
    fn produce(&mut self) -> Duration {
        let begun = Instant::now();
        for partition in 0..2 {
            self.connection.order(&Request::produce(TOPIC, partition, 1, &[b"counted"])).unwrap();
            self.sent += 1.0;
            self.answered += 1.0;
        }
        begun.elapsed()
    }

    /// Sends one that gets no answer.
    fn produce_unanswered(&mut self) {
        self.connection.send(&Request::produce(TOPIC, 0, 0, &[b"unanswered"])).unwrap();
        self.sent += 1.0;
    }

    /// Sends requests of another API until they are counted; from then on every one is.
    fn await_counting(&mut self, exporting: &Exporting) {
        let of_api = "api=\"FIND_COORDINATOR\"";
        let before = sum(&exporting.scrape(), REQUESTS, of_api);
        exporting.await_scrape("requests are counted", |scraped| {
            self.connection.call(&Request::find_coordinator("counted")).unwrap();
            sum(scraped, REQUESTS, of_api) > before
        });
    }
}

/// Checks that an always-on exporter counts a client's requests. It must do so through a restart of the broker, and
/// name why one was slow.
fn count_each_request_once(exporting: Exporting, before: &Client, broker: &Broker, ground: &mut Ground) {
    let mut client = Client::connect(broker);
    client.await_counting(&exporting);
    for _ in 0..3 {
        client.produce_unanswered();
        client.produce();
    }
    ground.delay_journal(COMMIT_MS);
    let (mut slow, end) = (0, Instant::now() + PATIENCE);
    while slow < 3 {
        assert!(Instant::now() < end, "no commit made requests slow");
        slow += u32::from(client.produce() >= Duration::from_millis(COMMIT_MS));
        sleep(Duration::from_millis(2));
    }
    ground.clear();
    let (sent, answered) = (before.sent + client.sent, before.answered + client.answered);
    let counted = exporting.await_scrape("a slow request has its cause", |scraped| {
        let of_cause = "api=\"PRODUCE\",cause=\"journal-commit\"";
        sum(scraped, "brokerscope_slow_requests_total", of_cause) >= 1.0
            && sum(scraped, REQUESTS, "api=\"PRODUCE\"") >= sent
    });
    let of_produce = |name: &str| sum(&counted, name, "{api=\"PRODUCE\"}");
    assert_eq!(of_produce(REQUESTS), sent, "{counted:#?}");
    assert_eq!(of_produce("brokerscope_request_duration_seconds_count"), answered, "{counted:#?}");
    assert!(of_produce("brokerscope_request_bytes_total") > sent * 50.0, "{counted:#?}");
    let is_up = |purpose: &str| sum(&counted, "brokerscope_source_up", &format!("purpose=\"{purpose}\""));
    assert_eq!((is_up("requests"), is_up("request-latencies")), (1.0, 1.0));
    // On a busy machine enough requests are slow for an escalation.
    let has_escalated = exporting.log().contains("are slow: probes and packets are watched");
    assert!(has_escalated || is_up("socket-ops") == 0.0, "{}", exporting.log());
    // A connection from before the start may have been missed.
    let lost = |label: &str| sum(&counted, "brokerscope_losses_total", label);
    let (uncounted, dropped) = (lost("kind=\"requests-uncounted\""), lost("kind=\"probe-events-dropped\""));
    assert_eq!(lost(""), uncounted + dropped, "{}", exporting.log());
    assert!(losses::is_unpreventable_in(&exporting.log(), dropped), "{dropped}: {}", exporting.log());
    assert!(!counted.keys().any(|series| series.starts_with("brokerscope_topic_")), "{counted:#?}");
    exporting.stop();
}

/// Checks that `doctor` reports running watches, their modes and their cost.
fn assert_examined(watches: [(&Exporting, &str); 2]) {
    let output = brokerscope::command().args(["doctor", "--format", "json"]).output().unwrap();
    let examination: Value = serde_json::from_slice(&output.stdout).unwrap();
    for (exporting, mode) in watches {
        let of_process = |watch: &&Value| watch["pid"] == exporting.child.id();
        let found = examination["watches"].as_array().unwrap().iter().find(of_process);
        let watch = found.unwrap_or_else(|| panic!("{mode}: {examination:#}"));
        assert_eq!(watch["mode"], mode);
        for part in ["programs_cpus", "process_cpus"] {
            let cpus = watch[part].as_f64().unwrap();
            assert!(cpus > 0.0 && cpus < 2.0, "{watch:#}");
        }
    }
}

/// Checks that an exporter with a tiny cost limit sheds a source. It must do so within about a minute, and report that
/// everywhere.
fn assert_sheds(exporting: Exporting) {
    let scraped = exporting.await_scrape("a source is given up", |scraped| {
        sum(scraped, "brokerscope_losses_total", "kind=\"source-shed\"") >= 1.0
    });
    assert_eq!(scraped["brokerscope_source_up{purpose=\"cpu-samples\"}"], 0.0);
    assert_eq!(scraped["brokerscope_max_cost_ratio"], 0.0001);
    for part in ["process", "programs"] {
        let cost = sum(&scraped, "brokerscope_cost_ratio", part);
        assert!(cost > 0.0001 && cost < 10.0, "{part}: {cost}");
    }
    let log = exporting.log();
    assert!(log.contains("cpu-samples is not watched from now on: over --max-cost 0.01 %"), "{log}");
    exporting.stop();
}

#[test]
fn exports_metrics_of_a_broker_through_its_restart() {
    let Some(_alone) = gate::live("metrics of a real broker, which is restarted") else { return };
    let mut ground = Ground::prepare("export", "commit=1");
    let directory = directory("export");
    let kafka = Kafka::prepare(DEFAULT_VERSION).unwrap_or_else(|error| panic!("{error}"));
    let broker = start(&kafka, &directory, ground.path(), None);
    let port = broker.port;
    broker.create_topic(&kafka, TOPIC, 2).unwrap();
    let full = ["--watch", "full", "--measure-probes"];
    let exporting = Exporting::start(broker.pid, &directory.join("export.txt"), &full);
    assert_eq!(exporting.get("/healthz").0, 200);
    let produced = "brokerscope_topic_bytes_total";
    let of_topic = format!("topic=\"{TOPIC}\",api=\"PRODUCE\"");
    let tiny = ["--watch", "full", "--max-cost", "0.01%"];
    let shedding = Exporting::start(broker.pid, &directory.join("shedding.txt"), &tiny);
    let before = load(&kafka, &broker, &directory.join("before"));
    exporting.await_scrape("records of the topic are seen", |scraped| {
        sum(scraped, produced, &of_topic) > 100_000.0
    });
    assert_eq!(exporting.get("/readyz").0, 200);
    ground.delay_journal(COMMIT_MS);
    let slow = exporting.await_scrape("a commit made requests slow", |scraped| {
        sum(scraped, "brokerscope_slow_requests_total", "cause=\"journal-commit\"") >= 1.0
            && sum(scraped, STAGES, "api=\"PRODUCE\",stage=\"append\"") >= ENOUGH
            && sum(scraped, "brokerscope_journal_commit_max_seconds", "") >= 0.1
    });
    ground.clear();
    let log_dir = format!("log_dir=\"{}\"", broker.log_dir.display());
    assert!(sum(&slow, "brokerscope_write_duration_seconds_count", &log_dir) >= ENOUGH, "{slow:#?}");
    assert!(sum(&slow, "brokerscope_write_duration_max_seconds", &log_dir) >= 0.05, "{slow:#?}");
    // Everything was observed of all of them.
    for stage in ["receive", "handler", "append", "respond"] {
        let label = format!("api=\"PRODUCE\",stage=\"{stage}\"");
        let count = sum(&slow, STAGES, &label);
        assert!(count >= ENOUGH, "{stage}: {count}");
    }
    for name in [
        "brokerscope_bpf_runs_total",
        "brokerscope_bpf_run_seconds_total",
        "process_resident_memory_bytes",
        "process_cpu_seconds_total",
    ] {
        assert!(slow[name] > 0.0, "{name}");
    }
    let busy = sum(&slow, "brokerscope_thread_busy_ratio", "role=\"request-handlers\"");
    assert!(busy > 0.0 && busy <= 1.0, "{busy}");
    assert_eq!(sum(&slow, "brokerscope_source_up", "purpose=\"file-writes\""), 1.0);

    assert_sheds(shedding);
    drop(before);
    let always_on = Exporting::start(
        broker.pid,
        &directory.join("always-on.txt"),
        &["--slower-than", "65ms", "--max-cost", "none"],
    );
    assert!(always_on.log().contains("--watch always-on by default"), "{}", always_on.log());
    let mut client = Client::connect(&broker);
    for _ in 0..10 {
        client.produce();
    }
    assert_examined([(&exporting, "full"), (&always_on, "always-on")]);
    client.produce();
    // Right away: events that are not delivered yet must still be delivered.
    kill_process(Pid::from_raw(broker.pid as i32).unwrap(), Signal::KILL).unwrap();
    broker.stop();
    exporting.await_scrape("the broker is gone", |scraped| scraped["brokerscope_broker_up"] == 0.0);
    assert_eq!(exporting.get("/readyz").0, 503);
    let broker = start(&kafka, &directory, ground.path(), Some(port));
    let back = exporting.await_scrape("it is back", |scraped| scraped["brokerscope_broker_up"] == 1.0);
    assert_eq!(back["brokerscope_broker_restarts_total"], 1.0);
    count_each_request_once(always_on, &client, &broker, &mut ground);
    let after = load(&kafka, &broker, &directory.join("after"));
    let had = sum(&back, produced, &of_topic);
    assert!(had >= sum(&slow, produced, &of_topic), "what was counted stays");
    let writes = "brokerscope_write_duration_seconds_count";
    let later = exporting.await_scrape("it is counted on", |scraped| {
        sum(scraped, produced, &of_topic) > had + 100_000.0
            && sum(scraped, writes, &log_dir) > sum(&back, writes, &log_dir) + ENOUGH
    });
    for (series, value) in back.iter().filter(|(series, _)| {
        let name = series.split('{').next().unwrap();
        ["_total", "_count", "_bucket", "_sum"].iter().any(|end| name.ends_with(end))
    }) {
        assert!(later.get(series).is_some_and(|later| later >= value), "{series} went back from {value}");
    }
    drop(after);
    exporting.stop();
    drop(broker);
}
