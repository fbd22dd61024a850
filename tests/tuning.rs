//! Tests a shortened `brokerscope-lab tune --follow-advice`. As in README.md: one piece of advice on a real broker,
//! measured before and after; run again, it repeats nothing.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "what cannot go on panics, and the test fails with it"
)]

use std::fs;
use std::path::Path;

use e2e::brokerscope::{self, CommandOutput};
use e2e::gate;
use e2e::traffic::directory;
use serde_json::Value;

/// Seconds of each measurement. The producers report their rate every five seconds, and the window in which measuring
/// starts does not count.
const SECONDS: &str = "11";

fn follow(keep: &Path) -> CommandOutput {
    let short = ["--steps", "1", "--search", "0", "--repetitions", "1", "--seconds", SECONDS];
    let keep = ["--keep", keep.to_str().unwrap()];
    brokerscope::run_lab([&["tune", "--follow-advice"], &short[..], &keep[..]].concat()).done()
}

fn lines(file: &Path) -> Vec<Value> {
    let text = fs::read_to_string(file).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A run's configuration without its name.
fn settings(run: &Value) -> Value {
    let mut setup = run["asked"]["setup"].clone();
    for name in ["id", "name"] {
        setup[name].take();
    }
    setup
}

#[test]
fn follows_advice_and_measures_its_effect() {
    let Some(_live) = gate::live("brokerscope-lab tune --follow-advice") else { return };
    let site = directory("tuning");
    let output_dir = site.join("kept");
    let followed = follow(&output_dir);
    let stdout = &followed.stdout;
    let account: Value =
        serde_json::from_slice(&fs::read(output_dir.join("experiment.json")).unwrap()).unwrap();
    let runs = account["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 2, "{stdout}");
    assert_ne!(settings(&runs[0]), settings(&runs[1]), "advice changes something");
    for run in runs {
        assert!(run["measured"]["records_per_s"].as_f64().unwrap() > 1_000.0, "{run}");
    }

    // The advice that was followed is for the first run's recording, with its evidence.
    let start = output_dir.join(runs[0]["asked"]["setup"]["id"].as_str().unwrap());
    let advice = lines(&start.join("advice.jsonl"));
    let is_printed = |line: &&Value| {
        let word = |field: &str| line[field].as_str().unwrap_or_default();
        line["type"] == "advice" && stdout.contains(&format!("      {}: {}", word("rule"), word("evidence")))
    };
    let rule = advice.iter().find(is_printed).unwrap_or_else(|| panic!("no rule of {advice:?} in\n{stdout}"));
    assert!(rule["changes"][0]["target"].is_object(), "{rule}");
    for part in ["STEP   RECORDS/S", "After 1 step(s)", "Record bytes per second", "0 out of the box"] {
        assert!(stdout.contains(part), "{part} in\n{stdout}");
    }

    let again = follow(&output_dir);
    assert!(!again.stderr.contains("lab: run: "), "{}", again.stderr);
    assert!(again.stderr.contains("2 of them done"), "{}", again.stderr);
    let table = |text: &str| text.split("PRODUCE requests").next().unwrap().to_owned();
    assert_eq!(table(&again.stdout), table(stdout));
    fs::remove_dir_all(&site).unwrap();
}
