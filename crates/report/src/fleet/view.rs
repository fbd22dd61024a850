//! Differences and figures as programs read them.

use fleet::{Broker, BrokerName, Difference, Figure, Fleet, PartKind, Reason, Spread};
use serde_json::{Value, json};

use crate::fields::Fields;
use crate::files::egress::of_kind as of_kind_of_file;

pub(super) fn difference(difference: &Difference) -> Fields {
    Fields(vec![
        ("type", "difference".into()),
        ("cluster", difference.name.cluster.as_str().into()),
        ("broker", difference.name.broker.as_str().into()),
        ("figure", difference.figure.as_str().into()),
        ("value", difference.value.into()),
        ("median", difference.spread.median.into()),
        ("mad", difference.spread.mad.into()),
        ("times", difference.times().into()),
        ("score", difference.score.into()),
        ("brokers", difference.brokers.into()),
        ("because", difference.because.iter().map(reason).collect()),
        ("advice", advice(difference).into()),
    ])
}

fn reason(reason: &Reason) -> Value {
    let items = reason.items.iter().map(|item| json!({"name": &*item.name, "value": item.value}));
    json!({
        "kind": reason.kind.as_str(),
        "part": &*reason.part,
        "value": reason.value,
        "median": reason.median,
        "share": reason.share,
        "items": items.collect::<Value>(),
    })
}

/// What to change about it, where that is known: of files that are read more than others do.
pub(super) fn advice(difference: &Difference) -> Vec<&'static str> {
    let figures = [Figure::DeviceReads, Figure::Reads, Figure::DiskReadBytes];
    let more = difference.value > difference.spread.median && figures.contains(&difference.figure);
    let kinds = difference.because.iter().filter(|reason| more && reason.kind == PartKind::FileKind);
    kinds.flat_map(|reason| of_kind_of_file(&reason.part)).copied().collect()
}

/// The names of a difference's fields.
pub(super) fn no_difference() -> Fields {
    difference(&Difference {
        name: BrokerName { cluster: String::new(), broker: String::new() },
        figure: Figure::DeviceReads,
        value: 0.0,
        spread: Spread { median: 0.0, mad: 0.0 },
        brokers: 0,
        score: 0.0,
        because: Vec::new(),
    })
}

pub(super) fn broker(broker: &Broker) -> Fields {
    let mut fields = vec![
        ("type", "broker".into()),
        ("cluster", broker.name.cluster.as_str().into()),
        ("broker", broker.name.broker.as_str().into()),
        ("seconds", broker.seconds.into()),
    ];
    let value = |figure: Figure| broker.figures.get(&figure).map(|told| told.value).into();
    fields.extend(Figure::ALL.into_iter().map(|figure| (figure.as_str(), value(figure))));
    Fields(fields)
}

/// The names of a broker's fields.
pub(super) fn no_broker() -> Fields {
    let name = BrokerName { cluster: String::new(), broker: String::new() };
    broker(&Broker { name, seconds: 0.0, figures: std::collections::BTreeMap::new() })
}

pub(super) fn summary(fleet: &Fleet) -> Fields {
    let mut odd = fleet.differences.iter().map(|difference| &difference.name).collect::<Vec<_>>();
    odd.dedup();
    let odd = odd.iter().map(|name| json!({"cluster": name.cluster, "broker": name.broker}));
    Fields(vec![
        ("type", "summary".into()),
        ("brokers", fleet.brokers.len().into()),
        ("differences", fleet.differences.len().into()),
        ("odd", odd.collect()),
        ("too_small", fleet.too_small.keys().map(String::as_str).collect()),
    ])
}

/// What a part is, in words.
pub(super) fn of_kind(reason: &Reason) -> String {
    match reason.kind {
        PartKind::FileKind => format!("{} files", reason.part),
        PartKind::Topic => format!("topic {}", reason.part),
        PartKind::Cause | PartKind::None => reason.part.to_string(),
    }
}
