//! Topic names, found by id. Does not know who names them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use ahash::RandomState;
use model::TopicId;

/// Names and ids remembered; Kafka itself advises against clusters a tenth as large.
const MAX_TOPICS: usize = 1 << 20;

/// Topic names: each kept once, and found by id.
pub(crate) struct Topics {
    by_id: HashMap<TopicId, Arc<str>>,
    names: HashSet<Arc<str>, RandomState>,
}

impl Topics {
    /// Those known beforehand.
    pub(crate) fn new(by_id: HashMap<TopicId, Arc<str>>) -> Self {
        Self { by_id, names: HashSet::default() }
    }

    /// Remembers a topic's name. An id never changes its name, so the first one stays.
    pub(crate) fn learn(&mut self, id: TopicId, name: &str) {
        if id != TopicId::ZERO && !self.by_id.contains_key(&id) && self.by_id.len() < MAX_TOPICS {
            let name = self.shared(name);
            self.by_id.insert(id, name);
        }
    }

    pub(crate) fn name_of(&self, id: TopicId) -> Option<&Arc<str>> {
        self.by_id.get(&id)
    }

    /// The one shared copy of a name.
    pub(crate) fn shared(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.names.get(name) {
            return known.clone();
        }
        let name: Arc<str> = name.into();
        if self.names.len() < MAX_TOPICS {
            self.names.insert(name.clone());
        }
        name
    }
}
