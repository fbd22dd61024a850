//! A bounded table of values by key that evicts the least recently used.
//! Does not know what it holds. The memory of slots is not freed.

use std::collections::HashMap;
use std::hash::Hash;

use ahash::RandomState;

const NOWHERE: usize = usize::MAX;

/// Slots, listed from the most recently used (`newest`) to the least (`oldest`).
pub(crate) struct Table<K, V> {
    slots: Vec<Slot<K, V>>,
    by_key: HashMap<K, usize, RandomState>,
    newest: usize,
    oldest: usize,
    limit: usize,
}

struct Slot<K, V> {
    key: K,
    value: V,
    newer: usize,
    older: usize,
}

impl<K: Copy + Eq + Hash, V> Table<K, V> {
    /// The maximum memory of a value with its key: the list and the map double as they grow.
    pub(crate) const ENTRY_BYTES: usize = 2 * (size_of::<Slot<K, V>>() + size_of::<(K, usize)>());

    pub(crate) fn new(limit: usize) -> Self {
        Self {
            slots: Vec::new(),
            by_key: HashMap::default(),
            newest: NOWHERE,
            oldest: NOWHERE,
            limit: limit.max(1),
        }
    }

    /// Looks up a key and makes it the most recently used. Repeating the last lookup needs no hashing.
    pub(crate) fn touch(&mut self, key: &K) -> Option<&mut V> {
        let last = self.newest;
        if self.slots.get(last).is_none_or(|slot| slot.key != *key) {
            let index = *self.by_key.get(key)?;
            self.unlink(index);
            self.link_as_newest(index);
        }
        self.slots.get_mut(self.newest).map(|slot| &mut slot.value)
    }

    /// Looks up a key without making it more recently used.
    pub(crate) fn peek(&mut self, key: &K) -> Option<&mut V> {
        let is_newest = self.slots.get(self.newest).is_some_and(|slot| slot.key == *key);
        let index = if is_newest { self.newest } else { *self.by_key.get(key)? };
        self.slots.get_mut(index).map(|slot| &mut slot.value)
    }

    /// Adds a value under a key that is not in the table; returns the evicted value.
    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        if self.slots.len() < self.limit {
            let index = self.slots.len();
            self.slots.push(Slot { key, value, newer: NOWHERE, older: NOWHERE });
            self.by_key.insert(key, index);
            self.link_as_newest(index);
            return None;
        }
        let index = self.oldest;
        self.unlink(index);
        let slot = self.slots.get_mut(index)?;
        let old_key = std::mem::replace(&mut slot.key, key);
        let old = std::mem::replace(&mut slot.value, value);
        self.by_key.remove(&old_key);
        self.by_key.insert(key, index);
        self.link_as_newest(index);
        Some(old)
    }

    /// Removes the value of a key.
    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        let index = self.by_key.remove(key)?;
        self.unlink(index);
        let slot = self.slots.swap_remove(index);
        // The last slot has moved into its place.
        if let Some(moved) = self.slots.get(index) {
            let (key, newer, older) = (moved.key, moved.newer, moved.older);
            self.by_key.insert(key, index);
            self.set_neighbours((newer, index), (older, index));
        }
        Some(slot.value)
    }

    /// The least recently used value, which stays so.
    pub(crate) fn oldest(&mut self) -> Option<(K, &mut V)> {
        self.slots.get_mut(self.oldest).map(|slot| (slot.key, &mut slot.value))
    }

    /// Removes the least recently used value.
    pub(crate) fn remove_oldest(&mut self) -> Option<V> {
        let key = self.slots.get(self.oldest)?.key;
        self.remove(&key)
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.slots.iter_mut().map(|slot| &mut slot.value)
    }

    fn unlink(&mut self, index: usize) {
        let Some(slot) = self.slots.get(index) else { return };
        let (newer, older) = (slot.newer, slot.older);
        self.set_neighbours((newer, older), (older, newer));
    }

    /// Links two slots: sets the first one's older and the second one's newer neighbour.
    fn set_neighbours(&mut self, (newer, its_older): (usize, usize), (older, its_newer): (usize, usize)) {
        match self.slots.get_mut(newer) {
            Some(slot) => slot.older = its_older,
            None => self.newest = its_older,
        }
        match self.slots.get_mut(older) {
            Some(slot) => slot.newer = its_newer,
            None => self.oldest = its_newer,
        }
    }

    fn link_as_newest(&mut self, index: usize) {
        let second = self.newest;
        if let Some(slot) = self.slots.get_mut(index) {
            slot.newer = NOWHERE;
            slot.older = second;
        }
        match self.slots.get_mut(second) {
            Some(slot) => slot.newer = index,
            None => self.oldest = index,
        }
        self.newest = index;
    }
}

#[cfg(test)]
mod tests {
    use super::Table;

    #[test]
    fn evicts_the_least_recently_used() {
        let mut table = Table::new(3);
        for key in 1..=3 {
            assert_eq!(table.insert(key, key * 10), None);
        }
        assert_eq!(table.touch(&1), Some(&mut 10));
        assert_eq!(table.insert(4, 40), Some(20));
        assert_eq!(table.touch(&2), None);
        assert_eq!(table.touch(&3), Some(&mut 30));
        assert_eq!(table.touch(&3), Some(&mut 30));
        assert_eq!(table.insert(5, 50), Some(10));
        assert_eq!(table.insert(6, 60), Some(40));
        assert_eq!(table.insert(7, 70), Some(30));
        let mut left: Vec<i32> = table.values_mut().map(|value| *value).collect();
        left.sort_unstable();
        assert_eq!(left, [50, 60, 70]);
    }

    #[test]
    fn remove_preserves_the_order_of_the_others() {
        let mut table = Table::new(4);
        for key in 1..=4 {
            table.insert(key, key * 10);
        }
        assert_eq!((table.remove(&2), table.remove(&2)), (Some(20), None));
        assert_eq!(table.insert(5, 50), None);
        assert_eq!(table.touch(&1), Some(&mut 10));
        assert_eq!(table.insert(6, 60), Some(30), "the oldest");
        assert_eq!(table.touch(&4), Some(&mut 40));
        let left: Vec<i32> = std::iter::from_fn(|| table.remove_oldest()).collect();
        assert_eq!(left, [50, 10, 60, 40]);
        assert_eq!(table.insert(7, 70), None);
        assert_eq!(table.touch(&7), Some(&mut 70));
    }

    #[test]
    fn limit_of_zero_holds_one_entry() {
        let mut table = Table::new(0);
        assert_eq!(table.insert('a', 1), None);
        assert_eq!(table.insert('b', 2), Some(1));
        assert_eq!(table.touch(&'a'), None);
        assert_eq!(table.touch(&'b'), Some(&mut 2));
    }
}
