//! Events in the order of their ends with an index for overlaps. Also, episodes of the same trouble.
//!
//! The index contains the events that began before every event that ended after them. All events after the last of
//! these that began before the end of a stretch began after the stretch. So a look-up costs as much as it finds.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

use ahash::RandomState;
use model::Nanos;

use crate::time::{Span, TimeSpan};
use crate::window::search::CachedSearch;

/// Events in the order of their ends; the order does not depend on the order of arrival.
#[derive(Debug)]
pub(crate) struct Timeline<T> {
    entries: VecDeque<Entry<T>>,
    /// The number of forgotten events: events are numbered in order from the first on.
    forgotten: u64,
    /// The numbers and starts of events that began before all later ones; both ascend.
    first_begun: VecDeque<(u64, Nanos)>,
    /// In `entries`, and in `first_begun`.
    near: (CachedSearch, CachedSearch),
}

/// An event with its span beside it. Many are examined for each one that is found.
#[derive(Debug)]
struct Entry<T> {
    span: TimeSpan,
    event: T,
}

impl<T: Span> Entry<T> {
    fn place(&self) -> (Nanos, Nanos, u64) {
        (self.span.end, self.span.start, self.event.tie())
    }
}

impl<T> Default for Timeline<T> {
    fn default() -> Self {
        let (entries, first_begun, near) = Default::default();
        Self { entries, forgotten: 0, first_begun, near }
    }
}

impl<T> Timeline<T> {
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Events that ended at or before `time`, latest first.
    pub(crate) fn ended_by(&self, time: Nanos) -> impl Iterator<Item = &T> {
        self.entries.range(..self.first_after(time)).rev().map(|entry| &entry.event)
    }

    /// Events that ended after `time`, earliest first.
    pub(crate) fn ended_after(&self, time: Nanos) -> impl Iterator<Item = &T> {
        self.entries.range(self.first_after(time)..).map(|entry| &entry.event)
    }

    /// Events that share more than a point with the stretch, ordered by their ends.
    pub(crate) fn overlapping(&self, TimeSpan { start, end }: TimeSpan) -> impl Iterator<Item = &T> {
        let first = self.first_after(start);
        let past = self.past_begun_before(end).max(first);
        self.entries.range(first..past).filter(move |entry| entry.span.start < end).map(|entry| &entry.event)
    }

    /// The index of the first event that ended after `time`.
    fn first_after(&self, time: Nanos) -> usize {
        self.near.0.partition_point(&self.entries, |entry| entry.span.end <= time)
    }

    /// The index after the last event that began before `time`.
    fn past_begun_before(&self, time: Nanos) -> usize {
        let begun = self.near.1.partition_point(&self.first_begun, |(_, start)| *start < time);
        let last = begun.checked_sub(1).and_then(|last| self.first_begun.get(last));
        last.map_or(0, |(number, _)| (number + 1 - self.forgotten) as usize)
    }

    /// Indexes the events from a position on, which are new or have new numbers.
    fn index(&mut self, from: usize) {
        let first = self.forgotten + from as u64;
        while self.first_begun.back().is_some_and(|(number, _)| *number >= first) {
            self.first_begun.pop_back();
        }
        for (number, entry) in (first..).zip(self.entries.range(from..)) {
            while self.first_begun.back().is_some_and(|(_, start)| *start >= entry.span.start) {
                self.first_begun.pop_back();
            }
            self.first_begun.push_back((number, entry.span.start));
        }
    }

    pub(crate) fn forget(&mut self, horizon: Nanos) {
        self.forgotten += forget_first(&mut self.entries, |entry| entry.span.end < horizon);
        let forgotten = self.forgotten;
        forget_first(&mut self.first_begun, |(number, _)| *number < forgotten);
    }
}

impl<T: Span> Timeline<T> {
    pub(crate) fn insert(&mut self, event: T) {
        let at = insert_sorted(&mut self.entries, Entry { span: event.span(), event }, Entry::place);
        self.index(at);
    }

    /// Removes the first event that matches.
    pub(crate) fn take(&mut self, is_it: impl Fn(&T) -> bool) -> Option<T> {
        let at = self.entries.iter().position(|entry| is_it(&entry.event))?;
        let taken = self.entries.remove(at)?;
        // It may have kept events before it out of the index by lasting longer.
        self.first_begun.clear();
        self.index(0);
        Some(taken.event)
    }
}

