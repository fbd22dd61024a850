//! Columns of the ends of connections, as text that repeats (`[::1]:9092`). Does not resolve names.

use std::net::SocketAddr;

use arrow_array::ArrayRef;
use arrow_schema::DataType;

use crate::cells::{BadRow, Cells, ColumnError, MaybeCells, Source, Stored, Texts};
use crate::columns::{Kind, Maybe, Text};
use crate::shown_builder::{Shown, ShownBuilder};

/// An end of a connection: stored as [`Text`] is.
pub(crate) struct Address;

impl Shown for SocketAddr {
    /// The port: of a broker's connections it differs at one end.
    fn place(&self) -> usize {
        self.port().into()
    }
}

impl Kind for Address {
    type Builder = ShownBuilder<SocketAddr>;
    const NULLABLE: bool = false;
    fn data_type() -> DataType {
        Text::data_type()
    }
    fn finish(builder: &mut Self::Builder) -> ArrayRef {
        builder.finish()
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
