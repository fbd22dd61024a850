//! The high watermarks that a broker reported recently, by partition: records below one could be read from then on.
//! Holds a bounded number of partitions and watermarks; does not know what a fetch waited for.
//!
//! A watermark can go back: after an unclean leader election, or with another topic of the same name. So nothing is
//! claimed of a partition after an error or after a lower report, nor of records whose timestamps are newer than the
//! watermark.

use std::net::SocketAddr;

use ahash::RandomState;
use model::{Nanos, Partition, Request};
use wire::BatchHeader;
use wire::stream::{Partition as WirePartition, TopicRef};

use crate::table::Table;

/// Watermarks remembered per partition.
const MARKS: usize = 16;
/// The acks of a request that is answered once all in-sync replicas have it. The request is then below the high
/// watermark.
const ALL_REPLICAS: i16 = -1;
const NONE: i16 = 0;

/// Watermarks of each partition, by listener: several brokers may share one address.
pub(crate) struct Watermarks {
    partitions: Table<u64, History>,
    hasher: RandomState,
}

/// A watermark, and when a response first reported it or a higher one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    at: Nanos,
    offset: i64,
}

/// A sample of a partition's watermarks, in order. It has the oldest watermark, the newest, and some in between, denser
/// towards the newest.
struct History([Mark; MARKS]);

impl Watermarks {
    /// Holds this many partitions; the least recently used is evicted.
    pub(crate) fn new(partitions: usize) -> Self {
        Self { partitions: Table::new(partitions), hasher: RandomState::new() }
    }

    /// Handles a fetch's answer.
    pub(crate) fn on_fetch_response(&mut self, row: &Request, fetched: &[WirePartition]) {
        let Some(seen) = row.response else { return };
        for partition in fetched {
            let key = self.key(row.broker, Topic::of_wire(&partition.topic), partition.partition);
            let mark = Mark { at: seen, offset: partition.high_watermark };
            match self.partitions.touch(&key) {
                Some(history) if partition.error_code != NONE => history.forget(seen),
                Some(history) => history.learn(mark, row.arrival_end),
                None if partition.error_code == NONE && mark.offset >= 0 => {
                    self.partitions.insert(key, History([mark; MARKS]));
                }
                None => {}
            }
        }
    }

    /// Handles a Produce answer. If all replicas have the records, they are below the watermark.
    pub(crate) fn on_produce_response(&mut self, row: &Request) {
        let Some(seen) = row.response else { return };
        for partition in &row.partitions {
            let Some(code) = partition.error_code else { continue };
            let key = self.key(row.broker, Topic::of_row(partition), partition.partition);
            let end = partition.base_offset.zip(partition.records).map(|(base, n)| base + i64::from(n));
            match (self.partitions.touch(&key), end.filter(|_| row.acks == Some(ALL_REPLICAS))) {
                (Some(history), _) if code != NONE => history.forget(seen),
                (Some(history), Some(offset)) => history.raise(Mark { at: seen, offset }),
                (None, Some(offset)) if code == NONE => {
                    self.partitions.insert(key, History([Mark { at: seen, offset }; MARKS]));
                }
                _ => {}
            }
        }
    }

    /// Since when enough of a fetch's data was known to be readable. `None` if that was not before the fetch arrived.
    /// Does not count batches that were cut off.
    pub(crate) fn readable_since(
        &mut self,
        row: &Request,
        fetched: &[WirePartition],
        enough: u64,
    ) -> Option<Nanos> {
        let (mut total, mut since) = (0, Nanos::MIN);
        for partition in fetched.iter().filter(|partition| partition.bytes > 0) {
            if partition.error_code != NONE || partition.error.is_some() {
                continue;
            }
            let key = self.key(row.broker, Topic::of_wire(&partition.topic), partition.partition);
            let mark = self.partitions.peek(&key).and_then(|history| history.before(row.arrival_end));
            let Some(mark) = mark.filter(|mark| mark.offset <= partition.high_watermark) else { continue };
            let below = partition.batches.iter().filter(|batch| mark.has_below(batch));
            let bytes: u64 = below.map(|batch| u64::from(batch.length_bytes)).sum();
            if bytes > 0 {
                total += bytes;
                since = since.max(mark.at);
            }
        }
        (total >= enough).then_some(since)
    }

    /// Since when a fetch that returned empty was known to have something to read. `None` if that was not before it
    /// arrived. Requested partitions that the response does not mention are unchanged (KIP-227).
    pub(crate) fn unread_since(&mut self, row: &Request, fetched: &[WirePartition]) -> Option<Nanos> {
        let mut since = None;
        for requested in &row.partitions {
            let (topic, offset) = (Topic::of_row(requested), requested.fetch_offset.unwrap_or(i64::MAX));
            let key = self.key(row.broker, topic, requested.partition);
            let mark = self.partitions.peek(&key).and_then(|history| history.before(row.arrival_end));
            let Some(mark) = mark.filter(|mark| offset < mark.offset) else { continue };
            let is_same = |answer: &&WirePartition| {
                answer.partition == requested.partition && Topic::of_wire(&answer.topic) == topic
            };
            let mut answers = fetched.iter().filter(is_same);
            if answers.all(|answer| answer.error_code == NONE && answer.high_watermark >= mark.offset) {
                since = Some(since.map_or(mark.at, |since: Nanos| since.min(mark.at)));
            }
        }
        since
    }

