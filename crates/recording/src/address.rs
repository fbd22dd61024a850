//! Columns of the ends of connections, as text that repeats (`[::1]:9092`). Does not resolve names.

use std::collections::HashMap;
use std::fmt::Write;
use std::net::SocketAddr;

use arrow_array::ArrayRef;
use arrow_schema::DataType;

use crate::cells::{BadRow, Cells, ColumnError, MaybeCells, Source, Stored, Texts};
use crate::columns::{Kind, Maybe, Text};

/// An end of a connection: stored as [`Text`] is.
pub(crate) struct Address;

/// Addresses come with every operation on a connection: each is written out once a batch.
#[derive(Default)]
pub(crate) struct AddressBuilder {
    texts: <Text as Kind>::Builder,
    keys: HashMap<SocketAddr, i32>,
    text: String,
}

impl AddressBuilder {
    /// Appends an address.
    pub(crate) fn append(&mut self, address: SocketAddr) {
        let key = self.keys.get(&address).copied().unwrap_or_else(|| {
            self.text.clear();
            // Writing to a `String` cannot fail.
            let _ = write!(self.text, "{address}");
            let key = self.texts.key(&self.text);
            self.keys.insert(address, key);
            key
        });
        self.texts.append_key(key);
    }

    /// Appends an address or none.
    pub(crate) fn append_option(&mut self, address: Option<SocketAddr>) {
        match address {
            Some(address) => self.append(address),
            None => self.texts.append_null(),
        }
    }
}

impl Kind for Address {
    type Builder = AddressBuilder;
    const NULLABLE: bool = false;
    fn data_type() -> DataType {
        Text::data_type()
    }
    fn finish(builder: &mut Self::Builder) -> ArrayRef {
        builder.keys.clear();
        Text::finish(&mut builder.texts)
    }
}

impl Stored for Address {
    type Cells = Cells<Texts>;
    fn cells(source: &dyn Source, name: &'static str) -> Result<Self::Cells, ColumnError> {
        Text::cells(source, name)
    }
}

impl MaybeCells<Address> for Maybe<Address> {
    fn find(source: &dyn Source, name: &'static str) -> Result<Cells<Texts>, ColumnError> {
        <Maybe<Text> as MaybeCells<Text>>::find(source, name)
    }
}

impl Cells<Texts> {
    /// The address in row `i`.
    pub(crate) fn address(&self, i: usize) -> Result<SocketAddr, BadRow> {
        self.named(i, |text| text.parse().ok())
    }

    /// The address in row `i`, if any.
    pub(crate) fn maybe_address(&self, i: usize) -> Result<Option<SocketAddr>, BadRow> {
        self.maybe_named(i, |text| text.parse().ok())
    }
}
