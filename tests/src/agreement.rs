//! Checks that must hold for every run of real clients, with any broker: brokerscope reports exactly what Kafka logged.
//! Panics with the first few differences; asserts nothing about time.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use serde_json::Value;

use crate::clients::CLIENTS;
use crate::comparison::{unlogged, with_log, with_sizes};
use crate::kafka_log::{LoggedRequest, Partition};
use crate::row;
use crate::traffic::Traffic;

/// What a client sends to the topic "old" under each of its ids.
const OLD_RECORDS: u64 = 24;

/// No difference.
pub fn none() -> Vec<String> {
    Vec::new()
}

/// The first few of many differences: enough to see what is wrong.
pub fn few(mut differences: Vec<String>) -> Vec<String> {
    let all = differences.len();
    differences.truncate(5);
    if all > 5 {
        differences.push(format!("and {} more", all - 5));
    }
    differences
}

/// Checks that every request in Kafka's log has a row that agrees. There must be no other rows.
///
/// # Panics
/// If it is not so.
pub fn with_kafkas_log(traffic: &Traffic) {
    println!("{} requests in Kafka's log, {} of them produce", traffic.log.len(), produced(traffic).count());
    assert!(traffic.log.len() > 1_500, "too few requests to prove much");
    of_each_request(traffic);
}

/// Like [`with_kafkas_log`], for any number of requests.
///
/// # Panics
/// If it is not so.
pub fn of_each_request(traffic: &Traffic) {
    assert_eq!(few(with_log(&traffic.output, &traffic.log, &traffic.sizes)), none());
    assert_eq!(few(with_sizes(&traffic.output, &traffic.sizes)), none());
    let unlogged = unlogged(&traffic.output, &traffic.log);
    println!("{unlogged} more were sent as their clients went, and Kafka never read them");
    assert!(unlogged <= 10, "{unlogged} requests that Kafka did not log");
    for lost in ["gaps", "undecodable_frames", "resyncs", "truncated_packets", "other_connections"] {
        assert_eq!(traffic.output.count(lost), 0, "{lost} in {}", traffic.output.summary);
    }
}

/// Checks that every client sent with every codec it has and every acks. There must also be big and refused batches.
///
/// # Panics
/// If something is missing.
pub fn has_variety(traffic: &Traffic) {
    let sent = |id: &str, fits: fn(&LoggedRequest) -> bool| {
        let of = |request: &&LoggedRequest| request.client_id.as_deref() == Some(id) && fits(request);
        assert!(produced(traffic).any(|request| of(&request)), "no such produce request of {id}");
    };
    // kafkajs has other names and codecs.
    for client in CLIENTS.into_iter().filter(|client| *client != "kafkajs") {
        for codec in ["none", "gzip", "snappy", "lz4", "zstd"] {
            for acks in ["0", "1", "all"] {
                sent(&format!("{client}-{codec}-{acks}"), |_| true);
            }
        }
        // segmentio's client has no transactions.
        if client != "segmentio" {
            let transactional = |request: &LoggedRequest| request.transactional_id.is_some();
            sent(&format!("{client}-transactional"), transactional);
        }
    }
    let refused = |p: &Partition| p.result.is_some_and(|result| result.error_code != 0);
    assert!(partitions(traffic).any(refused), "nothing was refused");
    assert!(partitions(traffic).any(|p| p.bytes > 800_000), "no big batch");
    let bytes =
        |r: &LoggedRequest| r.produce.as_ref().unwrap().partitions.iter().map(|p| p.bytes).sum::<i64>();
    let biggest = produced(traffic).map(bytes).max().unwrap();
    assert!(biggest > 4_000_000, "the biggest request has {biggest} bytes");
}

/// Checks that every sent message id is found, once for each record. Records without headers must be counted.
///
/// # Panics
/// If it is not so.
pub fn on_records(traffic: &Traffic) {
    let mut seen = HashSet::new();
    // Records that consumers fetch are not read.
    for row in traffic.output.rows.iter().filter(|row| row["api"] == "PRODUCE" && !is_old(row)) {
        for partition in row["partitions"].as_array().unwrap() {
            let ids = partition["message_ids"].as_array().unwrap();
            assert_eq!(ids.len() as u64, partition["records"].as_u64().unwrap(), "{partition}");
            seen.extend(ids.iter().map(|id| id.as_str().unwrap().to_owned()));
        }
    }
    let sent = traffic.reports.iter().flat_map(|report| {
        let client = report.client.clone();
        (0..report.sent).map(move |number| format!("{client}-{number}"))
    });
    let sent: HashSet<String> = sent.collect();
    assert_eq!(sent.difference(&seen).take(5).collect::<Vec<_>>(), Vec::<&String>::new(), "not found");
    assert_eq!(seen.difference(&sent).take(5).collect::<Vec<_>>(), Vec::<&String>::new(), "never sent");
    let mut unnamed = 0;
    for (client_id, records) in records_without_ids(traffic) {
        assert!(records.is_none_or(|records| records == OLD_RECORDS), "{records:?} records of {client_id}");
        unnamed += OLD_RECORDS;
    }
    assert_eq!(unnamed, traffic.reports.iter().map(|report| report.unnamed).sum::<u64>());
}

