//! Interned texts, each stored once: rows refer to them by number. Does not know what they mean.

use std::collections::HashMap;
use std::sync::Arc;

/// The texts.
#[derive(Debug, Default)]
pub(super) struct Names {
    numbers: HashMap<Arc<str>, u32>,
    texts: Vec<Arc<str>>,
}

impl Names {
    /// The number of a text.
    pub(super) fn number(&mut self, text: &str) -> u32 {
        if let Some(&number) = self.numbers.get(text) {
            return number;
        }
        let number = self.texts.len() as u32;
        let text: Arc<str> = text.into();
        self.numbers.insert(Arc::clone(&text), number);
        self.texts.push(text);
        number
    }

    /// All texts, by their numbers.
    pub(super) fn into_texts(self) -> Vec<String> {
        self.texts.into_iter().map(|text| text.to_string()).collect()
    }
}
