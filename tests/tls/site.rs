//! A broker whose clients use TLS, and those clients. Compares the requests that `record --see-tls` records with
//! Kafka's own request log.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use e2e::agreement::{few, none};
use e2e::comparison::with_log;
use e2e::frames::Sizes;
use e2e::kafka_log::{self, LoggedRequest};
use e2e::recorder::Recorder;
use e2e::recording::Recording;
use e2e::row::{self, Key, Output};
use e2e::traffic::directory;
use lab::broker::{make_keystore, tls_client_properties};
use lab::kafka::{DEFAULT_VERSION, Kafka};
use lab::{Broker, BrokerOptions};
use serde_json::{Value, json};

/// Timeout: a client that runs longer hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
/// Time by which an agent whose recorder was killed has stopped.
pub(crate) const STOPS_WITHIN: Duration = Duration::from_secs(5);
/// The agent's thread.
pub(crate) const AGENT: &str = "brokerscope-age";

/// Properties that make the TLS listener require a password.
pub(crate) const SASL_BROKER: [(&str, &str); 3] = [
    ("listener.security.protocol.map", "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SSL:SASL_SSL"),
    ("listener.name.ssl.sasl.enabled.mechanisms", "PLAIN"),
    (
        "listener.name.ssl.plain.sasl.jaas.config",
        "org.apache.kafka.common.security.plain.PlainLoginModule required user_lab=\"lab-secret\";",
    ),
];
pub(crate) const SASL_CLIENT: &str = "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n\
    sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username=\"lab\" password=\"lab-secret\";\n";

/// First correlation id of authentication requests. See `SaslClientAuthenticator.MIN_RESERVED_CORRELATION_ID`.
const LEAST_OF_SASL: i64 = 2_147_483_640;

/// A broker with TLS, and what its clients need.
pub(crate) struct Site {
    pub(crate) directory: PathBuf,
    kafka: Kafka,
    pub(crate) broker: Broker,
    /// Client properties for each version of TLS.
    properties: BTreeMap<&'static str, PathBuf>,
}

impl Site {
    /// Starts it. With passwords, its listener is `SASL_SSL`, else `SSL`.
    pub(crate) fn start(name: &str, version: &str, java: &Path, with_password: bool) -> Self {
        let directory = directory(name);
        let kafka = Kafka::prepare_with(java, version).unwrap();
        let keystore = make_keystore(&directory).unwrap();
        let mut options = BrokerOptions::new(directory.join("broker"));
        if with_password {
            options.properties.extend(SASL_BROKER.map(|(key, value)| (key.to_owned(), value.to_owned())));
        }
        options.request_log = true;
        options.keystore = Some(keystore.clone());
        options.jvm_arguments.push("-Xlog:safepoint:file=safepoints.log".to_owned());
        let broker = Broker::start(&kafka, options).unwrap();
        let properties = ["TLSv1.2", "TLSv1.3"].map(|version| {
            let path = directory.join(format!("{version}.properties"));
            let text = format!("{}ssl.enabled.protocols={version}\n", tls_client_properties(&keystore));
            fs::write(&path, text + if with_password { SASL_CLIENT } else { "" }).unwrap();
            (version, path)
        });
        Self { directory, kafka, broker, properties: BTreeMap::from(properties) }
    }

    pub(crate) fn address(&self) -> String {
        self.broker.clients_bootstrap()
    }

    /// One of Kafka's tools, with this TLS version.
    pub(crate) fn tool(&self, class: &str, flag: &str, tls: &str) -> Command {
        let mut command = self.kafka.tool(class);
        command.args(["--bootstrap-server", &self.address(), flag]).arg(&self.properties[tls]);
        command.current_dir(&self.directory);
        command
    }

    pub(crate) fn create_topic(&self, topic: &str) {
        let mut command = self.tool("org.apache.kafka.tools.TopicCommand", "--command-config", "TLSv1.3");
        command.args(["--create", "--topic", topic, "--partitions", "3", "--replication-factor", "1"]);
        done(spawn(command));
    }

