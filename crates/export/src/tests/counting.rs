//! Counts of requests, their stages, and slow requests.

use model::{
    BrokerChange, BrokerState, Event, LatencyCount, Partition, ProcessStop, Request, RequestLatencies,
    StopKind,
};

use super::broker::{append, fetch, op, produce, request_event, stall_events};
use super::{about, collect, collect_from, exporter_of, ms};
use crate::BrokerInfo;

#[test]
fn requests_are_counted_by_api_with_their_bytes() {
    let metrics = collect([
        request_event(produce(1, "orders", 1_000, 1_020)),
        request_event(produce(2, "orders", 1_000, 1_004)),
        request_event(Request { api_key: 3, api: "METADATA", ..produce(3, "orders", 1_000, 1_001) }),
    ]);
    assert_eq!(metrics.of_series("requests_total{api=\"PRODUCE\"}"), 2.0);
    assert_eq!(metrics.of_series("requests_total{api=\"METADATA\"}"), 1.0);
    assert_eq!(metrics.of_series("request_bytes_total{api=\"PRODUCE\"}"), 1_200.0);
    assert_eq!(metrics.of_series("response_bytes_total{api=\"PRODUCE\"}"), 120.0);
    assert_eq!(metrics.of_series("failed_requests_total{api=\"PRODUCE\"}"), 0.0);
    assert_eq!(metrics.of_series("request_duration_seconds_count{api=\"PRODUCE\"}"), 2.0);
    assert_eq!(metrics.of_series("request_duration_seconds_sum{api=\"PRODUCE\"}"), 0.024);
    assert_eq!(metrics.of_series("request_duration_seconds_bucket{api=\"PRODUCE\",le=\"0.005\"}"), 1.0);
    assert_eq!(metrics.of_series("request_duration_seconds_bucket{api=\"PRODUCE\",le=\"0.025\"}"), 2.0);
    assert_eq!(metrics.of_series("request_duration_seconds_count{api=\"OTHER\"}"), 1.0);
    assert_eq!(metrics.of_series("broker_up"), 1.0, "it answers");
    assert_eq!(metrics.of_series("events_total"), 3.0);
    assert_eq!(metrics.of_series("last_event_timestamp_seconds"), 1.02);
}

#[test]
fn failed_requests_and_long_polls_are_counted_separately() {
    let unanswered = Request { end: None, response: None, response_bytes: None, ..produce(1, "a", 1_000, 0) };
    let refused = Request { error_code: Some(2), ..produce(2, "a", 1_000, 1_003) };
    // No data came within the half second that the client let the broker wait.
    let empty = Request {
        data: None,
        partitions: vec![Partition { bytes: 0, ..fetch(3, "a", 1_000, 1_500).partitions.remove(0) }],
        ..fetch(3, "a", 1_000, 1_500)
    };
    // Data came after 300 ms.
    let waited = Request { data: Some(ms(1_300)), ..fetch(4, "a", 1_000, 1_310) };
    let metrics = collect([unanswered, refused, empty, waited].map(request_event));
    assert_eq!(metrics.of_series("failed_requests_total{api=\"PRODUCE\"}"), 2.0);
    assert_eq!(metrics.of_series("request_duration_seconds_count{api=\"PRODUCE\"}"), 1.0, "one was answered");
    assert_eq!(metrics.of_series("long_poll_requests_total{api=\"FETCH\"}"), 1.0);
    assert_eq!(metrics.of_series("request_duration_seconds_count{api=\"FETCH\"}"), 1.0);
    assert_eq!(metrics.of_series("request_duration_seconds_sum{api=\"FETCH\"}"), 0.01);
}

#[test]
fn throttled_requests_are_counted_with_their_throttle_time() {
    let throttled = |number, ms| Request { throttle_ms: Some(ms), ..produce(number, "a", 1_000, 1_001) };
    let metrics = collect(
        [throttled(1, 1_500), throttled(2, 250), throttled(3, 0), throttled(4, -7)].map(request_event),
    );
    assert_eq!(metrics.of_series("throttled_requests_total{api=\"PRODUCE\"}"), 2.0);
    assert_eq!(metrics.of_series("throttle_seconds_total{api=\"PRODUCE\"}"), 1.75);
}

