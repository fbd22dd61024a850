//! Topic names by id. Does not know where they come from.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use ahash::RandomState;
use model::TopicId;

/// Memory of a name besides its bytes: its reference counts, and a map entry; the map doubles as it grows.
const NAME_BYTES: usize = 80;
/// Memory of a name with an id, which has an entry too.
const TOPIC_BYTES: usize = 160;

/// Topic names, each stored once, and their ids.
pub(crate) struct Topics {
    by_id: HashMap<TopicId, Arc<str>>,
    names: HashSet<Arc<str>, RandomState>,
    /// Bytes of learned names, of shared names, and the limit for each.
    learned_bytes: usize,
    shared_bytes: usize,
    max_bytes: usize,
}

impl Topics {
    /// The names known in advance, and room for `max_bytes` of others.
    pub(crate) fn new(by_id: HashMap<TopicId, Arc<str>>, max_bytes: usize) -> Self {
        Self { by_id, names: HashSet::default(), learned_bytes: 0, shared_bytes: 0, max_bytes: max_bytes / 2 }
    }

    /// Adds a topic's name, if there is room. The name of an id never changes, so the first one stays.
    pub(crate) fn learn(&mut self, id: TopicId, name: &str) {
        let bytes = self.learned_bytes + TOPIC_BYTES + name.len();
        if bytes <= self.max_bytes && self.add(id, name) {
            self.learned_bytes = bytes;
        }
    }

    /// Adds a topic's name regardless of the limit; returns whether it is new. For names such as those on the broker's
    /// own disk.
    pub(crate) fn add(&mut self, id: TopicId, name: &str) -> bool {
        let is_new = id != TopicId::ZERO && !self.by_id.contains_key(&id);
        if is_new {
            let name = self.shared(name);
            self.by_id.insert(id, name);
        }
        is_new
    }

    pub(crate) fn name_of(&self, id: TopicId) -> Option<&Arc<str>> {
        self.by_id.get(&id)
    }

    /// The one shared copy of a name. Beyond the limit, sharing starts over; copies in use are unaffected.
    pub(crate) fn shared(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.names.get(name) {
            return known.clone();
        }
        let name: Arc<str> = name.into();
        self.shared_bytes += NAME_BYTES + name.len();
        if self.shared_bytes > self.max_bytes {
            self.names.clear();
            self.shared_bytes = NAME_BYTES + name.len();
        }
        self.names.insert(name.clone());
        name
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::{TOPIC_BYTES, TopicId, Topics};

    #[test]
    fn learned_names_are_bounded_and_added_ones_always_known() {
        let id = |n: u8| TopicId([n; 16]);
        let mut topics = Topics::new(HashMap::new(), 2 * 3 * (TOPIC_BYTES + 1));
        (1..=9).for_each(|n| topics.learn(id(n), "t"));
        topics.add(id(10), "disk");
        let known: Vec<u8> = (1..=10).filter(|n| topics.name_of(id(*n)).is_some()).collect();
        assert_eq!(known, [1, 2, 3, 10]);
        for n in 0..1_000 {
            topics.shared(&n.to_string());
            assert!(topics.names.len() <= 6 && topics.shared_bytes <= topics.max_bytes);
        }
        let (one, again) = (topics.shared("one"), topics.shared("one"));
        assert!(std::sync::Arc::ptr_eq(&one, &again));
    }
}
