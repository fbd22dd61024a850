//! Compares `brokerscope requests` with Kafka's log and with the captured bytes. Reports every difference with both
//! sides; asserts nothing about time.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::{Value, json};

use crate::frames::Sizes;
use crate::kafka_log::{FetchPartition, FetchedPartition, LoggedRequest, Partition};
use crate::row::{Key, Numbering, Output};

/// Every difference between the rows and the log; empty where they agree.
///
/// Kafka also logs a request whose client disconnected before the response could be sent: `sizes` shows whether there was
/// one.
pub fn with_log(output: &Output, log: &[LoggedRequest], sizes: &BTreeMap<Key, Sizes>) -> Vec<String> {
    let rows = output.by_key();
    let mut differences = Vec::new();
    let mut numbers = Numbering::default();
    let mut matched = HashSet::new();
    for logged in log {
        let key = numbers.key(&logged.client, logged.correlation_id);
        match rows.get(&key) {
            None => differences.push(format!("no row for {key:?}: {logged:?}")),
            Some(row) => {
                compare(row, logged, sizes.get(&key), &mut differences);
            }
        }
        matched.insert(key);
    }
    let unlogged = rows.iter().filter(|(key, _)| !matched.contains(*key));
    let invented = unlogged.filter(|(key, row)| !unserved(row, sizes.get(*key)));
    differences.extend(invented.map(|(key, row)| format!("Kafka logged no {key:?}: {row}")));
    differences
}

/// Kafka's error code for a version that the broker does not know.
const UNSUPPORTED_VERSION: i64 = 35;

/// Whether Kafka never read a request because its client disconnected first: its bytes are there, there is no response,
/// Kafka logs nothing, and the row must show that there was no response.
fn unserved(row: &Value, sizes: Option<&Sizes>) -> bool {
    sizes.is_some_and(|sizes| sizes.response.is_none())
        && row["response_ns"].is_null()
        && row["error"].is_string()
        && row["api"] != "PRODUCE"
}

/// The number of rows of requests that Kafka never read, and so did not log.
pub fn unlogged(output: &Output, log: &[LoggedRequest]) -> usize {
    output.rows.len().saturating_sub(log.len())
}

/// Every row with other frame sizes than the bytes, and every frame without a row.
pub fn with_sizes(output: &Output, sizes: &BTreeMap<Key, Sizes>) -> Vec<String> {
    let rows = output.by_key();
    let mut differences = Vec::new();
    for (key, sizes) in sizes {
        let Some(row) = rows.get(key) else {
            differences.push(format!("no row for the frame {key:?}"));
            continue;
        };
        differ(row, "request_bytes", &json!(sizes.request), &mut differences);
        differ(row, "response_bytes", &json!(sizes.response), &mut differences);
    }
    differences
}

fn compare(row: &Value, logged: &LoggedRequest, sizes: Option<&Sizes>, differences: &mut Vec<String>) {
    let begun = sizes.is_some_and(|sizes| sizes.response.is_some());
    let answered = sizes.is_some_and(|sizes| sizes.whole);
    for (field, expected) in [
        ("broker", json!(logged.broker)),
        ("api_key", json!(logged.api_key)),
        ("api", json!(logged.api)),
        ("api_version", json!(logged.api_version)),
        ("client_id", json!(logged.client_id)),
        ("acks", json!(logged.produce.as_ref().map(|produce| produce.acks))),
        ("transactional_id", json!(logged.transactional_id)),
        ("group_id", json!(logged.group_id)),
        ("min_bytes", json!(logged.long_poll.map(|(min_bytes, _)| min_bytes))),
        ("max_wait_ms", json!(logged.long_poll.map(|(_, max_wait_ms)| max_wait_ms))),
    ] {
        differ(row, field, &expected, differences);
    }
    if answered {
        differ(row, "throttle_ms", &json!(logged.throttle_ms), differences);
        differ(row, "error_code", &json!(logged.error_code), differences);
    }
    let unanswered = ["response_ns", "end_ns", "latency_ns"].map(|field| row[field].is_null());
    let expects_answer = logged.produce.as_ref().is_none_or(|produce| produce.acks != 0);
    let error_fits = match (begun, answered) {
        // Kafka logs an answer that a reset kept off the wire: the row may show that none was captured.
        (false, false) if expects_answer => true,
        // A version that the broker does not know either (KIP-511).
        (true, true) if logged.error_code == Some(UNSUPPORTED_VERSION) => {
            row["error"].as_str().is_some_and(|error| error.starts_with("unknown API version"))
        }
        (begun, answered) => row["error"].is_null() == (begun == answered),
    };
    if unanswered != [!begun, !answered, !answered] || !error_fits {
        differences.push(format!("bytes are missing that are there, or there that are missing: {row}"));
    }
    if let Some(produce) = &logged.produce {
        partitions(row, &produce.partitions, answered, differences);
    }
    if let Some(requested) = &logged.requested {
        let actual = requested_partitions(row);
        if &actual != requested {
            differences.push(format!("asked for {actual:?}, expected {requested:?}: {row}"));
        }
    }
    if let Some(fetched) = logged.fetched.as_ref().filter(|_| answered) {
        let actual = fetched_of(row);
        if &actual != fetched {
            differences.push(format!("fetched {actual:?}, expected {fetched:?}: {row}"));
        }
    }
}

