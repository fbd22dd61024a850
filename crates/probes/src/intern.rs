//! Interns repeated text: thread names, file system types, flags.
//!
//! Bounded: it forgets everything when full, which costs only repeated allocations.

use std::collections::HashMap;
use std::sync::Arc;

use ahash::RandomState;

/// Distinct texts kept.
const MAX_TEXTS: usize = 16_384;

/// Interns bytes from the kernel; replaces what is not UTF-8.
#[derive(Default)]
pub(crate) struct Texts {
    known: HashMap<Box<[u8]>, Arc<str>, RandomState>,
}

impl Texts {
    /// Returns these bytes as shared text.
    pub(crate) fn share(&mut self, bytes: &[u8]) -> Arc<str> {
        if let Some(text) = self.known.get(bytes) {
            return Arc::clone(text);
        }
        if self.known.len() >= MAX_TEXTS {
            self.known.clear();
        }
        let text: Arc<str> = String::from_utf8_lossy(bytes).into();
        self.known.insert(bytes.into(), Arc::clone(&text));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_TEXTS, Texts};

    #[test]
    fn equal_bytes_share_one_text() {
        let mut texts = Texts::default();
        let first = texts.share(b"a\xff");
        assert_eq!(&*first, "a\u{fffd}");
        assert!(std::sync::Arc::ptr_eq(&first, &texts.share(b"a\xff")));
    }

    #[test]
    fn clears_the_texts_when_full() {
        let mut texts = Texts::default();
        for i in 0..=MAX_TEXTS {
            texts.share(i.to_string().as_bytes());
        }
        assert_eq!(texts.known.len(), 1);
    }
}
