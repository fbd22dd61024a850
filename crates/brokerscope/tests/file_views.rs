//! Tests `io`, `files` and `kernel` on the shipped recording of a real broker: compares the output of each with the
//! rows of another.

// clippy.toml allows these in test functions only; this whole crate is tests.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod writes_alone;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn sample() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/journal-stall")
}

fn run(command: &str, arguments: &[&str]) -> Output {
    run_on(&sample(), command, arguments)
}

fn run_on(recording: &Path, command: &str, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_brokerscope"))
        .args([command, "--from"])
        .arg(recording)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn text(command: &str, arguments: &[&str]) -> String {
    let output = run(command, arguments);
    assert!(output.status.success(), "{command} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn rows(command: &str, arguments: &[&str]) -> Vec<Value> {
    let text = text(command, &[&["--format", "json"], arguments].concat());
    let rows = text.lines().map(|line| serde_json::from_str(line).unwrap());
    rows.filter(|row: &Value| row["type"] != "summary").collect()
}

fn number(row: &Value, field: &str) -> i64 {
    row[field].as_i64().unwrap()
}

fn sum(rows: &[Value], field: &str) -> i64 {
    rows.iter().filter_map(|row| row[field].as_i64()).sum()
}

#[test]
fn reasons_of_each_operation_add_up_to_its_latency() {
    let all = rows("io", &[]);
    assert!(all.len() > 10_000, "{}", all.len());
    for row in &all {
        let reasons = row["reasons"].as_object().unwrap();
        assert_eq!(
            reasons.values().map(|time| time.as_i64().unwrap()).sum::<i64>(),
            number(row, "latency_ns"),
            "{row}"
        );
    }
    let stalled = all.iter().filter(|row| row["reasons"]["journal-commit"].as_i64() > Some(100_000_000));
    assert!(stalled.count() >= 10, "the injected stalls are there");
}

#[test]
fn filters_combine_and_top_rows_are_the_slowest() {
    let all = rows("io", &[]);
    let slow = rows("io", &["--slower-than", "100ms", "--kind", "log", "--op", "write", "--topic", "topicA"]);
    let expected = all.iter().filter(|row| {
        number(row, "latency_ns") >= 100_000_000
            && row["kind"] == "log"
            && row["op"] == "write"
            && row["topic"] == "topicA"
    });
    assert_eq!(slow, expected.cloned().collect::<Vec<_>>());
    assert!(!slow.is_empty());
    let of_op = |op: &str| all.iter().filter(|row| row["op"] == op).cloned().collect::<Vec<_>>();
    assert_eq!(rows("io", &["--op", "rename"]), of_op("rename"));
    let mut latencies = all.iter().map(|row| number(row, "latency_ns")).collect::<Vec<_>>();
    latencies.sort_unstable_by(|a, b| b.cmp(a));
    let top = rows("io", &["--top", "7"]);
    assert_eq!(top.iter().map(|row| number(row, "latency_ns")).collect::<Vec<_>>(), latencies[..7]);
}

#[test]
fn unknown_name_is_wrong_usage_and_lists_valid_names() {
    for (command, arguments, listed) in [
        ("io", ["--op", "scribble"], "fdatasync"),
        ("io", ["--kind", "novel"], "timeindex"),
        ("files", ["--by", "colour"], "partition"),
        ("files", ["--sort", "colour"], "fsyncs"),
    ] {
        let output = run(command, &arguments);
        assert_eq!(output.status.code(), Some(2));
        let messages = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(messages.contains(listed), "{messages}");
    }
}

#[test]
fn summary_and_files_add_up_to_the_rows() {
    let all = rows("io", &[]);
    let summary = rows("io", &["--summary"]);
    assert_eq!(sum(&summary, "count"), all.len() as i64);
    assert_eq!(sum(&summary, "bytes"), sum(&all, "bytes"));
    assert_eq!(sum(&summary, "time_ns"), sum(&all, "latency_ns"));
    for group in &summary {
        let reasons = group["reasons"].as_object().unwrap();
        assert_eq!(
            reasons.values().map(|time| time.as_i64().unwrap()).sum::<i64>(),
            number(group, "time_ns")
        );
    }
    let written = all.iter().filter(|row| row["op"] == "write").cloned().collect::<Vec<_>>();
    for by in ["file", "kind", "topic", "partition"] {
        let files = rows("files", &["--by", by]);
        assert_eq!(sum(&files, "writes"), written.len() as i64, "{by}");
        assert_eq!(sum(&files, "written_bytes"), sum(&written, "bytes"), "{by}");
        assert_eq!(sum(&files, "time_ns"), sum(&all, "latency_ns"), "{by}");
    }
    let of_topic = rows("files", &["--topic", "topicA", "--by", "topic"]);
    let bytes = written.iter().filter(|row| row["topic"] == "topicA").filter_map(|row| row["bytes"].as_i64());
    assert_eq!((of_topic.len(), sum(&of_topic, "written_bytes")), (1, bytes.sum()));
    let sums = text("files", &["--format", "json"]);
    let sums: Value = serde_json::from_str(sums.lines().last().unwrap()).unwrap();
    assert_eq!(number(&sums, "to_files_bytes"), sum(&written, "bytes"));
    assert!(sums["reads_without_egress"].is_null(), "{sums}");
    let by_writes = rows("files", &["--sort", "writes", "--top", "2"]);
    assert_eq!(by_writes.len(), 2);
    assert!(number(&by_writes[0], "writes") >= number(&by_writes[1], "writes"));
    let csv = text("files", &["--format", "csv"]);
    assert_eq!(csv.lines().count(), rows("files", &[]).len() + 1);
}

#[test]
fn help_describes_patterns_with_wildcards() {
    for (command, flag) in [("kernel", "--function"), ("requests", "--client")] {
        let output =
            Command::new(env!("CARGO_BIN_EXE_brokerscope")).args([command, "--help"]).output().unwrap();
        let help = String::from_utf8(output.stdout).unwrap();
        let (_, of_flag) = help.split_once(flag).unwrap();
        let of_flag = of_flag.split("\n      --").next().unwrap();
        let of_flag = of_flag.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(of_flag.contains("`*` at the beginning, the end or both"), "{command} {flag}: {of_flag}");
    }
    let ends = rows("kernel", &["--function", "*_transaction"]);
    assert!(!ends.is_empty());
    assert!(ends.iter().all(|call| call["function"] == "jbd2_journal_commit_transaction"), "{ends:?}");
}

#[test]
fn unwatched_operations_are_null_or_unknown() {
    let dir = tempfile::tempdir().unwrap();
    let recording = dir.path().join("writes-alone");
    writes_alone::record(&recording);
    let output_of = |arguments: &[&str]| {
        let output = run_on(&recording, "files", arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let lines: Vec<Value> =
        output_of(&["--format", "json"]).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (sums, files) = lines.split_last().unwrap();
    for row in files {
        for field in ["reads", "read_bytes", "sent_bytes", "disk_reads", "fsyncs", "faults", "other_ops"] {
            assert!(row[field].is_null(), "{field}: {row}");
        }
        assert!(number(row, "errors") == 0, "{row}");
    }
    assert!(sum(files, "writes") > 1_000);
    for field in ["from_device_bytes", "from_cache_bytes", "to_connections_bytes"] {
        assert!(sums[field].is_null(), "{field}: {sums}");
    }
    let table = output_of(&["--by", "kind"]);
    assert!(table.lines().next().unwrap().ends_with("; reads were not watched"), "{table}");
    let heading = table.lines().find(|line| line.contains("FSYNCS")).unwrap();
    let of_logs = table.lines().find(|line| line.ends_with("  log")).unwrap();
    // A size is two words.
    let of_logs = of_logs.replace(" MiB", "_MiB").replace(" s ", "_s ");
    let cells = heading.split_whitespace().zip(of_logs.split_whitespace());
    let unknown: Vec<&str> = cells.filter(|(_, cell)| *cell == "-").map(|(name, _)| name).collect();
    for name in ["READS", "CACHED", "DISK_READS", "DISK", "FSYNCS"] {
        assert!(unknown.contains(&name), "{name} of {unknown:?}: {heading}\n{of_logs}");
    }
    assert!(!unknown.contains(&"WRITES"), "{heading}\n{of_logs}");
}

#[test]
fn kernel_lists_commits_and_the_calls_blocked_by_them() {
    let calls = rows("kernel", &["--slower-than", "100ms"]);
    assert!(calls.is_sorted_by_key(|call| number(call, "start_ns")));
    assert!(calls.iter().all(|call| number(call, "latency_ns") >= 100_000_000));
    let behind = |commit: &Value| {
        let behind = calls.iter().filter(|call| {
            call["function"] == "ext4_dirty_inode"
                && number(call, "start_ns") >= number(commit, "start_ns")
                && number(call, "end_ns") <= number(commit, "end_ns")
                && call["device"] == commit["device"]
                && call["detail"].as_str().is_some_and(|detail| detail.starts_with("journal-commit in "))
                && call["file"].as_str().is_some_and(|file| file.starts_with("topic"))
        });
        behind.count()
    };
    let commits = calls.iter().filter(|call| call["function"] == "jbd2_journal_commit_transaction");
    assert!(commits.filter(|commit| behind(commit) >= 2).count() >= 2);
    let only = rows("kernel", &["--slower-than", "100ms", "--function", "jbd2_*"]);
    let expected = calls.iter().filter(|call| call["function"].as_str().unwrap().starts_with("jbd2_"));
    assert_eq!(only, expected.cloned().collect::<Vec<_>>());
    assert_eq!(rows("kernel", &["--device", "sdz"]), Vec::<Value>::new());
    let table = text("kernel", &["--slower-than", "100ms"]);
    assert!(table.lines().all(|line| line.chars().count() <= 120), "{table}");
}
