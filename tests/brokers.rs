//! Tests two brokers on one host, a broker's restart, and a segment's roll. The brokers must not be mixed up, recording
//! must continue after the restart, and the roll must be observed with what it waited for. All on real brokers.
//!
//! Live tests need root and run where `BROKERSCOPE_LIVE_TESTS=1`; see README.md.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "what cannot go on panics, and the test fails with it"
)]

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use e2e::brokerscope;
use e2e::gate;
use e2e::ground::Ground;
use e2e::operations::{Operation, operations};
use e2e::recorder::Recorder;
use e2e::recording::Recording;
use e2e::traffic::directory;
use lab::device::Direction;
use lab::kafka::{DEFAULT_VERSION, Kafka};
use lab::load::{Load, Producer};
use lab::{Broker, BrokerOptions};
use serde_json::Value;

/// Timeout for a recorder to find a restarted broker. Also for a producer's JVM to start.
const PATIENCE: Duration = Duration::from_secs(120);
/// The bytes that a producer of the two brokers sends in a second and a half.
const APPENDED: u64 = 150_000;
const UNASKED: &str = "-XX:+DisableAttachMechanism";

fn kafka() -> Kafka {
    Kafka::prepare(DEFAULT_VERSION).unwrap_or_else(|error| panic!("{error}"))
}

fn broker(kafka: &Kafka, directory: PathBuf, adjust: impl FnOnce(&mut BrokerOptions)) -> Broker {
    let mut options = BrokerOptions::new(directory);
    adjust(&mut options);
    Broker::start(kafka, options).unwrap_or_else(|error| panic!("{error}"))
}

/// Produces to a broker until dropped.
fn load(kafka: &Kafka, broker: &Broker, topic: &str, record_bytes: u32, rate: u32, directory: &Path) -> Load {
    let producer = Producer {
        topic: topic.to_owned(),
        client_id: format!("{topic}-producer"),
        rate,
        record_bytes,
        properties: vec!["acks=1".to_owned()],
    };
    Load::start(kafka, broker, &[producer], directory).unwrap_or_else(|error| panic!("{error}"))
}

fn files(recording: &Recording) -> BTreeSet<&str> {
    recording.file_ops.iter().filter_map(|operation| operation["file"].as_str()).collect()
}

#[test]
fn records_only_one_of_two_brokers_and_follows_its_restart() {
    let Some(_alone) = gate::live("two brokers, one of which is restarted") else { return };
    let (directory, kafka) = (directory("two-brokers"), kafka());
    let start =
        |name: &str, port: Option<u16>| broker(&kafka, directory.join(name), |options| options.port = port);
    let (ours, other) = std::thread::scope(|scope| {
        let other = scope.spawn(|| start("other", None));
        (start("ours", None), other.join().unwrap())
    });
    let (first_pid, port) = (ours.pid, ours.port);
    let mut own_ports = ports(&ours);
    let recording = directory.join("recording");
    let recorder = Recorder::start(&recording, ours.pid);
    let produce =
        |broker: &Broker, topic: &str| load(&kafka, broker, topic, 500, 200, &directory.join(topic));
    let loads = [produce(&ours, "before"), produce(&other, "elsewhere")];
    await_appended(&ours, "before", APPENDED);
    await_appended(&other, "elsewhere", APPENDED);
    drop(loads);
    ours.stop();
    // Meanwhile the only broker here is not the recorded one.
    let elsewhere = produce(&other, "elsewhere");
    let ours = start("ours", Some(port));
    own_ports.extend(ports(&ours));
    await_process(&recording, ours.pid);
    let after = produce(&ours, "after");
    await_appended(&ours, "after", APPENDED);
    await_appended(&other, "elsewhere", 2 * APPENDED);
    drop((elsewhere, after));
    recorder.stop();

    let read = Recording::read(&recording);
    let files = files(&read);
    let has = |topic: &str| files.iter().any(|file| file.starts_with(&format!("{topic}-0/")));
    assert!(has("before") && has("after") && !has("elsewhere"), "{files:?}");
    let pids: BTreeSet<u64> =
        read.file_ops.iter().filter_map(|operation| operation["pid"].as_u64()).collect();
    assert!(pids.is_subset(&[u64::from(first_pid), ours.pid.into()].into()), "{pids:?}");
    for request in &read.requests {
        let to: SocketAddr = request["broker"].as_str().unwrap().parse().unwrap();
        assert!(own_ports.contains(&to.port()), "of the other broker: {request}");
    }
    let clients: BTreeSet<&str> =
        read.requests.iter().filter_map(|request| request["client_id"].as_str()).collect();
    assert!(clients.contains("before-producer") && clients.contains("after-producer"), "{clients:?}");
    let explained = brokerscope::run(["explain".as_ref(), recording.as_os_str()]).done();
    let noted = format!("{}{}", explained.stdout, explained.stderr);
    assert!(noted.contains("restarted") && noted.contains(&first_pid.to_string()), "{noted}");
    drop(other);
}

