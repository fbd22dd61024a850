//! Labels with values from outside: topics, devices, threads' roles from a recording. Makes them short and harmless,
//! and bounds their number. Does not quote: each format does that itself.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Maximum length of a value: Kafka's topics have up to 249 characters, but 128 are enough to identify one.
const MAX_CHARS: usize = 128;
/// The label shared by everything without its own value.
pub(crate) const OTHER: &str = "__other__";

/// Makes a text safe as a label: short, without terminal escapes or line breaks.
pub(crate) fn clean(text: &str) -> Arc<str> {
    clean_to(text, MAX_CHARS)
}

/// Like [`clean`], with a maximum number of characters.
pub(crate) fn clean_to(text: &str, most: usize) -> Arc<str> {
    let mut safe: String =
        text.chars().take(most).map(|c| if is_unsafe(c) { '\u{fffd}' } else { c }).collect();
    if text.chars().nth(most).is_some() {
        safe.pop();
        safe.push('…');
    }
    safe.into()
}

/// Whether a character is a control character or reorders displayed text.
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{061c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// A value for each of a bounded number of labels. Further labels share [`OTHER`].
#[derive(Debug)]
pub(crate) struct ByLabel<V> {
    by: BTreeMap<Arc<str>, V>,
    max: usize,
}

impl<V: Default> ByLabel<V> {
    /// Creates a map of at most `max` labels, besides [`OTHER`].
    pub(crate) fn of_at_most(max: usize) -> Self {
        Self { by: BTreeMap::new(), max }
    }

    /// The label and the value for a name.
    pub(crate) fn entry(&mut self, name: &str) -> (Arc<str>, &mut V) {
        // A name that is already a label needs no cleaning.
        let known = self.by.get_key_value(name).map(|(label, _)| Arc::clone(label));
        let label = known.unwrap_or_else(|| self.label(name));
        (Arc::clone(&label), self.by.entry(label).or_default())
    }

    fn label(&self, name: &str) -> Arc<str> {
        let label = clean(name);
        if self.by.len() < self.max || self.by.contains_key(&label) { label } else { OTHER.into() }
    }

    /// Resets every value, and keeps the labels.
    pub(crate) fn reset(&mut self) {
        self.by.values_mut().for_each(|value| *value = V::default());
    }
}

#[cfg(test)]
mod tests {
    use super::{ByLabel, OTHER, clean};

    #[test]
    fn clean_shortens_labels_and_replaces_control_characters() {
        assert_eq!(&*clean("orders-1"), "orders-1");
        assert_eq!(&*clean("a\nb\x1b[2J\u{202e}"), "a\u{fffd}b\u{fffd}[2J\u{fffd}");
        let long = clean(&"ä".repeat(300));
        assert_eq!(long.chars().count(), 128);
        assert!(long.ends_with("ä…"));
        assert_eq!(clean(&"x".repeat(128)).len(), 128);
    }

    #[test]
    fn excess_labels_share_one_and_equal_cleaned_labels_merge() {
        let mut counts = ByLabel::<u64>::of_at_most(2);
        for name in ["a\n", "b", "c", "d", "a\n", "a\u{fffd}", "b"] {
            *counts.entry(name).1 += 1;
        }
        assert_eq!(
            counts.by.iter().map(|(label, count)| (&**label, *count)).collect::<Vec<_>>(),
            [(OTHER, 2), ("a\u{fffd}", 3), ("b", 2)]
        );
    }
}
