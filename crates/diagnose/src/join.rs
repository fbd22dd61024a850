//! Finds the append of a produce request's partition. Only by exact keys: never by time.

use std::sync::Arc;

use model::{FileOp, Partition, Request};

use crate::window::{CLOCK_SLACK, Window};

/// An append found for a partition of a request.
#[derive(Clone, Debug)]
pub struct AppendJoin {
    /// The append.
    pub op: Arc<FileOp>,
    /// What both sides agreed on.
    pub key: JoinKey,
}

/// The key of a join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinKey {
    /// Topic, partition and the record batch's CRC.
    BatchCrc,
    /// Topic, partition and the base offset that the response named.
    BaseOffset,
}

/// The append of one partition of a request, if its key is there.
pub(crate) fn append_of(window: &Window, request: &Request, partition: &Partition) -> Option<AppendJoin> {
    by_crc(window, request, partition)
        .map(|op| AppendJoin { op: Arc::clone(op), key: JoinKey::BatchCrc })
        .or_else(|| {
            by_base_offset(window, request, partition)
                .map(|op| AppendJoin { op: Arc::clone(op), key: JoinKey::BaseOffset })
        })
}

fn by_crc<'w>(window: &'w Window, request: &Request, partition: &Partition) -> Option<&'w Arc<FileOp>> {
    let batch = partition.batches.first()?;
    let mut fits = window
        .appends_by_crc(batch.crc)
        .filter(|op| is_of(op, partition) && within(op, request))
        .filter(|op| op.batch.is_some_and(|head| head.bytes == batch.bytes));
    let first = fits.next()?;
    let Some(second) = fits.next() else { return Some(first) };
    // The same bytes twice (a retry, or a benchmark's identical records): the response tells them apart.
    // Without one, which of them was ours cannot be known.
    let offset = known_base_offset(partition)?;
    [first, second].into_iter().chain(fits).find(|op| has_base_offset(op, offset))
}

fn by_base_offset<'w>(
    window: &'w Window,
    request: &Request,
    partition: &Partition,
) -> Option<&'w Arc<FileOp>> {
    let offset = known_base_offset(partition)?;
    window.appends_by_base_offset(offset).find(|op| is_of(op, partition) && within(op, request))
}

fn known_base_offset(partition: &Partition) -> Option<i64> {
    partition.base_offset.filter(|&offset| offset >= 0)
}

fn has_base_offset(op: &FileOp, offset: i64) -> bool {
    op.batch.is_some_and(|head| head.base_offset == offset)
}

fn is_of(op: &FileOp, partition: &Partition) -> bool {
    op.topic_partition.as_ref().is_some_and(|named| {
        named.partition == partition.partition && partition.topic.as_ref() == Some(&named.topic)
    })
}

/// An append cannot begin before its request has begun to arrive nor end after its response; this only
/// tells apart repetitions of the same bytes, it never chooses between different ones.
fn within(op: &FileOp, request: &Request) -> bool {
    op.start >= request.arrival - CLOCK_SLACK
        && request.response.is_none_or(|response| op.end <= response + CLOCK_SLACK)
}
