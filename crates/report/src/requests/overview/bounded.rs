//! A map that holds so many groups and puts what comes after them with the others. Does not know what a
//! group counts.

use std::collections::HashMap;
use std::hash::Hash;

/// Groups by who they are about (`K`) and by a few kinds (`S`) that the others are told apart by too.
#[derive(Clone, Debug)]
pub(super) struct Bounded<K, S, V> {
    groups: HashMap<(K, S), V>,
    others: HashMap<S, V>,
    most: usize,
}

impl<K: Eq + Hash, S: Copy + Eq + Hash, V: Default> Bounded<K, S, V> {
    /// At most so many groups, beside the others.
    pub(super) fn new(most: usize) -> Self {
        Self { groups: HashMap::new(), others: HashMap::new(), most }
    }

    /// The group that it belongs to.
    pub(super) fn of(&mut self, who: K, kind: S) -> &mut V {
        let full = self.groups.len() >= self.most;
        let key = (who, kind);
        if full && !self.groups.contains_key(&key) {
            return self.others.entry(kind).or_default();
        }
        self.groups.entry(key).or_default()
    }

    /// Every group, the others without a name.
    pub(super) fn into_groups(self) -> impl Iterator<Item = (Option<K>, S, V)> {
        let named = self.groups.into_iter().map(|((who, kind), group)| (Some(who), kind, group));
        named.chain(self.others.into_iter().map(|(kind, group)| (None, kind, group)))
    }
}

#[cfg(test)]
mod tests {
    use super::Bounded;

    #[test]
    fn what_comes_after_the_last_place_is_with_the_others_of_its_kind() {
        let mut bounded = Bounded::<u32, bool, u32>::new(2);
        for (who, kind) in [(1, true), (2, true), (3, true), (4, false), (1, true), (5, true)] {
            *bounded.of(who, kind) += 1;
        }
        let mut groups = bounded.into_groups().collect::<Vec<_>>();
        groups.sort_unstable();
        assert_eq!(groups, [(None, false, 1), (None, true, 2), (Some(1), true, 2), (Some(2), true, 1)]);
    }
}