/// Client id → records in the topic "old"; `None` if a batch's header does not contain their number.
fn records_without_ids(traffic: &Traffic) -> BTreeMap<&str, Option<u64>> {
    let mut sums = BTreeMap::new();
    for row in traffic.output.rows.iter().filter(|row| row["api"] == "PRODUCE" && is_old(row)) {
        let client_id = row["client_id"].as_str().unwrap();
        let sum = sums.entry(client_id).or_insert(Some(0));
        for partition in row["partitions"].as_array().unwrap() {
            let records = partition["records"].as_u64();
            // Only a compressed message in a message set contains its records without a count.
            let has_count = row["api_version"].as_i64() >= Some(3) || client_id.contains("-none-");
            assert!(records.is_some() || !has_count, "{row}");
            *sum = sum.zip(records).map(|(sum, records)| sum + records);
        }
    }
    sums
}

/// The record formats (magic) that produce requests carried.
///
/// # Panics
/// If a row has no batches.
pub fn formats(traffic: &Traffic) -> BTreeSet<i64> {
    let rows = traffic.output.rows.iter().filter(|row| row["api"] == "PRODUCE");
    let partitions = rows.flat_map(|row| row["partitions"].as_array().unwrap());
    let batches = partitions.flat_map(|partition| partition["batches"].as_array().unwrap());
    batches.map(|batch| batch["magic"].as_i64().unwrap()).collect()
}

/// The records of this topic have no headers, as message sets cannot.
fn is_old(row: &Value) -> bool {
    row["partitions"][0]["topic"] == "old"
}

/// Checks that appends are joined with their writes: by CRC unless the broker rewrote the batch, then by base offset if
/// it was reported; never otherwise.
///
/// # Panics
/// If it is not so.
pub fn on_joins(traffic: &Traffic) {
    let joins = &traffic.recording.summary["joins"];
    println!("joins: {joins}");
    let count = |name: &str| joins[name].as_u64().unwrap();
    let (mut by_crc, mut by_base_offset, mut unjoined, mut not_written) = (0, 0, 0, 0);
    for request in produced(traffic) {
        for partition in &request.produce.as_ref().unwrap().partitions {
            match partition.result {
                Some(result) if result.error_code != 0 => not_written += 1,
                result if is_rewritten(request, partition) => {
                    *(if result.is_some() { &mut by_base_offset } else { &mut unjoined }) += 1;
                }
                _ => by_crc += 1,
            }
        }
    }
    let expected = (by_crc, by_base_offset, unjoined, not_written);
    let found = (count("by_crc"), count("by_base_offset"), count("unjoined"), count("not_written"));
    assert_eq!(found, expected, "by CRC, by base offset, unjoined, not written");
}

/// Whether the broker rewrites the batch: it sets its own timestamps; or it converts message sets (Produce before
/// version 3); or it fills in the header's largest timestamp, which Sarama leaves empty (`LogValidator.java`,
/// `setMaxTimestamp`).
fn is_rewritten(request: &LoggedRequest, partition: &Partition) -> bool {
    request.api_version < 3
        || partition.topic.as_deref() == Some("stamped")
        || request.client_id.as_ref().is_some_and(|id| id.contains("sarama"))
}

/// Checks that the recording has the produce requests that tcpdump captured. Their fields must be the same.
///
/// # Panics
/// If it is not so.
pub fn of_recorder_and_capture(traffic: &Traffic) {
    let summary = &traffic.recording.summary;
    // Losses of packets. Misses of a probe are another matter, such as the file of an msync while the JVM changes its
    // mappings.
    let mut kinds = summary["losses"].as_object().unwrap().keys();
    assert!(kinds.all(|kind| kind == "probe-events-dropped"), "{}", summary["losses"]);
    // Before it watches, the recorder requests the broker's settings: tcpdump captures that too.
    let is_recorders = |row: &&Value| row["client_id"] == "brokerscope";
    let by_recorder = traffic.output.rows.iter().filter(is_recorders).count();
    assert!(by_recorder <= 1, "the recorder asks once: {by_recorder}");
    // Only the recorder observes the controller's listener.
    let is_clients = |row: &&Value| row["broker"].as_str().unwrap().ends_with(&format!(":{}", traffic.port));
    let of_controller = traffic.recording.requests.iter().filter(|row| !is_clients(row)).count();
    assert!(of_controller > 0, "nothing was captured of the controller's listener");
    let expected = traffic.output.rows.len() - by_recorder + of_controller;
    assert_eq!(summary["requests"].as_u64().unwrap(), expected as u64);
    // Numbered separately: a port may be reused, and verdicts may lack requests of its first client.
    let captured = produced_by_key(&traffic.output.rows);
    let recorded = produced_by_key(&traffic.recording.requests);
    let expected: BTreeSet<_> = captured.keys().collect();
    let found: BTreeSet<_> = recorded.keys().collect();
    assert_eq!(expected.symmetric_difference(&found).take(5).collect::<Vec<_>>(), Vec::<&&row::Key>::new());
    for key in expected {
        let row = captured[key];
        for field in ["api_version", "request_bytes", "response_bytes", "acks", "client_id"] {
            assert_eq!(recorded[key][field], row[field], "{field} of {key:?}");
        }
    }
}

/// The answered ones.
fn produced_by_key(rows: &[Value]) -> HashMap<row::Key, &Value> {
    row::by_key(rows.iter().filter(|row| row["api"] == "PRODUCE" && !row["end_ns"].is_null()))
}

fn produced(traffic: &Traffic) -> impl Iterator<Item = &LoggedRequest> {
    traffic.log.iter().filter(|request| request.produce.is_some())
}

fn partitions(traffic: &Traffic) -> impl Iterator<Item = &Partition> {
    produced(traffic).flat_map(|request| &request.produce.as_ref().unwrap().partitions)
}
