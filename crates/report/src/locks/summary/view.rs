//! A sum as programs read it.

use serde_json::{Map, Value};

use super::{GroupBy, Sum};
use crate::fields::Fields;

/// Its fields. Times are nanoseconds; those of `reasons` add up to `time_ns`.
pub(super) fn fields(sum: &Sum) -> Fields {
    let latency = &sum.group.latency;
    let name = sum.who.as_ref().map(|(name, _)| name.clone());
    let which = sum.who.as_ref().and_then(|(_, which)| which.clone());
    let of = |by: GroupBy, value: &Option<String>| value.clone().filter(|_| sum.by == by);
    let mut reasons: Vec<_> =
        sum.group.reasons.iter().map(|(name, time)| (name.clone(), Value::from(time.0))).collect();
    reasons.sort_by(|(a, _), (b, _)| a.cmp(b));
    Fields(vec![
        ("type", "lock-summary".into()),
        ("by", sum.by.as_str().into()),
        ("lock", of(GroupBy::Lock, &name).into()),
        ("topic_partition", of(GroupBy::Lock, &which).into()),
        ("holder", of(GroupBy::Holder, &name).into()),
        ("holder_tid", of(GroupBy::Holder, &which).and_then(|tid| tid.parse::<u32>().ok()).into()),
        ("count", latency.count().into()),
        ("waiters", sum.group.waiters.len().into()),
        ("time_ns", sum.group.time().0.into()),
        ("latency_p50_ns", latency.quantile(0.5).into()),
        ("latency_p99_ns", latency.quantile(0.99).into()),
        ("latency_max_ns", latency.max().into()),
        ("reasons", Value::Object(reasons.into_iter().collect::<Map<_, _>>())),
    ])
}
