//! Tests `locks --dump` on dumps of real brokers and on damaged ones. Also on the javacore of the case.

// clippy.toml allows these in test functions only; this whole crate is tests.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

fn dump(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../jvm/tests/dumps");
    folder.join(name).to_str().unwrap().to_owned()
}

fn run(arguments: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_brokerscope"))
        .args(["locks", "--dump"])
        .args(arguments)
        .env("TZ", "UTC")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// Writes a file with these bytes.
fn file(folder: &tempfile::TempDir, bytes: &[u8]) -> PathBuf {
    let path = folder.path().join("dump.txt");
    std::fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn javacore_names_the_monitor_that_blocks_appends() {
    let (status, out, err) = run(&[&dump("openj9-log-append.txt")]);
    let rows: Vec<Vec<&str>> = out
        .lines()
        .map(|line| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect())
        .collect();
    assert_eq!(
        rows,
        [
            vec!["LOCK", "CLASS", "OWNER", "BLOCKED THREADS", "METHOD", "IN DUMPS"],
            vec![
                "monitor 0xe0a24848",
                "java.lang.Object",
                "data-plane-kafka-request-handler-1",
                "data-plane-kafka-request-handler-{0,2,3}",
                "kafka.log.Log.append",
                "1 of 1"
            ]
        ]
    );
    assert_eq!((status, err.as_str()), (0, "3 waits for locks in 1 thread dump\n"));
}

#[test]
fn several_files_are_one_series() {
    let names = ["hotspot-17-sigquit.txt", "hotspot-25-jcmd-jstack.txt", "openj9-log-append.txt"];
    let files = names.map(dump);
    let (status, out, err) = run(&[&files[0], &files[1], &files[2], "--format", "json"]);
    assert_eq!(status, 0, "{err}");
    let rows: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let dumps: Vec<_> =
        rows.iter().map(|row| (row["dumps"].as_u64().unwrap(), row["of_dumps"].as_u64().unwrap())).collect();
    assert_eq!(dumps, [(3, 6), (2, 6), (1, 6)]);
    assert_eq!(rows[0]["method"], "org.apache.kafka.storage.internals.log.UnifiedLog.append");
    assert_eq!(rows[0]["lock"]["class"], "java.lang.Object");
    assert_eq!(rows[0]["type"], "blocked");
    assert!(err.contains("20 waits for locks in 6 thread dumps\n"), "{err}");
    assert!(err.contains("the dumps are of processes 4660, 17133"), "{err}");
}

#[test]
fn truncated_dump_is_read_to_its_end_with_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let whole = std::fs::read(dump("hotspot-17-sigquit.txt")).unwrap();
    let path = file(&folder, &[b"\xff\xfe not the beginning\n" as &[u8], &whole[..4_000]].concat()[1..]);
    let (status, out, err) = run(&[path.to_str().unwrap(), "--format", "csv"]);
    assert_eq!(status, 0, "{err}");
    assert_eq!(out.lines().count(), 2, "{out}");
    let name = path.display();
    assert!(err.contains(&format!("{name}: line ")), "{err}");
    assert!(err.contains("the dump is truncated: threads may be missing"), "{err}");
}

#[test]
fn refuses_a_non_dump_and_reports_ineffective_flags() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder, b"hello\nworld\n");
    let name = path.to_str().unwrap();
    let (status, out, err) = run(&[&dump("hotspot-17-sigquit.txt"), name]);
    assert_eq!((status, out.as_str()), (1, ""));
    assert!(err.starts_with(&format!("brokerscope: {name}: line 2: no thread dump up to the end")), "{err}");
    assert_eq!(err.lines().count(), 1);
    let (status, _, err) = run(&[&format!("{name}.none")]);
    assert_eq!(status, 1);
    assert!(err.contains("cannot read"), "{err}");
    let (_, _, err) = run(&[&dump("hotspot-17-sigquit.txt"), "--slower-than", "1ms"]);
    assert!(err.starts_with("--slower-than has no effect on locks --dump\n"), "{err}");
    let (status, ..) = run(&[name, "--summary"]);
    assert_eq!(status, 2, "a summary of dumps is what is shown anyway");
}
