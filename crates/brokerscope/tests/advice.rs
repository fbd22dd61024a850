//! Tests `advise` on a recording, a settings file, thread dumps and processes. The recording is of a real broker.
//! Little can be read of the processes. Needs no privilege.

// clippy.toml allows these in test functions only; this whole crate is tests.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use model::{CpuSample, Event, Nanos};
use recording::{Manifest, Writer, WriterOptions};
use serde_json::Value;

fn project(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

fn run(arguments: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_brokerscope"))
        .args(arguments)
        .current_dir(project(""))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// The objects that `advise` prints, by type.
struct Advice(Vec<Value>);

impl Advice {
    fn by(arguments: &[&str]) -> Self {
        let (status, out, err) = run(&[&["advise", "--format", "json"], arguments].concat());
        assert_eq!(status, 0, "{err}");
        Self(out.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
    }

    fn of(&self, kind: &str) -> Vec<&Value> {
        self.0.iter().filter(|object| object["type"] == kind).collect()
    }

    fn rules(&self, kind: &str) -> Vec<&str> {
        self.of(kind).iter().map(|object| object["rule"].as_str().unwrap()).collect()
    }

    /// The reason why an input is missing.
    fn why_missing(&self, input: &str) -> &str {
        let missing = self.of("missing");
        let found = missing.iter().find(|missing| missing["input"] == input);
        found.unwrap_or_else(|| panic!("{input} in {missing:?}"))["why"].as_str().unwrap()
    }
}

/// A process with a broker's command line but without a JVM; ended when dropped.
struct StandIn(Child);

impl StandIn {
    fn start(properties: &Path) -> Self {
        let mut command = Command::new("tail");
        command.arg0("java").args(["-f", "/dev/null", "kafka.Kafka"]).arg(properties);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // Until it has executed `tail`, its command line is this test's.
        let cmdline = format!("/proc/{}/cmdline", child.id());
        while !std::fs::read(&cmdline).unwrap().starts_with(b"java\0") {
            std::thread::yield_now();
        }
        Self(child)
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn sample_journal_advice_comes_first_with_its_cost() {
    let told = Advice::by(&["samples/journal-stall", "--all"]);
    let (first, summary) = (told.of("advice")[0], told.of("summary")[0]);
    let (_, explained, _) = run(&["explain", "samples/journal-stall", "--format", "json"]);
    let explained: Value = serde_json::from_str(explained.lines().last().unwrap()).unwrap();
    let journal = &explained["by_cause"]["journal-commit"];
    assert_eq!(first["rule"], "journal-commit");
    assert_eq!(
        (&first["cost_ns"], &first["cost_requests"]),
        (&journal["time_ns"], &journal["requests"]),
        "{journal}"
    );
    assert!(first["cost_ns"].as_i64().unwrap() * 2 > summary["slow_ns"].as_i64().unwrap(), "{summary}");
    let settings: Vec<&str> = first["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|change| change["setting"].as_str().unwrap())
        .collect();
    assert!(settings[1].starts_with("tune2fs -O fast_commit /dev/loop0"), "{settings:?}");
    assert!(
        first["verify"]
            .as_str()
            .unwrap()
            .starts_with("brokerscope compare samples/journal-stall AFTER --slo 100ms")
    );
    // The data for programs, besides the text for people; if it does not change, nothing else needs to.
    let targets: Vec<String> = first["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|change| {
            ["of", "name", "value"].map(|field| change["target"][field].as_str().unwrap()).join(" ")
        })
        .collect();
    assert_eq!(
        targets,
        ["file-system type xfs", "file-system features fast_commit", "file-system mount data=writeback"]
    );
    assert!(first["changes"].as_array().unwrap().iter().all(|change| change["together"] == false));
    // A change of ext4 is an alternative to replacing it.
    let words: Vec<_> =
        first["changes"].as_array().unwrap().iter().map(|change| &change["combination"]).collect();
    assert_eq!(words, ["and/or", "or", "and/or"]);
    // Findings without a cost there are not advised, and what a recording lacks is reported.
    assert!(told.rules("silent").contains(&"gc-pause") && told.rules("silent").contains(&"batch-size"));
    assert!(told.why_missing("thread dumps").contains("--dump"));
    let costs: Vec<i64> =
        told.of("advice").iter().map(|advice| advice["cost_ns"].as_i64().unwrap_or(-1)).collect();
    assert!(costs.is_sorted_by(|a, b| a >= b), "{costs:?}");
}

#[test]
fn sample_advice_is_grouped_by_layer_and_rules_are_explained() {
    let (status, out, err) = run(&["advise", "samples/journal-stall", "--all"]);
    assert_eq!(status, 0, "{err}");
    let first = out.lines().find(|line| line.starts_with("  1. ")).unwrap();
    assert!(first.contains("journal-commit") && first.contains("cost "), "{out}");
    assert!(out.contains("\nFile system\n") && out.contains("\nUnknown inputs\n"), "{out}");
    // Fast commits exclude XFS; data=writeback does not exclude fast commits.
    let ways = out.lines().skip_while(|line| *line != first).take_while(|line| !line.contains(" expect "));
    let ways = ways.filter_map(|line| {
        let (word, rest) = line.trim_start().split_once("  ")?;
        ["change", "or", "and/or"].contains(&word).then(|| (word, rest.trim_start()))
    });
    let ways: Vec<(&str, &str)> = ways.collect();
    assert_eq!(ways.iter().map(|(word, _)| *word).collect::<Vec<_>>(), ["change", "or", "and/or"], "{out}");
    assert!(
        ways[0].1.ends_with("ext4 -> xfs") && ways[1].1.starts_with("tune2fs -O fast_commit /dev/"),
        "{out}"
    );
    let (_, out, _) = run(&["advise", "--explain", "journal-commit"]);
    assert!(out.contains("source") && !out.contains("\n     here"), "{out}");
    let (_, out, _) = run(&["advise", "samples/journal-stall", "--explain", "blocked-threads"]);
    assert!(out.contains("not evaluated"), "{out}");
    assert_eq!(run(&["advise", "--explain", "no-such-rule"]).0, 2);
    assert_eq!(run(&["advise", "samples/journal-stall", "--format", "csv"]).0, 2);
}

#[test]
fn settings_file_gets_advice_without_leaking_passwords() {
    let dir = tempfile::tempdir().unwrap();
    let (file, options) = (dir.path().join("server.properties"), dir.path().join("ps.txt"));
    std::fs::write(
        &file,
        "unclean.leader.election.enable=true\nlog.flush.interval.messages=1\nssl.key.password=geheim\n",
    )
    .unwrap();
    std::fs::write(&options, "java -Xmx6g -XX:+UseSerialGC -Dpassword=geheim kafka.Kafka x").unwrap();
    let told = Advice::by(&[file.to_str().unwrap(), "--jvm-options", options.to_str().unwrap(), "--all"]);
    assert_eq!(told.rules("advice"), ["flush-interval", "unclean-election", "collector"]);
    assert!(told.why_missing("the causes of slow requests").contains("only server.properties was given"));
    assert!(told.0.iter().all(|object| !object.to_string().contains("geheim")));
    let nowhere = dir.path().join("none.properties");
    let (status, _, err) = run(&["advise", nowhere.to_str().unwrap()]);
    assert_eq!((status, err.lines().count()), (1, 1), "{err}");
}

#[test]
fn thread_dumps_with_settings_name_the_contended_lock() {
    let dump = project("crates/jvm/tests/dumps/openj9-log-append.txt");
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("server.properties");
    std::fs::write(&file, "").unwrap();
    let told = Advice::by(&[file.to_str().unwrap(), "--dump", dump.to_str().unwrap()]);
    assert_eq!(told.rules("advice"), ["blocked-threads"]);
    let advice = told.of("advice")[0];
    assert!(advice["evidence"].as_str().unwrap().contains("data-plane-kafka-request-handler-1"), "{advice}");
    assert!(advice["changes"][0]["setting"].as_str().unwrap().contains("partitions"), "{advice}");
    let (lock, running) = (told.of("blocked")[0], told.of("function")[0]);
    assert_eq!((&lock["method"], &lock["waits"]), (&"kafka.log.Log.append".into(), &3.into()), "{lock}");
    // The holder of the lock is writing.
    let written = ("sun.nio.ch.FileDispatcherImpl.write0".into(), "file write".into(), "dumps".into());
    assert_eq!(
        (&running["function"], &running["work"], &running["source"]),
        (&written.0, &written.1, &written.2)
    );
    let (_, out, _) = run(&["advise", file.to_str().unwrap(), "--dump", dump.to_str().unwrap()]);
    assert!(out.contains("\nBlocked on (1 thread dump)\n") && out.contains("handler-{0,2,3}"), "{out}");
    assert!(out.contains("\nWhat ran in 1 thread dump (1 running thread)\n"), "{out}");
}

/// A recording with only samples of a request handler. Each sample has one of these stacks in turn.
fn sampled(dir: &Path, stacks: &[&str], samples: u64) {
    let manifest = Manifest { started_ns: 1, ended_ns: Some(10_000_000_000), ..Manifest::default() };
    let mut writer = Writer::create(dir, &manifest, WriterOptions::default()).unwrap();
    for (at, stack) in (0..samples).zip(stacks.iter().cycle()) {
        let sample = CpuSample {
            at: Nanos::from_millis(at as i64),
            period: Nanos::from_millis(20),
            pid: 1,
            tid: 7,
            thread: "data-plane-kafka-request-handler-1".into(),
            stack: (*stack).into(),
        };
        writer.write(&Event::CpuSample(Box::new(sample))).unwrap();
    }
    writer.finish(&manifest).unwrap();
}

#[test]
fn cpu_samples_name_functions_and_a_spinning_lock() {
    let dir = tempfile::tempdir().unwrap();
    let spins = dir.path().join("spins");
    let crc = "kafka.log.UnifiedLog.append_[j];java.util.zip.CRC32C.updateBytes_[j]";
    sampled(
        &spins,
        &["kafka.log.UnifiedLog.append_[j];ObjectMonitor::enter;ObjectMonitor::TrySpin", crc, crc, crc],
        400,
    );
    let told = Advice::by(&[spins.to_str().unwrap(), "--all"]);
    assert_eq!(told.rules("advice"), ["monitor-spin"]);
    let works: Vec<_> =
        told.of("work").iter().map(|work| (work["work"].to_string(), work["samples"].to_string())).collect();
    assert_eq!(works[0], ("\"checksum of batches (CRC32C)\"".to_owned(), "300".to_owned()));
    assert_eq!(works[1], ("\"monitor enter\"".to_owned(), "100".to_owned()));
    let calm = dir.path().join("calm");
    sampled(&calm, &[crc], 400);
    let told = Advice::by(&[calm.to_str().unwrap(), "--all"]);
    assert!(told.rules("silent").contains(&"monitor-spin"), "{:?}", told.rules("silent"));
    assert_eq!(told.of("function")[0]["share"], 1.0);
}

#[test]
fn advises_on_a_broker_with_unreadable_settings() {
    let broker = StandIn::start(Path::new("/no/such/server.properties"));
    let told = Advice::by(&["--pid", &broker.pid(), "--all"]);
    let why = told.why_missing("the broker's settings");
    assert!(why.contains("/no/such/server.properties") && why.contains("No such file"), "{why}");
    assert!(told.why_missing("the causes of slow requests").contains("--for"));
    assert!(told.why_missing("what the log dirs are on").contains("No such file"));
    // Rules for facts about the host itself are evaluated all the same.
    let judged = [told.rules("advice"), told.rules("silent")].concat();
    assert!(judged.contains(&"swappiness") && judged.contains(&"dirty-ratio"), "{judged:?}");
    let lines = told.of("missing");
    let inputs: std::collections::BTreeSet<_> = lines.iter().map(|line| line["input"].as_str()).collect();
    assert_eq!(inputs.len(), lines.len(), "one line each: {lines:?}");
}

#[test]
fn refuses_a_process_that_is_not_a_broker() {
    let (status, _, err) = run(&["advise", "--pid", &std::process::id().to_string()]);
    assert_eq!((status, err.lines().count()), (1, 1), "{err}");
    assert!(err.contains("is not a Kafka broker"), "{err}");
}

#[cfg(feature = "live")]
#[test]
fn refuses_unsupported_client_properties_before_any_other_work() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("client.properties");
    let name = file.to_str().unwrap();
    let recording = directory.path().join("recording");
    let secret = "sasl.jaas.config=x.PlainLoginModule required username=u password=secret;";
    for (text, why) in [
        (
            "security.protocol=SASL_SSL\nssl.truststore.location=t.jks",
            "ssl.truststore.type=JKS is not supported",
        ),
        ("security.protocol=SASL_PLAINTEXT\nsasl.mechanism=GSSAPI", "sasl.mechanism=GSSAPI is not supported"),
        ("security.protocol=SSL", "ssl.truststore.location is missing"),
    ] {
        std::fs::write(&file, format!("{text}\n{secret}\n")).unwrap();
        for command in [&["advise"][..], &["record", "-o", recording.to_str().unwrap()]] {
            let (status, out, err) = run(&[command, &["--client-properties", name]].concat());
            let message = format!("brokerscope: {name}: {why}");
            assert_eq!((status, out.as_str(), err.lines().count()), (1, "", 1), "{err}");
            assert!(err.starts_with(&message) && !err.contains("secret"), "{err}");
        }
    }
    assert!(!recording.exists());
}
