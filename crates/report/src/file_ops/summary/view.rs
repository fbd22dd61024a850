//! A group as programs read it.

use serde_json::{Map, Value};

use super::Group;
use crate::fields::Fields;

/// Its fields. Times are nanoseconds; those of `reasons` add up to `time_ns`.
pub(super) fn fields(group: &Group) -> Fields {
    let latency = &group.latency;
    let reasons = group.reasons().into_iter().map(|(name, time)| (name.to_owned(), time.0.into()));
    Fields(vec![
        ("type", "file-op-summary".into()),
        ("op", group.op.as_str().into()),
        ("kind", group.kind.as_str().into()),
        ("count", latency.count().into()),
        ("errors", group.errors.into()),
        ("bytes", group.bytes.into()),
        ("disk_bytes", group.disk_bytes.into()),
        ("time_ns", group.time().0.into()),
        ("latency_p50_ns", latency.quantile(0.5).into()),
        ("latency_p99_ns", latency.quantile(0.99).into()),
        ("latency_p999_ns", latency.quantile(0.999).into()),
        ("latency_max_ns", latency.max().into()),
        ("reasons", Value::Object(reasons.collect::<Map<_, _>>())),
    ])
}
