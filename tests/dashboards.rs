//! Tests the Prometheus and Grafana files in `deploy/` with a real Prometheus. It scrapes real exports: every panel's
//! query and every recorded series has a result, and alerts fire exactly when they should.
//!
//! Scrapes three exports: the sample's recording, an invented one with what that lacks, and a live one of a process
//! that only works with files. Live tests need root and run where `BROKERSCOPE_LIVE_TESTS=1`; see README.md.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "what cannot go on panics, and the test fails with it"
)]

#[path = "dashboards/made.rs"]
mod made;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use e2e::dashboard::{Dashboard, PanelQuery, with};
use e2e::export::Export;
use e2e::prometheus::{Prometheus, Target};
use e2e::workload::Workload;
use e2e::{gate, traffic};
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(90);
const JOB: &str = "brokerscope";
const SAMPLE: &str = "samples/journal-stall";
/// Replaces Grafana's variable, which is at least four scrapes.
const RATE_INTERVAL: &str = "10s";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

fn rule_files() -> Vec<PathBuf> {
    ["alerts", "rules"].map(|kind| root().join(format!("deploy/prometheus/brokerscope.{kind}.yml"))).to_vec()
}

fn files(directory: &str, suffix: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join(directory)).unwrap();
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    found.retain(|path| path.to_string_lossy().ends_with(suffix));
    found.sort();
    assert!(!found.is_empty(), "no {suffix} in {directory}");
    found
}

fn dashboards() -> Vec<Dashboard> {
    files("deploy/grafana", ".json").iter().map(|path| Dashboard::read(path)).collect()
}

fn target(export: &Export, configuration: &'static str) -> Target {
    Target { job: JOB, address: export.address(), configuration }
}

/// Starts an export of a recording at a multiple of its speed.
fn replay(output_path: &Path, recording: &Path, speed: &str) -> Export {
    Export::start(output_path, &["--speed", speed, "--from", recording.to_str().unwrap()])
}

fn promtool(arguments: &[&str], paths: &[PathBuf]) -> String {
    let output = Command::new("promtool").args(arguments).args(paths).output();
    let output = output.expect("promtool starts (setup/debian test installs it)");
    let text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "promtool {arguments:?} {paths:?}: {text}");
    text
}

#[test]
fn dashboards_are_well_formed() {
    let dashboards = dashboards();
    assert_eq!(dashboards.len(), 3);
    dashboards.iter().for_each(Dashboard::assert_well_formed);
}

#[test]
fn panels_and_rules_of_full_watch_metrics_mention_watch_full() {
    let reference = fs::read_to_string(root().join("docs/reference/metrics.md")).unwrap();
    let unseen = reference.lines().find(|line| line.contains("these have no samples")).unwrap();
    let unseen: Vec<&str> = unseen.split('`').filter(|word| word.starts_with("brokerscope_")).collect();
    assert!(unseen.len() > 10, "{unseen:?}");
    let is_seen = |query: &str| !unseen.iter().any(|metric| query.contains(metric));
    for PanelQuery { panel, description, query } in dashboards().iter().flat_map(Dashboard::queries) {
        assert!(is_seen(&query) || description.contains("--watch full"), "{panel}: {query}");
    }
    for path in rule_files() {
        for rule in fs::read_to_string(path).unwrap().split("\n      - ") {
            assert!(is_seen(rule) || rule.contains("--watch full"), "{rule}");
        }
    }
}

#[test]
fn prometheus_rules_pass_promtool_and_every_alert_has_a_test() {
    let Some(_alone) = gate::live("Prometheus' rules, which need promtool") else { return };
    promtool(&["check", "config"], &[root().join("deploy/prometheus/prometheus.yml")]);
    promtool(&["check", "rules", "--lint=all", "--lint-fatal"], &rule_files());
    let report = promtool(&["test", "rules"], &files("deploy/prometheus/tests", ".yml"));
    assert!(report.contains("SUCCESS") && !report.contains("FAILED"), "{report}");
    // An alert that no test names would always pass.
    let tests = fs::read_to_string(root().join("deploy/prometheus/tests/rules.yml")).unwrap();
    let alerts = fs::read_to_string(root().join("deploy/prometheus/brokerscope.alerts.yml")).unwrap();
    for alert in alerts.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")) {
        assert!(tests.contains(&format!("alertname: {alert}\n")), "no test of {alert}");
    }
}

