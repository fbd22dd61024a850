//! A map with a bounded number of groups; further keys share one group per kind. Does not know what a group
//! counts.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;

/// Groups by key (`K`) and by a few kinds (`S`). The kinds also distinguish the groups of further keys.
#[derive(Clone, Debug)]
pub struct BoundedMap<K, S, V> {
    groups: HashMap<(K, S), V>,
    others: HashMap<S, V>,
    /// Number of groups of each kind: many of one must not displace another.
    counts: HashMap<S, usize>,
    len: usize,
    max: usize,
}

impl<K: Eq + Hash, S: Copy + Eq + Hash, V: Default> BoundedMap<K, S, V> {
    /// Creates a map of at most `max` groups of each kind and twice as many in all. The shared ones do not count.
    pub fn new(max: usize) -> Self {
        Self { groups: HashMap::new(), others: HashMap::new(), counts: HashMap::new(), len: 0, max }
    }

    /// The group of a key, or the shared group of its kind if there are too many.
    pub fn of(&mut self, who: K, kind: S) -> &mut V {
        match self.groups.entry((who, kind)) {
            Entry::Occupied(group) => group.into_mut(),
            Entry::Vacant(place) => {
                let count = self.counts.entry(kind).or_default();
                if *count >= self.max || self.len >= self.max.saturating_mul(2) {
                    return self.others.entry(kind).or_default();
                }
                *count += 1;
                self.len += 1;
                place.insert(V::default())
            }
        }
    }

    /// Every group; the shared ones have no key.
    pub fn into_groups(self) -> impl Iterator<Item = (Option<K>, S, V)> {
        let named = self.groups.into_iter().map(|((who, kind), group)| (Some(who), kind, group));
        named.chain(self.others.into_iter().map(|(kind, group)| (None, kind, group)))
    }
}

#[cfg(test)]
mod tests {
    use super::BoundedMap;

    #[test]
    fn keys_beyond_the_limit_share_a_group_per_kind() {
        let mut bounded = BoundedMap::<u32, char, u32>::new(2);
        for (who, kind) in [(1, 'p'), (2, 'p'), (3, 'p'), (4, 'f'), (1, 'p'), (5, 'p'), (4, 'f'), (6, 'f')] {
            *bounded.of(who, kind) += 1;
        }
        // All four groups exist.
        *bounded.of(7, 'm') += 1;
        let mut groups = bounded.into_groups().collect::<Vec<_>>();
        groups.sort_unstable();
        let named = [(Some(1), 'p', 2), (Some(2), 'p', 1), (Some(4), 'f', 2), (Some(6), 'f', 1)];
        assert_eq!(groups, [[(None, 'm', 1), (None, 'p', 2)].as_slice(), &named].concat());
    }
}
