//! Tests waits for locks in a real broker whose Flight Recorder reports them. As in many slow produce requests, one
//! write waits for a journal commit, and threads that append to the same partition wait for its thread. With the
//! default JDK, and with a newer one if there is one, which also reports the calls of request handlers.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "what cannot go on panics, and the test fails with it"
)]

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Stdio;

use e2e::brokerscope;
use e2e::gate;
use e2e::jdk;
use e2e::table::{Row, rows};
use e2e::traffic::directory;
use serde_json::Value;

/// Seconds of recording, enough for three commits. The first may come before everything is attached: ext4 commits every
/// five seconds.
const SECONDS: &str = "20";
const HANDLER: &str = "data-plane-kafka-request-handler-";
/// File with the live output of `locks`.
const LIVE: &str = "live.json";
/// A wrapper that is called as `record -o DIR --for TIME --pid PID`.
const WRAPPER: &str = r#"#!/bin/sh
[ "$1" = record ] || exec BINARY "$@"
shift
BINARY locks --no-attach --pid "${6}" --for 10s --slower-than 100ms --format json > LIVE 2> LIVE.err &
BINARY record --flight-recorder handlers "$@"
status=$?
wait
exit $status
"#;
/// Methods in which an appending thread takes a log's lock: for the append, and after it for the high watermark.
const IN_LOG: [&str; 2] = ["Log.append", "Log.maybeIncrementHighWatermark"];
/// Maximum time between a thread's getting the lock and the start of its append: it may wait for a CPU then. The waits
/// checked are twice as long.
const NEAR_NS: i64 = 50_000_000;
/// The JVM delivers its events a second late; what ends within this time before the recording's end may be missing.
const LATE_NS: f64 = 1.5e9;
/// Minimum journal stall, and maximum clock difference between JVM and kernel.
const STALL_NS: f64 = 100e6;
const CLOCK_NS: f64 = 1e6;

#[test]
fn reports_lock_waits_with_the_holder_and_its_wait_reason() {
    let Some(_live) = gate::live("waits for locks, by the JVM's flight recorder") else { return };
    holds_with("java", None);
}

#[test]
fn reports_lock_waits_with_a_newer_jdk() {
    let Some(_live) = gate::live("waits for locks, by a newer JVM's flight recorder") else { return };
    if let Some(home) = jdk::newer("waits for locks") {
        holds_with("newer-java", Some(&home.join("bin")));
    }
}

fn holds_with(name: &str, java: Option<&Path>) {
    let site = directory(&format!("locks-{name}"));
    let recording = site.join("recording");
    demo(&site, &recording, java);
    assert_rows(&recording);
    assert_inferred(&recording, &site);
    assert_verdicts(&recording);
    assert_calls(&recording, java.is_some());
    fs::remove_dir_all(&site).unwrap();
}

/// Runs `brokerscope-lab demo`, whose recorder always uses Flight Recorder; at the same time `locks` watches without
/// the JVM.
fn demo(site: &Path, recording: &Path, java: Option<&Path>) {
    let wrapper = site.join("brokerscope-with-flight-recorder");
    let binary = brokerscope::binary().unwrap();
    let script = WRAPPER
        .replace("BINARY", &binary.display().to_string())
        .replace("LIVE", &site.join(LIVE).display().to_string());
    fs::write(&wrapper, script).unwrap();
    fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = brokerscope::lab();
    command.args(["demo", "--seconds", SECONDS, "--seed", "11", "--keep"]).arg(recording);
    command.arg("--brokerscope").arg(&wrapper).stdin(Stdio::null());
    if let Some(java) = java {
        let rest = std::env::var_os("PATH").unwrap_or_default();
        let mut path = OsString::from(java);
        path.push(":");
        path.push(rest);
        command.env("PATH", path);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Checks the rows of `locks` that the JVM reported for a partition's log.
fn assert_rows(recording: &Path) {
    let from = recording.to_str().unwrap();
    let locks = brokerscope::run(["locks", "--from", from, "--slower-than", "20ms", "--format", "json"]);
    let rows: Vec<Value> =
        locks.done().stdout.lines().map(|line| serde_json::from_str(line).expect("a row is JSON")).collect();
    let of_logs: Vec<&Value> = rows
        .iter()
        .filter(|row| row["seen_by"] == "jfr" && row["lock"]["name"] == "log lock" && !row["topic"].is_null())
        .collect();
    assert!(of_logs.len() >= 3, "the JVM reported waits for logs: {rows:#?}");
    for row in &of_logs {
        assert!(row["thread"].as_str().unwrap().starts_with(HANDLER), "{row}");
        // Sometimes Kafka's scheduler holds it, to remove old segments.
        assert!(row["holder"].as_str().is_some_and(|holder| !holder.is_empty()), "{row}");
        assert_ne!(row["tid"], row["holder_tid"], "nobody waits for itself: {row}");
        let stack = row["stack"].as_str().unwrap();
        assert!(IN_LOG.iter().any(|method| stack.contains(method)), "{row}");
    }
    let stalled = of_logs.iter().filter(|row| {
        let op = &row["holder_op"];
        row["holder"].as_str().is_some_and(|holder| holder.starts_with(HANDLER))
            && op["tid"] == row["holder_tid"]
            && op["op"] == "write"
            && (&op["topic"], &op["partition"]) == (&row["topic"], &row["partition"])
            && op["reasons"]["journal-commit"].as_i64().is_some_and(|time| time > 0)
    });
    assert!(stalled.count() >= 2, "holders' writes waited for the journal: {of_logs:#?}");
}

/// Checks the waits that `locks` inferred live, without the JVM. Compares them with those that the JVM reported in the
/// recording. Only long ones: when threads also wait for a CPU, appends follow each other as if one had waited for the
/// other. And only while all of the recorder's sources were attached: either process may have started or ended later.
fn assert_inferred(recording: &Path, site: &Path) {
    let lines = fs::read_to_string(site.join(LIVE)).unwrap();
    let live: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).expect("a row is JSON")).collect();
    let stderr = fs::read_to_string(site.join(LIVE).with_extension("json.err")).unwrap();
    assert!(stderr.contains("inferred"), "{stderr}");
    let from = recording.to_str().unwrap();
    let recorded = brokerscope::run(["locks", "--from", from, "--slower-than", "50ms", "--format", "json"]);
    let lock_waits: Vec<Value> = recorded
        .done()
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).expect("a row is JSON"))
        .filter(|row: &Value| row["seen_by"] == "jfr")
        .collect();
    let end = |row: &Value| row["end_ns"].as_i64().unwrap();
    let is_recorded = |row: &Value| {
        lock_waits.iter().any(|other| other["tid"] == row["tid"] && (end(other) - end(row)).abs() < NEAR_NS)
    };
    assert!(
        live.iter().all(|row| row["seen_by"] == "inferred" && row["lock"]["name"] == "log lock"),
        "{live:#?}"
    );
    assert!(live.iter().all(|row| !row["topic"].is_null() && row["tid"] != row["holder_tid"]), "{live:#?}");
    let manifest = fs::read_to_string(recording.join("manifest.json")).unwrap();
    let manifest: Value = serde_json::from_str(&manifest).unwrap();
    // The JVM reports no wait from before its flight recorder started, which takes seconds if threads wait for a CPU.
    let from = manifest["broker"]["processes"][0]["watched_ns"].as_i64().unwrap();
    let watched = |row: &&Value| {
        row["start_ns"].as_i64() >= Some(from) && row["end_ns"].as_i64() <= manifest["ended_ns"].as_i64()
    };
    let both: Vec<&Value> = live.iter().filter(watched).collect();
    let right = both.iter().filter(|row| is_recorded(row)).count();
    assert!(right >= 3 && right * 10 >= both.len() * 9, "{right} of {} were waits: {both:#?}", both.len());
}

