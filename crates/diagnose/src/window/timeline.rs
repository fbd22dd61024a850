//! Events in the order of their ends with an index for overlaps, and episodes of the same trouble.
//!
//! The index is of the events that began before everything that ended after them: what comes after the last of these
//! that began before the end of a stretch, began after it. So a look-up costs as much as it finds.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

use ahash::RandomState;
use model::Nanos;

use crate::time::{Span, TimeSpan};
use crate::window::search::CachedSearch;

/// Events in the order of their ends; the order does not depend on how they came.
#[derive(Debug)]
pub(crate) struct Timeline<T> {
    kept: VecDeque<Entry<T>>,
    /// How many have been forgotten: events are numbered in their order from the first on.
    forgotten: u64,
    /// The numbers and starts of those that began before all that ended after them; both ascend.
    first_begun: VecDeque<(u64, Nanos)>,
    /// In `kept`, and in `first_begun`.
    near: (CachedSearch, CachedSearch),
}

/// An event with its ends beside it: many are looked at for one that is found.
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
        let (kept, first_begun, near) = Default::default();
        Self { kept, forgotten: 0, first_begun, near }
    }
}

impl<T> Timeline<T> {
    pub(crate) fn len(&self) -> usize {
        self.kept.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// What ended at or before `time`, latest first.
    pub(crate) fn ended_by(&self, time: Nanos) -> impl Iterator<Item = &T> {
        self.kept.range(..self.first_after(time)).rev().map(|kept| &kept.event)
    }

    /// What ended after `time`, earliest first.
    pub(crate) fn ended_after(&self, time: Nanos) -> impl Iterator<Item = &T> {
        self.kept.range(self.first_after(time)..).map(|kept| &kept.event)
    }

    /// What shares more than a point with the stretch, in the order of its ends.
    pub(crate) fn overlapping(&self, TimeSpan { start, end }: TimeSpan) -> impl Iterator<Item = &T> {
        let first = self.first_after(start);
        let past = self.past_begun_before(end).max(first);
        self.kept.range(first..past).filter(move |kept| kept.span.start < end).map(|kept| &kept.event)
    }

    /// The place of the first that ended after `time`.
    fn first_after(&self, time: Nanos) -> usize {
        self.near.0.partition_point(&self.kept, |kept| kept.span.end <= time)
    }

    /// The place after the last that began before `time`.
    fn past_begun_before(&self, time: Nanos) -> usize {
        let begun = self.near.1.partition_point(&self.first_begun, |(_, start)| *start < time);
        let last = begun.checked_sub(1).and_then(|last| self.first_begun.get(last));
        last.map_or(0, |(number, _)| (number + 1 - self.forgotten) as usize)
    }

    /// Indexes those from a place on, which are new or have new numbers.
    fn index(&mut self, from: usize) {
        let first = self.forgotten + from as u64;
        while self.first_begun.back().is_some_and(|(number, _)| *number >= first) {
            self.first_begun.pop_back();
        }
        for (number, kept) in (first..).zip(self.kept.range(from..)) {
            while self.first_begun.back().is_some_and(|(_, start)| *start >= kept.span.start) {
                self.first_begun.pop_back();
            }
            self.first_begun.push_back((number, kept.span.start));
        }
    }

    pub(crate) fn forget(&mut self, horizon: Nanos) {
        self.forgotten += forget_first(&mut self.kept, |kept| kept.span.end < horizon);
        let forgotten = self.forgotten;
        forget_first(&mut self.first_begun, |(number, _)| *number < forgotten);
    }
}

impl<T: Span> Timeline<T> {
    pub(crate) fn insert(&mut self, event: T) {
        let at = insert_sorted(&mut self.kept, Entry { span: event.span(), event }, Entry::place);
        self.index(at);
    }

