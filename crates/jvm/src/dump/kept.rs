//! The text kept of dumps: each name and method once, and no more than there is room for. Does not know what it
//! means.

use std::collections::HashSet;
use std::sync::Arc;

/// Names, frames and locks of one dump: 10,000 threads of 100 frames each.
const MAX_ENTRIES: usize = 1_000_000;
/// Different text in one dump. Half a million loaded methods have less.
const MAX_TEXT_BYTES: usize = 64 << 20;
/// What one name or method may have; the rest of it is left out.
const MAX_NAME_BYTES: usize = 4 << 10;

/// Hands out shared texts and counts what one dump takes.
#[derive(Debug, Default)]
pub(super) struct Kept {
    texts: HashSet<Arc<str>>,
    text_bytes: usize,
    entries: usize,
}

impl Kept {
    /// Another dump begins. What earlier ones had is let go where it alone would fill the room.
    pub(super) fn begin(&mut self) {
        self.entries = 0;
        if self.text_bytes > MAX_TEXT_BYTES / 2 {
            self.texts.clear();
            self.text_bytes = 0;
        }
    }

    /// The text, shared; `None` where the dump has taken all its room.
    pub(super) fn text(&mut self, text: &str) -> Option<Arc<str>> {
        let text = bounded(text);
        if self.entries >= MAX_ENTRIES {
            return None;
        }
        if let Some(known) = self.texts.get(text) {
            self.entries += 1;
            return Some(Arc::clone(known));
        }
        if self.text_bytes + text.len() > MAX_TEXT_BYTES {
            return None;
        }
        let shared: Arc<str> = text.into();
        self.texts.insert(Arc::clone(&shared));
        self.text_bytes += text.len();
        self.entries += 1;
        Some(shared)
    }
}

/// The beginning of the text, whole characters.
fn bounded(text: &str) -> &str {
    let mut end = text.len().min(MAX_NAME_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{Kept, MAX_ENTRIES, MAX_NAME_BYTES, MAX_TEXT_BYTES};

    #[test]
    fn text_is_shared_and_bounded() {
        let mut kept = Kept::default();
        let (one, other) = (kept.text("kafka").unwrap(), kept.text("kafka").unwrap());
        assert!(std::sync::Arc::ptr_eq(&one, &other));
        assert_eq!(kept.text(&"ä".repeat(MAX_NAME_BYTES)).unwrap().len(), MAX_NAME_BYTES);
    }

    #[test]
    fn a_dump_that_never_ends_takes_its_room_and_the_next_has_its_own() {
        let mut kept = Kept::default();
        for n in 0..MAX_TEXT_BYTES / MAX_NAME_BYTES {
            let text = format!("{n:0MAX_NAME_BYTES$}");
            assert!(kept.text(&text).is_some(), "{n}");
        }
        assert!(kept.text("one more").is_none());
        kept.begin();
        for _ in 0..MAX_ENTRIES {
            kept.text("same").unwrap();
        }
        assert!(kept.text("same").is_none());
    }
}
