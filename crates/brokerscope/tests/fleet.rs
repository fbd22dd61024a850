//! Tests `fleet` on recordings of nine invented brokers. Some of them are odd on purpose. Compares its output with
//! the injected differences and with other commands' output for the same recordings.

// clippy.toml allows these in test functions only; this whole crate is tests.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

#[path = "../../../benches/src/fleet/made.rs"]
mod made;
mod writes_alone;

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use made::Size;

const SECONDS: i64 = 60;

fn run(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_brokerscope"))
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// The lines of JSON that a command prints. The summary, the last line, is separate.
fn run_json(arguments: &[&str]) -> (Vec<Value>, Value) {
    let (status, stdout, stderr) = run(&[arguments, &["--format", "json"]].concat());
    assert_eq!(status, Some(0), "{stderr}");
    let mut rows: Vec<Value> = stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let summary = rows.pop().unwrap();
    assert_eq!(summary["type"], "summary", "{summary}");
    (rows, summary)
}

fn fleet(brokers: usize) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    made::write(dir.path(), Size { brokers, seconds: SECONDS, requests: 20 }).unwrap();
    dir
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A broker with only its writes watched does not count as reading nothing.
#[test]
fn unwatched_operations_have_no_figure() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("cluster=prod/broker=1/date=2026-11-21");
    std::fs::create_dir_all(&folder).unwrap();
    writes_alone::record(&folder.join("09h"));
    let (status, stdout, stderr) = run(&["fleet", text(dir.path()), "--figures", "--format", "json"]);
    assert_eq!((status, stdout.lines().count()), (Some(0), 1), "{stderr}");
    let broker: Value = serde_json::from_str(&stdout).unwrap();
    assert!(
        broker["reads_per_second"].is_null() && broker["disk_read_bytes_per_second"].is_null(),
        "{broker}"
    );
    assert!(
        broker["write_ms"].as_f64() > Some(0.0) && broker["produced_bytes_per_second"].is_number(),
        "{broker}"
    );
}

#[test]
fn injected_differences_are_found_with_their_reasons() {
    let dir = fleet(9);
    let (differences, summary) = run_json(&["fleet", text(dir.path())]);
    assert_eq!(summary["brokers"], 9);
    let first = &differences[0];
    assert_eq!((first["broker"].as_str(), first["cluster"].as_str()), (Some("4"), Some(made::CLUSTER)));
    assert_eq!(made::READS_STATE, 4);
    let of = |broker: usize, figure: &str| {
        let broker = broker.to_string();
        let mut found = differences.iter().filter(|row| row["broker"] == *broker && row["figure"] == figure);
        found.next().unwrap_or_else(|| panic!("broker {broker} does not differ in {figure}: {differences:?}"))
    };
    for figure in ["device_reads_per_second", "reads_per_second", "disk_read_bytes_per_second"] {
        let because = &of(made::READS_STATE, figure)["because"][0];
        assert_eq!(
            (because["kind"].as_str(), because["part"].as_str()),
            (Some("file-kind"), Some("tierstate"))
        );
        assert!(because["share"].as_f64() > Some(0.9), "{because}");
        assert_eq!(because["items"][0]["name"], made::STATE_FILE, "{because}");
    }
    let times = of(made::READS_STATE, "device_reads_per_second")["times"].as_f64().unwrap();
    assert!((7.5..8.5).contains(&times), "eight times the reads of the others: {times}");
    let batches = of(made::SMALL_BATCHES, "batch_bytes");
    assert!(batches["times"].as_f64().is_some_and(|times| (0.1..0.2).contains(&times)), "{batches}");
    let led = of(made::LEADS_MORE, "partitions_led");
    assert_eq!((led["value"].as_f64(), led["median"].as_f64()), (Some(24.0), Some(12.0)));
    let slow = of(made::WRITES_SLOWLY, "longest_write_ms");
    assert!(slow["value"].as_f64() >= Some(300.0) && slow["because"][0]["part"] == "log", "{slow}");
    let injected = [made::READS_STATE, made::SMALL_BATCHES, made::LEADS_MORE, made::WRITES_SLOWLY];
    let odd = summary["odd"].as_array().unwrap();
    assert!(
        odd.iter().all(|one| injected.iter().any(|injected| one["broker"] == *injected.to_string())),
        "{odd:?}"
    );
}

