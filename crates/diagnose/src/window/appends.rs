//! Appends by what identifies their batch, bounded by the window. Does not judge whether one fits.
//!
//! Every append of a broker passes through here, so neither insertion nor look-up allocates: an index leads to the
//! latest append with a key, and each append to the previous one with the same key. Most are found by their CRC: the
//! index by base offset is built on first use.

use std::cell::OnceCell;
use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::Arc;

use ahash::RandomState;
use model::{FileOp, Nanos};

use crate::time::Span;

/// What identifies the batch of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Keys {
    pub(crate) crc: u32,
    pub(crate) bytes: u32,
    pub(crate) base_offset: i64,
}

/// An append that can be found by its batch.
pub(crate) trait Append: Span {
    /// The keys of its batch; `None` without a batch head.
    fn keys(&self) -> Option<Keys>;
}

impl Append for Arc<FileOp> {
    fn keys(&self) -> Option<Keys> {
        self.batch.map(|batch| Keys { crc: batch.crc, bytes: batch.bytes, base_offset: batch.base_offset })
    }
}

/// Appends with a batch head, oldest first. Numbered in the order in which they came.
#[derive(Debug)]
pub(crate) struct Appends<T> {
    entries: VecDeque<Entry<T>>,
    /// The number of the first one kept.
    forgotten: u64,
    by_crc: HashMap<u32, u64, RandomState>,
    by_base_offset: OnceCell<Offsets>,
}

#[derive(Debug)]
struct Entry<T> {
    append: T,
    /// The previous one with the same CRC.
    same_crc: Option<u64>,
    /// The last end of it and of those before it with the same CRC.
    last_end: Nanos,
}

/// Appends by their base offsets.
#[derive(Debug, Default)]
struct Offsets {
    latest: HashMap<i64, u64, RandomState>,
    /// For each kept append, the previous one with the same base offset.
    before: VecDeque<Option<u64>>,
}

impl Offsets {
    fn push(&mut self, offset: i64, number: u64) {
        self.before.push_back(self.latest.insert(offset, number));
    }
}

impl<T> Default for Appends<T> {
    fn default() -> Self {
        let (by_crc, by_base_offset) = Default::default();
        Self { entries: VecDeque::new(), forgotten: 0, by_crc, by_base_offset }
    }
}

impl<T: Append> Appends<T> {
    /// Takes an append.
    pub(crate) fn insert(&mut self, append: T) {
        let Some(Keys { crc, base_offset, .. }) = append.keys() else { return };
        let number = self.forgotten + self.entries.len() as u64;
        let same_crc = self.by_crc.insert(crc, number);
        if let Some(offsets) = self.by_base_offset.get_mut() {
            offsets.push(base_offset, number);
        }
        let before = same_crc.and_then(|number| self.at(number)).map(|before| before.last_end);
        let last_end = before.map_or(append.span().end, |before| before.max(append.span().end));
        self.entries.push_back(Entry { append, same_crc, last_end });
    }

    /// Appends with a batch of this CRC, the latest first. Ends when none that is left ended at `since` or later.
    pub(crate) fn by_crc(&self, crc: u32, since: Nanos) -> impl Iterator<Item = &T> {
        let first = self.by_crc.get(&crc).and_then(|&number| self.at(number));
        std::iter::successors(first, |later| self.at(later.same_crc?))
            .take_while(move |entry| entry.last_end >= since)
            .map(|entry| &entry.append)
    }

    /// Appends with a batch of this base offset, the latest first.
    pub(crate) fn by_base_offset(&self, offset: i64) -> impl Iterator<Item = &T> {
        let offsets = self.by_base_offset.get_or_init(|| self.offsets());
        let before = move |number: u64| *offsets.before.get(self.place(number)?)?;
        std::iter::successors(offsets.latest.get(&offset).copied(), move |&later| before(later))
            .map_while(|number| self.at(number))
            .map(|entry| &entry.append)
    }

    #[expect(clippy::expect_used, reason = "`insert` stores only appends with a batch head")]
    fn offsets(&self) -> Offsets {
        let mut offsets = Offsets::default();
        for (number, entry) in (self.forgotten..).zip(&self.entries) {
            let keys = entry.append.keys().expect("an append without a batch head is not stored");
            offsets.push(keys.base_offset, number);
        }
        offsets
    }

    /// Drops appends that ended before `horizon`.
    #[expect(clippy::expect_used, reason = "`insert` stores only appends with a batch head")]
    pub(crate) fn forget(&mut self, horizon: Nanos) {
        while let Some(first) = self.entries.front().filter(|first| first.append.span().end < horizon) {
            let keys = first.append.keys().expect("an append without a batch head is not stored");
            forget(&mut self.by_crc, &keys.crc, self.forgotten);
            if let Some(offsets) = self.by_base_offset.get_mut() {
                forget(&mut offsets.latest, &keys.base_offset, self.forgotten);
                offsets.before.pop_front();
            }
            self.entries.pop_front();
            self.forgotten += 1;
        }
    }

    fn at(&self, number: u64) -> Option<&Entry<T>> {
        self.entries.get(self.place(number)?)
    }

    fn place(&self, number: u64) -> Option<usize> {
        usize::try_from(number.checked_sub(self.forgotten)?).ok()
    }
}

/// Removes an append's key, unless a later append has the same.
fn forget<K: Hash + Eq>(index: &mut HashMap<K, u64, RandomState>, key: &K, number: u64) {
    if index.get(key) == Some(&number) {
        index.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use model::Nanos;
    use proptest::prelude::*;

    use super::{Append, Appends, Keys};
    use crate::time::{Span, TimeSpan};

    #[derive(Clone, Copy, Debug, PartialEq)]
    struct NumberedAppend(i64, i64);

    impl Span for NumberedAppend {
        fn span(&self) -> TimeSpan {
            TimeSpan::new(Nanos(self.0), Nanos(self.0))
        }
    }

    impl Append for NumberedAppend {
        fn keys(&self) -> Option<Keys> {
            Some(Keys { crc: 0, bytes: 0, base_offset: self.1 })
        }
    }

    proptest! {
        /// Whenever the index is first used, and in any order of arrival.
        #[test]
        fn by_base_offset_lists_the_latest_append_first(
            offsets in proptest::collection::vec(0_i64..4, 0..40),
            asked in proptest::collection::vec(any::<bool>(), 40),
            forgotten in 0_i64..40,
        ) {
            let mut appends = Appends::default();
            let mut expected: Vec<NumberedAppend> = Vec::new();
            for (number, (offset, asked)) in offsets.into_iter().zip(asked).enumerate() {
                let seen = NumberedAppend(number as i64, offset);
                appends.insert(seen);
                expected.push(seen);
                if number % 10 == 9 {
                    appends.forget(Nanos(forgotten));
                    expected.retain(|seen| seen.0 >= forgotten);
                }
                for offset in (0..5).filter(|_| asked) {
                    let found: Vec<NumberedAppend> = appends.by_base_offset(offset).copied().collect();
                    let of_it = expected.iter().rev().filter(|seen| seen.1 == offset).copied();
                    prop_assert_eq!(found, of_it.collect::<Vec<_>>());
                }
            }
        }
    }
}
