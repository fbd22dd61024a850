//! A column of text that repeats, under construction: a dictionary and a key a row. Does not write it.
//!
//! Events share their texts (names, files, stacks: one copy each), so most rows are known by where their text
//! lies, without reading it to hash it. What lies there is compared all the same: memory is used again.

use std::collections::HashMap;
use std::sync::Arc;

use ahash::RandomState;
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, DictionaryArray, StringArray};

use crate::number_builder::NumberBuilder;

/// Places to remember texts by: a power of two, more than a broker's threads and busy files.
const PLACES: usize = 256;

/// Appends text; [`TextBuilder::finish`] hands the column out and starts anew.
pub(crate) struct TextBuilder {
    keys: NumberBuilder<Int32Type>,
    /// Every text once; its key is its index.
    texts: Vec<Box<str>>,
    known: HashMap<Box<str>, i32, RandomState>,
    /// The key of a text that lay at such an address.
    places: Box<[i32; PLACES]>,
}

impl Default for TextBuilder {
    fn default() -> Self {
        Self {
            keys: NumberBuilder::default(),
            texts: Vec::new(),
            known: HashMap::default(),
            places: Box::new([0; PLACES]),
        }
    }
}

impl TextBuilder {
    /// Appends a text.
    pub(crate) fn append_value(&mut self, text: impl AsRef<str>) {
        let key = self.key(text.as_ref());
        self.keys.append_value(key);
    }

    /// Appends a text or none.
    pub(crate) fn append_option(&mut self, text: Option<impl AsRef<str>>) {
        match text {
            Some(text) => self.append_value(text),
            None => self.append_null(),
        }
    }

    /// Appends none.
    pub(crate) fn append_null(&mut self) {
        self.keys.append_null();
    }

    /// Appends the text of a key that [`TextBuilder::key`] gave since the last [`TextBuilder::finish`].
    pub(crate) fn append_key(&mut self, key: i32) {
        self.keys.append_value(key);
    }

    /// The key of a text.
    pub(crate) fn key(&mut self, text: &str) -> i32 {
        let address = text.as_ptr() as usize;
        // Allocations are 16 bytes apart at least.
        let place = (address >> 4) % PLACES;
        let likely = self.places.get(place).copied().unwrap_or(0);
        if self.texts.get(likely as usize).is_some_and(|known| **known == *text) {
            return likely;
        }
        let key = self.look_up(text);
        if let Some(place) = self.places.get_mut(place) {
            *place = key;
        }
        key
    }

    fn look_up(&mut self, text: &str) -> i32 {
        if let Some(&key) = self.known.get(text) {
            return key;
        }
        // A batch has a few thousand rows (`writer`).
        let key = self.texts.len() as i32;
        self.texts.push(text.into());
        self.known.insert(text.into(), key);
        key
    }

    /// The column as appended so far.
    pub(crate) fn finish(&mut self) -> ArrayRef {
        let texts = std::mem::take(&mut self.texts);
        self.known.clear();
        let values = StringArray::from_iter_values(texts.iter());
        Arc::new(DictionaryArray::new(self.keys.column(), Arc::new(values)))
    }
}

#[cfg(test)]
mod tests {
    use super::TextBuilder;
    use arrow_array::cast::AsArray as _;
    use arrow_array::types::Int32Type;
    use arrow_array::{Array as _, ArrayRef};

    fn texts(column: &ArrayRef) -> Vec<Option<String>> {
        let column = column.as_dictionary::<Int32Type>().downcast_dict::<arrow_array::StringArray>().unwrap();
        column.into_iter().map(|text| text.map(str::to_owned)).collect()
    }

    #[test]
    fn a_place_that_holds_another_text_now_is_not_believed() {
        let mut builder = TextBuilder::default();
        let mut buffer = String::from("one");
        for text in ["one", "two", "", "two", "one"] {
            buffer.clear();
            buffer.push_str(text);
            builder.append_value(&buffer);
        }
        builder.append_null();
        builder.append_option(None::<&str>);
        let column = builder.finish();
        let of = |text: &str| Some(text.to_owned());
        assert_eq!(texts(&column), [of("one"), of("two"), of(""), of("two"), of("one"), None, None]);
        assert_eq!(column.as_dictionary::<Int32Type>().values().len(), 3);
    }

    #[test]
    fn a_column_starts_anew_with_its_own_dictionary() {
        let mut builder = TextBuilder::default();
        let (first, second) = ("first", "second");
        builder.append_value(first);
        builder.append_value(second);
        builder.finish();
        builder.append_value(second);
        let key = builder.key(first);
        builder.append_key(key);
        assert_eq!(texts(&builder.finish()), [Some("second".to_owned()), Some("first".to_owned())]);
    }
}
