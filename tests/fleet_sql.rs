//! Tests the SQL of `deploy/sql` in two engines. They must agree with `brokerscope fleet` on the same recordings.
//!
//! Live tests need root and run where `BROKERSCOPE_LIVE_TESTS=1`; see README.md.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "what cannot go on panics, and the test fails with it"
)]

#[path = "../benches/src/fleet/made.rs"]
mod made;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use e2e::brokerscope;
use e2e::clients;
use e2e::gate;
use e2e::traffic::directory;
use serde_json::Value;

use made::Size;

const ENGINES: [&str; 2] = ["duckdb", "spark"];
/// The broker whose recorder was killed.
const UNFINISHED: usize = 3;
/// Relative difference allowed for floating-point sums in another order.
const RELATIVE: f64 = 1e-9;

fn sql() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/sql")
}

/// The rows of all views in one engine, by view.
fn rows(engine: &str, recordings: &Path) -> BTreeMap<String, Vec<Value>> {
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("sql");
    let python = clients::python(&programs.join("requirements.txt"));
    let mut command = Command::new(python);
    command.arg(programs.join("views.py")).arg(engine).arg(sql()).arg(recordings);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{engine}: {}", String::from_utf8_lossy(&output.stderr));
    let mut views: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        views.entry(row["view"].as_str().unwrap().to_owned()).or_default().push(row);
    }
    views
}

/// Numbers by what identifies them.
type Numbers = BTreeMap<String, f64>;

fn key(row: &Value, fields: &[&str]) -> String {
    fields.iter().map(|field| row[*field].as_str().unwrap()).collect::<Vec<_>>().join(" ")
}

fn numbers(rows: &[Value], by: &[&str], value: &str) -> Numbers {
    let number = |row: &Value| row[value].as_f64().unwrap_or_else(|| panic!("no {value} in {row}"));
    rows.iter().map(|row| (key(row, by), number(row))).collect()
}

fn assert_same(what: &str, found: &Numbers, expected: &Numbers) {
    assert!(!expected.is_empty(), "{what}: nothing to compare with");
    let keys = |numbers: &Numbers| numbers.keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(found), keys(expected), "{what}");
    for (key, expected) in expected {
        let found = found[key];
        assert!(
            (found - expected).abs() <= RELATIVE * expected.abs(),
            "{what}: {key}: {found}, not {expected}"
        );
    }
}

#[test]
fn sql_views_agree_with_fleet_in_both_engines() {
    let Some(_alone) = gate::live("deploy/sql in DuckDB and Spark") else { return };
    let site = directory("fleet-sql");
    made::write(&site, Size { brokers: 9, seconds: 60, requests: 20 }).unwrap();
    for number in 1..=9 {
        let recording = made::folder(&site, number);
        let _ = brokerscope::run(["explain", recording.to_str().unwrap(), "--save", "--quiet"]).done();
    }
    unfinish(&made::folder(&site, UNFINISHED));
    let path = site.to_str().unwrap();
    let stdout = brokerscope::run(["fleet", path, "--figures", "--format", "json"]).done().stdout;
    let brokers: Vec<Value> = stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (differences, _) = brokerscope::run(["fleet", path, "--format", "json"]).done().objects();
    let by = ["cluster", "broker", "figure"];
    for engine in ENGINES {
        let views = rows(engine, &site);
        let figures = numbers(&views["fleet_figures"], &by, "value");
        assert_same(&format!("figures in {engine}"), &figures, &own_figures(&brokers));
        for field in ["value", "median", "mad", "score"] {
            let found = numbers(&views["fleet_differences"], &by, field);
            let expected = own_differences(&differences, field);
            assert_same(&format!("{field} of differences in {engine}"), &found, &expected);
        }
        assert_reasons(engine, &views, &differences);
        let slow = numbers(&views["fleet_causes"], &["cluster", "broker", "cause"], "slow_ms_per_minute");
        let causes: f64 = slow.values().sum();
        let expected: f64 = brokers.iter().filter_map(|broker| broker["slow_ms_per_minute"].as_f64()).sum();
        assert!(expected > 0.0 && (causes - expected).abs() <= RELATIVE * expected, "{engine}: {slow:?}");
    }
    fs::remove_dir_all(&site).unwrap();
}

/// Makes a recording look like one whose recorder was killed.
fn unfinish(recording: &Path) {
    let path = recording.join("manifest.json");
    let mut manifest: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    manifest["ended_ns"] = Value::Null;
    fs::write(&path, serde_json::to_vec_pretty(&manifest).unwrap()).unwrap();
}

/// The output of `fleet --figures`; verdicts have a separate view.
fn own_figures(brokers: &[Value]) -> Numbers {
    let mut figures = Numbers::new();
    for broker in brokers {
        for (figure, value) in broker.as_object().unwrap() {
            let is_figure =
                !["type", "cluster", "broker", "seconds", "slow_ms_per_minute"].contains(&&**figure);
            if let Some(value) = value.as_f64().filter(|_| is_figure) {
                figures.insert(format!("{} {figure}", key(broker, &["cluster", "broker"])), value);
            }
        }
    }
    figures
}

fn own_differences(differences: &[Value], field: &str) -> Numbers {
    let of_figures = differences.iter().filter(|row| row["figure"] != "slow_ms_per_minute");
    numbers(&of_figures.cloned().collect::<Vec<_>>(), &["cluster", "broker", "figure"], field)
}

/// Checks the kind of file and the files of which the odd broker reads more.
fn assert_reasons(engine: &str, views: &BTreeMap<String, Vec<Value>>, differences: &[Value]) {
    let odd = made::READS_STATE.to_string();
    let read = differences
        .iter()
        .find(|row| row["broker"] == odd.as_str() && row["figure"] == "disk_read_bytes_per_second");
    let because = &read.unwrap()["because"][0];
    let most = &views["fleet_read_kinds"][0];
    assert_eq!((&most["broker"], &most["kind"]), (&read.unwrap()["broker"], &because["part"]), "{engine}");
    let files = &views["fleet_read_files"];
    let first = &files[0];
    assert_eq!(
        (&first["kind"], &first["file"]),
        (&because["part"], &because["items"][0]["name"]),
        "{engine}"
    );
    let (found, expected) = (
        first["disk_read_bytes_per_second"].as_f64().unwrap(),
        because["items"][0]["value"].as_f64().unwrap(),
    );
    assert!((found - expected).abs() <= RELATIVE * expected, "{engine}: {found}, not {expected}");
}
