//! `recompression`: the broker wrote another batch than it was sent: it compressed the records anew, or converted them.
//!
//! Needs: a batch whose CRC and size both differ between the request and the write at the base offset that the response
//! names. (Where only the CRC differs, the broker has set the time of the append in it, which costs nothing.) That the
//! handler spent its time on that is concluded from nothing else having been seen of it: never exact.

use std::sync::Arc;

use model::{Batch, BatchHead, Cause, Confidence, Evidence, EvidenceKind, FileOp, Nanos, Partition, Request};

use super::Finding;
use crate::join::{AppendJoin, JoinKey};

/// What a request's handler did with the batch of an append before it wrote it, between two moments.
pub(crate) fn before(
    request: &Request,
    append: &AppendJoin,
    (start, end): (Nanos, Nanos),
    mut take: impl FnMut(Nanos, Nanos) -> Nanos,
) -> Option<Finding> {
    let op = &append.op;
    let (partition, sent, written) = other_batch(request, op)?;
    let time = if append.key == JoinKey::BaseOffset { take(start, end) } else { Nanos::ZERO };
    (time > Nanos::ZERO).then(|| Finding {
        cause: Cause::Recompression,
        chain: vec![Cause::Recompression],
        root: Arc::from(format!("recompression:{}", partition.topic.as_deref().unwrap_or_default())),
        confidence: Confidence::Strong,
        evidence: vec![Evidence {
            kind: EvidenceKind::Request,
            start,
            end,
            tid: Some(op.tid),
            thread: Some(Arc::clone(&op.thread)),
            waiter: None,
            text: format!(
                "the broker wrote a batch of {} bytes for the {} bytes that it was sent: the handler compressed or \
                 converted it within {}",
                written.bytes,
                sent.bytes,
                end - start
            ),
        }],
        time,
        partition: op.topic_partition.clone(),
    })
}

/// The partition of a request that an append is of, where it wrote another batch than was sent: what was sent, and what it
/// wrote.
pub(super) fn other_batch<'r>(
    request: &'r Request,
    op: &FileOp,
) -> Option<(&'r Partition, &'r Batch, BatchHead)> {
    let partition = request.partitions.iter().find(|partition| is_of(op, partition))?;
    let (sent, written) = (partition.batches.first()?, op.batch?);
    (sent.crc != written.crc && sent.bytes != written.bytes).then_some((partition, sent, written))
}

fn is_of(op: &FileOp, partition: &Partition) -> bool {
    op.topic_partition.as_ref().is_some_and(|named| {
        named.partition == partition.partition && partition.topic.as_ref() == Some(&named.topic)
    })
}
