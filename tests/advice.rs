//! Tests `advise` with a real broker: what it reads about the host and the broker, that it needs no rights, and that it
//! changes nothing.
//!
//! Live tests need root and run where `BROKERSCOPE_LIVE_TESTS=1`; see README.md.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "what cannot go on panics, and the test fails with it"
)]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use e2e::{brokerscope, gate, traffic};
use lab::kafka::Kafka;
use lab::{Broker, BrokerOptions};
use serde_json::Value;

const PARTITIONS: u32 = 100;
const PATIENCE: Duration = Duration::from_secs(120);
/// `nobody`.
const USER: u32 = 65_534;

/// What advice is about and must not change: kernel settings, mounts, the broker's own files, its process and its
/// cgroups.
fn state(broker: &Broker) -> BTreeMap<String, String> {
    let process = Path::new("/proc").join(broker.pid.to_string());
    let of_process = ["limits", "oom_score_adj", "coredump_filter", "cgroup", "cpuset"];
    let files = SYSCTLS.iter().flat_map(|directory| settings(Path::new(directory)));
    let files = files.chain(of_process.map(|name| process.join(name)));
    let of_cgroups =
        cgroups(&process).into_iter().flat_map(|group| CGROUP_SETTINGS.map(|name| group.join(name)));
    let files = files.chain(of_cgroups);
    let files = files.chain([broker.properties.clone(), Path::new("/proc/mounts").to_owned()]);
    let read = |path: &Path| fs::read_to_string(path).unwrap_or_default();
    let mut state: BTreeMap<_, _> = files.map(|path| (path.display().to_string(), read(&path))).collect();
    // Checks also that none were added.
    for path in [Path::new("/sys/fs/cgroup"), Path::new("/sys/kernel/tracing/instances")] {
        state.insert(path.display().to_string(), names(path).join(" "));
    }
    state
}

/// Directories of the kernel's settings.
const SYSCTLS: [&str; 4] = ["/proc/sys/vm", "/proc/sys/kernel", "/proc/sys/net/core", "/proc/sys/net/ipv4"];
/// Writable files that change by themselves: a trigger, the last process, and a rate that the kernel lowers after slow
/// sampling.
const NO_SETTINGS: [&str; 3] = ["stat_refresh", "ns_last_pid", "perf_event_max_sample_rate"];

/// Settings of cgroups of both versions: other writable files are counters.
const CGROUP_SETTINGS: [&str; 14] = [
    "cpu.max",
    "cpu.weight",
    "cpu.shares",
    "cpu.cfs_quota_us",
    "cpuset.cpus",
    "cpuset.mems",
    "memory.max",
    "memory.high",
    "memory.limit_in_bytes",
    "memory.swappiness",
    "io.max",
    "io.weight",
    "pids.max",
    "cgroup.subtree_control",
];

/// The writable files of a directory.
fn settings(directory: &Path) -> Vec<PathBuf> {
    let is_setting = |path: &Path| {
        let may_be_written = fs::metadata(path).is_ok_and(|file| file.is_file() && file.mode() & 0o200 != 0);
        may_be_written && !NO_SETTINGS.iter().any(|name| path.ends_with(name))
    };
    names(directory).iter().map(|name| directory.join(name)).filter(|path| is_setting(path)).collect()
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// The directories of a process's cgroups, of both versions.
fn cgroups(process: &Path) -> Vec<PathBuf> {
    let text = fs::read_to_string(process.join("cgroup")).unwrap();
    let of_line = |line: &str| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?.trim_start_matches('/'));
        let root = Path::new("/sys/fs/cgroup");
        [root.join(controllers).join(path), root.join(path)].into_iter().find(|path| path.is_dir())
    };
    text.lines().filter_map(of_line).collect()
}

/// The broker's settings in force, from Kafka's own tool.
fn in_force(kafka: &Kafka, broker: &Broker) -> String {
    let mut command = kafka.command(&["-Xmx128m".to_owned()], "kafka.admin.ConfigCommand");
    command.args(["--bootstrap-server", &broker.bootstrap(), "--describe", "--all"]);
    command.args(["--entity-type", "brokers", "--entity-name", "1"]);
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("unclean.leader.election.enable=true"), "{text}");
    text
}

/// Waits for a topic's directories, because the topic exists before all of them.
fn wait_for_partitions(broker: &Broker) {
    let end = Instant::now() + PATIENCE;
    let is_one = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with("many-");
    let made = || fs::read_dir(&broker.log_dir).unwrap().flatten().filter(is_one).count();
    while made() < PARTITIONS as usize {
        assert!(Instant::now() < end, "{PARTITIONS} partitions are not made in {PATIENCE:?}");
        sleep(Duration::from_millis(100));
    }
}