#[test]
fn every_dashboard_panel_and_recording_rule_has_data() {
    let Some(_alone) = gate::live("dashboards, which need Prometheus") else { return };
    let directory = traffic::directory("dashboards");
    let made = directory.join("made");
    made::recording(&made, 60);
    let data = directory.join("data");
    fs::create_dir_all(data.join("topicA-0")).unwrap();
    let mut workload = Workload::start(&data);
    let pid = workload.pid().to_string();
    // Started first, because attaching takes some seconds, and recordings end.
    let live =
        Export::start(&directory.join("live.txt"), &["--pid", &pid, "--watch", "full", "--measure-probes"]);
    let made = replay(&directory.join("made.txt"), &made, "1");
    let sample = replay(&directory.join("sample.txt"), &root().join(SAMPLE), "0.5");
    let targets = [target(&sample, "ext4"), target(&made, "xfs"), target(&live, "ext4")];
    let prometheus = Prometheus::start(&directory.join("prometheus"), &targets, &rule_files(), "");
    workload.order("open s topicA-0/00000000000000000000.log create");
    let mut open = questions(&targets);
    let end = Instant::now() + PATIENCE;
    while !open.is_empty() && Instant::now() < end {
        workload.order("write s 1000");
        workload.order("fsync s");
        sleep(Duration::from_millis(500));
        open.retain(|question| !question.forms.iter().any(|form| prometheus.answers(form)));
    }
    assert!(open.is_empty(), "no answer to {open:#?}\n{}", prometheus.log());
    assert_variables(&prometheus, &targets);
    assert_rules(&prometheus);
}

/// Something that must have a result for one of these queries.
#[derive(Debug)]
struct Question {
    #[allow(dead_code, reason = "printed where there is none")]
    of: String,
    forms: Vec<String>,
}

/// Every query of every dashboard, for one broker where it needs one; and every series that a rule records or an alert
/// uses.
fn questions(targets: &[Target]) -> Vec<Question> {
    let mut questions = Vec::new();
    for dashboard in dashboards() {
        for PanelQuery { panel, query, .. } in dashboard.queries() {
            let forms = targets.iter().map(|target| filled(&query, target)).collect::<BTreeSet<_>>();
            let of = format!("{}: {panel}", dashboard.name());
            questions.push(Question { of, forms: forms.into_iter().collect() });
        }
    }
    let rules = rule_files().iter().map(|path| fs::read_to_string(path).unwrap()).collect::<String>();
    for series in series_in(&rules) {
        questions.push(Question { of: "a rule".to_owned(), forms: vec![series] });
    }
    questions
}

fn filled(query: &str, target: &Target) -> String {
    let instance = target.address.to_string();
    let variables = [
        ("__rate_interval", RATE_INTERVAL),
        ("job", JOB),
        ("instance", &instance),
        ("api", "PRODUCE"),
        ("objective", "0.1"),
        ("configuration", target.configuration),
    ];
    with(query, &variables)
}

/// The names of series in rules: those recorded, and those in expressions.
fn series_in(rules: &str) -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let is_code = |line: &str| !["#", "summary:", "description:"].iter().any(|start| line.starts_with(start));
    let code = rules.lines().map(str::trim_start).filter(|line| is_code(line));
    let words = code.flat_map(|line| line.split(|c| !is_part(c)));
    words.filter(|word| word.contains("brokerscope_")).map(str::to_owned).collect()
}

fn assert_variables(prometheus: &Prometheus, targets: &[Target]) {
    for dashboard in dashboards() {
        for (metric, label) in dashboard.variables() {
            let metric = filled(&metric, &targets[0]);
            let values = prometheus.get_data(&format!("label/{label}/values"), &[("match[]", &metric)]);
            assert!(!values.as_array().unwrap().is_empty(), "{}: {metric} has no {label}", dashboard.name());
        }
    }
}

/// Checks that every rule was evaluated, and none failed.
fn assert_rules(prometheus: &Prometheus) {
    let data = prometheus.get_data("rules", &[]);
    let groups = data["groups"].as_array().unwrap();
    let rules: Vec<&Value> = groups.iter().flat_map(|group| group["rules"].as_array().unwrap()).collect();
    assert!(rules.len() > 20, "{}", rules.len());
    for rule in rules {
        assert_eq!(rule["health"], "ok", "{rule}");
    }
}

#[test]
fn prometheus_scrapes_native_histograms() {
    let Some(_alone) = gate::live("native histograms, which need Prometheus") else { return };
    let directory = traffic::directory("native-histograms");
    let export = replay(&directory.join("sample.txt"), &root().join(SAMPLE), "0.5");
    let targets = [target(&export, "ext4")];
    let prometheus = Prometheus::start(&directory.join("prometheus"), &targets, &[], "native-histograms");
    let quantile =
        "histogram_quantile(0.999, rate(brokerscope_request_duration_seconds{api=\"PRODUCE\"}[30s]))";
    let end = Instant::now() + PATIENCE;
    while !prometheus.answers(quantile) {
        assert!(Instant::now() < end, "no native histogram: {}", prometheus.log());
        sleep(Duration::from_millis(500));
    }
}
