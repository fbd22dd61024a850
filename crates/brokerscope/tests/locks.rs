//! Tests `locks` on the JVM's own files and on the sample: the rows, and what is refused.

// clippy.toml allows these in test functions only; this whole crate is tests.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use flate2::read::GzDecoder;
use serde_json::Value;

fn project(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

fn locks(arguments: &[&str], files: &[&Path]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_brokerscope"));
    command.arg("locks").args(arguments).args(files).output().unwrap()
}

fn rows(output: &Output) -> Vec<Value> {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A decompressed flight recording of a JDK.
fn flight_recording(dir: &Path, jdk: &str) -> PathBuf {
    let packed = std::fs::File::open(project(&format!("crates/jvm/tests/jfr/{jdk}.jfr.gz"))).unwrap();
    let mut bytes = Vec::new();
    GzDecoder::new(packed).read_to_end(&mut bytes).unwrap();
    let path = dir.join(format!("{jdk}.jfr"));
    std::fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn flight_recordings_of_both_jdks_give_waits_holders_and_pauses() {
    let dir = tempfile::tempdir().unwrap();
    for jdk in ["jdk17", "jdk25"] {
        let file = flight_recording(dir.path(), jdk);
        let waits = rows(&locks(&["--format", "json", "--slower-than", "10ms", "--jfr"], &[&file]));
        let held = waits.iter().filter(|row| row["holder"] == "data-plane-kafka-request-handler-24").count();
        assert!(held >= 2, "{jdk}: {waits:?}");
        assert!(waits.iter().all(|row| row["type"] == "lock-wait" && row["seen_by"] == "jfr"));
        assert!(waits.iter().all(|row| row["latency_ns"].as_i64().unwrap() >= 10_000_000));
        let stops = rows(&locks(&["--pauses", "--format", "json", "--jfr"], &[&file]));
        assert!(stops.iter().any(|row| row["kind"] == "gc" && row["cause"] == "System.gc()"), "{stops:?}");
        assert!(stops.iter().any(|row| row["time_to_safepoint_ns"].is_number()));
    }
}

#[test]
fn flight_recording_of_another_time_adds_only_its_own_rows() {
    let dir = tempfile::tempdir().unwrap();
    let file = flight_recording(dir.path(), "jdk17");
    let sample = project("samples/journal-stall");
    let from = ["--format", "json", "--from", sample.to_str().unwrap()];
    let inferred = rows(&locks(&from, &[]));
    assert!(inferred.len() > 20 && inferred.iter().all(|row| row["seen_by"] == "inferred"));
    let both = rows(&locks(&[&from[..], &["--jfr"]].concat(), &[&file]));
    let (by_jfr, others): (Vec<_>, Vec<_>) = both.into_iter().partition(|row| row["seen_by"] == "jfr");
    assert_eq!(others, inferred);
    assert!(by_jfr.len() >= 8);
    assert!(by_jfr.iter().all(|row| row["topic"].is_null() && row["holder_op"].is_null()), "{by_jfr:?}");
}

#[test]
fn gc_log_gives_pauses() {
    let log = project("crates/jvm/tests/gc_logs/kafka-25-g1-safepoint.log");
    let stops = rows(&locks(&["--format", "json", "--gc-log"], &[&log]));
    assert!(stops.len() > 10 && stops.iter().all(|row| row["type"] == "jvm-pause"));
}

#[test]
fn refuses_a_file_of_the_wrong_format_in_one_line() {
    let readme = project("LICENSE");
    for kind in ["--jfr", "--gc-log"] {
        let refused = locks(&[kind], &[&readme]);
        let messages = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!((refused.status.code(), messages.lines().count()), (Some(1), 1), "{messages}");
        assert!(messages.contains("LICENSE"), "{messages}");
    }
    assert_eq!(locks(&["--for", "1s", "--gc-log"], &[&readme]).status.code(), Some(2));
}

#[test]
fn flame_graph_of_waits_names_the_lock() {
    let dir = tempfile::tempdir().unwrap();
    let picture = dir.path().join("waits.svg");
    let sample = project("samples/journal-stall");
    let output = locks(&["--from", sample.to_str().unwrap(), "--quiet", "--flame"], &[&picture]);
    assert!(output.status.success() && output.stderr.is_empty());
    let svg = std::fs::read_to_string(&picture).unwrap();
    assert!(svg.contains("log lock of topicB-0") && svg.contains("</svg>"));
}
