//! Shares equal text between events while reading. Does not keep more than a bounded amount alive.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

/// Beyond this much text the pool is emptied: events keep what they use.
const MAX_POOL_BYTES: usize = 16 << 20;

/// A pool that stores equal texts once.
#[derive(Default)]
pub(crate) struct TextPool {
    texts: HashSet<Arc<str>>,
    bytes: usize,
}

impl TextPool {
    /// The shared copy of a text.
    pub(crate) fn share(&mut self, text: &str) -> Arc<str> {
        if let Some(shared) = self.texts.get(text) {
            return Arc::clone(shared);
        }
        if self.bytes > MAX_POOL_BYTES {
            self.texts.clear();
            self.bytes = 0;
        }
        let shared: Arc<str> = Arc::from(text);
        self.bytes += text.len() + 32;
        self.texts.insert(Arc::clone(&shared));
        shared
    }
}

/// Kafka has about a hundred APIs; a recording that names more than this is damaged or forged.
const MAX_NAMES: usize = 512;
const MAX_NAME_BYTES: usize = 64;

static NAMES: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());

/// The name of an API as a `'static` string, which [`model::Request::api`] needs.
/// Leaks each of the few names once; `None` for a name that is too long or one too many.
pub(crate) fn api_name(name: &str) -> Option<&'static str> {
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = names.iter().find(|known| **known == name) {
        return Some(known);
    }
    if names.len() >= MAX_NAMES || name.len() > MAX_NAME_BYTES {
        return None;
    }
    let leaked: &'static str = Box::leak(name.into());
    names.push(leaked);
    Some(leaked)
}

#[cfg(test)]
mod tests {
    use super::{TextPool, api_name};
    use std::sync::Arc;

    #[test]
    fn pool_shares_equal_text_and_stays_bounded() {
        let mut pool = TextPool::default();
        assert!(Arc::ptr_eq(&pool.share("topicA"), &pool.share("topicA")));
        let long = "x".repeat(1 << 20);
        for i in 0..64 {
            pool.share(&format!("{i}{long}"));
        }
        assert!(pool.texts.len() <= 18, "{}", pool.texts.len());
    }

    #[test]
    fn interns_each_api_name_once_and_refuses_long_names() {
        let first = api_name("PRODUCE").unwrap();
        assert!(std::ptr::eq(first, api_name("PRODUCE").unwrap()));
        assert_eq!(api_name(&"P".repeat(65)), None);
    }
}