/// Inserts an element behind all that are not greater, and returns its index.
/// The element mostly belongs at the end.
pub(crate) fn insert_sorted<T, K: PartialOrd>(of: &mut VecDeque<T>, new: T, key: impl Fn(&T) -> K) -> usize {
    let later = of.iter().rev().take_while(|entry| key(entry) > key(&new)).count();
    let at = of.len() - later;
    of.insert(at, new);
    at
}

/// Drops elements from the front while they are old; returns their number.
pub(crate) fn forget_first<T>(of: &mut VecDeque<T>, is_old: impl Fn(&T) -> bool) -> u64 {
    let before = of.len();
    while of.front().is_some_and(&is_old) {
        of.pop_front();
    }
    (before - of.len()) as u64
}

/// Timelines by a key: a thread, a device, a connection.
#[derive(Debug)]
pub(crate) struct Timelines<K, T> {
    timelines: HashMap<K, Timeline<T>, RandomState>,
    /// The timeline of a key without events.
    nothing: Timeline<T>,
}

impl<K, T> Default for Timelines<K, T> {
    fn default() -> Self {
        Self { timelines: HashMap::default(), nothing: Timeline::default() }
    }
}

impl<K: Eq + Hash, T> Timelines<K, T> {
    pub(crate) fn of(&self, key: &K) -> &Timeline<T> {
        self.timelines.get(key).unwrap_or(&self.nothing)
    }

    pub(crate) fn has(&self, key: &K) -> bool {
        self.timelines.contains_key(key)
    }

    /// The timelines of all keys, in no order.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Timeline<T>> {
        self.timelines.values()
    }

    /// The number of events.
    pub(crate) fn len(&self) -> usize {
        self.all().map(Timeline::len).sum()
    }

    pub(crate) fn forget(&mut self, horizon: Nanos) {
        self.timelines.retain(|_, timeline| {
            timeline.forget(horizon);
            !timeline.is_empty()
        });
    }
}

impl<K: Clone + Eq + Hash, T: Span> Timelines<K, T> {
    pub(crate) fn insert(&mut self, key: &K, event: T) {
        match self.timelines.get_mut(key) {
            Some(timeline) => timeline.insert(event),
            None => self.of_mut(key).insert(event),
        }
    }

    pub(crate) fn of_mut(&mut self, key: &K) -> &mut Timeline<T> {
        self.timelines.entry(key.clone()).or_default()
    }
}

/// Stretches no further apart than this belong together.
const MAX_GAP: Nanos = Nanos::from_millis(1_000);

/// Disjoint episodes, in order.
#[derive(Debug, Default)]
pub(crate) struct Episodes(VecDeque<TimeSpan>);

impl Episodes {
    /// Adds a stretch of the trouble.
    pub(crate) fn add(&mut self, TimeSpan { start, end }: TimeSpan) {
        let mut whole = TimeSpan::new(start, end.max(start));
        let first = self.0.partition_point(|episode| episode.end + MAX_GAP < whole.start);
        while let Some(&next) = self.0.get(first).filter(|next| next.start <= whole.end + MAX_GAP) {
            whole = TimeSpan::new(whole.start.min(next.start), whole.end.max(next.end));
            self.0.remove(first);
        }
        self.0.insert(first, whole);
    }

    /// When the episode that includes the stretch began.
    pub(crate) fn began(&self, TimeSpan { start, end }: TimeSpan) -> Option<Nanos> {
        let at = self.0.partition_point(|episode| episode.end < start);
        self.0.get(at).filter(|episode| episode.start <= end).map(|episode| episode.start)
    }

    /// Drops episodes that ended before `horizon`; returns whether any is left.
    pub(crate) fn forget(&mut self, horizon: Nanos) -> bool {
        forget_first(&mut self.0, |episode| episode.end < horizon);
        !self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use model::{Loss, LossKind, Nanos};
    use proptest::prelude::*;

    use super::{Episodes, MAX_GAP, Timeline};
    use crate::time::TimeSpan;

    fn event(start: i64, length: i64) -> Loss {
        let (start, end) = (Nanos(start), Nanos(start + length));
        Loss { start, end, kind: LossKind::EventsDropped, count: 1, detail: "".into() }
    }

    fn spans<'e>(events: impl Iterator<Item = &'e Loss>) -> Vec<(i64, i64)> {
        events.map(|event| (event.end.0, event.start.0)).collect()
    }

