//! A group as programs read it.

use serde_json::{Value, json};

use super::{FileTotals, GroupKey, Load, Traffic, heading};
use crate::fields::Fields;

/// Its fields; those that do not name what was told apart are null.
pub(super) fn fields(totals: &FileTotals, who: &GroupKey, traffic: &Traffic) -> Fields {
    let (file, device) = match who {
        GroupKey::File { file, device, .. } => (Some(&**file), Some(&**device)),
        _ => (None, None),
    };
    let (topic, partition) = match who {
        GroupKey::Topic(topic) => (topic.as_deref(), None),
        GroupKey::File { of, .. } | GroupKey::Partition(of) => {
            (of.as_ref().map(|(topic, _)| &**topic), of.as_ref().map(|(_, number)| *number))
        }
        _ => (None, None),
    };
    let kind = match who {
        GroupKey::File { kind, .. } | GroupKey::Kind(kind) => Some(*kind),
        _ => None,
    };
    Fields(vec![
        ("type", "files".into()),
        ("by", totals.by.as_str().into()),
        ("others", (*who == GroupKey::Others).into()),
        ("file", file.into()),
        ("device", device.into()),
        ("kind", kind.into()),
        ("topic", topic.into()),
        ("partition", partition.into()),
        ("reads", traffic.reads.into()),
        ("read_bytes", traffic.read_bytes.into()),
        ("disk_bytes", traffic.disk_bytes.into()),
        ("readahead_bytes", traffic.readahead_bytes.into()),
        ("faults", traffic.faults.into()),
        ("writes", traffic.writes.into()),
        ("written_bytes", traffic.written_bytes.into()),
        ("fsyncs", traffic.fsyncs.into()),
        ("other_ops", traffic.others.into()),
        ("errors", traffic.errors.into()),
        ("block_reads", traffic.block_reads.into()),
        ("block_read_bytes", traffic.block_read_bytes.into()),
        ("block_writes", traffic.block_writes.into()),
        ("block_written_bytes", traffic.block_written_bytes.into()),
        ("time_ns", traffic.time.0.into()),
        ("disk_reads", traffic.disk_reads.into()),
        ("cached_bytes", traffic.cached_bytes.into()),
        ("sent_bytes", traffic.sent_bytes.into()),
        ("of_rated_ratio", totals.rated().map(|rated| traffic.block_requests() as f64 / rated).into()),
    ])
}

/// What all of them come to, and what they are compared with.
pub(super) fn summary(totals: &FileTotals) -> Fields {
    let sum = |of: fn(&Traffic) -> u64| totals.kinds.values().map(of).sum::<u64>();
    let unsent = totals.unsent();
    let finding = unsent.as_ref().map(|unsent| {
        json!({
            "text": heading::sentence(totals, unsent),
            "read_bytes": unsent.read_bytes,
            "sent_bytes": unsent.sent_bytes,
            "kind": unsent.kind,
            "share": unsent.share,
            "file": unsent.file.as_ref().map(|(file, _)| &**file),
            "advice": unsent.advice(),
        })
    });
    Fields(vec![
        ("type", "summary".into()),
        ("span_ns", totals.interval.span.map(|span| span.0).into()),
        ("partial", totals.interval.partial.into()),
        ("from_device_bytes", sum(Traffic::from_device).into()),
        ("from_cache_bytes", sum(|traffic| traffic.cached_bytes.unwrap_or(0)).into()),
        ("to_files_bytes", sum(|traffic| traffic.written_bytes).into()),
        ("to_connections_bytes", totals.sent_bytes.into()),
        ("unknown_block_requests", totals.unknown.block_requests().into()),
        ("rated_iops", totals.interval.rated_iops.into()),
        ("devices", totals.loads.iter().map(|load| device(load, totals.interval.rated_iops)).collect()),
        ("reads_without_egress", finding.into()),
    ])
}

fn device(load: &Load, rated_iops: Option<u64>) -> Value {
    json!({
        "device": &*load.device,
        "mean_iops": load.mean_iops,
        "mean_read_iops": load.mean_reads,
        "busiest_iops": load.busiest_iops,
        "busiest_of_rated_ratio": rated_iops.map(|rated| load.busiest_iops / rated as f64),
    })
}
