//! Finds places in what is kept in order, near where something was found last: what is asked for one after the other lies close
//! together, and what was not looked at for a second is in no cache. Finds what `partition_point` finds.

use std::cell::Cell;
use std::collections::VecDeque;

/// Where it was found last.
#[derive(Debug, Default)]
pub(crate) struct CachedSearch(Cell<usize>);

impl CachedSearch {
    /// The place of the first for which `is_before` does not hold; it holds for all before that and for none behind.
    pub(crate) fn partition_point<T>(&self, of: &VecDeque<T>, is_before: impl Fn(&T) -> bool) -> usize {
        let is_before = |at: usize| of.get(at).is_some_and(&is_before);
        let near = self.0.get().min(of.len());
        let (mut from, mut until) = if near < of.len() && is_before(near) {
            ahead(near, of.len(), is_before)
        } else {
            behind(near, is_before)
        };
        while from < until {
            let middle = from + (until - from) / 2;
            if is_before(middle) {
                from = middle + 1;
            } else {
                until = middle;
            }
        }
        self.0.set(from);
        from
    }
}

/// The stretch that the place is in, ahead of one that is before it, in steps that double.
fn ahead(near: usize, len: usize, is_before: impl Fn(usize) -> bool) -> (usize, usize) {
    let (mut from, mut step) = (near + 1, 1);
    loop {
        let next = near.saturating_add(step).min(len);
        if next == len || !is_before(next) {
            return (from, next);
        }
        from = next + 1;
        step *= 2;
    }
}

/// The stretch that the place is in, behind one that is not before it.
fn behind(near: usize, is_before: impl Fn(usize) -> bool) -> (usize, usize) {
    let (mut until, mut step) = (near, 1);
    loop {
        let Some(next) = near.checked_sub(step) else { return (0, until) };
        if is_before(next) {
            return (next + 1, until);
        }
        until = next;
        step *= 2;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::CachedSearch;

    proptest! {
        /// Also where things came and went since it was asked last.
        #[test]
        fn what_is_found_is_what_a_search_of_all_finds(
            rounds in proptest::collection::vec((proptest::collection::vec(0_i64..40, 0..30), 0_usize..10, 0_i64..45), 1..12),
        ) {
            let near = CachedSearch::default();
            let mut kept = VecDeque::new();
            for (more, fewer, asked) in rounds {
                kept.extend(more);
                kept.make_contiguous().sort_unstable();
                kept.drain(..fewer.min(kept.len()));
                let found = near.partition_point(&kept, |value| *value < asked);
                prop_assert_eq!(found, kept.partition_point(|value| *value < asked));
            }
        }
    }
}