fn objects(mut command: Command) -> Vec<Value> {
    let begun = Instant::now();
    let output = command.stdin(Stdio::null()).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    eprintln!("advise took {:?}", begun.elapsed());
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn advise(command: Command, pid: u32, more: &[&str]) -> Vec<Value> {
    let mut command = command;
    command.args(["advise", "--all", "--format", "json", "--pid", &pid.to_string()]).args(more);
    objects(command)
}

fn find_object(objects: &[Value], kind: &str, rule: &str) -> Option<String> {
    objects.iter().find(|object| object["type"] == kind && object["rule"] == rule).map(Value::to_string)
}

/// `brokerscope` as another user, without any capability.
fn as_nobody() -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--reuid", &USER.to_string(), "--regid", &USER.to_string(), "--clear-groups"]);
    command.args(["--inh-caps", "-all", "--bounding-set", "-all"]).arg(brokerscope::binary().unwrap());
    command
}

#[test]
fn advise_reads_a_live_broker_without_changing_it() {
    let Some(_alone) = gate::live("advice beside a real broker") else { return };
    let directory = traffic::directory("advice");
    let kafka = Kafka::prepare("4.1.0").unwrap();
    let mut options = BrokerOptions::new(directory.join("broker"));
    options.properties = vec![
        ("min.insync.replicas".to_owned(), "1".to_owned()),
        ("log.flush.interval.ms".to_owned(), "60000".to_owned()),
    ];
    options.is_throwaway = true;
    let broker = Broker::start(&kafka, options).unwrap();
    broker.create_topic(&kafka, "many", PARTITIONS).unwrap();
    wait_for_partitions(&broker);
    let before = state(&broker);

    let all = advise(brokerscope::command(), broker.pid, &[]);
    assert!(find_object(&all, "silent", "heap").unwrap().contains("for 100 partitions"), "{all:#?}");
    assert!(find_object(&all, "advice", "flush-interval").is_some());
    assert!(find_object(&all, "silent", "min-insync").is_some(), "one replica is all there is");
    let missing = all.iter().filter(|object| object["type"] == "missing");
    let inputs: Vec<_> = missing.map(|object| object["input"].as_str().unwrap()).collect();
    // Without a watch and dumps, everything else is known.
    let unwatched = [
        "the causes of slow requests",
        "what clients send",
        "host metrics over time",
        "the CPU profile",
        "thread dumps",
    ];
    assert!(inputs.iter().all(|input| unwatched.contains(input)), "{inputs:?}");

    // The broker reports settings that are changed while it runs, which are not in its file.
    let mut command = kafka.command(&["-Xmx128m".to_owned()], "kafka.admin.ConfigCommand");
    command.args(["--bootstrap-server", &broker.bootstrap(), "--alter", "--entity-type", "brokers"]);
    command.args(["--entity-name", "1", "--add-config", "unclean.leader.election.enable=true"]);
    let altered = command.stdin(Stdio::null()).output().unwrap();
    assert!(altered.status.success(), "{}", String::from_utf8_lossy(&altered.stderr));
    let set = in_force(&kafka, &broker);
    let changed = advise(brokerscope::command(), broker.pid, &[]);
    assert!(find_object(&all, "silent", "unclean-election").is_some(), "{all:#?}");
    assert!(find_object(&changed, "advice", "unclean-election").is_some(), "{changed:#?}");
    let notes = changed.last().unwrap()["notes"].to_string();
    // Kafka 4.1 sets min.insync.replicas itself in the same way.
    assert!(
        notes.contains("changed while the broker runs (kafka-configs); the changed values are used: "),
        "{notes}"
    );
    assert!(notes.contains("unclean.leader.election.enable"), "{notes}");

    let watched = advise(brokerscope::command(), broker.pid, &["--for", "3s"]);
    let unsampled = |object: &Value| object["input"] == "host metrics over time";
    assert!(!watched.iter().any(unsampled), "{watched:#?}");

    let recording = directory.join("recording").display().to_string();
    let pid = broker.pid.to_string();
    let finished = brokerscope::run(["record", "-o", &recording, "--pid", &pid, "--for", "2s"]);
    assert_eq!(finished.status, Some(0), "{}", finished.stderr);
    let mut of_recording = brokerscope::command();
    of_recording.args(["advise", "--all", "--format", "json", &recording]);
    let recorded = objects(of_recording);
    assert!(
        find_object(&recorded, "silent", "heap").unwrap().contains("for 100 partitions"),
        "{recorded:#?}"
    );
    assert!(
        find_object(&recorded, "advice", "unclean-election").is_some(),
        "it keeps what the broker said: {recorded:#?}"
    );
    let notes = recorded.last().unwrap()["notes"].to_string();
    assert!(notes.contains("the values in force (kafka-configs) are used"), "{notes}");

    let few = advise(as_nobody(), broker.pid, &[]);
    let why = few.iter().find(|object| object["input"] == "the broker's settings").unwrap();
    assert!(why["why"].as_str().unwrap().contains("denied"), "{why}");
    assert!(
        find_object(&few, "silent", "collector").is_some(),
        "command lines are open to everybody: {few:#?}"
    );
    assert_eq!(state(&broker), before);
    assert_eq!(in_force(&kafka, &broker), set);
    drop(broker);
}