    /// Produces `records` records of `bytes` bytes at `rate` per second (-1: unlimited).
    pub(crate) fn produce(
        &self,
        tls: &str,
        records: u32,
        bytes: u32,
        rate: i32,
        settings: &[&str],
    ) -> Client {
        let mut command = self.kafka.tool("org.apache.kafka.tools.ProducerPerformance");
        command.args(["--topic", "tls", "--num-records", &records.to_string()]);
        command.args(["--record-size", &bytes.to_string(), "--throughput", &rate.to_string()]);
        command.arg("--producer.config").arg(&self.properties[tls]);
        command.args(["--producer-props", &format!("bootstrap.servers={}", self.address())]).args(settings);
        command.current_dir(&self.directory);
        spawn(command)
    }

    pub(crate) fn consume(&self, tls: &str, records: u32) {
        let mut command = self.tool("org.apache.kafka.tools.ConsumerPerformance", "--consumer.config", tls);
        command.args(["--topic", "tls", "--messages", &records.to_string(), "--timeout", "20000"]);
        done(spawn(command));
    }

    /// Ends the broker, and returns its log of the requests on its TLS listener.
    pub(crate) fn log(self) -> Vec<LoggedRequest> {
        let (address, log) = (self.address(), self.broker.request_log.clone().unwrap());
        self.broker.stop();
        kafka_log::read_listener(&log, &address)
    }

    pub(crate) fn has_agent(&self) -> bool {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.broker.pid)).unwrap().flatten();
        tasks
            .filter_map(|task| fs::read_to_string(task.path().join("comm")).ok())
            .any(|comm| comm.trim() == AGENT)
    }

    /// Files that the recorder has left in the broker's directories.
    pub(crate) fn leftovers(&self) -> Vec<String> {
        let root = format!("/proc/{}/root", self.broker.pid);
        let files = ["/dev/shm", "/tmp"]
            .into_iter()
            .flat_map(|place| fs::read_dir(format!("{root}{place}")).unwrap());
        let names = files.flatten().map(|file| file.file_name().to_string_lossy().into_owned());
        names.filter(|name| name.starts_with(".brokerscope")).collect()
    }
}

/// One of Kafka's clients; killed when dropped, also by a test that fails.
pub(crate) struct Client(Child);