/// The requested partitions of a row. A row also lists answered partitions that an earlier request named.
fn requested_partitions(row: &Value) -> Vec<FetchPartition> {
    let requested = row["partitions"].as_array().into_iter().flatten();
    let requested = requested.filter_map(|partition| {
        Some(FetchPartition {
            topic: partition["topic_id"].as_str().or_else(|| partition["topic"].as_str())?.to_owned(),
            partition: partition["partition"].as_i64()?,
            fetch_offset: partition["fetch_offset"].as_i64()?,
        })
    });
    let mut requested: Vec<FetchPartition> = requested.collect();
    requested.sort();
    requested
}

/// The answered partitions of a row. A row also lists requested partitions without an answer.
fn fetched_of(row: &Value) -> Vec<FetchedPartition> {
    let answered = row["partitions"].as_array().into_iter().flatten();
    let answered = answered.filter_map(|partition| {
        Some(FetchedPartition {
            topic: partition["topic_id"].as_str().or_else(|| partition["topic"].as_str())?.to_owned(),
            partition: partition["partition"].as_i64()?,
            bytes: partition["bytes"].as_i64()?,
            error_code: partition["error_code"].as_i64()?,
        })
    });
    let mut answered: Vec<FetchedPartition> = answered.collect();
    answered.sort();
    answered
}

fn partitions(row: &Value, expected: &[Partition], answered: bool, differences: &mut Vec<String>) {
    let actual = row["partitions"].as_array().map_or(&[][..], Vec::as_slice);
    if actual.len() != expected.len() {
        differences.push(format!("{} partitions in {row}, Kafka logged {expected:?}", actual.len()));
        return;
    }
    for (actual, expected) in actual.iter().zip(expected) {
        let result = expected.result.filter(|_| answered);
        let mut inside = Vec::new();
        for (field, expected) in [
            ("topic", json!(expected.topic)),
            ("topic_id", json!(expected.topic_id)),
            ("partition", json!(expected.partition)),
            ("bytes", json!(expected.bytes)),
            ("base_offset", json!(result.and_then(|result| result.base_offset))),
            ("error_code", json!(result.map(|result| result.error_code))),
        ] {
            differ(actual, field, &expected, &mut inside);
        }
        differences.extend(inside.into_iter().map(|difference| format!("{difference} of {row}")));
    }
}

fn differ(row: &Value, field: &str, expected: &Value, differences: &mut Vec<String>) {
    if &row[field] != expected {
        differences.push(format!("{field} is {}, expected {expected}: {row}", row[field]));
    }
}

/// Deviations of the rows of a damaged capture from those of the intact one.
#[derive(Debug, Default)]
pub struct Deviations {
    /// Requests that do not exist, or existing ones with other values.
    pub altered: Vec<String>,
    /// Rows with later times and no other difference: if a packet is missing and its bytes were retransmitted, the
    /// retransmission counts.
    pub later: usize,
}

/// Compares the rows of a damaged capture with those of the intact one: every row must match one of the intact capture,
/// and its values, unless it names an error, must agree; it may lack some.
pub fn with_whole(damaged: &Output, whole: &Output) -> Deviations {
    // Connections may start late, so the counts of equal ids differ: any request with that id may match.
    let mut candidates: HashMap<(String, i64), Vec<&Value>> = HashMap::new();
    for ((client, id, _), row) in whole.by_key() {
        candidates.entry((client, id)).or_default().push(row);
    }
    let mut deviations = Deviations::default();
    for ((client, id, _), row) in damaged.by_key() {
        let Some(candidates) = candidates.get(&(client, id)) else {
            deviations.altered.push(format!("invented: {row}"));
            continue;
        };
        let any = |same: Same| candidates.iter().any(|whole| says_no_other(row, whole, same));
        if row["error"].is_string() || any(Same::Everything) {
            continue;
        }
        if any(Same::ButLater) {
            deviations.later += 1;
        } else {
            deviations.altered.push(format!("altered: {row}\n  whole: {candidates:?}"));
        }
    }
    deviations
}