    proptest! {
        /// Compares with a search of all events, in any order of arrival and removal.
        #[test]
        fn timeline_queries_match_an_exhaustive_search(
            events in proptest::collection::vec((0_i64..60, 0_i64..30), 0..40),
            taken in proptest::collection::vec(0_i64..60, 0..4),
            horizons in proptest::collection::vec(0_i64..60, 0..3),
            queries in proptest::collection::vec((0_i64..80, 0_i64..80), 1..8),
        ) {
            let mut timeline = Timeline::default();
            let mut expected: Vec<(i64, i64)> = Vec::new();
            let mut horizons = horizons.into_iter();
            for (number, &(start, length)) in events.iter().enumerate() {
                timeline.insert(event(start, length));
                expected.push((start + length, start));
                expected.sort_unstable();
                if number % 10 == 9 {
                    let horizon = horizons.next().unwrap_or_default();
                    timeline.forget(Nanos(horizon));
                    // From the front, while all ended before it.
                    let expired = expected.iter().take_while(|(end, _)| *end < horizon).count();
                    expected.drain(..expired);
                }
            }
            for start in taken {
                let at = expected.iter().position(|(_, begun)| *begun == start).map(|at| expected.remove(at));
                let found = timeline.take(|event| event.start.0 == start);
                prop_assert_eq!(found.map(|event| (event.end.0, event.start.0)), at);
            }
            prop_assert_eq!((timeline.len(), timeline.is_empty()), (expected.len(), expected.is_empty()));
            for (start, end) in queries {
                let shares = expected.iter().filter(|(until, from)| *until > start && *from < end).copied();
                prop_assert_eq!(spans(timeline.overlapping(TimeSpan::new(Nanos(start), Nanos(end)))), shares.collect::<Vec<_>>());
                let after = expected.iter().filter(|(until, _)| *until > start).copied();
                prop_assert_eq!(spans(timeline.ended_after(Nanos(start))), after.collect::<Vec<_>>());
                let by = expected.iter().rev().filter(|(until, _)| *until <= start).copied();
                prop_assert_eq!(spans(timeline.ended_by(Nanos(start))), by.collect::<Vec<_>>());
            }
        }
    }

    fn ms(n: i64) -> Nanos {
        Nanos::from_millis(n)
    }

    fn stretch(start: i64, end: i64) -> TimeSpan {
        TimeSpan::new(ms(start), ms(end))
    }

    #[test]
    fn close_spans_form_one_episode_with_a_stable_start() {
        let mut episodes = Episodes::default();
        for (start, end) in [(0, 100), (900, 1_500), (2_500, 2_600), (9_000, 9_100)] {
            episodes.add(stretch(start, end));
        }
        assert_eq!(episodes.began(stretch(2_550, 2_560)), Some(ms(0)));
        assert_eq!(episodes.began(stretch(9_050, 9_200)), Some(ms(9_000)));
        assert_eq!(episodes.began(stretch(5_000, 5_100)), None);
        assert!(episodes.forget(ms(2_000)));
        assert_eq!(episodes.began(stretch(2_550, 2_560)), Some(ms(0)), "it is not over");
        assert!(episodes.forget(ms(5_000)));
        assert_eq!(episodes.began(stretch(2_550, 2_560)), None);
    }

    proptest! {
        /// Compares with a model that marks every millisecond, in any order of arrival.
        #[test]
        fn arrival_order_does_not_change_episodes(spans in proptest::collection::vec((0_i64..9_000, 0_i64..900), 0..20)) {
            let mut episodes = Episodes::default();
            for &(start, length) in &spans {
                episodes.add(stretch(start, start + length));
            }
            let mut sorted = spans.clone();
            sorted.sort_unstable();
            let mut expected: Vec<TimeSpan> = Vec::new();
            for (start, length) in sorted {
                let span = stretch(start, start + length);
                match expected.last_mut().filter(|last| span.start <= last.end + MAX_GAP) {
                    Some(last) => last.end = last.end.max(span.end),
                    None => expected.push(span),
                }
            }
            prop_assert_eq!(episodes.0.into_iter().collect::<Vec<_>>(), expected);
        }
    }
}
