//! The output of `io`, `files` and `kernel`, and checks of it. The checks hold independently of what the broker did.

use std::collections::HashMap;

use serde_json::Value;

use crate::brokerscope;

/// The JSON rows of a view, without its sums.
///
/// # Panics
/// If it fails or prints anything else.
pub fn rows(view: &str, arguments: &[&str]) -> Vec<Value> {
    let finished = brokerscope::run([&[view, "--format", "json"], arguments].concat()).done();
    let rows = finished.stdout.lines().map(|line| serde_json::from_str(line).unwrap());
    rows.filter(|row: &Value| row["type"] != "summary").collect()
}

/// The rows of `io`.
///
/// # Panics
/// If the reasons of one do not add up to its latency.
pub fn operations(arguments: &[&str]) -> Vec<Value> {
    let rows = rows("io", arguments);
    for row in &rows {
        let reasons = row["reasons"].as_object().unwrap();
        let total = reasons.values().map(|time| time.as_i64().unwrap()).sum::<i64>();
        assert_eq!(Some(total), row["latency_ns"].as_i64(), "{row}");
    }
    rows
}

/// Whether an operation took at least this long, and mostly for this reason. That is more than half of the time.
pub fn mostly(op: &Value, reason: &str, least_ms: i64) -> bool {
    let latency = op["latency_ns"].as_i64().unwrap_or(0);
    latency >= least_ms * 1_000_000 && op["reasons"][reason].as_i64().unwrap_or(0) * 2 > latency
}

/// Checks that `kernel` has commits with calls that waited for the journal. The calls are within the commits, in the
/// order of their starts.
///
/// # Panics
/// If it has not.
pub fn assert_commits_beside_their_victims(arguments: &[&str]) {
    let calls = rows("kernel", &[arguments, &["--slower-than", "50ms"]].concat());
    assert!(calls.is_sorted_by_key(|call| call["start_ns"].as_i64()));
    let span = |call: &Value| (call["start_ns"].as_i64().unwrap(), call["end_ns"].as_i64().unwrap());
    let beside = |commit: &Value, call: &Value| {
        let ((start, end), (from, to)) = (span(commit), span(call));
        let waited = call["detail"].as_str().is_some_and(|detail| detail.starts_with("journal-commit"));
        waited && call["device"] == commit["device"] && from < end && to > start
    };
    let commits = calls.iter().filter(|call| call["function"] == "jbd2_journal_commit_transaction");
    let with_victims = commits.filter(|commit| calls.iter().any(|call| beside(commit, call)));
    assert!(with_victims.count() > 0, "{calls:?}");
}

/// Checks that `files` has the writes and the bytes of `io`, file by file.
///
/// # Panics
/// If it has not.
pub fn assert_files_add_up(arguments: &[&str]) {
    type WriteCounts = HashMap<(String, String), (u64, u64)>;
    let key = |row: &Value| ["file", "device"].map(|field| row[field].as_str().unwrap().to_owned()).into();
    let mut written = WriteCounts::new();
    for op in operations(arguments).iter().filter(|op| op["op"] == "write") {
        let file = written.entry(key(op)).or_default();
        *file = (file.0 + 1, file.1 + op["bytes"].as_u64().unwrap_or(0));
    }
    let writes = |file: &Value| (file["writes"].as_u64().unwrap(), file["written_bytes"].as_u64().unwrap());
    let files = rows("files", arguments);
    let from_files = files.iter().map(|file| (key(file), writes(file))).filter(|(_, writes)| writes.0 > 0);
    assert_eq!(from_files.collect::<WriteCounts>(), written);
}
