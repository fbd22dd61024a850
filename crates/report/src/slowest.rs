//! The slowest of many, slowest first: as many as were asked for, however long the input. Does
//! not know what they are.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use model::Nanos;

/// Holds the slowest; by default none.
pub struct Slowest<T> {
    most: usize,
    held: BinaryHeap<Reverse<Entry<T>>>,
    offered: u64,
}

/// One by its latency; of two equally slow ones the earlier ranks higher.
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
    /// At most so many.
    pub fn new(most: usize) -> Self {
        Self { most, held: BinaryHeap::new(), offered: 0 }
    }

    /// How many are held.
    pub fn held(&self) -> u64 {
        self.held.len() as u64
    }

    /// Offers one; it is made only if it is among the slowest so far.
    pub fn offer(&mut self, latency: Nanos, item: impl FnOnce() -> T) {
        self.offered += 1;
        let full = self.held.len() >= self.most;
        if full && self.held.peek().is_none_or(|Reverse(fastest)| fastest.latency >= latency) {
            return;
        }
        if full {
            self.held.pop();
        }
        self.held.push(Reverse(Entry { latency, nth: Reverse(self.offered), item: item() }));
    }

    /// Those held, slowest first; they stay.
    pub fn sorted(&self) -> Vec<&T> {
        let mut ranked: Vec<&Reverse<Entry<T>>> = self.held.iter().collect();
        ranked.sort();
        ranked.iter().map(|Reverse(ranked)| &ranked.item).collect()
    }

    /// Those held, slowest first; none stay.
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
    fn the_slowest_come_first_and_of_equals_the_earliest() {
        let mut slowest = Slowest::new(3);
        for (name, latency) in [('a', 1), ('b', 5), ('c', 3), ('d', 5), ('e', 2), ('f', 3)] {
            slowest.offer(Nanos(latency), || name);
        }
        assert_eq!(slowest.held(), 3);
        assert_eq!(slowest.take().collect::<String>(), "bdc");
    }
}
