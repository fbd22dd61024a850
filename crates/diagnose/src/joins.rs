//! Joins produce requests with the appends of their partitions.
//! Uses exact keys and never time. Requests to coordinators are joined by the order of events (`coordinators`).

pub(crate) mod counter;

use std::sync::Arc;

use model::api_key::PRODUCE;
use model::{FileOp, Nanos, Partition, Request};

use crate::coordinators;
use crate::logged::MAX_LATE;
use crate::time::TimeSpan;
use crate::window::appends::{Append, Appends};
use crate::window::{CLOCK_SLACK, Window};

/// Usual maximum of batches with one CRC.
/// More are rare, except in a benchmark that sends the same bytes again and again.
const MAX_SAME_CRC: usize = 3;

/// The append of a partition of a request.
#[derive(Clone, Debug)]
pub struct AppendJoin {
    /// The append.
    pub op: Arc<FileOp>,
    /// The key that both sides have; `None` if the join follows from the order of events.
    pub key: Option<JoinKey>,
}

/// The key of a join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinKey {
    /// Topic, partition and the record batch's CRC.
    BatchCrc,
    /// Topic, partition and the base offset in the response.
    BaseOffset,
}

/// What identifies the append of a partition of a produce request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JoinQuery {
    /// When its request began to arrive.
    pub(crate) arrival: Nanos,
    /// When its response began, if seen.
    pub(crate) response: Option<Nanos>,
    /// CRC and size of its first batch.
    pub(crate) batch: Option<(u32, u32)>,
    /// The base offset in the response.
    pub(crate) base_offset: Option<i64>,
}

/// Joins of produce partitions with the appends that wrote them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JoinStats {
    /// By topic, partition and batch CRC.
    pub by_crc: u64,
    /// By topic, partition and base offset.
    pub by_base_offset: u64,
    /// Written, but no append was found.
    pub unjoined: u64,
    /// The broker refused the partition, or it was empty: there is nothing to join.
    pub not_written: u64,
}

impl JoinStats {
    /// Counts a partition; `found` is the key of its append.
    pub(crate) fn count(&mut self, is_written: bool, found: Option<JoinKey>) {
        *match found {
            _ if !is_written => &mut self.not_written,
            Some(JoinKey::BatchCrc) => &mut self.by_crc,
            Some(JoinKey::BaseOffset) => &mut self.by_base_offset,
            None => &mut self.unjoined,
        } += 1;
    }
}

/// The appends of a request's partitions, in the order of their starts.
pub(crate) fn joins(window: &Window, request: &Request, counts: &mut JoinStats) -> Vec<AppendJoin> {
    let mut joined: Vec<AppendJoin> = coordinators::join(window, request).into_iter().collect();
    each_join(window, request, counts, |append| joined.push(append));
    joined.sort_by_key(|append| append.op.start);
    joined
}

/// Counts the joins of a request without collecting its appends.
pub(crate) fn count_joins(window: &Window, request: &Request, counts: &mut JoinStats) {
    each_join(window, request, counts, drop);
}

fn each_join(
    window: &Window,
    request: &Request,
    counts: &mut JoinStats,
    mut on_join: impl FnMut(AppendJoin),
) {
    // Partitions of other requests were read, not written.
    let partitions = request.partitions.iter().filter(|_| request.api_key == PRODUCE);
    for partition in partitions {
        let is_written = is_written(partition.error_code, partition.bytes);
        let found = if is_written { append_of(window, request, partition) } else { None };
        counts.count(is_written, found.as_ref().and_then(|append| append.key));
        found.into_iter().for_each(&mut on_join);
    }
}

/// The append of one partition of a request, if its key is there.
fn append_of(window: &Window, request: &Request, partition: &Partition) -> Option<AppendJoin> {
    let query = JoinQuery {
        arrival: request.arrival,
        response: request.response,
        batch: partition.batches.first().map(|batch| (batch.crc, batch.bytes)),
        base_offset: partition.base_offset,
    };
    let (op, key) = find(&window.appends, &query, |op| is_append_to(op, partition))?;
    Some(AppendJoin { op: Arc::clone(op), key: Some(key) })
}

/// Whether the broker wrote a partition with this error code and size.
pub(crate) fn is_written(error_code: Option<i16>, bytes: u32) -> bool {
    error_code.is_none_or(|code| code == 0) && bytes > 0
}

/// The only append that both sides' keys name; `is_of` tells whether an append is to the partition's log.
pub(crate) fn find<'a, T: Append>(
    appends: &'a Appends<T>,
    query: &JoinQuery,
    is_of: impl Fn(&T) -> bool,
) -> Option<(&'a T, JoinKey)> {
    let fits = |append: &&T| is_of(append) && within(*append, query);
    by_crc(appends, query, fits)
        .map(|append| (append, JoinKey::BatchCrc))
        .or_else(|| by_base_offset(appends, query, fits).map(|append| (append, JoinKey::BaseOffset)))
        .or_else(|| by_base_offset_of_log(appends, query, is_of).map(|append| (append, JoinKey::BaseOffset)))
}

