//! What was seen lately, to count or send each thing once. Bounded: the oldest are forgotten.

use std::collections::{HashSet, VecDeque};
use std::hash::Hash;

use ahash::RandomState;

/// The last so many different things.
#[derive(Debug)]
pub(crate) struct Recent<T> {
    known: HashSet<T, RandomState>,
    /// The same, the oldest first.
    order: VecDeque<T>,
    max: usize,
}

impl<T: Clone + Eq + Hash> Recent<T> {
    pub(crate) fn of_at_most(max: usize) -> Self {
        Self { known: HashSet::default(), order: VecDeque::new(), max }
    }

    /// Whether it was not seen lately; it is now.
    pub(crate) fn is_new(&mut self, one: &T) -> bool {
        if !self.known.insert(one.clone()) {
            return false;
        }
        self.order.push_back(one.clone());
        if self.order.len() > self.max {
            if let Some(oldest) = self.order.pop_front() {
                self.known.remove(&oldest);
            }
        }
        true
    }
}
