//! Columns under construction. Does not write them.
//!
//! Every event appends to some thirty columns, so an append is a push: capacity is reserved once a batch, as much as
//! the last batch needed, and validity is not tracked while no value is absent, or all are.
//!
//! Events share their texts (names, files, stacks: one copy each), so the address of a text usually finds its key
//! without hashing. The text is compared all the same, because memory is reused.

use std::collections::HashMap;
use std::fmt::{Display, Write as _};
use std::hash::Hash;
use std::net::SocketAddr;

use ahash::RandomState;
use arrow_array::types::{ArrowPrimitiveType, Int32Type};
use arrow_array::{DictionaryArray, PrimitiveArray, StringArray};
use arrow_buffer::{BooleanBufferBuilder, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use hashbrown::HashTable;
use model::TopicId;

/// Appends numbers; [`NumberBuilder::finish`] returns the column and starts the next.
pub(crate) struct NumberBuilder<T: ArrowPrimitiveType> {
    /// One for each row; empty while all are absent.
    values: Vec<T::Native>,
    absent: usize,
    /// Which rows have a value, once some have one and some do not.
    present: Option<BooleanBufferBuilder>,
}

impl<T: ArrowPrimitiveType> Default for NumberBuilder<T> {
    fn default() -> Self {
        Self { values: Vec::new(), absent: 0, present: None }
    }
}

impl<T: ArrowPrimitiveType> NumberBuilder<T> {
    /// Appends a number.
    #[inline]
    pub(crate) fn append_value(&mut self, value: T::Native) {
        if self.absent == 0 {
            self.values.push(value);
        } else {
            self.append_to_some(Some(value));
        }
    }

    /// Appends a null.
    #[inline]
    pub(crate) fn append_null(&mut self) {
        if self.values.is_empty() {
            self.absent += 1;
        } else {
            self.append_to_some(None);
        }
    }

    /// Appends to a column that has values and nulls, now or already.
    fn append_to_some(&mut self, value: Option<T::Native>) {
        let Self { values, absent, present } = self;
        let present = present.get_or_insert_with(|| {
            let mut present = BooleanBufferBuilder::new(values.capacity());
            present.append_n(*absent, false);
            present.append_n(values.len(), true);
            values.resize(*absent + values.len(), T::Native::default());
            present
        });
        present.append(value.is_some());
        *absent += usize::from(value.is_none());
        values.push(value.unwrap_or_default());
    }

    /// The column as appended so far.
    pub(crate) fn finish(&mut self) -> PrimitiveArray<T> {
        let room = Vec::with_capacity(self.values.len());
        let mut values = std::mem::replace(&mut self.values, room);
        let absent = std::mem::take(&mut self.absent);
        let nulls = match self.present.take() {
            Some(mut present) => Some(NullBuffer::new(present.finish())),
            None if absent > 0 => {
                values.resize(absent, T::Native::default());
                Some(NullBuffer::new_null(absent))
            }
            None => None,
        };
        PrimitiveArray::new(ScalarBuffer::from(values), nulls)
    }
}

/// A column of keys, and its distinct texts, one after another; a text's key is its number.
#[derive(Default)]
struct Dictionary {
    keys: NumberBuilder<Int32Type>,
    texts: String,
    /// Where each ends.
    ends: Vec<usize>,
}

impl Dictionary {
    fn get(&self, key: i32) -> Option<&str> {
        let key = usize::try_from(key).ok()?;
        let start = key.checked_sub(1).map_or(Some(0), |before| self.ends.get(before).copied())?;
        self.texts.get(start..*self.ends.get(key)?)
    }

    /// Adds a text; returns its key.
    fn push(&mut self, text: impl Display) -> i32 {
        // A batch has a few thousand rows (`writer`).
        let key = self.ends.len() as i32;
        // Writing to a `String` cannot fail.
        let _ = write!(self.texts, "{text}");
        self.ends.push(self.texts.len());
        key
    }

    /// The column as appended so far.
    fn finish(&mut self) -> DictionaryArray<Int32Type> {
        let room = (String::with_capacity(self.texts.len()), Vec::with_capacity(self.ends.len()));
        let texts = std::mem::replace(&mut self.texts, room.0);
        let ends = std::mem::replace(&mut self.ends, room.1);
        let starts = std::iter::once(0).chain(ends.iter().copied());
        let offsets = OffsetBuffer::from_lengths(ends.iter().zip(starts).map(|(end, start)| end - start));
        let values = StringArray::new(offsets, Buffer::from_vec(texts.into_bytes()), None);
        DictionaryArray::new(self.keys.finish(), std::sync::Arc::new(values))
    }
}

/// Slots of the cache of text keys: a power of two, more than a broker's threads and busy files.
const TEXT_SLOTS: usize = 256;

/// Appends text; [`TextBuilder::finish`] returns the column and starts the next.
pub(crate) struct TextBuilder {
    dictionary: Dictionary,
    /// The keys of all texts.
    known: HashTable<i32>,
    hasher: RandomState,
    /// The key of a text whose address has this slot.
    slots: Box<[i32; TEXT_SLOTS]>,
}

impl Default for TextBuilder {
    fn default() -> Self {
        Self {
            dictionary: Dictionary::default(),
            known: HashTable::new(),
            hasher: RandomState::new(),
            slots: Box::new([0; TEXT_SLOTS]),
        }
    }
}

impl TextBuilder {
    /// Appends a text.
    pub(crate) fn append_value(&mut self, text: impl AsRef<str>) {
        let key = self.key(text.as_ref());
        self.dictionary.keys.append_value(key);
    }

    /// Appends a text or a null.
    pub(crate) fn append_option(&mut self, text: Option<impl AsRef<str>>) {
        match text {
            Some(text) => self.append_value(text),
            None => self.append_null(),
        }
    }

    /// Appends a null.
    pub(crate) fn append_null(&mut self) {
        self.dictionary.keys.append_null();
    }

    /// The key of a text.
    fn key(&mut self, text: &str) -> i32 {
        let address = text.as_ptr() as usize;
        // Allocations are at least 16 bytes apart.
        let slot = (address >> 4) % TEXT_SLOTS;
        let likely = self.slots.get(slot).copied().unwrap_or(0);
        if self.dictionary.get(likely) == Some(text) {
            return likely;
        }
        let key = self.look_up(text);
        if let Some(slot) = self.slots.get_mut(slot) {
            *slot = key;
        }
        key
    }

    fn look_up(&mut self, text: &str) -> i32 {
        let Self { dictionary, known, hasher, .. } = self;
        let hash = hasher.hash_one(text);
        if let Some(&key) = known.find(hash, |&key| dictionary.get(key) == Some(text)) {
            return key;
        }
        let key = dictionary.push(text);
        known.insert_unique(hash, key, |&key| hasher.hash_one(dictionary.get(key).unwrap_or_default()));
        key
    }

    /// The column as appended so far.
    pub(crate) fn finish(&mut self) -> DictionaryArray<Int32Type> {
        self.known.clear();
        self.dictionary.finish()
    }
}

/// Slots of the cache of value keys: a power of two, more than the connections that are busy at a time.
const VALUE_SLOTS: usize = 64;

/// A value with a number that is cheap to get and differs between most values.
pub(crate) trait TextValue: Copy + Eq + Hash + Display {
    /// The number.
    fn slot(&self) -> usize;
}

/// Appends values; [`ValueBuilder::finish`] returns the column and starts the next.
pub(crate) struct ValueBuilder<V> {
    dictionary: Dictionary,
    /// The keys of all values.
    known: HashMap<V, i32, RandomState>,
    /// The key of a value with that [`TextValue::slot`].
    slots: [Option<(V, i32)>; VALUE_SLOTS],
}

impl<V: Copy> Default for ValueBuilder<V> {
    fn default() -> Self {
        Self { dictionary: Dictionary::default(), known: HashMap::default(), slots: [None; VALUE_SLOTS] }
    }
}

impl<V: TextValue> ValueBuilder<V> {
    /// Appends a value.
    pub(crate) fn append(&mut self, value: V) {
        let key = match self.slots.get(value.slot() % VALUE_SLOTS) {
            Some(Some((known, key))) if *known == value => *key,
            _ => self.look_up(value),
        };
        self.dictionary.keys.append_value(key);
    }

    /// Appends a null.
    pub(crate) fn append_null(&mut self) {
        self.dictionary.keys.append_null();
    }

    fn look_up(&mut self, value: V) -> i32 {
        let key = *self.known.entry(value).or_insert_with(|| self.dictionary.push(value));
        if let Some(slot) = self.slots.get_mut(value.slot() % VALUE_SLOTS) {
            *slot = Some((value, key));
        }
        key
    }

    /// The column as appended so far.
    pub(crate) fn finish(&mut self) -> DictionaryArray<Int32Type> {
        self.known.clear();
        self.slots.fill(None);
        self.dictionary.finish()
    }
}

impl TextValue for SocketAddr {
    /// The port: it differs at one end of a broker's connections.
    fn slot(&self) -> usize {
        self.port().into()
    }
}

impl TextValue for TopicId {
    /// Ids are random except for some bits in the middle.
    fn slot(&self) -> usize {
        self.0[15].into()
    }
}

#[cfg(test)]
mod tests {
    use super::{NumberBuilder, TextBuilder, VALUE_SLOTS, ValueBuilder};
    use arrow_array::types::{Int32Type, Int64Type};
    use arrow_array::{Array as _, DictionaryArray};
    use std::net::SocketAddr;

    #[test]
    fn number_column_tracks_nulls_and_resets_after_finish() {
        let mut builder = NumberBuilder::<Int64Type>::default();
        builder.append_value(1);
        builder.append_null();
        builder.append_value(3);
        builder.append_null();
        let column = builder.finish();
        assert_eq!(column.iter().collect::<Vec<_>>(), [Some(1), None, Some(3), None]);
        builder.append_value(5);
        let column = builder.finish();
        assert_eq!((column.len(), column.null_count(), column.value(0)), (1, 0, 5));
        assert_eq!(builder.finish().len(), 0);
    }

    #[test]
    fn number_column_may_hold_only_nulls_or_start_with_nulls() {
        let mut builder = NumberBuilder::<Int64Type>::default();
        (0..3).for_each(|_| builder.append_null());
        let column = builder.finish();
        assert_eq!((column.len(), column.null_count()), (3, 3));
        (0..2).for_each(|_| builder.append_null());
        builder.append_value(7);
        builder.append_null();
        assert_eq!(builder.finish().iter().collect::<Vec<_>>(), [None, None, Some(7), None]);
        builder.append_value(8);
        assert_eq!(builder.finish().iter().collect::<Vec<_>>(), [Some(8)]);
    }

    fn texts(column: &DictionaryArray<Int32Type>) -> Vec<Option<String>> {
        let column = column.downcast_dict::<arrow_array::StringArray>().unwrap();
        column.into_iter().map(|text| text.map(str::to_owned)).collect()
    }

    #[test]
    fn text_builder_detects_a_reused_buffer_with_other_text() {
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
        assert_eq!(column.values().len(), 3);
    }

    #[test]
    fn each_text_column_has_a_new_dictionary() {
        let mut builder = TextBuilder::default();
        let (first, second) = ("first", "second");
        builder.append_value(first);
        builder.append_value(second);
        builder.finish();
        builder.append_value(second);
        builder.append_value(first);
        assert_eq!(texts(&builder.finish()), [Some("second".to_owned()), Some("first".to_owned())]);
    }

    #[test]
    fn values_in_one_slot_stay_distinct_and_are_stored_once() {
        let address = |port: usize| SocketAddr::from(([127, 0, 0, 1], port as u16));
        let mut builder = ValueBuilder::<SocketAddr>::default();
        for _ in 0..2 {
            let ports = [9092, 9092 + VALUE_SLOTS, 9092, 9093, 9092 + VALUE_SLOTS];
            for &port in &ports {
                builder.append(address(port));
            }
            builder.append_null();
            let column = builder.finish();
            assert_eq!(column.values().len(), 3);
            let texts = column.downcast_dict::<arrow_array::StringArray>().unwrap();
            let texts: Vec<_> = texts.into_iter().collect();
            let expected: Vec<_> = ports.iter().map(|&port| address(port).to_string()).collect();
            assert_eq!(texts[..5], expected.iter().map(|text| Some(text.as_str())).collect::<Vec<_>>());
            assert_eq!(texts[5], None);
        }
    }
}
