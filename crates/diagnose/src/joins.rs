//! Joins produce requests with the appends of their partitions, by exact keys and never by time; and what coordinators are
//! asked to write by the order of things (`coordinators`).

pub(crate) mod counter;

use std::sync::Arc;

use model::api_key::PRODUCE;
use model::{FileOp, Nanos, Partition, Request};

use crate::coordinators;
use crate::logged::MAX_LATE;
use crate::time::TimeSpan;
use crate::window::appends::{Append, Appends};
use crate::window::{CLOCK_SLACK, Window};

/// Batches of the same CRC are seldom more than this, but for a benchmark that sends the same bytes again and again.
const MAX_SAME_CRC: usize = 3;

/// An append found for a partition of a request.
#[derive(Clone, Debug)]
pub struct AppendJoin {
    /// The append.
    pub op: Arc<FileOp>,
    /// What both sides agreed on; none where it follows from the order of things.
    pub key: Option<JoinKey>,
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
pub(crate) struct JoinQuery {
    /// When its request began to arrive.
    pub(crate) arrival: Nanos,
    /// When its response was begun, if that was seen.
    pub(crate) response: Option<Nanos>,
    /// CRC and bytes of its first batch.
    pub(crate) batch: Option<(u32, u32)>,
    /// What the response named.
    pub(crate) base_offset: Option<i64>,
}

/// How produce partitions were joined with the appends that wrote them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JoinStats {
    /// By topic, partition and batch CRC.
    pub by_crc: u64,
    /// By topic, partition and base offset.
    pub by_base_offset: u64,
    /// No append was found.
    pub unjoined: u64,
    /// The broker refused the partition, or it was empty: nothing to join.
    pub not_written: u64,
}

impl JoinStats {
    /// Counts a partition, by whether the broker wrote it and the key of the append that was found.
    pub(crate) fn count(&mut self, is_written: bool, found: Option<JoinKey>) {
        *match found {
            _ if !is_written => &mut self.not_written,
            Some(JoinKey::BatchCrc) => &mut self.by_crc,
            Some(JoinKey::BaseOffset) => &mut self.by_base_offset,
            None => &mut self.unjoined,
        } += 1;
    }
}

/// The joins of a produce request's partitions, in the order of their appends.
pub(crate) fn joins(window: &Window, request: &Request, counts: &mut JoinStats) -> Vec<AppendJoin> {
    let mut joined: Vec<AppendJoin> = coordinators::join(window, request).into_iter().collect();
    each_join(window, request, counts, |append| joined.push(append));
    joined.sort_by_key(|append| append.op.start);
    joined
}

/// Counts the joins of a request that nobody asks more about.
pub(crate) fn count_joins(window: &Window, request: &Request, counts: &mut JoinStats) {
    each_join(window, request, counts, drop);
}

fn each_join(window: &Window, request: &Request, counts: &mut JoinStats, mut tell: impl FnMut(AppendJoin)) {
    // Of other requests, partitions are what was read.
    let partitions = request.partitions.iter().filter(|_| request.api_key == PRODUCE);
    for partition in partitions {
        let is_written = is_written(partition.error_code, partition.bytes);
        let found = if is_written { append_of(window, request, partition) } else { None };
        counts.count(is_written, found.as_ref().and_then(|append| append.key));
        found.into_iter().for_each(&mut tell);
    }
}

/// The append of one partition of a request, if its key is there.
fn append_of(window: &Window, request: &Request, partition: &Partition) -> Option<AppendJoin> {
    let sought = JoinQuery {
        arrival: request.arrival,
        response: request.response,
        batch: partition.batches.first().map(|batch| (batch.crc, batch.bytes)),
        base_offset: partition.base_offset,
    };
    let (op, key) = find(&window.appends, &sought, |op| is_append_to(op, partition))?;
    Some(AppendJoin { op: Arc::clone(op), key: Some(key) })
}

/// Whether the broker wrote a partition that has so many bytes and was answered so.
pub(crate) fn is_written(error_code: Option<i16>, bytes: u32) -> bool {
    error_code.is_none_or(|code| code == 0) && bytes > 0
}

/// The one append to the sought partition's log, as `is_of` tells, that both sides' keys name.
pub(crate) fn find<'a, T: Append>(
    appends: &'a Appends<T>,
    sought: &JoinQuery,
    is_of: impl Fn(&T) -> bool,
) -> Option<(&'a T, JoinKey)> {
    let fits = |append: &&T| is_of(append) && within(*append, sought);
    by_crc(appends, sought, fits)
        .map(|append| (append, JoinKey::BatchCrc))
        .or_else(|| by_base_offset(appends, sought, fits).map(|append| (append, JoinKey::BaseOffset)))
        .or_else(|| by_base_offset_of_log(appends, sought, is_of).map(|append| (append, JoinKey::BaseOffset)))
}

fn by_crc<'a, T: Append>(
    appends: &'a Appends<T>,
    sought: &JoinQuery,
    fits: impl Fn(&&'a T) -> bool,
) -> Option<&'a T> {
    let (crc, bytes) = sought.batch?;
    let is_batch = |append: &&T| append.keys().is_some_and(|keys| keys.crc == crc && keys.bytes == bytes);
    let offset = known_base_offset(sought);
    let since = sought.arrival - CLOCK_SLACK;
    // Of the same bytes again and again the one with the offset is ours: it is found at once.
    if let Some(offset) = offset.filter(|_| appends.by_crc(crc, since).nth(MAX_SAME_CRC).is_some()) {
        let named = appends.by_base_offset(offset).filter(&fits).find(is_batch);
        if named.is_some() {
            return named;
        }
    }
    let mut fits = appends.by_crc(crc, since).filter(fits).filter(is_batch);
    let first = fits.next()?;
    let Some(second) = fits.next() else { return Some(first) };
    // The same bytes twice (a retry, or a benchmark's identical records): the response tells them apart.
    // Without one, which of them was ours cannot be known.
    let offset = offset?;
    let has_offset = |append: &&T| append.keys().is_some_and(|keys| keys.base_offset == offset);
    [first, second].into_iter().chain(fits).find(has_offset)
}

