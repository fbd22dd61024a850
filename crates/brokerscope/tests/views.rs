//! Tests `requests` as an operator filters and sums up, on a small real capture. Other tests check the rows themselves:
//! here they are compared with each other.

// clippy.toml allows these in test functions only; this whole crate is tests.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

fn requests(arguments: &[&str]) -> (String, String) {
    let capture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/sample.pcap");
    let output = Command::new(env!("CARGO_BIN_EXE_brokerscope"))
        .arg("requests")
        .arg(capture)
        .args(arguments)
        .env("TZ", "UTC")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", text(output.stderr));
    (text(output.stdout), text(output.stderr))
}

/// The objects, without the last one.
fn rows(arguments: &[&str]) -> Vec<Value> {
    let (stdout, _) = requests(&[&["--format", "json"], arguments].concat());
    let mut lines = stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<Value>>();
    let summary = lines.pop().unwrap();
    assert_eq!(summary["type"], "summary");
    lines
}

/// The rows for which the condition holds: some but not all.
fn some(all: &[Value], holds: impl Fn(&Value) -> bool) -> Vec<Value> {
    let found = all.iter().filter(|row| holds(row)).cloned().collect::<Vec<_>>();
    assert!(!found.is_empty() && found.len() < all.len(), "{} of {}", found.len(), all.len());
    found
}

#[test]
fn client_filter_matches_id_prefix_or_address() {
    let all = rows(&[]);
    let id = all.iter().find_map(|row| row["client_id"].as_str()).unwrap();
    assert_eq!(rows(&["--client", id]), some(&all, |row| row["client_id"] == id));
    let beginning = &id[..id.len() - 1];
    let begins = |row: &Value| row["client_id"].as_str().is_some_and(|id| id.starts_with(beginning));
    assert_eq!(rows(&["--client", &format!("{beginning}*")]), some(&all, begins));
    let address = all[0]["client"].as_str().unwrap();
    assert_eq!(rows(&["--client", address]), some(&all, |row| row["client"] == address));
    let (host, _) = address.rsplit_once(':').unwrap();
    assert_eq!(rows(&["--client", host]), all, "the capture is of one host");
    assert_eq!(rows(&["--client", "10.99.99.99"]), Vec::<Value>::new());
    let both = rows(&["--client", address, "--client", id]);
    assert_eq!(both, some(&all, |row| row["client"] == address || row["client_id"] == id));
}

#[test]
fn errors_filter_gives_rows_with_a_code_an_error_or_no_answer() {
    fn code(partition: &Value) -> bool {
        partition["error_code"].as_i64().is_some_and(|code| code != 0)
    }
    let failed = |row: &Value| {
        row["partitions"].as_array().unwrap().iter().any(code)
            || row["error_code"].as_i64().is_some_and(|code| code != 0)
            || !row["error"].is_null()
            || (row["end_ns"].is_null() && row["acks"] != 0)
    };
    let all = rows(&[]);
    let expected = all.iter().filter(|row| failed(row)).cloned().collect::<Vec<_>>();
    assert_eq!(rows(&["--errors"]), expected);
    assert!(expected.len() < all.len());
    let (table, _) = requests(&["--errors"]);
    assert!(table.contains("PRODUCE           10  MESSAGE_TOO_LARGE"), "{table}");
}

#[test]
fn filters_combine() {
    let all = rows(&[]);
    let produced = some(&all, |row| row["api"] == "PRODUCE");
    let id = produced[0]["client_id"].as_str().unwrap();
    let both = rows(&["--api", "produce", "--client", id]);
    assert_eq!(both, some(&all, |row| row["api"] == "PRODUCE" && row["client_id"] == id));
}

#[test]
fn top_gives_the_slowest_rows_after_filtering() {
    let latency = |row: &Value| row["latency_ns"].as_i64();
    let slowest = |mut rows: Vec<Value>, most: usize| {
        rows.retain(|row| latency(row).is_some());
        rows.sort_by_key(|row| std::cmp::Reverse(latency(row)));
        rows.truncate(most);
        rows
    };
    assert_eq!(rows(&["--top", "5"]), slowest(rows(&[]), 5));
    let produced = rows(&["--api", "produce"]);
    assert!(produced.iter().any(|row| latency(row).is_none()), "the capture has acks=0");
    assert_eq!(rows(&["--api", "produce", "--top", "1000"]), slowest(produced, 1000));
    let (table, said) = requests(&["--api", "produce", "--top", "1000"]);
    assert!(table.lines().next().unwrap().ends_with("HEAD_OF_LINE(ms)"), "{table}");
    assert!(said.contains("2 requests without a latency left out of the ranking"), "{said}");
}

#[test]
fn summary_adds_up_to_the_rows() {
    let all = rows(&[]);
    let objects = rows(&["--summary"]);
    let groups = |by: &str| objects.iter().filter(|object| object["by"] == by).collect::<Vec<_>>();
    let sum =
        |by: &str, field: &str| groups(by).iter().map(|group| group[field].as_u64().unwrap()).sum::<u64>();
    let total = |field: &str| all.iter().filter_map(|row| row[field].as_u64()).sum::<u64>();
    for by in ["api", "client", "connection"] {
        assert_eq!(sum(by, "requests"), all.len() as u64, "{by}");
        assert_eq!(sum(by, "request_bytes"), total("request_bytes"), "{by}");
        assert_eq!(sum(by, "response_bytes"), total("response_bytes"), "{by}");
        assert_eq!(sum(by, "errors"), rows(&["--errors"]).len() as u64, "{by}");
    }
    let produced = all.iter().filter(|row| row["api"] == "PRODUCE").collect::<Vec<_>>();
    let partitions = produced.iter().flat_map(|row| row["partitions"].as_array().unwrap());
    let bytes = partitions.map(|partition| partition["bytes"].as_u64().unwrap()).sum::<u64>();
    assert!(bytes > 0);
    assert_eq!(sum("topic", "record_bytes"), bytes);
    assert_eq!(sum("producer", "record_bytes"), bytes);
    let slowest = produced.iter().filter_map(|row| row["latency_ns"].as_u64()).max();
    let produce = groups("api").into_iter().find(|group| group["api"] == "PRODUCE").unwrap().clone();
    assert_eq!(produce["latency_max_ns"].as_u64(), slowest);
    assert_eq!(produce["requests"].as_u64(), Some(produced.len() as u64));
}

#[test]
fn summary_is_filtered_like_rows_and_available_as_table_and_csv() {
    let id = rows(&[])[0]["client_id"].as_str().unwrap().to_owned();
    let summed = rows(&["--summary", "--client", &id]);
    assert!(!summed.is_empty());
    assert!(
        summed
            .iter()
            .all(|group| group["by"] == "api" || group["by"] == "topic" || group["client_id"] == *id)
    );
    let (table, said) = requests(&["--summary"]);
    for part in ["By API", "By topic", "By client", "By connection", "Batches by producer", "P999", "PRODUCE"]
    {
        assert!(table.contains(part), "{part} is missing in\n{table}");
    }
    assert!(said.contains("packets"), "{said}");
    assert!(!table.contains('\x1b') && table.lines().all(|line| line.chars().count() <= 100), "{table}");
    let (csv, _) = requests(&["--summary", "--format", "csv"]);
    assert!(csv.starts_with("by,others,api,wait,topic,"), "{csv}");
    assert_eq!(csv.lines().count(), rows(&["--summary"]).len() + 1);
}