/// Ports of a broker's listeners for clients and, as its controller, for itself.
fn ports(broker: &Broker) -> BTreeSet<u16> {
    let properties = fs::read_to_string(&broker.properties).unwrap();
    let listeners = properties.lines().find_map(|line| line.strip_prefix("listeners=")).unwrap();
    let ports: BTreeSet<u16> =
        listeners.split(',').map(|listener| listener.rsplit(':').next().unwrap().parse().unwrap()).collect();
    assert_eq!(ports.len(), 2, "{listeners}");
    ports
}

/// Waits until a recording's manifest says that it watches a process.
fn await_process(recording: &Path, pid: u32) {
    let watches = || {
        let manifest: Value = fs::read(recording.join("manifest.json"))
            .ok()
            .and_then(|text| serde_json::from_slice(&text).ok())
            .unwrap_or_default();
        let processes = manifest["broker"]["processes"].as_array().cloned().unwrap_or_default();
        processes.iter().any(|process| process["pid"] == pid)
    };
    let end = Instant::now() + PATIENCE;
    while !watches() {
        assert!(Instant::now() < end, "the recorder did not find process {pid}");
        sleep(Duration::from_millis(100));
    }
}

/// Waits until a topic's only partition has this many bytes in all of its segments.
fn await_appended(broker: &Broker, topic: &str, bytes: u64) {
    let end = Instant::now() + PATIENCE;
    while appended(&broker.log_dir.join(format!("{topic}-0"))) < bytes {
        assert!(Instant::now() < end, "{topic} is not produced to");
        sleep(Duration::from_millis(50));
    }
}

fn appended(partition: &Path) -> u64 {
    let files = fs::read_dir(partition).into_iter().flatten().flatten();
    let segments = files.filter(|file| file.path().extension().is_some_and(|extension| extension == "log"));
    segments.filter_map(|segment| Some(segment.metadata().ok()?.len())).sum()
}

/// Checks that a JVM that does not answer is left alone. One line must report it and what is not observed as a result.
fn assert_says_once_that_the_jvm_is_not_asked(recording: &Path) {
    let log = fs::read_to_string(recording.with_extension("txt")).unwrap();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains(UNASKED)).collect();
    let [line] = lines[..] else { panic!("one line says so:\n{log}") };
    assert!(line.starts_with("not seen: thread-names, lock-waits: "), "{line}");
}

#[test]
fn records_every_sync_of_a_segment_roll_and_its_wait_reasons() {
    let Some(_alone) = gate::live("a segment's roll") else { return };
    let mut ground = Ground::prepare("segment-roll", "");
    let (kafka, directory) = (kafka(), ground.directory().to_owned());
    let broker = broker(&kafka, directory.join("broker"), |options| {
        options.log_dir = Some(ground.path().to_owned());
        options.metadata_dir = Some(directory.join("metadata"));
        options.properties = vec![("log.segment.bytes".to_owned(), (1 << 20).to_string())];
        // Everything else is observed all the same.
        options.jvm_arguments = vec![UNASKED.to_owned()];
    });
    broker.create_topic(&kafka, "rolled", 1).unwrap();
    let recording = directory.join("recording");
    let recorder = Recorder::start(&recording, broker.pid);
    ground.delay(Direction::Write, 40);
    // One segment per second.
    let load = load(&kafka, &broker, "rolled", 1000, 1000, &directory.join("load"));
    await_appended(&broker, "rolled", 4 << 20);
    drop(load);
    ground.clear();
    recorder.stop();
    drop(broker);

    assert_says_once_that_the_jvm_is_not_asked(&recording);
    let all_operations = operations(&recording, &ground.device());
    let syncs: Vec<_> = all_operations
        .iter()
        .filter(|operation| {
            matches!(operation.op.as_str(), "fsync" | "fdatasync" | "msync")
                && operation.file.starts_with("rolled-0/")
        })
        .collect();
    let table: Vec<String> =
        syncs.iter().map(|sync| format!("{} {} {:?}", sync.op, sync.file, sync.reasons)).collect();
    println!("{}", table.join("\n"));
    for extension in [".log", ".index", ".timeindex"] {
        assert!(syncs.iter().any(|sync| sync.file.ends_with(extension)), "no sync of a {extension}");
    }
    // How long a thread waits for a CPU depends on this machine.
    let waited = |sync: &Operation| sync.latency_ns - sync.reasons.get("run-queue").copied().unwrap_or(0);
    let slow: Vec<_> = syncs.iter().filter(|sync| waited(sync) > 30_000_000).collect();
    assert!(slow.len() >= 3, "{} syncs were slow", slow.len());
    for sync in slow {
        // A sync may wait for its pages and for the journal, each for the duration of a write.
        let known = ["device", "slow-device", "writeback-wait", "journal-commit"];
        let explained: i64 = known.iter().filter_map(|reason| sync.reasons.get(*reason)).sum();
        assert!(explained * 2 > waited(sync), "{sync:?}");
    }
}