/// How closely values must agree.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Same {
    /// Everything.
    Everything,
    /// Everything except times, which may be later.
    ButLater,
}

/// Whether all known values of `row` agree with `whole`.
pub fn says_no_other(row: &Value, whole: &Value, same: Same) -> bool {
    match (row, whole) {
        (Value::Null, _) => true,
        (Value::Object(row), Value::Object(whole)) => row.iter().all(|(name, value)| {
            let arrival = row.get("arrival_end_ns").and_then(Value::as_i64);
            let Some(whole) = whole.get(name) else { return false };
            let later = || name.ends_with("_ns") && value.as_i64() > whole.as_i64() && whole.is_i64();
            // The difference of two times, each of which must not be earlier.
            let derived = || name == "latency_ns" && same == Same::ButLater;
            // If two produce requests may have brought the fetched data, neither is named: if one is missing, the other
            // one is.
            let alone = || name == "data_ns" && whole.is_null();
            // A time up to the arrival means that the data was there, from any source.
            let was_there = |at: &Value| at.is_i64() && at.as_i64() <= arrival;
            let both_there = || name == "data_ns" && was_there(value) && was_there(whole);
            // Bytes that arrive before a gap is filled are read when it is; without the filling packet, when they arrive.
            let not_held = || {
                let begun = match name.as_str() {
                    "arrival_end_ns" => row.get("arrival_ns"),
                    "end_ns" => row.get("response_ns"),
                    _ => None,
                };
                let begun = begun.and_then(Value::as_i64);
                same == Same::ButLater && begun.is_some_and(|begun| value.as_i64() >= Some(begun))
            };
            // The head-of-line wait is known only as far as earlier requests were captured.
            name == "head_of_line_ns"
                || not_held()
                || alone()
                || both_there()
                || derived()
                || says_no_other(value, whole, same)
                || (same == Same::ButLater && later())
        }),
        (Value::Array(row), Value::Array(whole)) => {
            row.len() == whole.len()
                && row.iter().zip(whole).all(|(row, whole)| says_no_other(row, whole, same))
        }
        _ => row == whole,
    }
}

/// A request's latency and Kafka's own time for it.
#[derive(Clone, Debug)]
pub struct Excess {
    /// The client id.
    pub client_id: String,
    /// The API's name.
    pub api: String,
    /// Latency without head-of-line wait, less Kafka's total: the network stack, and the wait to be read.
    pub ms: f64,
    /// Time from the request's first byte to its last.
    pub arriving_ms: f64,
    /// Kafka's total, and the part of it in which the response was being sent.
    pub total_ms: f64,
    /// See `total_ms`.
    pub send_ms: f64,
}

/// The excess of every answered request in the log that has a row.
pub fn latency_excess(output: &Output, log: &[LoggedRequest]) -> Vec<Excess> {
    let rows = output.by_key();
    let mut numbers = Numbering::default();
    let excess = log.iter().filter_map(|logged| {
        let row = rows.get(&numbers.key(&logged.client, logged.correlation_id))?;
        let latency_ns = row["latency_ns"].as_i64()? - row["head_of_line_ns"].as_i64().unwrap_or(0);
        let arriving_ns = row["arrival_end_ns"].as_i64()? - row["arrival_ns"].as_i64()?;
        Some(Excess {
            client_id: logged.client_id.clone().unwrap_or_default(),
            api: logged.api.clone(),
            ms: latency_ns as f64 / 1e6 - logged.total_ms,
            arriving_ms: arriving_ns as f64 / 1e6,
            total_ms: logged.total_ms,
            send_ms: logged.send_ms,
        })
    });
    excess.collect()
}

