//! A wait as programs read it.

use diagnose::{HolderActivity, LockName, LockRow, Reason};
use model::{FileOp, Nanos};
use serde_json::{Value, json};

use super::{doing, lock_name, seen_by};
use crate::fields::Fields;
use crate::file_ops::FileOpRow;
use crate::file_ops::json::value as file_op;

/// Its fields; times are UTC nanoseconds. A holder and its operation are null where they are not known.
pub(super) fn fields(row: &LockRow) -> Fields {
    let lock = row.lock.as_ref();
    let mut fields = beginning(row);
    fields.push((
        "lock",
        json!({
            "kind": lock.map(|lock| lock.kind.as_str()),
            "class": lock.map(|lock| &*lock.class),
            "name": lock_name(row),
            "address": lock.map(|lock| lock.address).filter(|&address| address != 0),
        }),
    ));
    fields.extend(holder(row));
    fields.push((
        "holder_op",
        operation(row)
            .map_or(Value::Null, |(op, reasons)| file_op(&FileOpRow { op, reasons, message_ids: &[] })),
    ));
    fields.extend(end(row));
    Fields(fields)
}

/// The same with nothing inside another: for CSV.
pub(super) fn flat(row: &LockRow) -> Fields {
    let lock = row.lock.as_ref();
    let mut fields = beginning(row);
    fields.extend([
        ("lock_kind", lock.map(|lock| lock.kind.as_str()).into()),
        ("lock_class", lock.map(|lock| &*lock.class).into()),
        ("lock_name", lock_name(row).into()),
        ("lock_address", lock.map(|lock| lock.address).filter(|&address| address != 0).into()),
    ]);
    fields.extend(holder(row));
    let op = operation(row);
    let reasons = op.map(|(_, reasons)| {
        let pairs = reasons.iter().map(|reason| format!("{}={}", reason.name, reason.time.0));
        pairs.collect::<Vec<_>>().join(" ")
    });
    fields.extend([
        ("holder_op", op.map(|(op, _)| op.op.as_str()).into()),
        ("holder_op_start_ns", op.map(|(op, _)| op.start.0).into()),
        ("holder_op_end_ns", op.map(|(op, _)| op.end.0).into()),
        ("holder_op_file", op.map(|(op, _)| &*op.file).into()),
        ("holder_op_bytes", op.and_then(|(op, _)| op.bytes).into()),
        ("holder_op_reasons", reasons.into()),
    ]);
    fields.extend(end(row));
    Fields(fields)
}

fn beginning(row: &LockRow) -> Vec<(&'static str, Value)> {
    vec![
        ("type", "lock-wait".into()),
        ("start_ns", row.start.0.into()),
        ("end_ns", row.end.0.into()),
        ("latency_ns", row.latency().0.into()),
        ("pid", (row.pid != 0).then_some(row.pid).into()),
        ("tid", row.tid.into()),
        ("thread", (*row.thread).into()),
    ]
}

fn holder(row: &LockRow) -> [(&'static str, Value); 5] {
    let (holder, owner) = (row.holder.as_ref(), row.previous_owner.as_ref());
    [
        ("holder", holder.map(|holder| &*holder.thread).into()),
        ("holder_tid", holder.and_then(|holder| holder.tid).into()),
        ("previous_owner", owner.map(|owner| &*owner.thread).into()),
        ("previous_owner_tid", owner.and_then(|owner| owner.tid).into()),
        ("holder_doing", doing(row).into()),
    ]
}

fn end(row: &LockRow) -> [(&'static str, Value); 5] {
    [
        ("appends_ahead", row.ahead.into()),
        ("topic", row.partition.as_ref().map(|of| &*of.topic).into()),
        ("partition", row.partition.as_ref().map(|of| of.partition).into()),
        ("stack", (!row.stack.is_empty()).then_some(&*row.stack).into()),
        ("seen_by", seen_by(row).into()),
    ]
}

fn operation(row: &LockRow) -> Option<(&FileOp, &[Reason])> {
    match &row.doing {
        HolderActivity::Op(op, reasons) => Some((op, reasons)),
        _ => None,
    }
}

/// The fields of no wait in particular, for their names.
pub(super) fn names() -> Fields {
    flat(&LockRow {
        start: Nanos::ZERO,
        end: Nanos::ZERO,
        pid: 0,
        tid: 0,
        thread: "".into(),
        name: LockName::Other,
        taken_in: None,
        lock: None,
        holder: None,
        previous_owner: None,
        doing: HolderActivity::Unknown,
        ahead: 0,
        partition: None,
        stack: "".into(),
        seen_by: None,
    })
}