impl Drop for Client {
    fn drop(&mut self) {
        // Both fail if it has already ended, which is fine.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn spawn(mut command: Command) -> Client {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::inherit());
    Client(command.spawn().unwrap())
}

pub(crate) fn done(mut client: Client) {
    let end = Instant::now() + PATIENCE;
    while client.0.try_wait().unwrap().is_none() {
        assert!(Instant::now() < end, "a client hangs");
        sleep(Duration::from_millis(50));
    }
    assert!(client.0.wait().unwrap().success());
}

/// Waits until a condition holds; returns whether it did in time.
pub(crate) fn comes_true(within: Duration, is_so: impl Fn() -> bool) -> bool {
    let end = Instant::now() + within;
    while !is_so() {
        if Instant::now() >= end {
            return false;
        }
        sleep(Duration::from_millis(50));
    }
    true
}

/// The rows of the requests on a listener, as `requests` would print them.
pub(crate) fn rows_of(recording: &Recording, listener: &str) -> Vec<Value> {
    recording.requests.iter().filter(|row| row["broker"] == listener).cloned().collect()
}

/// The sizes in the rows: there is no other source for them.
pub(crate) fn sizes_of(rows: &[Value]) -> BTreeMap<Key, Sizes> {
    let of = |row: &Value| Sizes {
        request: row["request_bytes"].as_u64().unwrap(),
        response: row["response_bytes"].as_u64(),
        whole: !row["end_ns"].is_null(),
    };
    row::by_key(rows.iter()).into_iter().map(|(key, row)| (key, of(row))).collect()
}

/// Leaves out requests before a connection's first row: an agent observes nothing from before it was loaded.
pub(crate) fn since_loaded(log: Vec<LoggedRequest>, rows: &[Value], early: &[String]) -> Vec<LoggedRequest> {
    let mut first: HashMap<String, i64> = HashMap::new();
    for row in rows {
        let least = first.entry(row::client(row)).or_insert(i64::MAX);
        *least = (*least).min(row::correlation_id(row));
    }
    let is_seen = |logged: &LoggedRequest| match first.get(&logged.client) {
        Some(first) => logged.correlation_id >= *first,
        None => !early.contains(&logged.client),
    };
    let has_row = |logged: &LoggedRequest| first.contains_key(&logged.client) && is_seen(logged);
    log.into_iter().skip_while(|logged| !has_row(logged)).filter(is_seen).collect()
}

/// The remote ends of the connections to a port.
pub(crate) fn connections_to(port: u16) -> Vec<String> {
    let table = fs::read_to_string("/proc/net/tcp6").unwrap() + &fs::read_to_string("/proc/net/tcp").unwrap();
    let of = |end: &str| u16::from_str_radix(end.rsplit(':').next()?, 16).ok();
    let remote = table.lines().filter_map(|line| {
        let mut ends = line.split_whitespace().skip(1);
        let (local, remote) = (of(ends.next()?)?, of(ends.next()?)?);
        (local == port).then(|| format!("127.0.0.1:{remote}"))
    });
    remote.collect()
}

pub(crate) fn rows_agree(name: &str, version: &str, java: &Path, with_password: bool) {
    let site = Site::start(name, version, java, with_password);
    site.create_topic("tls");
    // Its connections exist before the agent is loaded.
    let early = site.produce("TLSv1.3", 1_500, 100, 50, &["acks=1", "linger.ms=0"]);
    let port = site.broker.tls_port.unwrap();
    // A producer opens the connection for its records after others.
    let request_log = site.broker.request_log.clone().unwrap();
    let has_produced = || {
        kafka_log::read_listener(&request_log, &site.address()).iter().any(|logged| logged.api == "PRODUCE")
    };
    assert!(comes_true(PATIENCE, has_produced), "the producer sends nothing");
    let before = connections_to(port);
    let recording = site.directory.join("recording");
    let recorder = Recorder::start_with(&recording, site.broker.pid, &["--see-tls"]);
    assert!(site.has_agent(), "the agent does not run");
    assert_eq!(few(site.leftovers()), none(), "while it is watched");
    // Less than the ring holds, even if its reader gets no CPU for a while.
    let clients = [
        site.produce("TLSv1.2", 2_000, 100, 400, &["acks=all", "linger.ms=0", "batch.size=1"]),
        site.produce("TLSv1.3", 100, 60_000, -1, &["acks=1", "compression.type=lz4"]),
        site.produce("TLSv1.3", 10_000, 500, -1, &["acks=0", "batch.size=100000"]),
    ];
    clients.into_iter().for_each(done);
    site.consume("TLSv1.2", 10_000);
    site.consume("TLSv1.3", 10_000);
    done(early);
    sleep(Duration::from_secs(1));
    recorder.stop();
    assert!(!site.has_agent(), "the agent still runs");
    assert_eq!(few(site.leftovers()), none(), "afterwards");
    let (listener, pauses) =
        (site.address(), longest_safepoint(&site.directory.join("broker/safepoints.log")));
    let log = site.log();
    let recording = Recording::read(&recording);
    // Authentication requests are answered before Kafka's request log.
    let authenticates = |row: &Value| row::correlation_id(row) >= LEAST_OF_SASL;
    let (authenticating, rows): (Vec<_>, Vec<_>) =
        rows_of(&recording, &listener).into_iter().partition(authenticates);
    assert_eq!(authenticating.is_empty(), !with_password);
    let log = since_loaded(log, &rows, &before);
    println!(
        "{name}: {} rows, {} requests logged; the longest safepoint took {pauses} ms",
        rows.len(),
        log.len()
    );
    assert!(log.len() > 1_500, "too few requests to prove much");
    assert!(rows.iter().all(|row| row["seen_by"] == "tls-agent" && row["sequence"].is_null()));
    let (arrived, unknown): (Vec<&Value>, Vec<_>) = rows.iter().partition(|row| row["read_ns"].is_i64());
    println!(
        "{name}: the kernel saw the bytes of {} requests arrive, not of {}",
        arrived.len(),
        unknown.len()
    );
    assert!(unknown.len() * 50 < rows.len(), "arrivals are known of at least 98 % of the requests");
    let is_in_order = |row: &&Value| {
        let times = ["arrival_ns", "arrival_end_ns", "read_end_ns"].map(|column| row[column].as_i64());
        times.is_sorted() && row["arrival_ns"].as_i64() <= row["read_ns"].as_i64()
    };
    assert!(arrived.iter().all(is_in_order), "bytes arrive before they are read");
    let early_rows = rows.iter().filter(|row| before.contains(&row::client(row))).count();
    assert!(early_rows > 300, "{early_rows} rows of connections that were there before");
    let log = only_judged(log, &rows, &recording.summary);
    let sizes = sizes_of(&rows);
    let output = Output { rows, summary: json!({}) };
    assert_eq!(few(with_log(&output, &log, &sizes)), none());
    joins_are_by_crc(&recording);
}

/// Leaves out requests that `explain` does not judge. Nobody waited for them: acks=0, long polls, and group members
/// that waited for each other. The numbers show that these were observed.
pub(crate) fn only_judged(log: Vec<LoggedRequest>, rows: &[Value], summary: &Value) -> Vec<LoggedRequest> {
    let all = log.len() as u64;
    let judged: HashSet<_> = rows.iter().map(|row| (row::client(row), row::correlation_id(row))).collect();
    let has_no_answer =
        |logged: &LoggedRequest| logged.produce.as_ref().is_some_and(|produce| produce.acks == 0);
    let waits = |logged: &LoggedRequest| {
        let is_empty = logged.fetched.as_ref().is_some_and(|fetched| fetched.iter().all(|of| of.bytes == 0));
        let may_wait = ["JOIN_GROUP", "SYNC_GROUP"].contains(&&*logged.api) || is_empty;
        may_wait && !judged.contains(&(logged.client.clone(), logged.correlation_id))
    };
    let (unanswered, log): (Vec<_>, Vec<_>) = log.into_iter().partition(has_no_answer);
    let (waited, log): (Vec<_>, Vec<_>) = log.into_iter().partition(waits);
    let not_judged: u64 = summary["not_judged"].as_object().unwrap().values().filter_map(Value::as_u64).sum();
    let requests = summary["requests"].as_u64().unwrap();
    println!(
        "{requests} requests, {} of acks=0, {} that waited, {not_judged} not judged",
        unanswered.len(),
        waited.len()
    );
    assert!(unanswered.len() > 10 && !waited.is_empty(), "the clients have little variety");
    assert!(requests >= all, "{requests} of {all} requests were seen");
    log
}

pub(crate) fn joins_are_by_crc(recording: &Recording) {
    let joins = &recording.summary["joins"];
    println!("joins: {joins}");
    let count = |name: &str| joins[name].as_u64().unwrap_or_default();
    let all: u64 = ["by_crc", "by_base_offset", "by_time", "unjoined"].map(count).iter().sum();
    assert!(count("by_crc") * 100 >= all * 99 && count("by_time") == 0, "{joins}");
}

/// The longest safepoint in ms, from the JVM's own log: `Safepoint "RedefineClasses", …, Total: 123456 ns`.
pub(crate) fn longest_safepoint(log: &Path) -> f64 {
    let text = fs::read_to_string(log).unwrap();
    let of = |line: &str| -> Option<f64> {
        let redefines = ["RedefineClasses", "ChangeBreakpoints"].iter().any(|name| line.contains(name));
        let total = line.rsplit_once("Total:")?.1.split_once("ns")?.0.trim().parse::<f64>().ok()?;
        redefines.then_some(total / 1e6)
    };
    text.lines().filter_map(of).fold(0.0, f64::max)
}

/// Checks kills of recorders, these numbers of ms after their start. The agent must stop copying for them, the broker
/// keep serving, and the next recorder observe everything.
pub(crate) fn survives_kills(name: &str, moments_ms: &[u64]) {
    let site = Site::start(name, DEFAULT_VERSION, Path::new("java"), false);
    site.create_topic("tls");
    let load = site.produce("TLSv1.3", 1_000_000, 100, 100, &["acks=1", "linger.ms=0"]);
    for moment in moments_ms {
        let killed = site.directory.join(format!("killed-{moment}"));
        let recorder = Recorder::start_with(&killed, site.broker.pid, &["--see-tls"]);
        sleep(Duration::from_millis(*moment));
        recorder.kill();
        assert!(comes_true(STOPS_WITHIN, || !site.has_agent()), "the agent goes on after {moment} ms");
    }
    let recording = site.directory.join("recording");
    let recorder = Recorder::start_with(&recording, site.broker.pid, &["--see-tls"]);
    sleep(Duration::from_secs(5));
    recorder.stop();
    drop(load);
    let rows = rows_of(&Recording::read(&recording), &site.address());
    let produced = rows.iter().filter(|row| row["api"] == "PRODUCE" && row["error"].is_null()).count();
    assert!(produced > 300, "{produced} produce requests in five seconds");
}
