//! Labels whose values come from outside: topics, devices, threads' roles as a recording tells them. Makes them short and
//! harmless, and keeps their number bounded. Does not quote: each format does that itself.

use std::collections::BTreeMap;
use std::sync::Arc;

/// A value is cut after so many characters: Kafka's topics have up to 249, and no more of one is needed to know it.
const MAX_CHARS: usize = 128;
/// The label of everything that has no own value.
pub(crate) const OTHER: &str = "__other__";

/// A text that may stand in a label: nothing in it steers a terminal or breaks a line, and it is not long.
pub(crate) fn clean(text: &str) -> Arc<str> {
    clean_to(text, MAX_CHARS)
}

/// The same with at most so many characters.
pub(crate) fn clean_to(text: &str, most: usize) -> Arc<str> {
    let mut safe: String =
        text.chars().take(most).map(|c| if is_unsafe(c) { '\u{fffd}' } else { c }).collect();
    if text.chars().nth(most).is_some() {
        safe.pop();
        safe.push('…');
    }
    safe.into()
}

/// Control characters and those that change the order in which others are shown.
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{061c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// A value for each of a bounded number of labels. Further ones share [`OTHER`].
#[derive(Debug)]
pub(crate) struct ByLabel<V> {
    by: BTreeMap<Arc<str>, V>,
    max: usize,
}

impl<V: Default> ByLabel<V> {
    /// At most so many, and [`OTHER`].
    pub(crate) fn of_at_most(max: usize) -> Self {
        Self { by: BTreeMap::new(), max }
    }

    /// The label and the value of what is called so.
    pub(crate) fn entry(&mut self, name: &str) -> (Arc<str>, &mut V) {
        // What is a label already need not be made one.
        let known = self.by.get_key_value(name).map(|(label, _)| Arc::clone(label));
        let label = known.unwrap_or_else(|| self.label(name));
        (Arc::clone(&label), self.by.entry(label).or_default())
    }

    fn label(&self, name: &str) -> Arc<str> {
        let label = clean(name);
        if self.by.len() < self.max || self.by.contains_key(&label) { label } else { OTHER.into() }
    }

    /// Forgets every value, and no label.
    pub(crate) fn reset(&mut self) {
        self.by.values_mut().for_each(|value| *value = V::default());
    }
}

#[cfg(test)]
mod tests {
    use super::{ByLabel, OTHER, clean};

    #[test]
    fn what_comes_from_outside_is_short_and_harmless() {
        assert_eq!(&*clean("orders-1"), "orders-1");
        assert_eq!(&*clean("a\nb\x1b[2J\u{202e}"), "a\u{fffd}b\u{fffd}[2J\u{fffd}");
        let long = clean(&"ä".repeat(300));
        assert_eq!(long.chars().count(), 128);
        assert!(long.ends_with("ä…"));
        assert_eq!(clean(&"x".repeat(128)).len(), 128);
    }

    #[test]
    fn what_has_no_room_shares_one_label_and_what_looks_alike_is_one() {
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
