//! Checks that the busiest topics have their own series.
//! Checks for any names that the number of series is bounded and that no counter decreases.

use super::broker::{fetch, partition, produce, request_event};
use super::{collect, exporter, scrape};

#[test]
fn first_topics_have_series_and_others_share_one() {
    let mut both = produce(9, "a", 1_000, 1_010);
    both.partitions.push(partition("a", 1, 100, 77));
    both.partitions.push(partition("b", 0, 50, 78));
    let metrics = collect([
        request_event(both),
        request_event(produce(2, "c", 1_000, 1_020)),
        request_event(fetch(3, "a", 1_000, 1_001)),
    ]);
    assert_eq!(metrics.of_series("topic_requests_total{topic=\"a\",api=\"PRODUCE\"}"), 1.0, "once a request");
    assert_eq!(metrics.of_series("topic_bytes_total{topic=\"a\",api=\"PRODUCE\"}"), 598.0);
    assert_eq!(metrics.of_series("topic_bytes_total{topic=\"b\",api=\"PRODUCE\"}"), 50.0);
    assert_eq!(metrics.of_series("topic_bytes_total{topic=\"__other__\",api=\"PRODUCE\"}"), 498.0);
    assert_eq!(metrics.of_series("topic_bytes_total{topic=\"a\",api=\"FETCH\"}"), 498.0);
    assert_eq!(metrics.of_series("topic_produce_duration_seconds_sum{topic=\"a\"}"), 0.01);
    assert_eq!(metrics.of_series("topic_produce_duration_seconds_count{topic=\"__other__\"}"), 1.0);
}

#[test]
fn busier_topic_replaces_a_quiet_one_and_other_counters_continue() {
    let mut exporter = exporter();
    let mut number = 0;
    let mut send = |topic: &str, at: i64, exporter: &mut crate::Exporter| {
        number += 1;
        exporter.push(request_event(produce(number, topic, at, at + 1)));
    };
    send("quiet", 1_000, &mut exporter);
    for at in 0..10 {
        send("steady", 1_000 + at, &mut exporter);
        send("busy", 1_000 + at, &mut exporter);
    }
    let before = scrape(&mut exporter);
    let bytes = |topic| format!("topic_bytes_total{{topic=\"{topic}\",api=\"PRODUCE\"}}");
    assert_eq!(before.of_series(&bytes("__other__")), 4_980.0);
    assert_eq!(before.find(&bytes("busy")), None);
    send("busy", 70_000, &mut exporter);
    let after = scrape(&mut exporter);
    assert_eq!(after.of_series(&bytes("busy")), 498.0, "from when it has a place");
    assert_eq!(after.of_series(&bytes("__other__")), 4_980.0, "what came before stays");
    assert_eq!(after.of_series(&bytes("steady")), 4_980.0);
    assert_eq!(after.find(&bytes("quiet")), None, "it gave its place");
    send("quiet", 71_000, &mut exporter);
    assert_eq!(scrape(&mut exporter).of_series(&bytes("__other__")), 5_478.0);
}

#[test]
fn topic_series_are_bounded_for_any_number_and_names_of_topics() {
    let mut exporter = exporter();
    for number in 0..30_000 {
        let topic = format!("{number}\n\"{{}}\\\x1b[2J{}", "x".repeat(number as usize % 400));
        exporter.push(request_event(produce(
            number,
            &topic,
            1_000 + i64::from(number) * 10,
            1_001 + i64::from(number) * 10,
        )));
    }
    exporter.push(request_event(produce(1, "__other__", 400_000, 400_001)));
    let metrics = scrape(&mut exporter);
    let names: std::collections::BTreeSet<_> = metrics
        .each()
        .filter_map(|(name, _)| name.strip_prefix("brokerscope_topic_requests_total{topic=\""))
        .map(|rest| rest.rsplit_once("\",api=").unwrap().0.to_owned())
        .collect();
    assert_eq!(names.len(), 3, "{names:?}");
    assert!(
        names.iter().all(|name| !name.contains(['\n', '\x1b']) && name.chars().count() < 140),
        "{names:?}"
    );
}