    fn key(&self, broker: SocketAddr, topic: Topic<'_>, partition: i32) -> u64 {
        self.hasher.hash_one((broker, topic, partition))
    }
}

/// A topic by id where the wire has one: a recreated topic has the same name but another id.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Topic<'a> {
    Name(&'a str),
    Id([u8; 16]),
}

impl<'a> Topic<'a> {
    fn of_wire(topic: &'a TopicRef) -> Self {
        match topic {
            TopicRef::Name(name) => Self::Name(name),
            TopicRef::Id(id) => Self::Id(*id),
        }
    }

    fn of_row(partition: &'a Partition) -> Self {
        match (partition.topic_id, &partition.topic) {
            (Some(id), _) => Self::Id(id.0),
            (None, name) => Self::Name(name.as_deref().unwrap_or_default()),
        }
    }
}

impl Mark {
    /// Whether the whole batch was there: below the watermark, and not newer.
    fn has_below(self, batch: &BatchHeader) -> bool {
        let last = batch.base_offset.saturating_add(batch.last_offset_delta.into());
        last < self.offset && Nanos::from_millis(batch.max_timestamp_ms) <= self.at
    }
}

impl History {
    fn newest(&self) -> Mark {
        let [.., newest] = self.0;
        newest
    }

    /// The last watermark known when a request arrived.
    fn before(&self, arrival: Nanos) -> Option<Mark> {
        self.0.iter().rfind(|mark| mark.at <= arrival && mark.offset >= 0).copied()
    }

    /// Adds the watermark of a fetch that arrived at `arrival`.
    /// A lower one than was known then means that the log was truncated. A watermark from another response in the
    /// meantime may be newer.
    fn learn(&mut self, mark: Mark, arrival: Nanos) {
        if self.before(arrival).is_some_and(|known| known.offset > mark.offset) {
            *self = Self([mark; MARKS]);
        } else {
            self.raise(mark);
        }
    }

    /// Forgets everything.
    fn forget(&mut self, at: Nanos) {
        *self = Self([Mark { at, offset: -1 }; MARKS]);
    }

    /// Adds a higher watermark; evicts the one whose neighbours are closest to each other, relative to its age.
    fn raise(&mut self, mark: Mark) {
        let newest = self.newest();
        if mark.offset <= newest.offset {
            return;
        }
        let mark = Mark { at: mark.at.max(newest.at), ..mark };
        let next = self.0.iter().skip(2).chain([&mark]);
        let gaps = self.0.iter().zip(self.0.iter().skip(1)).zip(next).map(|((before, of), after)| {
            let age = (mark.at - of.at).0.saturating_add(1);
            (after.at - before.at).0 as f64 / age as f64
        });
        let closest = gaps.enumerate().min_by(|(_, one), (_, other)| one.total_cmp(other));
        // The first stays.
        let place = closest.map_or(0, |(place, _)| place + 1);
        if let Some(later) = self.0.get_mut(place..) {
            later.rotate_left(1);
        }
        let [.., last] = &mut self.0;
        *last = mark;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(at: i64) -> Mark {
        Mark { at: Nanos(at), offset: at }
    }

    #[test]
    fn history_holds_the_first_watermark_and_more_of_the_recent_ones() {
        let mut history = History([mark(10); MARKS]);
        for at in 11..=100_000 {
            history.raise(mark(at));
        }
        assert_eq!(history.newest(), mark(100_000));
        assert!(history.0.is_sorted_by_key(|mark| mark.at));
        assert_eq!(history.before(Nanos(9)), None);
        assert_eq!(history.before(Nanos(15)), Some(mark(10)), "the first");
        for age in [2, 30, 500, 10_000] {
            let known = history.before(Nanos(100_000 - age)).unwrap();
            assert!(100_000 - known.at.0 <= 5 * age, "{age} ago only that of {}", known.at.0);
        }
    }

    #[test]
    fn accepts_a_lower_watermark_and_ignores_an_overtaken_one() {
        let learned = |offset: i64, arrival: i64| {
            let mut history = History([mark(10); MARKS]);
            history.raise(mark(50));
            history.learn(Mark { at: Nanos(90), offset }, Nanos(arrival));
            (history.before(Nanos(60)).map(|mark| mark.offset), history.newest().offset)
        };
        assert_eq!(learned(70, 40), (Some(50), 70));
        assert_eq!(learned(50, 60), (Some(50), 50), "first seen then");
        assert_eq!(learned(30, 40), (Some(50), 50), "asked for before");
        assert_eq!(learned(30, 60), (None, 30));
        assert_eq!(learned(5, 40), (None, 5));
        let mut history = History([mark(10); MARKS]);
        history.forget(Nanos(20));
        assert_eq!(history.before(Nanos(30)), None);
        history.learn(mark(40), Nanos(35));
        assert_eq!(history.before(Nanos(50)), Some(mark(40)));
    }
}
