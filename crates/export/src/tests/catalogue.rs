//! Checks that exactly the listed metrics are exported, in every format.
//! Checks that docs/reference/metrics.md agrees.

use std::fs;
use std::path::Path;

use super::broker::{stall_events, text};
use super::{about, collect, exporter, exporter_of};
use crate::catalog::{self, FAMILIES};
use crate::{BrokerInfo, Exporter, Format, ProcessUsage};

const BEGIN: &str = "<!-- begin: metrics -->\n";
const END: &str = "<!-- end -->\n";

fn busy() -> Exporter {
    let mut exporter = exporter();
    for event in stall_events() {
        exporter.push(event);
    }
    exporter.finish();
    exporter
}

#[test]
fn exports_exactly_the_listed_metrics_in_order() {
    for made in [exporter as fn() -> Exporter, busy] {
        let mut exporter = made();
        let text = String::from_utf8(exporter.write(Format::Text, &ProcessUsage::default())).unwrap();
        let types: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
        let listed: Vec<_> =
            FAMILIES.iter().map(|family| format!("{} {}", family.name, family.kind.as_str())).collect();
        assert_eq!(types, listed);
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let name = line.split(['{', ' ']).next().unwrap();
            let suffixes = ["", "_bucket", "_sum", "_count"];
            let is_of =
                |family: &str| suffixes.iter().any(|suffix| name.strip_prefix(family) == Some(suffix));
            let family = FAMILIES.iter().find(|family| is_of(family.name)).expect(name);
            let labels: Vec<_> = family.labels.iter().map(|label| format!("{label}=\"")).collect();
            assert!(labels.iter().all(|label| line.contains(label.as_str())), "{line}");
        }
    }
}

#[test]
fn series_with_known_labels_start_at_zero() {
    let metrics = collect([]);
    assert_eq!(metrics.of_series("slow_roots_total{cause=\"journal-commit\"}"), 0.0);
    assert_eq!(metrics.of_series("losses_total{kind=\"probe-events-dropped\"}"), 0.0);
    assert_eq!(metrics.of_series("request_duration_seconds_count{api=\"PRODUCE\"}"), 0.0);
    assert_eq!(metrics.of_series("source_up{purpose=\"file-writes\"}"), 1.0);
    assert_eq!(metrics.of_series("source_up{purpose=\"requests\"}"), 0.0);
    assert_eq!(metrics.of_series("broker_info{node_id=\"1\",host=\"host\",kernel=\"6.18\"}"), 1.0);
    assert_eq!(metrics.of_series("broker_up"), 0.0);
    assert_eq!(metrics.find("last_event_timestamp_seconds"), None);
}

#[test]
fn duplicate_plan_purposes_share_one_series() {
    let plan = [("a\n", false), ("a\n", true), ("b", false)];
    let plan = plan.map(|(purpose, is_served)| (purpose.to_owned(), is_served)).to_vec();
    let metrics = super::collect_from(exporter_of(BrokerInfo { plan, ..about() }), []);
    assert_eq!(metrics.of_series("source_up{purpose=\"a\u{fffd}\"}"), 1.0);
    assert_eq!(metrics.of_series("source_up{purpose=\"b\"}"), 0.0);
}

/// Blessed by `BLESS=1 cargo test -p export`, like every golden.
#[test]
fn documented_metrics_table_matches_the_catalog() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/metrics.md");
    let page = fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).expect("where the table begins");
    let (_, after) = rest.split_once(END).expect("where it ends");
    let blessed = [before, BEGIN, &catalog::table(), END, after].concat();
    if std::env::var_os("BLESS").is_some() {
        fs::write(path, blessed).unwrap();
        return;
    }
    assert!(
        page == blessed,
        "docs/reference/metrics.md is not what the list says: BLESS=1 cargo test -p export"
    );
}

#[test]
fn openmetrics_exemplars_of_slow_requests_respect_the_length_limit() {
    let mut exporter = exporter();
    for event in stall_events() {
        let event = match event {
            model::Event::Request(mut request) => {
                request.client_id = Some(text(&"\"long\\\n".repeat(100)));
                model::Event::Request(request)
            }
            other => other,
        };
        exporter.push(event);
    }
    exporter.finish();
    let text = String::from_utf8(exporter.write(Format::OpenMetrics, &ProcessUsage::default())).unwrap();
    let slow = text.lines().find(|line| line.starts_with("brokerscope_slow_requests_total{")).unwrap();
    assert!(slow.contains("root=\"journal-commit:loop0:2285\""), "{slow}");
    let examples: Vec<_> = text.lines().filter_map(|line| Some(line.split_once(" # ")?.1)).collect();
    assert!(examples.len() >= 3, "{text}");
    for example in examples {
        let labels = example.split_once('}').unwrap().0;
        assert!(labels.chars().count() <= 128 + 20, "quotes, commas and what escapes them aside: {example}");
        assert!(example.contains("correlation_id=\""), "{example}");
    }
}
