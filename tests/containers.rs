//! A broker in a container: it is found, its files are named by its log dirs, on an overlay and on a volume, and its
//! packets are captured in its network namespace; watched from the host and from within the container. Uses no
//! container runtime: `unshare`, an overlay and `pivot_root` do the same.
//!
//! Live tests need root and run where `BROKERSCOPE_LIVE_TESTS=1`; see README.md.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "what cannot go on panics, and the test fails with it"
)]

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use e2e::container::{Image, enter, first_process};
use e2e::ground::Ground;
use e2e::recorder::Recorder;
use e2e::recording::{Recording, appends_of};
use e2e::table::{Row, rows};
use e2e::workload::Workload;
use e2e::{brokerscope, gate};
use lab::kafka::{DEFAULT_VERSION, Kafka};
use serde_json::Value;

const ON_VOLUME: &str = "/var/lib/kafka/data";
const ON_OVERLAY: &str = "/srv/logs";
const PATIENCE: Duration = Duration::from_secs(120);

/// An overlay and a volume on one journaled ext4; from the host, the directories that tests need.
fn image(ground: &Ground, shared: &[&Path]) -> Image {
    let this = Path::new(env!("CARGO_MANIFEST_DIR")).to_owned();
    let binary = brokerscope::binary().unwrap().parent().unwrap().to_owned();
    Image {
        layers: ground.path().join("layers"),
        volume: ground.path().join("volume"),
        shared: shared
            .iter()
            .map(|&path| path.to_owned())
            .chain([this, binary, std::env::temp_dir()])
            .collect(),
    }
}

/// The path on the host of a file in the container's root.
fn upper(image: &Image, path: &str) -> PathBuf {
    image.layers.join("upper").join(path.trim_start_matches('/'))
}

fn is_append(row: &Row) -> bool {
    row.text("op") == "write" && row.text("kind") == "log"
}

#[test]
fn watches_a_container_from_outside_and_inside() {
    let Some(_alone) = gate::live("a broker in a container") else { return };
    let ground = Ground::prepare("container", "");
    let image = image(&ground, &[]);
    fs::create_dir_all(image.volume.join("data/topicA-0")).unwrap();
    fs::create_dir_all(upper(&image, ON_OVERLAY).join("topicB-1")).unwrap();
    let mut workload = Workload::start_in(&image, &[ON_VOLUME, ON_OVERLAY]);
    let ring = workload.order("ring");
    assert!(!ring.starts_with("error"), "io_uring: {ring}");
    let doctor = doctor(brokerscope::command(), workload.pid());
    assert!(doctor.contains("uses io_uring (1 ring)"), "{doctor}");
    assert!(doctor.contains("its pid there is 1") && doctor.contains("another namespace"), "{doctor}");

    let outside = ground.directory().join("outside");
    let recorder = Recorder::start(&outside, workload.pid());
    append_to_both(&mut workload);
    workload.order("crowd 1 8");
    let least = overflows(workload.pid());
    // Time for two samples of the host.
    sleep(Duration::from_millis(2200));
    recorder.stop();
    assert_appends(&outside, f64::from(workload.pid()), f64::from(workload.pid()));
    let counted: f64 = rows(&outside, "tcp_events")
        .iter()
        .filter(|row| row.text("kind") == "accept-queue-overflow")
        .filter_map(|row| row.number("count"))
        .sum();
    let most = overflows(workload.pid());
    assert!(least > 0.0 && counted >= least && counted <= most, "{counted}, in truth {least} to {most}");

    let mut inside = record_inside(&image, workload.pid());
    append_to_both(&mut workload);
    assert!(inside.wait().unwrap().success());
    assert_appends(&upper(&image, "/srv/inside"), 1.0, f64::from(workload.tid()));
}

fn append_to_both(workload: &mut Workload) {
    for (name, directory, bytes) in [("v", "topicA-0", 1000), ("o", "topicB-1", 2009)] {
        let root = if name == "v" { ON_VOLUME } else { ON_OVERLAY };
        let opened =
            workload.order(&format!("open {name} {root}/{directory}/00000000000000000007.log create"));
        assert!(!opened.starts_with("error"), "{opened}");
        assert_eq!(workload.order(&format!("write {name} {bytes}")), bytes.to_string());
        workload.order(&format!("fsync {name}"));
        workload.order(&format!("close {name}"));
    }
}

/// Checks the two appends in a recording's tables.
fn assert_appends(recording: &Path, pid: f64, tid: f64) {
    let operations = rows(recording, "file_ops");
    for (file, fs, topic, partition, bytes) in [
        ("topicA-0/00000000000000000007.log", "ext4", "topicA", 0.0, 1000.0),
        ("topicB-1/00000000000000000007.log", "overlay", "topicB", 1.0, 2009.0),
    ] {
        let of_file: Vec<_> = operations.iter().filter(|row| row.text("file") == file).collect();
        let append = of_file.iter().find(|row| is_append(row)).unwrap_or_else(|| panic!("{operations:#?}"));
        assert_eq!((append.text("fs"), append.text("topic")), (fs, topic), "{append:?}");
        let numbers = ["partition", "bytes", "pid", "tid"].map(|column| append.number(column));
        assert_eq!(numbers, [partition, bytes, pid, tid].map(Some), "{append:?}");
        assert!(of_file.iter().any(|row| row.text("op") == "fsync"), "{of_file:#?}");
    }
}

/// The kernel's counter in the network namespace of a process.
fn overflows(pid: u32) -> f64 {
    let netstat = fs::read_to_string(format!("/proc/{pid}/net/netstat")).unwrap();
    let mut lines = netstat.lines().filter(|line| line.starts_with("TcpExt:"));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let at = names.split(' ').position(|name| name == "ListenOverflows").unwrap();
    values.split(' ').nth(at).unwrap().parse().unwrap()
}