/// The value below which `share` of an ascending list lies.
pub fn quantile(ascending: &[f64], share: f64) -> f64 {
    let at = (ascending.len() as f64 * share) as usize;
    ascending.get(at.min(ascending.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::{quantile, with_sizes, with_whole};
    use crate::capture_file::CaptureFile;
    use crate::frames;
    use crate::kafka_log::{self, FetchPartition, FetchedPartition, LoggedRequest};
    use crate::row::Output;
    use serde_json::{Value, json};
    use std::path::{Path, PathBuf};

    fn data(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("data").join(name)
    }

    fn log() -> Vec<LoggedRequest> {
        kafka_log::read(&data("sample-request.log"))
    }

    fn with_log(output: &Output, log: &[LoggedRequest]) -> Vec<String> {
        let sizes = frames::sizes(&CaptureFile::read(&data("sample.pcap")), "127.0.0.1:29092");
        super::with_log(output, log, &sizes)
    }

    /// The rows that a perfect brokerscope would print.
    fn rows(log: &[LoggedRequest]) -> Output {
        let rows = log.iter().enumerate().map(|(i, logged)| {
            let partitions = logged.produce.iter().flat_map(|produce| &produce.partitions);
            let partitions: Vec<Value> = partitions
                .map(|p| {
                    json!({"topic": p.topic, "topic_id": p.topic_id, "partition": p.partition, "bytes": p.bytes,
                       "base_offset": p.result.and_then(|r| r.base_offset), "error_code": p.result.map(|r| r.error_code)})
                })
                .collect();
            let requested = logged.requested.iter().flatten().next().map(|requested| requested.fetch_offset);
            let fetched = logged.fetched.iter().flatten().map(|p| {
                json!({"topic": p.topic, "partition": p.partition, "bytes": p.bytes, "error_code": p.error_code,
                   "fetch_offset": requested})
            });
            let partitions: Vec<Value> = partitions.into_iter().chain(fetched).collect();
            let acks = logged.produce.as_ref().map(|produce| produce.acks);
            let end = if acks == Some(0) { Value::Null } else { json!(i + 5) };
            json!({"type": "request", "arrival_ns": i, "end_ns": end, "latency_ns": end, "api": logged.api,
               "api_key": logged.api_key, "api_version": logged.api_version, "acks": acks, "error": null,
               "transactional_id": logged.transactional_id, "group_id": logged.group_id,
               "min_bytes": logged.long_poll.map(|(bytes, _)| bytes), "max_wait_ms": logged.long_poll.map(|(_, ms)| ms),
               "throttle_ms": logged.throttle_ms, "error_code": logged.error_code,
               "response_ns": end, "request_bytes": 0, "response_bytes": null,
               "correlation_id": logged.correlation_id, "client_id": logged.client_id,
               "client": logged.client, "broker": logged.broker, "partitions": partitions})
        });
        Output { rows: rows.collect(), summary: Value::Null }
    }

    #[test]
    fn equal_rows_agree_and_any_changed_field_is_a_difference() {
        let log = log();
        let whole = rows(&log);
        assert_eq!(with_log(&whole, &log), Vec::<String>::new());
        for (at, row) in whole.rows.iter().enumerate() {
            for field in [
                "api_version",
                "client_id",
                "end_ns",
                "acks",
                "group_id",
                "transactional_id",
                "min_bytes",
                "correlation_id",
                "client",
                "error",
            ] {
                let mut changed = whole.clone();
                changed.rows[at][field] = if row[field].is_string() { json!("other:1") } else { json!(4711) };
                if field == "end_ns" && !row[field].is_null() {
                    changed.rows[at][field] = Value::Null;
                }
                assert_ne!(with_log(&changed, &log), Vec::<String>::new(), "{field} of {row}");
            }
        }
    }

    #[test]
    fn a_changed_partition_is_a_difference() {
        let log = log();
        let whole = rows(&log);
        let at = whole.rows.iter().position(|row| row["partitions"][0].is_object()).unwrap();
        for field in ["topic", "topic_id", "partition", "bytes", "base_offset", "error_code"] {
            let mut changed = whole.clone();
            changed.rows[at]["partitions"][0][field] = json!("other");
            assert_eq!(with_log(&changed, &log).len(), 1, "{field}");
        }
    }

    #[test]
    fn a_changed_fetch_is_a_difference() {
        let mut log = log();
        let at = log.iter().position(|logged| logged.produce.is_none()).unwrap();
        let fetched = FetchedPartition { topic: "t".to_owned(), partition: 2, bytes: 99, error_code: 0 };
        log[at].fetched = Some(vec![fetched]);
        log[at].requested =
            Some(vec![FetchPartition { topic: "t".to_owned(), partition: 2, fetch_offset: 7 }]);
        let whole = rows(&log);
        assert_eq!(with_log(&whole, &log), Vec::<String>::new());
        for (field, differences) in
            [("topic", 2), ("partition", 2), ("fetch_offset", 1), ("bytes", 1), ("error_code", 1)]
        {
            let mut changed = whole.clone();
            changed.rows[at]["partitions"][0][field] =
                if field == "topic" { json!("other") } else { json!(4711) };
            assert_eq!(with_log(&changed, &log).len(), differences, "{field}");
        }
    }

    #[test]
    fn a_missing_and_an_invented_row_are_differences() {
        let log = log();
        let mut changed = rows(&log);
        changed.rows.remove(3);
        assert_eq!(with_log(&changed, &log).len(), 1);
        assert_eq!(with_log(&rows(&log), &log[1..]).len(), 1);
    }

    #[test]
    fn a_wrong_size_is_a_difference() {
        let sizes = frames::sizes(&CaptureFile::read(&data("sample.pcap")), "127.0.0.1:29092");
        assert!(with_sizes(&rows(&log()), &sizes).len() > sizes.len());
    }

    #[test]
    fn damaged_rows_may_lack_values_but_not_change_them() {
        let whole = rows(&log());
        let mut damaged = whole.clone();
        let altered = |damaged: &Output| with_whole(damaged, &whole).altered.len();
        damaged.rows.remove(0);
        damaged.rows[1]["end_ns"] = Value::Null;
        assert_eq!(altered(&damaged), 0);
        damaged.rows[2]["api_version"] = json!(99);
        assert_eq!(altered(&damaged), 1);
        damaged.rows[2]["error"] = json!("bytes are missing");
        assert_eq!(altered(&damaged), 0);
        damaged.rows[3]["correlation_id"] = json!(99_999);
        assert_eq!(altered(&damaged), 1);
    }

    #[test]
    fn damaged_data_time_may_differ_if_unknown_or_before_the_arrival() {
        let log = log();
        let mut whole = rows(&log);
        whole.rows[0]["arrival_end_ns"] = json!(20);
        let mut damaged = whole.clone();
        whole.rows[0]["data_ns"] = Value::Null;
        damaged.rows[0]["data_ns"] = json!(13);
        assert_eq!(with_whole(&damaged, &whole).altered.len(), 0);
        // Both mean that the data was there.
        whole.rows[0]["data_ns"] = json!(15);
        assert_eq!(with_whole(&damaged, &whole).altered.len(), 0);
        whole.rows[0]["data_ns"] = json!(25);
        assert_eq!(with_whole(&damaged, &whole).altered.len(), 1);
    }

    #[test]
    fn damaged_end_time_may_be_later_but_not_earlier() {
        let whole = rows(&log());
        let mut damaged = whole.clone();
        let at = damaged.rows.iter().position(|row| row["end_ns"].is_number()).unwrap();
        damaged.rows[at]["end_ns"] = json!(1_000_000);
        let deviations = with_whole(&damaged, &whole);
        assert_eq!((deviations.altered.len(), deviations.later), (0, 1));
        damaged.rows[at]["end_ns"] = json!(-1);
        assert_eq!(with_whole(&damaged, &whole).altered.len(), 1);
    }

    #[test]
    fn damaged_arrival_may_end_earlier_but_not_before_its_start() {
        let mut whole = rows(&log());
        let at = whole.rows.iter().position(|row| row["end_ns"].is_number()).unwrap();
        whole.rows[at]["arrival_ns"] = json!(10);
        whole.rows[at]["arrival_end_ns"] = json!(18);
        let mut damaged = whole.clone();
        damaged.rows[at]["arrival_end_ns"] = json!(10);
        let deviations = with_whole(&damaged, &whole);
        assert_eq!((deviations.altered.len(), deviations.later), (0, 1));
        damaged.rows[at]["arrival_end_ns"] = json!(9);
        assert_eq!(with_whole(&damaged, &whole).altered.len(), 1, "before its first byte");
    }

    #[test]
    fn quantile_is_an_element_of_the_list_or_nan() {
        let list: Vec<f64> = (0..100).map(f64::from).collect();
        assert_eq!(quantile(&list, 0.5).to_bits(), 50f64.to_bits());
        assert_eq!(quantile(&list, 1.0).to_bits(), 99f64.to_bits());
        assert!(quantile(&[], 0.5).is_nan());
    }
}
