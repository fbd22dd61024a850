//! Binary search that starts near the last result: consecutive searches are for places close together, and anything
//! that was not read for a second is in no CPU cache. Finds what `partition_point` finds.

use std::cell::Cell;
use std::collections::VecDeque;

/// The last result.
#[derive(Debug, Default)]
pub(crate) struct CachedSearch(Cell<usize>);

impl CachedSearch {
    /// The index of the first element for which `is_before` is false; it is true for all before that and false for
    /// all after.
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

/// The range of the result, ahead of an element that is before it. Searches in steps that double.
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

/// The range of the result, behind an element that is not before it.
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
        /// Also if elements came and went since the last search.
        #[test]
        fn cached_search_matches_a_full_binary_search(
            rounds in proptest::collection::vec((proptest::collection::vec(0_i64..40, 0..30), 0_usize..10, 0_i64..45), 1..12),
        ) {
            let near = CachedSearch::default();
            let mut values = VecDeque::new();
            for (more, fewer, bound) in rounds {
                values.extend(more);
                values.make_contiguous().sort_unstable();
                values.drain(..fewer.min(values.len()));
                let found = near.partition_point(&values, |value| *value < bound);
                prop_assert_eq!(found, values.partition_point(|value| *value < bound));
            }
        }
    }
}
