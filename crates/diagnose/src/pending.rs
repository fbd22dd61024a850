//! What waits until everything that bears on it has had time to arrive. Does not know when that is.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use model::Nanos;

/// What waits, the one that falls due first on top.
#[derive(Debug)]
pub(crate) struct Pending<T> {
    waiting: BinaryHeap<Reverse<Due<T>>>,
    pushed: u64,
}

#[derive(Debug)]
struct Due<T> {
    /// The number keeps ties in order.
    at: (Nanos, u64),
    what: T,
}

impl<T> Pending<T> {
    pub(crate) fn new() -> Self {
        Self { waiting: BinaryHeap::new(), pushed: 0 }
    }

    pub(crate) fn push(&mut self, due: Nanos, what: T) {
        self.pushed += 1;
        self.waiting.push(Reverse(Due { at: (due, self.pushed), what }));
    }

    /// Takes out the first, if it falls due by then.
    pub(crate) fn pop_due(&mut self, until: Nanos) -> Option<T> {
        self.waiting.peek().filter(|Reverse(first)| first.at.0 <= until)?;
        self.waiting.pop().map(|Reverse(first)| first.what)
    }
}

impl<T> PartialEq for Due<T> {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl<T> Eq for Due<T> {}

impl<T> PartialOrd for Due<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Due<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.at.cmp(&other.at)
    }
}