fn by_base_offset<'a, T: Append>(
    appends: &'a Appends<T>,
    sought: &JoinQuery,
    fits: impl Fn(&&'a T) -> bool,
) -> Option<&'a T> {
    appends.by_base_offset(known_base_offset(sought)?).find(fits)
}

/// The same of a request of which no batch is known, as of Kafka's request log, which may say late when it was: the only append with
/// that offset.
fn by_base_offset_of_log<'a, T: Append>(
    appends: &'a Appends<T>,
    sought: &JoinQuery,
    is_of: impl Fn(&T) -> bool,
) -> Option<&'a T> {
    let offset = known_base_offset(sought).filter(|_| sought.batch.is_none())?;
    let earliest = JoinQuery { arrival: sought.arrival - MAX_LATE, ..*sought };
    let is_near = |append: &&T| is_of(append) && within(*append, &earliest);
    let mut near = appends.by_base_offset(offset).filter(is_near);
    let only = near.next()?;
    near.next().is_none().then_some(only)
}

fn known_base_offset(sought: &JoinQuery) -> Option<i64> {
    sought.base_offset.filter(|&offset| offset >= 0)
}

/// Whether an operation wrote to a partition.
pub(crate) fn is_append_to(op: &FileOp, partition: &Partition) -> bool {
    op.topic_partition.as_ref().is_some_and(|named| {
        named.partition == partition.partition && partition.topic.as_ref() == Some(&named.topic)
    })
}

/// An append cannot begin before its request has begun to arrive nor end after its response; this only
/// tells apart repetitions of the same bytes, it never chooses between different ones.
fn within(append: &impl Append, sought: &JoinQuery) -> bool {
    let TimeSpan { start, end } = append.span();
    start >= sought.arrival - CLOCK_SLACK
        && sought.response.is_none_or(|response| end <= response + CLOCK_SLACK)
}

#[cfg(test)]
mod tests {
    use model::Nanos;
    use proptest::prelude::*;

    use super::{JoinKey, JoinQuery, find, known_base_offset, within};
    use crate::time::{Span, TimeSpan};
    use crate::window::appends::{Append, Appends, Keys};

    /// An append with a number.
    #[derive(Clone, Copy, Debug, PartialEq)]
    struct NumberedAppend(usize, Nanos, Nanos, Keys);

    impl Span for NumberedAppend {
        fn span(&self) -> TimeSpan {
            TimeSpan::new(self.1, self.2)
        }
    }

    impl Append for NumberedAppend {
        fn keys(&self) -> Option<Keys> {
            Some(self.3)
        }
    }

    /// As the rule says it, looking at each: the latest that fits, if it is the only one or has the offset.
    fn expected<'a>(seen: &'a [NumberedAppend], sought: &JoinQuery) -> Option<(&'a NumberedAppend, JoinKey)> {
        let fits = || seen.iter().rev().filter(|append| within(*append, sought));
        let of_batch = || fits().filter(|append| sought.batch == Some((append.3.crc, append.3.bytes)));
        let named = |append: &&NumberedAppend| known_base_offset(sought) == Some(append.3.base_offset);
        let by_crc = if of_batch().count() < 2 { of_batch().next() } else { of_batch().find(named) };
        let by_offset = || fits().find(named).map(|append| (append, JoinKey::BaseOffset));
        by_crc.map(|append| (append, JoinKey::BatchCrc)).or_else(by_offset)
    }

    proptest! {
        #[test]
        fn the_same_bytes_again_and_again_are_told_apart_as_looking_at_each_does(
            written in proptest::collection::vec((0_i64..12, 0_i64..6, 0_u32..2, 0_u32..2, 0_i64..12), 0..60),
            asked in proptest::collection::vec(
                (0_i64..60, proptest::option::of(0_i64..30), 0_u32..3, 0_u32..2, -1_i64..12), 1..20,
            ),
            horizon in 0_i64..40,
        ) {
            let (mut appends, mut seen) = (Appends::default(), Vec::new());
            let ms = Nanos::from_millis;
            for (number, (late, length, crc, bytes, base_offset)) in written.into_iter().enumerate() {
                // Nearly in the order of their ends.
                let end = number as i64 - late / 4;
                let append = NumberedAppend(number, ms(end - length), ms(end), Keys { crc, bytes, base_offset });
                appends.insert(append);
                seen.push(append);
            }
            appends.forget(ms(horizon));
            let gone = seen.iter().take_while(|append| append.2 < ms(horizon)).count();
            seen.drain(..gone);
            for (arrival, answered, crc, bytes, offset) in asked {
                let sought = JoinQuery {
                    arrival: ms(arrival),
                    response: answered.map(|after| ms(arrival + after)),
                    batch: Some((crc, bytes)),
                    base_offset: Some(offset),
                };
                prop_assert_eq!(find(&appends, &sought, |_| true), expected(&seen, &sought));
            }
        }
    }
}