    /// Takes out the first that is the one.
    pub(crate) fn take(&mut self, is_it: impl Fn(&T) -> bool) -> Option<T> {
        let at = self.kept.iter().position(|kept| is_it(&kept.event))?;
        let taken = self.kept.remove(at)?;
        // One that went on longer than those before it may have kept them out of the index.
        self.first_begun.clear();
        self.index(0);
        Some(taken.event)
    }
}

/// Inserts what mostly belongs at the end behind all that is not greater; where that was.
pub(crate) fn insert_sorted<T, K: PartialOrd>(of: &mut VecDeque<T>, new: T, key: impl Fn(&T) -> K) -> usize {
    let later = of.iter().rev().take_while(|kept| key(kept) > key(&new)).count();
    let at = of.len() - later;
    of.insert(at, new);
    at
}

/// Forgets the first as far as all before them are old; how many.
pub(crate) fn forget_first<T>(of: &mut VecDeque<T>, is_old: impl Fn(&T) -> bool) -> u64 {
    let kept = of.len();
    while of.front().is_some_and(&is_old) {
        of.pop_front();
    }
    (kept - of.len()) as u64
}

/// Timelines by a key: a thread, a device, a connection.
#[derive(Debug)]
pub(crate) struct Timelines<K, T> {
    timelines: HashMap<K, Timeline<T>, RandomState>,
    /// That of a key of which nothing is kept.
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

    /// Those of all keys, in no order.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Timeline<T>> {
        self.timelines.values()
    }

    /// How many events are kept.
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

/// Episodes, in order and apart from each other.
#[derive(Debug, Default)]
pub(crate) struct Episodes(VecDeque<TimeSpan>);

impl Episodes {
    /// Takes a stretch of the trouble.
    pub(crate) fn add(&mut self, TimeSpan { start, end }: TimeSpan) {
        let mut whole = TimeSpan::new(start, end.max(start));
        let first = self.0.partition_point(|episode| episode.end + MAX_GAP < whole.start);
        while let Some(&next) = self.0.get(first).filter(|next| next.start <= whole.end + MAX_GAP) {
            whole = TimeSpan::new(whole.start.min(next.start), whole.end.max(next.end));
            self.0.remove(first);
        }
        self.0.insert(first, whole);
    }

    /// When the episode began that the stretch is of.
    pub(crate) fn began(&self, TimeSpan { start, end }: TimeSpan) -> Option<Nanos> {
        let at = self.0.partition_point(|episode| episode.end < start);
        self.0.get(at).filter(|episode| episode.start <= end).map(|episode| episode.start)
    }

    /// Forgets those that ended before that; whether any is left.
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
        /// As looking at each says, in any order of arrival and removal.
        #[test]
        fn what_is_found_is_what_looking_at_each_finds(
            events in proptest::collection::vec((0_i64..60, 0_i64..30), 0..40),
            taken in proptest::collection::vec(0_i64..60, 0..4),
            horizons in proptest::collection::vec(0_i64..60, 0..3),
            asked in proptest::collection::vec((0_i64..80, 0_i64..80), 1..8),
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
                    // From the front on, as far as all ended before it.
                    let gone = expected.iter().take_while(|(end, _)| *end < horizon).count();
                    expected.drain(..gone);
                }
            }
            for start in taken {
                let at = expected.iter().position(|(_, begun)| *begun == start).map(|at| expected.remove(at));
                let found = timeline.take(|event| event.start.0 == start);
                prop_assert_eq!(found.map(|event| (event.end.0, event.start.0)), at);
            }
            prop_assert_eq!((timeline.len(), timeline.is_empty()), (expected.len(), expected.is_empty()));
            for (start, end) in asked {
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
    fn what_is_close_is_one_episode_whose_start_stays() {
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
        /// As a model that marks every millisecond says, in any order of arrival.
        #[test]
        fn the_order_of_arrival_changes_nothing(spans in proptest::collection::vec((0_i64..9_000, 0_i64..900), 0..20)) {
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