fn by_crc<'a, T: Append>(
    appends: &'a Appends<T>,
    query: &JoinQuery,
    fits: impl Fn(&&'a T) -> bool,
) -> Option<&'a T> {
    let (crc, bytes) = query.batch?;
    let is_batch = |append: &&T| append.keys().is_some_and(|keys| keys.crc == crc && keys.bytes == bytes);
    let offset = known_base_offset(query);
    let since = query.arrival - CLOCK_SLACK;
    // With the same bytes again and again, the base offset finds the append at once.
    if let Some(offset) = offset.filter(|_| appends.by_crc(crc, since).nth(MAX_SAME_CRC).is_some()) {
        let named = appends.by_base_offset(offset).filter(&fits).find(is_batch);
        if named.is_some() {
            return named;
        }
    }
    let mut fits = appends.by_crc(crc, since).filter(fits).filter(is_batch);
    let first = fits.next()?;
    let Some(second) = fits.next() else { return Some(first) };
    // The same bytes twice (a retry, or a benchmark's identical records): the response distinguishes them. Without a
    // response it cannot be known which of them was ours.
    let offset = offset?;
    let has_offset = |append: &&T| append.keys().is_some_and(|keys| keys.base_offset == offset);
    [first, second].into_iter().chain(fits).find(has_offset)
}

fn by_base_offset<'a, T: Append>(
    appends: &'a Appends<T>,
    query: &JoinQuery,
    fits: impl Fn(&&'a T) -> bool,
) -> Option<&'a T> {
    appends.by_base_offset(known_base_offset(query)?).find(fits)
}

/// Like `by_base_offset`, for a request without a batch.
/// Its times may be late, as in Kafka's request log, so it must be the only append with that offset.
fn by_base_offset_of_log<'a, T: Append>(
    appends: &'a Appends<T>,
    query: &JoinQuery,
    is_of: impl Fn(&T) -> bool,
) -> Option<&'a T> {
    let offset = known_base_offset(query).filter(|_| query.batch.is_none())?;
    let earliest = JoinQuery { arrival: query.arrival - MAX_LATE, ..*query };
    let is_near = |append: &&T| is_of(append) && within(*append, &earliest);
    let mut near = appends.by_base_offset(offset).filter(is_near);
    let only = near.next()?;
    near.next().is_none().then_some(only)
}

fn known_base_offset(query: &JoinQuery) -> Option<i64> {
    query.base_offset.filter(|&offset| offset >= 0)
}

/// Whether an operation wrote to a partition.
pub(crate) fn is_append_to(op: &FileOp, partition: &Partition) -> bool {
    op.topic_partition.as_ref().is_some_and(|named| {
        named.partition == partition.partition && partition.topic.as_ref() == Some(&named.topic)
    })
}

/// Whether an append lies within its request: it cannot begin before the request has begun to arrive or end after the
/// response. This only distinguishes repetitions of the same bytes; it never chooses between different ones.
fn within(append: &impl Append, query: &JoinQuery) -> bool {
    let TimeSpan { start, end } = append.span();
    start >= query.arrival - CLOCK_SLACK
        && query.response.is_none_or(|response| end <= response + CLOCK_SLACK)
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

    /// The rule as a search of all appends: the latest that fits, if it is the only one or has the offset.
    fn expected<'a>(seen: &'a [NumberedAppend], query: &JoinQuery) -> Option<(&'a NumberedAppend, JoinKey)> {
        let fits = || seen.iter().rev().filter(|append| within(*append, query));
        let of_batch = || fits().filter(|append| query.batch == Some((append.3.crc, append.3.bytes)));
        let named = |append: &&NumberedAppend| known_base_offset(query) == Some(append.3.base_offset);
        let by_crc = if of_batch().count() < 2 { of_batch().next() } else { of_batch().find(named) };
        let by_offset = || fits().find(named).map(|append| (append, JoinKey::BaseOffset));
        by_crc.map(|append| (append, JoinKey::BatchCrc)).or_else(by_offset)
    }

    proptest! {
        #[test]
        fn find_matches_an_exhaustive_search_of_all_appends(
            written in proptest::collection::vec((0_i64..12, 0_i64..6, 0_u32..2, 0_u32..2, 0_i64..12), 0..60),
            queries in proptest::collection::vec(
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
            let expired = seen.iter().take_while(|append| append.2 < ms(horizon)).count();
            seen.drain(..expired);
            for (arrival, answered, crc, bytes, offset) in queries {
                let query = JoinQuery {
                    arrival: ms(arrival),
                    response: answered.map(|after| ms(arrival + after)),
                    batch: Some((crc, bytes)),
                    base_offset: Some(offset),
                };
                prop_assert_eq!(find(&appends, &query, |_| true), expected(&seen, &query));
            }
        }
    }
}
