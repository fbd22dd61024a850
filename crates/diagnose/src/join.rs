//! Finds the append of a produce request's partition. Only by exact keys: never by time.

use std::sync::Arc;

use model::{FileOp, Nanos, Partition, Request};

use crate::appends::{Append, Appends};
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

/// A partition of a produce request, by what its append is looked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sought {
    /// When its request began to arrive.
    pub(crate) arrival: Nanos,
    /// When its response was begun, if that was seen.
    pub(crate) response: Option<Nanos>,
    /// CRC and bytes of its first batch.
    pub(crate) batch: Option<(u32, u32)>,
    /// What the response named.
    pub(crate) base_offset: Option<i64>,
}

/// The append of one partition of a request, if its key is there.
pub(crate) fn append_of(window: &Window, request: &Request, partition: &Partition) -> Option<AppendJoin> {
    let sought = Sought {
        arrival: request.arrival,
        response: request.response,
        batch: partition.batches.first().map(|batch| (batch.crc, batch.bytes)),
        base_offset: partition.base_offset,
    };
    let (op, key) = find(window.appends(), &sought, |op| is_of(op, partition))?;
    Some(AppendJoin { op: Arc::clone(op), key })
}

/// Whether the broker wrote a partition that has so many bytes and was answered so.
pub(crate) fn is_written(error_code: Option<i16>, bytes: u32) -> bool {
    error_code.is_none_or(|code| code == 0) && bytes > 0
}

/// The one append to the sought partition's log, as `is_of` tells, that both sides' keys name.
pub(crate) fn find<'a, T: Append>(
    appends: &'a Appends<T>,
    sought: &Sought,
    is_of: impl Fn(&T) -> bool,
) -> Option<(&'a T, JoinKey)> {
    let fits = |append: &&T| is_of(append) && within(*append, sought);
    by_crc(appends, sought, fits)
        .map(|append| (append, JoinKey::BatchCrc))
        .or_else(|| by_base_offset(appends, sought, fits).map(|append| (append, JoinKey::BaseOffset)))
}

fn by_crc<'a, T: Append>(
    appends: &'a Appends<T>,
    sought: &Sought,
    fits: impl Fn(&&'a T) -> bool,
) -> Option<&'a T> {
    let (crc, bytes) = sought.batch?;
    let is_long = |append: &&T| append.keys().is_some_and(|keys| keys.bytes == bytes);
    let mut fits = appends.by_crc(crc).filter(fits).filter(is_long);
    let first = fits.next()?;
    let Some(second) = fits.next() else { return Some(first) };
    // The same bytes twice (a retry, or a benchmark's identical records): the response tells them apart.
    // Without one, which of them was ours cannot be known.
    let offset = known_base_offset(sought)?;
    let has_offset = |append: &&T| append.keys().is_some_and(|keys| keys.base_offset == offset);
    [first, second].into_iter().chain(fits).find(has_offset)
}

fn by_base_offset<'a, T: Append>(
    appends: &'a Appends<T>,
    sought: &Sought,
    fits: impl Fn(&&'a T) -> bool,
) -> Option<&'a T> {
    appends.by_base_offset(known_base_offset(sought)?).find(fits)
}

fn known_base_offset(sought: &Sought) -> Option<i64> {
    sought.base_offset.filter(|&offset| offset >= 0)
}

fn is_of(op: &FileOp, partition: &Partition) -> bool {
    op.topic_partition.as_ref().is_some_and(|named| {
        named.partition == partition.partition && partition.topic.as_ref() == Some(&named.topic)
    })
}

/// An append cannot begin before its request has begun to arrive nor end after its response; this only
/// tells apart repetitions of the same bytes, it never chooses between different ones.
fn within(append: &impl Append, sought: &Sought) -> bool {
    append.start() >= sought.arrival - CLOCK_SLACK
        && sought.response.is_none_or(|response| append.end() <= response + CLOCK_SLACK)
}
