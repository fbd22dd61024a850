//! `doctor --measure` on this kernel. Needs root and `BROKERSCOPE_LIVE_TESTS=1`. Without the variable, the test prints that it
//! did not run; with it, anything missing is a failure.

// clippy.toml allows these in test functions only; this whole crate is tests.
#![allow(clippy::unwrap_used)]
#![cfg(feature = "live")]

use std::process::Command;

use serde_json::Value;

/// Runs of each request's programs whose names contain a text.
fn runs(cost: &Value, text: &str) -> f64 {
    let programs = cost["programs"].as_array().unwrap().iter();
    let programs = programs.filter(|program| program["program"].as_str().unwrap().contains(text));
    programs.map(|program| program["runs_per_request"].as_f64().unwrap()).sum()
}

#[test]
fn measures_the_programs_of_both_plans() {
    if std::env::var_os("BROKERSCOPE_LIVE_TESTS").is_none_or(|value| value != "1") {
        eprintln!("NOT RUN: needs root and BROKERSCOPE_LIVE_TESTS=1");
        return;
    }
    let mut doctor = Command::new(env!("CARGO_BIN_EXE_brokerscope"));
    let output = doctor.args(["doctor", "--measure", "--format", "json"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let examination: Value = serde_json::from_slice(&output.stdout).unwrap();
    let costs = examination["costs"].as_array().unwrap();
    let plans: Vec<_> = costs.iter().map(|cost| cost["plan"].as_str().unwrap()).collect();
    assert_eq!(plans, ["always-on", "full"], "{costs:#?}");
    for cost in costs {
        assert_eq!(cost["missing"], Value::Null, "{costs:#?}");
        let ns = |program: &Value| program["ns_per_request"].as_f64().unwrap();
        assert!(cost["programs"].as_array().unwrap().iter().all(|program| ns(program) > 0.0), "{cost:#}");
    }
    // The two reads and the response of each request.
    let always_on = runs(&costs[0], "receive") + runs(&costs[0], "send");
    assert!(always_on >= 3.0, "{costs:#?}");
    let all = costs.iter().map(|cost| runs(cost, "")).collect::<Vec<_>>();
    assert!(all[1] > all[0], "a full watch runs more programs: {all:?}");
}