/// Checks the calls of request handlers if the JVM can trace methods: a handler with a stalled write was in one all the
/// time. If it cannot, the recording says so.
fn assert_calls(recording: &Path, can_trace: bool) {
    let calls = rows(recording, "handler_calls");
    if !can_trace {
        let manifest = fs::read_to_string(recording.join("manifest.json")).unwrap();
        assert!(calls.is_empty() && manifest.contains("cannot trace methods"), "{manifest}");
        return;
    }
    let is_handlers = |row: &Row| row.text("thread").starts_with(HANDLER);
    assert!(
        calls.iter().all(|call| is_handlers(call) && call.text("method").ends_with("Apis.handle")),
        "{calls:#?}"
    );
    let of = |row: &Row, column: &str| row.number(column).unwrap();
    let first = calls.iter().map(|call| of(call, "start_ns")).fold(f64::INFINITY, f64::min);
    let ops = rows(recording, "file_ops");
    let over = ops.iter().map(|op| of(op, "end_ns")).fold(0.0, f64::max) - LATE_NS;
    let stalled: Vec<&Row> = ops
        .iter()
        .filter(|op| is_handlers(op) && of(op, "end_ns") - of(op, "start_ns") >= STALL_NS)
        .filter(|op| of(op, "start_ns") > first && of(op, "end_ns") < over)
        .collect();
    let is_around = |call: &&Row, op: &Row| {
        (of(call, "tid") - of(op, "tid")).abs() < 0.5
            && of(call, "start_ns") <= of(op, "start_ns") + CLOCK_NS
            && of(call, "end_ns") >= of(op, "end_ns") - CLOCK_NS
    };
    let within = |op: &&&Row| calls.iter().filter(|call| is_around(call, op)).count() == 1;
    let right = stalled.iter().filter(within).count();
    println!("{} calls, around {right} of {} stalled writes", calls.len(), stalled.len());
    assert!(right >= 2 && right == stalled.len(), "{right} of {} within a call: {calls:#?}", stalled.len());
}

/// Checks verdicts on requests that waited for another request's write.
fn assert_verdicts(recording: &Path) {
    let explained = brokerscope::run(["explain", recording.to_str().unwrap(), "--format", "json"]);
    let (verdicts, summary) = explained.done().objects();
    let behind: Vec<&Value> = verdicts
        .iter()
        .filter(|verdict| verdict["chain"] == serde_json::json!(["log-lock", "journal-commit"]))
        .collect();
    assert!(!behind.is_empty(), "requests behind another's write: {summary}");
    for verdict in &behind {
        let evidence = verdict["evidence"].as_array().unwrap();
        let wait = evidence.iter().find(|one| one["kind"] == "lock-wait").unwrap();
        let text = wait["text"].as_str().unwrap();
        assert!(text.contains("'s log lock, held by ") && text.contains(HANDLER), "{verdict}");
        let commit = evidence.iter().find(|one| one["kind"] == "kernel").unwrap();
        assert!(commit["text"].as_str().unwrap().starts_with("jbd2 commit "), "{verdict}");
    }
    let exact = behind.iter().filter(|verdict| verdict["confidence"] == "exact");
    assert!(exact.count() > 0, "a wait that the JVM reported is joined by keys alone: {summary}");
}
