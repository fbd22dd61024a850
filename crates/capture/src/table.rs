//! A bounded table of values by key, the least recently used one giving way. Does not know what it
//! holds, and never shrinks: a slot is reused, not freed.

use std::collections::HashMap;
use std::hash::Hash;

use ahash::RandomState;

const NOWHERE: usize = usize::MAX;

/// Slots form a list from the most recently used (`newest`) to the least (`oldest`).
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
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            slots: Vec::new(),
            by_key: HashMap::default(),
            newest: NOWHERE,
            oldest: NOWHERE,
            limit: limit.max(1),
        }
    }

    /// The value of a key, which thereby becomes the most recently used. Asking again for the key just
    /// used costs no hashing.
    pub(crate) fn touch(&mut self, key: &K) -> Option<&mut V> {
        let last = self.newest;
        if self.slots.get(last).is_none_or(|slot| slot.key != *key) {
            let index = *self.by_key.get(key)?;
            self.unlink(index);
            self.link_as_newest(index);
        }
        self.slots.get_mut(self.newest).map(|slot| &mut slot.value)
    }

    /// The value of a key, which thereby does not become more recently used.
    pub(crate) fn peek(&mut self, key: &K) -> Option<&mut V> {
        let index = *self.by_key.get(key)?;
        self.slots.get_mut(index).map(|slot| &mut slot.value)
    }

    /// Puts a value under a key that is not in the table; returns the value that gave way.
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

    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.slots.iter().map(|slot| &slot.value)
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.slots.iter_mut().map(|slot| &mut slot.value)
    }

    fn unlink(&mut self, index: usize) {
        let Some(slot) = self.slots.get(index) else { return };
        let (newer, older) = (slot.newer, slot.older);
        match self.slots.get_mut(newer) {
            Some(slot) => slot.older = older,
            None => self.newest = older,
        }
        match self.slots.get_mut(older) {
            Some(slot) => slot.newer = newer,
            None => self.oldest = newer,
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
    fn the_least_recently_used_gives_way() {
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
        let mut left: Vec<i32> = table.values().copied().collect();
        left.sort_unstable();
        assert_eq!(left, [50, 60, 70]);
    }

    #[test]
    fn a_table_of_one_holds_the_last() {
        let mut table = Table::new(0);
        assert_eq!(table.insert('a', 1), None);
        assert_eq!(table.insert('b', 2), Some(1));
        assert_eq!(table.touch(&'a'), None);
        assert_eq!(table.touch(&'b'), Some(&mut 2));
    }
}
