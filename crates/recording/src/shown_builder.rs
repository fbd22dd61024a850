//! A column of values that are stored as text and repeat (`[::1]:9092`, a topic's id), under construction: each
//! distinct one is written out once a batch. Does not read them back.

use std::collections::HashMap;
use std::fmt::{Display, Write as _};
use std::hash::Hash;

use ahash::RandomState;
use arrow_array::ArrayRef;

use crate::text_builder::TextBuilder;

/// Values to remember without hashing them: a power of two, more than the connections that are busy at a time.
const PLACES: usize = 64;

/// A value, and a number that differs between most values; cheap, and of no other use.
pub(crate) trait Shown: Copy + Eq + Hash + Display {
    /// The number.
    fn place(&self) -> usize;
}

/// Appends values; [`ShownBuilder::finish`] hands the column out and starts anew.
pub(crate) struct ShownBuilder<V> {
    texts: TextBuilder,
    keys: HashMap<V, i32, RandomState>,
    /// The key of a value with that [`Shown::place`].
    places: Vec<Option<(V, i32)>>,
    text: String,
}

impl<V> Default for ShownBuilder<V> {
    fn default() -> Self {
        let places = (0..PLACES).map(|_| None).collect();
        Self { texts: TextBuilder::default(), keys: HashMap::default(), places, text: String::new() }
    }
}

impl<V: Shown> ShownBuilder<V> {
    /// Appends a value.
    pub(crate) fn append(&mut self, value: V) {
        let key = match self.places.get(value.place() % PLACES) {
            Some(Some((known, key))) if *known == value => *key,
            _ => self.look_up(value),
        };
        self.texts.append_key(key);
    }

    /// Appends a value or none.
    pub(crate) fn append_option(&mut self, value: Option<V>) {
        match value {
            Some(value) => self.append(value),
            None => self.texts.append_null(),
        }
    }

    fn look_up(&mut self, value: V) -> i32 {
        let key = self.keys.get(&value).copied().unwrap_or_else(|| {
            self.text.clear();
            // Writing to a `String` cannot fail.
            let _ = write!(self.text, "{value}");
            let key = self.texts.key(&self.text);
            self.keys.insert(value, key);
            key
        });
        if let Some(place) = self.places.get_mut(value.place() % PLACES) {
            *place = Some((value, key));
        }
        key
    }

    /// The column as appended so far.
    pub(crate) fn finish(&mut self) -> ArrayRef {
        self.keys.clear();
        self.places.fill_with(|| None);
        self.texts.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::{PLACES, ShownBuilder};
    use arrow_array::Array as _;
    use arrow_array::cast::AsArray as _;
    use arrow_array::types::Int32Type;
    use std::net::SocketAddr;

    #[test]
    fn values_that_share_a_place_are_told_apart_and_each_is_written_out_once() {
        let address = |port: usize| SocketAddr::from(([127, 0, 0, 1], port as u16));
        let mut builder = ShownBuilder::<SocketAddr>::default();
        for _ in 0..2 {
            let ports = [9092, 9092 + PLACES, 9092, 9093, 9092 + PLACES];
            for &port in &ports {
                builder.append(address(port));
            }
            builder.append_option(None);
            let column = builder.finish();
            let column = column.as_dictionary::<Int32Type>();
            assert_eq!(column.values().len(), 3);
            let texts = column.downcast_dict::<arrow_array::StringArray>().unwrap();
            let texts: Vec<_> = texts.into_iter().collect();
            let shown: Vec<_> = ports.iter().map(|&port| address(port).to_string()).collect();
            assert_eq!(texts[..5], shown.iter().map(|text| Some(text.as_str())).collect::<Vec<_>>());
            assert_eq!(texts[5], None);
        }
    }
}
