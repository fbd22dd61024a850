//! A group as programs read it.

use super::{By, Traffic, Who};
use crate::fields::Fields;

/// Its fields; those that do not name what was told apart are null.
pub(super) fn fields(by: By, who: &Who, traffic: &Traffic) -> Fields {
    let (file, device) = match who {
        Who::File { file, device, .. } => (Some(&**file), Some(&**device)),
        _ => (None, None),
    };
    let (topic, partition) = match who {
        Who::Topic(topic) => (topic.as_deref(), None),
        Who::File { of, .. } | Who::Partition(of) => {
            (of.as_ref().map(|(topic, _)| &**topic), of.as_ref().map(|(_, number)| *number))
        }
        _ => (None, None),
    };
    let kind = match who {
        Who::File { kind, .. } | Who::Kind(kind) => Some(*kind),
        _ => None,
    };
    Fields(vec![
        ("type", "files".into()),
        ("by", by.as_str().into()),
        ("others", (*who == Who::Others).into()),
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
    ])
}