#[test]
fn produce_batches_are_counted_by_bytes_and_records() {
    let mut request = produce(1, "a", 1_000, 1_001);
    request.partitions.push(Partition { bytes: 16_384, records: None, ..request.partitions[0].clone() });
    request.partitions.push(Partition { bytes: 0, ..request.partitions[0].clone() });
    let metrics = collect([request_event(request), request_event(fetch(2, "a", 1_000, 1_001))]);
    assert_eq!(metrics.of_series("produce_batch_bytes_count"), 2.0);
    assert_eq!(metrics.of_series("produce_batch_bytes_bucket{le=\"1024\"}"), 1.0);
    assert_eq!(metrics.of_series("produce_batch_bytes_bucket{le=\"16384\"}"), 2.0);
    assert_eq!(metrics.of_series("produce_batch_records_count"), 1.0, "the other's header was not read");
    assert_eq!(metrics.of_series("produce_batch_records_sum"), 3.0);
}

#[test]
fn stage_durations_add_up_to_request_latencies() {
    let mut events = stall_events();
    // A quick request, with its write.
    events.push(op(append(9, "orders", 1_202, 1_205, 3)));
    events.push(request_event(produce(3, "orders", 1_200, 1_210)));
    // A request of which only packets were observed.
    events.push(request_event(produce(4, "orders", 1_300, 1_350)));
    let metrics = collect(events);
    let of = |field: &str, stage: &str| {
        let name = "request_stage_duration_seconds";
        metrics.of_series(&format!("{name}_{field}{{api=\"PRODUCE\",stage=\"{stage}\"}}"))
    };
    assert_eq!(of("count", "append"), 3.0, "all writes that were found");
    assert!((of("sum", "append") - 0.130).abs() < 1e-9, "{}", of("sum", "append"));
    assert!(of("sum", "lock") > 0.11, "one waited behind the first: {}", of("sum", "lock"));
    assert!(of("sum", "unobserved") >= 0.05, "{}", of("sum", "unobserved"));
    let prefix = "brokerscope_request_stage_duration_seconds_sum{api=\"PRODUCE\"";
    let all: f64 = metrics.each().filter(|(name, _)| name.starts_with(prefix)).map(|(_, sum)| sum).sum();
    let latencies = metrics.of_series("request_duration_seconds_sum{api=\"PRODUCE\"}");
    assert!((all - latencies).abs() < 1e-9, "{all} of {latencies}");
    assert_eq!(metrics.of_series("append_joins_total{key=\"batch-crc\"}"), 3.0);
    assert_eq!(metrics.of_series("append_joins_total{key=\"none\"}"), 1.0);
}

#[test]
fn slow_requests_are_counted_by_cause_and_each_root_once() {
    let metrics = collect(stall_events());
    let of = "{api=\"PRODUCE\",cause=\"journal-commit\"}";
    assert_eq!(metrics.of_series(&format!("slow_requests_total{of}")), 2.0);
    assert!((metrics.of_series(&format!("slow_request_seconds_total{of}")) - 0.248).abs() < 1e-9);
    assert_eq!(metrics.of_series("slow_roots_total{cause=\"journal-commit\"}"), 1.0);
    assert_eq!(metrics.of_series("slow_roots_total{cause=\"log-lock\"}"), 0.0);
    assert_eq!(metrics.of_series("slow_request_threshold_seconds"), 0.1);
}

#[test]
fn slow_requests_without_evidence_have_no_root_cause() {
    let metrics = collect([request_event(produce(1, "orders", 1_000, 1_200))]);
    assert_eq!(metrics.of_series("slow_requests_total{api=\"PRODUCE\",cause=\"unobserved\"}"), 1.0);
    assert!(!metrics.each().any(|(name, count)| name.contains("slow_roots_total") && count > 0.0));
}

/// Requests that the kernel counted: `requests` of 100 bytes, and the latencies of those that were answered.
fn kernel_counts(api_key: i16, requests: u64, latencies_ms: &[(i64, u64)]) -> Event {
    let latencies = latencies_ms.iter();
    let latencies = latencies.map(|&(latency, requests)| LatencyCount { latency: ms(latency), requests });
    Event::from(RequestLatencies {
        start: ms(1_000),
        end: ms(2_000),
        port: 9_092,
        api_key,
        api: model::api_key::name(api_key),
        requests,
        request_bytes: requests * 100,
        unanswered: 0,
        given_up: 0,
        response_bytes: 60,
        total_latency: ms(latencies_ms.iter().map(|&(latency, requests)| latency * requests as i64).sum()),
        latencies: latencies.collect(),
    })
}