#[test]
fn only_the_broker_reading_tier_state_gets_cleanup_advice() {
    let dir = fleet(4);
    for number in 1..=4 {
        let recording = made::folder(dir.path(), number);
        let (advised, summary) = run_json(&["advise", text(&recording)]);
        let state = advised.iter().find(|row| row["type"] == "advice" && row["rule"] == "tier-state");
        if number != made::READS_STATE {
            assert!(state.is_none(), "broker {number}: {state:?}");
            continue;
        }
        let (state, (_, files)) = (state.unwrap(), run_json(&["files", "--from", text(&recording)]));
        // No request was slow: the reads alone are the evidence, as in `files`.
        assert_eq!(summary["slow_requests"], 0, "{summary}");
        let evidence = state["evidence"].as_str().unwrap();
        assert!(state["cost_ns"].is_null() && evidence.starts_with("reads without egress: "), "{state}");
        assert!(evidence.ends_with(made::STATE_FILE), "{evidence}");
        assert_eq!(files["reads_without_egress"]["file"], made::STATE_FILE);
        assert!(state["risk"].as_str().unwrap().starts_with("ages count from when"), "{state}");
    }
}

#[test]
fn figures_match_the_sums_of_other_commands() {
    let dir = fleet(4);
    let (_, figures, stderr) = run(&["fleet", text(dir.path()), "--figures", "--format", "json"]);
    let brokers: Vec<Value> = figures.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((brokers.len(), stderr.as_str()), (4, "4 recordings read\n"));
    for (number, broker) in brokers.iter().enumerate() {
        let recording = made::folder(dir.path(), number + 1);
        let (files, sums) = run_json(&["files", "--from", text(&recording)]);
        let sum = |field: &str| files.iter().filter_map(|file| file[field].as_f64()).sum::<f64>();
        let near = |figure: &str, expected: f64| {
            let found = broker[figure].as_f64().unwrap();
            assert!((found - expected).abs() <= 1e-9 * expected, "{figure}: {found}, not {expected}");
        };
        let seconds = SECONDS as f64;
        near("seconds", seconds);
        near("reads_per_second", sum("reads") / seconds);
        near("disk_read_bytes_per_second", sums["from_device_bytes"].as_f64().unwrap() / seconds);
        let (operations, _) = of_io(&recording);
        near("write_ms", operations.iter().sum::<f64>() / operations.len() as f64);
        near("longest_write_ms", operations.iter().copied().fold(0.0, f64::max));
        let (requests, _) = requests(&recording);
        near("batch_bytes", requests.iter().sum::<f64>() / requests.len() as f64);
        near("produced_bytes_per_second", requests.iter().sum::<f64>() / seconds);
    }
}

/// Two of a recording's three seconds were sampled, as in a real one.
#[test]
fn rates_of_short_recordings_use_the_watched_time() {
    let dir = tempfile::tempdir().unwrap();
    made::write(dir.path(), Size { brokers: 1, seconds: 3, requests: 20 }).unwrap();
    let arguments = ["fleet", text(dir.path()), "--figures", "--format", "json"];
    let figures = || serde_json::from_str::<Value>(run(&arguments).1.lines().next().unwrap()).unwrap();
    let broker = figures();
    assert_eq!(broker["seconds"], 3.0);
    // Each second has 5 reads of 16 KiB from the disk, 10 from the page cache for fetches, and 10 writes.
    assert_eq!(broker["reads_per_second"], 15.0);
    assert_eq!(broker["disk_read_bytes_per_second"], 5.0 * 16_384.0);
    assert_eq!(broker["device_writes_per_second"], 10.0);
    let manifest = made::folder(dir.path(), 1).join("manifest.json");
    let mut unfinished: Value = serde_json::from_slice(&std::fs::read(&manifest).unwrap()).unwrap();
    unfinished["ended_ns"] = Value::Null;
    std::fs::write(&manifest, unfinished.to_string()).unwrap();
    let broker = figures();
    let of_two = ["seconds", "reads_per_second"].map(|figure| broker[figure].as_f64());
    assert_eq!(of_two, [Some(2.0), Some(22.5)], "up to the last sample");
}

