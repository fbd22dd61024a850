//! Groups as programs read them: named fields in a fixed order, the same in JSON and CSV. Shortens nothing.

use serde_json::Value;

use super::{BatchFill, Group, GroupKey, Groups, Kind, Producer};
use crate::distribution::Distribution;
use crate::fields::Fields;

/// Names of what is told of a spread, in [`told`]'s order.
type Names = [&'static str; 6];

const LATENCY: Names = [
    "latency_mean_ns",
    "latency_p50_ns",
    "latency_p90_ns",
    "latency_p99_ns",
    "latency_p999_ns",
    "latency_max_ns",
];
const LESS_HEAD_OF_LINE: Names = [
    "less_head_of_line_mean_ns",
    "less_head_of_line_p50_ns",
    "less_head_of_line_p90_ns",
    "less_head_of_line_p99_ns",
    "less_head_of_line_p999_ns",
    "less_head_of_line_max_ns",
];
const RECORDS: Names = [
    "batch_records_mean",
    "batch_records_p50",
    "batch_records_p90",
    "batch_records_p99",
    "batch_records_p999",
    "batch_records_max",
];
const BYTES: Names = [
    "batch_bytes_mean",
    "batch_bytes_p50",
    "batch_bytes_p90",
    "batch_bytes_p99",
    "batch_bytes_p999",
    "batch_bytes_max",
];
const PARTITIONS: Names = [
    "request_partitions_mean",
    "request_partitions_p50",
    "request_partitions_p90",
    "request_partitions_p99",
    "request_partitions_p999",
    "request_partitions_max",
];

/// A group's fields.
pub(super) fn group(groups: &Groups, (kind, who, group): &(Kind, GroupKey, Group)) -> Fields {
    let mut fields = vec![
        ("type", "requests-summary-group".into()),
        ("by", who.by().as_str().into()),
        ("others", matches!(who, GroupKey::Others(_)).into()),
        ("api", kind.api.into()),
        ("wait", kind.hold.map(model::IntendedWait::as_str).into()),
    ];
    fields.extend(names(who));
    fields.extend([
        ("requests", group.requests.into()),
        ("requests_per_s", groups.per_second(group.requests).map(rounded).into()),
        ("answered", group.latency().count().into()),
        ("unanswered", group.unanswered.into()),
        ("errors", group.errors.into()),
        ("request_bytes", group.request_bytes.into()),
        ("response_bytes", group.response_bytes.into()),
        ("record_bytes", group.record_bytes.into()),
        ("partitions", group.partitions.into()),
    ]);
    fields.extend(told(LATENCY, group.latency()));
    fields.extend(told(LESS_HEAD_OF_LINE, group.less_head_of_line()));
    Fields(fields)
}

fn names(who: &GroupKey) -> [(&'static str, Value); 6] {
    let (client, port, broker) = match who {
        GroupKey::Client(client) => (Some(client), None, None),
        GroupKey::Connection(client, port, broker) => (Some(client), Some(*port), Some(*broker)),
        _ => (None, None, None),
    };
    let (topic, topic_id) = match who {
        GroupKey::Topic(name, id) => (name.as_deref(), *id),
        _ => (None, None),
    };
    let host = client.map(|client| client.host);
    let address = host.zip(port).map(|(host, port)| std::net::SocketAddr::new(host, port).to_string());
    [
        ("topic", topic.into()),
        ("topic_id", topic_id.map(|id| id.to_string()).into()),
        ("client_id", client.and_then(|client| client.id.as_deref()).into()),
        ("client_host", host.map(|host| host.to_string()).into()),
        ("client", address.into()),
        ("broker", broker.map(|broker| broker.to_string()).into()),
    ]
}

/// A producer's fields.
pub(super) fn producer((producer, fill): &(Producer, BatchFill)) -> Fields {
    let client = producer.client.as_ref();
    let total = |spread: &Distribution| u64::try_from(spread.sum()).unwrap_or(u64::MAX);
    let mut fields = vec![
        ("type", "requests-summary-producer".into()),
        ("by", "producer".into()),
        ("others", client.is_none().into()),
        ("client_id", client.and_then(|client| client.id.as_deref()).into()),
        ("client_host", client.map(|client| client.host.to_string()).into()),
        ("producer_id", producer.producer_id.into()),
        ("requests", fill.requests.into()),
        ("batches", fill.bytes.count().into()),
        ("records", total(&fill.records).into()),
        ("record_bytes", total(&fill.bytes).into()),
    ];
    fields.extend(told(RECORDS, &fill.records));
    fields.extend(told(BYTES, &fill.bytes));
    fields.extend(told(PARTITIONS, &fill.partitions));
    Fields(fields)
}

fn told(names: Names, spread: &Distribution) -> impl Iterator<Item = (&'static str, Value)> {
    let values = [
        spread.mean().map(rounded).into(),
        spread.quantile(0.5).into(),
        spread.quantile(0.9).into(),
        spread.quantile(0.99).into(),
        spread.quantile(0.999).into(),
        spread.max().into(),
    ];
    names.into_iter().zip(values)
}

/// To three decimals.
fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}