#[test]
fn requests_counted_by_the_kernel_are_not_counted_again_as_events() {
    let exporter = exporter_of(BrokerInfo { is_always_on: true, ..about() });
    // The two slow requests are among the ten, as is a quick one that is delivered with them; two are not answered yet.
    let mut events = vec![
        kernel_counts(0, 6, &[(1, 4), (127, 1)]),
        kernel_counts(0, 4, &[(2, 2), (121, 1)]),
        kernel_counts(1, 5, &[(500, 5)]),
        kernel_counts(3, 1, &[(3, 1)]),
        kernel_counts(11, 2, &[(3_000, 2)]),
    ];
    events.extend(stall_events());
    events.push(op(append(9, "orders", 1_202, 1_205, 3)));
    events.push(request_event(produce(3, "orders", 1_200, 1_210)));
    let metrics = collect_from(exporter, events);
    assert_eq!(metrics.of_series("requests_total{api=\"PRODUCE\"}"), 10.0);
    assert_eq!(metrics.of_series("requests_total{api=\"JOIN_GROUP\"}"), 2.0);
    assert_eq!(metrics.of_series("request_bytes_total{api=\"PRODUCE\"}"), 1_000.0);
    assert_eq!(metrics.of_series("response_bytes_total{api=\"PRODUCE\"}"), 120.0);
    let duration = |of: &str| metrics.find(&format!("request_duration_seconds_{of}"));
    assert_eq!(duration("count{api=\"PRODUCE\"}"), Some(8.0));
    assert_eq!(duration("sum{api=\"PRODUCE\"}"), Some(0.256));
    assert_eq!(duration("bucket{api=\"PRODUCE\",le=\"0.001\"}"), Some(4.0));
    assert_eq!(duration("bucket{api=\"PRODUCE\",le=\"0.25\"}"), Some(8.0));
    assert_eq!(duration("count{api=\"OTHER\"}"), Some(1.0), "a rebalance is a long poll");
    assert_eq!(metrics.of_series("long_poll_requests_total{api=\"JOIN_GROUP\"}"), 2.0);
    assert_eq!(duration("count{api=\"FETCH\"}"), None, "how long they waited for data is not known");
    // Only the two have stages.
    assert_eq!(metrics.of_series("slow_requests_total{api=\"PRODUCE\",cause=\"journal-commit\"}"), 2.0);
    assert_eq!(
        metrics.of_series("request_stage_duration_seconds_count{api=\"PRODUCE\",stage=\"append\"}"),
        2.0
    );
    assert_eq!(metrics.find("topic_requests_total{topic=\"__other__\",api=\"PRODUCE\"}"), None);
    assert!(!metrics.each().any(|(name, _)| name.starts_with("brokerscope_write_duration_seconds")));
}

#[test]
fn kernel_counts_are_ignored_if_every_request_is_an_event() {
    let metrics = collect([request_event(produce(1, "a", 1_000, 1_001)), kernel_counts(0, 1, &[(1, 1)])]);
    assert_eq!(metrics.of_series("requests_total{api=\"PRODUCE\"}"), 1.0);
    assert_eq!(metrics.of_series("request_duration_seconds_count{api=\"PRODUCE\"}"), 1.0);
}

#[test]
fn escalation_is_no_restart_and_its_events_are_not_counted() {
    let exporter = exporter_of(BrokerInfo { is_always_on: true, ..about() });
    let change = |at_ms, state| BrokerChange { at: ms(at_ms), pid: 7, state }.into();
    let (start, end, kind) = (ms(1_010), ms(1_020), StopKind::Signal);
    let stop = ProcessStop { start, end, pid: 7, kind, by_tid: None, by: "".into(), threads: 9 };
    let events = vec![
        change(1_000, BrokerState::Watched),
        change(1_001, BrokerState::Escalated),
        stop.into(),
        change(1_030, BrokerState::AlwaysOn),
    ];
    let metrics = collect_from(exporter, events);
    assert_eq!((metrics.find("broker_up"), metrics.find("broker_restarts_total")), (Some(1.0), Some(0.0)));
    assert!(metrics.each().all(|(name, _)| !name.starts_with("brokerscope_process_stops_total")));
}