/// Durations of writes, in milliseconds.
fn of_io(recording: &Path) -> (Vec<f64>, String) {
    let (status, stdout, stderr) =
        run(&["io", "--from", text(recording), "--op", "write", "--format", "json"]);
    assert_eq!(status, Some(0), "{stderr}");
    let rows = stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    (rows.map(|row| row["latency_ns"].as_f64().unwrap() / 1e6).collect(), stderr)
}

/// The bytes of each produced batch.
fn requests(recording: &Path) -> (Vec<f64>, String) {
    let (status, stdout, stderr) =
        run(&["explain", text(recording), "--slower-than", "0", "--api", "produce", "--format", "json"]);
    assert_eq!(status, Some(0), "{stderr}");
    let rows = stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let verdicts = rows.filter(|row| row["type"] == "verdict");
    let bytes = verdicts.map(|row| row["request"]["partitions"][0]["bytes"].as_f64().unwrap());
    (bytes.collect(), stderr)
}

#[test]
fn reads_without_egress_name_the_file_of_the_odd_broker_only() {
    let dir = fleet(5);
    for number in 1..=5 {
        let recording = made::folder(dir.path(), number);
        let arguments = ["files", "--from", text(&recording), "--sort", "disk", "--rated-iops", "200"];
        let (files, summary) = run_json(&arguments);
        let finding = &summary["reads_without_egress"];
        if number != made::READS_STATE {
            assert!(finding.is_null(), "broker {number}: {finding}");
            continue;
        }
        assert_eq!(
            (files[0]["file"].as_str(), files[0]["kind"].as_str()),
            (Some(made::STATE_FILE), Some("tierstate"))
        );
        assert_eq!(
            (finding["kind"].as_str(), finding["file"].as_str()),
            (Some("tierstate"), Some(made::STATE_FILE))
        );
        let busiest = summary["devices"][0]["busiest_of_rated_ratio"].as_f64().unwrap();
        assert!((1.9..2.2).contains(&busiest), "twice what it is rated for: {summary}");
        let (_, table, _) = run(&[&arguments[..], &["--top", "1"]].concat());
        assert!(table.starts_with("reads without egress: reads 3"), "the first line says so:\n{table}");
    }
}

#[test]
fn too_few_brokers_are_reported_and_none_differs() {
    let dir = fleet(3);
    let (differences, summary) = run_json(&["fleet", text(dir.path())]);
    assert!(differences.is_empty());
    assert_eq!(summary["too_small"][0], made::CLUSTER);
    let (_, table, _) = run(&["fleet", text(dir.path())]);
    assert!(table.contains("too few to compare: at least 4 needed\nnothing was compared\n"), "{table}");
    assert!(!table.contains("none differs"), "{table}");
}

#[test]
fn unreadable_recordings_are_reported_and_the_rest_compared() {
    let dir = fleet(6);
    let spoilt = made::folder(dir.path(), 1).join("file_ops/part-00001.parquet");
    std::fs::write(spoilt, b"PAR1 no more").unwrap();
    std::fs::write(made::folder(dir.path(), 2).join("manifest.json"), b"{").unwrap();
    let (status, stdout, stderr) = run(&["fleet", text(dir.path())]);
    assert_eq!(status, Some(1), "{stderr}");
    assert!(stderr.contains("2 parts of it are damaged"), "{stderr}");
    assert!(stdout.contains("broker 4 of prod"), "{stdout}");
    let (status, stdout, stderr) = run(&["fleet", "/no/such/directory"]);
    assert_eq!((status, stdout.as_str(), stderr.lines().count()), (Some(1), "", 1), "{stderr}");
}
