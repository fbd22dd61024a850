//! The slowest of many items, slowest first: a fixed number, however long the input. Does not know what they
//! are.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use model::Nanos;

/// Holds the slowest items; by default none.
pub struct Slowest<T> {
    max: usize,
    held: BinaryHeap<Reverse<Entry<T>>>,
    offers: u64,
}

/// An item by its latency; of two equally slow ones the earlier ranks higher.
struct Entry<T> {
    latency: Nanos,
    nth: Reverse<u64>,
    item: T,
}

impl<T> Default for Slowest<T> {
    fn default() -> Self {
        Self::new(0)
    }
}

impl<T> Slowest<T> {
    /// Holds at most `max` items.
    pub fn new(max: usize) -> Self {
        Self { max, held: BinaryHeap::new(), offers: 0 }
    }

    /// Number of items held.
    pub fn count(&self) -> u64 {
        self.held.len() as u64
    }

    /// Offers an item; `item` creates it only if it is among the slowest so far.
    pub fn offer(&mut self, latency: Nanos, item: impl FnOnce() -> T) {
        self.offers += 1;
        let full = self.held.len() >= self.max;
        if full && self.held.peek().is_none_or(|Reverse(fastest)| fastest.latency >= latency) {
            return;
        }
        if full {
            self.held.pop();
        }
        self.held.push(Reverse(Entry { latency, nth: Reverse(self.offers), item: item() }));
    }

    /// The items held, slowest first.
    pub fn sorted(&self) -> Vec<&T> {
        let mut ranked: Vec<&Reverse<Entry<T>>> = self.held.iter().collect();
        ranked.sort();
        ranked.iter().map(|Reverse(ranked)| &ranked.item).collect()
    }

    /// Takes the items held, slowest first.
    pub fn take(&mut self) -> impl Iterator<Item = T> + use<T> {
        let held = std::mem::take(&mut self.held);
        held.into_sorted_vec().into_iter().map(|Reverse(ranked)| ranked.item)
    }
}

impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.latency, self.nth).cmp(&(other.latency, other.nth))
    }
}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<T> Eq for Entry<T> {}

#[cfg(test)]
mod tests {
    use super::Slowest;
    use model::Nanos;

    #[test]
    fn orders_by_latency_and_ties_by_arrival() {
        let mut slowest = Slowest::new(3);
        for (name, latency) in [('a', 1), ('b', 5), ('c', 3), ('d', 5), ('e', 2), ('f', 3)] {
            slowest.offer(Nanos(latency), || name);
        }
        assert_eq!(slowest.count(), 3);
        assert_eq!(slowest.take().collect::<String>(), "bdc");
    }
}