/// The id of a process in its own namespace.
fn pid_inside(pid: u32) -> String {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap();
    ids.split_whitespace().last().unwrap().to_owned()
}

/// Starts a recorder in the container's namespaces for a few seconds. Waits until it records.
fn record_inside(image: &Image, pid: u32) -> Child {
    let child = enter(pid, &["--pid", "--mount", "--net"])
        .arg(brokerscope::binary().unwrap())
        // The stand-in for the broker is not a JVM, so it has to be named.
        .args(["record", "--quiet", "--for", "4s", "-o", "/srv/inside", "--pid", &pid_inside(pid)])
        .spawn()
        .unwrap();
    let manifest = upper(image, "/srv/inside/manifest.json");
    let end = Instant::now() + PATIENCE;
    while !manifest.exists() {
        assert!(Instant::now() < end, "no recording within the container");
        sleep(Duration::from_millis(20));
    }
    child
}

fn doctor(mut brokerscope: std::process::Command, pid: u32) -> String {
    let output = brokerscope.args(["doctor", "--pid", &pid.to_string()]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    // Its lines are wrapped.
    String::from_utf8(output.stdout).unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_real_broker_in_a_container_is_recorded_with_its_requests() {
    let Some(_alone) = gate::live("a real broker in a container") else { return };
    let ground = Ground::prepare("container-broker", "");
    let kafka = Kafka::prepare(DEFAULT_VERSION).unwrap_or_else(|error| panic!("{error}"));
    let image = image(&ground, &[&kafka.jars]);
    let directory = ground.directory().to_owned();
    let (on_volume, on_overlay) = (image.volume.join("data"), upper(&image, ON_OVERLAY));
    for log_dir in [&on_volume, &on_overlay] {
        fs::create_dir_all(log_dir).unwrap();
    }
    // Formatted from outside, with the host's names for the same directories.
    let seen_here = format!("{},{}", on_volume.display(), on_overlay.display());
    let here = properties(&directory.join("outside.properties"), &seen_here);
    let mut format = kafka.command(&[], "kafka.tools.StorageTool");
    format.args(["format", "--cluster-id", "brokerscope-test-AAAAA", "--config"]).arg(here);
    assert!(format.stdout(Stdio::null()).status().unwrap().success());
    let there = properties(&directory.join("inside.properties"), &format!("{ON_VOLUME},{ON_OVERLAY}"));
    let broker = start_inside(&image, &kafka, &there, &directory);

    let recording = directory.join("recording");
    let recorder = Recorder::start(&recording, broker.pid);
    let mut produce = kafka.command(&["-Xmx128m".to_owned()], "org.apache.kafka.tools.ProducerPerformance");
    produce.args([
        "--topic",
        "contained",
        "--num-records",
        "600",
        "--throughput",
        "200",
        "--record-size",
        "500",
    ]);
    produce.args(["--producer-props", "bootstrap.servers=127.0.0.1:9092", "client.id=inside", "acks=1"]);
    let mut in_its_network = enter(broker.pid, &["--net"]);
    in_its_network.arg(produce.get_program()).args(produce.get_args());
    let output = in_its_network.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    recorder.stop();
    drop(broker);

    let appends = rows(&recording, "file_ops");
    let appends: Vec<_> =
        appends.iter().filter(|row| is_append(row)).filter(|row| row.text("topic") == "contained").collect();
    let systems: BTreeSet<&str> = appends.iter().map(|row| row.text("fs")).collect();
    assert_eq!(systems, ["ext4", "overlay"].into());
    for append in &appends {
        let partition = append.number("partition").unwrap();
        assert!(append.text("file").starts_with(&format!("contained-{partition}/")), "{append:?}");
    }
    let read = Recording::read(&recording);
    let produced: Vec<&Value> =
        read.requests.iter().filter(|row| row["api"] == "PRODUCE" && row["client_id"] == "inside").collect();
    // It sends at once what it could not send while the broker started.
    assert!(produced.len() >= 5, "{} requests of the producer", produced.len());
    let written = read.appends();
    let unmatched: Vec<_> =
        produced.iter().flat_map(|row| appends_of(row)).filter(|append| !written.contains(append)).collect();
    assert!(unmatched.is_empty(), "answered, and not seen written: {unmatched:?}");
}

/// Properties of a single-node broker, its own controller; topics get four partitions, two in each log dir.
fn properties(path: &Path, log_dirs: &str) -> PathBuf {
    let text = format!(
        "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@127.0.0.1:9093\n\
         listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093\n\
         controller.listener.names=CONTROLLER\nlog.dirs={log_dirs}\nnum.partitions=4\n\
         offsets.topic.replication.factor=1\n"
    );
    fs::write(path, text).unwrap();
    path.to_owned()
}

/// A broker in a container; removed with it when dropped.
struct ContainerProcess {
    child: Child,
    pid: u32,
}

impl Drop for ContainerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn start_inside(image: &Image, kafka: &Kafka, properties: &Path, directory: &Path) -> ContainerProcess {
    let log_file = File::create(directory.join("broker.txt")).unwrap();
    let server = kafka.command(&["-Xmx512m".to_owned(), "-XX:+UseG1GC".to_owned()], "kafka.Kafka");
    let child = image
        .command()
        .arg(server.get_program())
        .args(server.get_args())
        .arg(properties)
        .stdin(Stdio::null())
        .stdout(log_file.try_clone().unwrap())
        .stderr(log_file)
        .spawn()
        .unwrap();
    let mut contained = ContainerProcess { child, pid: 0 };
    contained.pid = first_process(&contained.child, "kafka.Kafka");
    contained
}
