//! A set of recent items, to count or send each one once. Bounded: the oldest are forgotten.

use std::collections::{HashSet, VecDeque};
use std::hash::Hash;

use ahash::RandomState;

/// The last `max` different items.
#[derive(Debug)]
pub(crate) struct Recent<T> {
    known: HashSet<T, RandomState>,
    /// The same items, the oldest first.
    order: VecDeque<T>,
    max: usize,
}

impl<T: Clone + Eq + Hash> Recent<T> {
    pub(crate) fn of_at_most(max: usize) -> Self {
        Self { known: HashSet::default(), order: VecDeque::new(), max }
    }

    /// Adds an item and returns whether it is new.
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
