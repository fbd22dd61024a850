//! Columns of the ends of connections, as text that repeats (`[::1]:9092`). Does not resolve names.

use std::net::SocketAddr;

use arrow_array::ArrayRef;
use arrow_schema::DataType;

use crate::cells::{Cells, ColumnError, MaybeCells, Source, Stored};
use crate::columns::{Kind, Maybe, Text};
use crate::shown_builder::{Shown, ShownBuilder};
use crate::text_cells::{Names, names};

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
    type Cells = Cells<Names<SocketAddr>>;
    fn cells(source: &dyn Source, name: &'static str) -> Result<Self::Cells, ColumnError> {
        names::<Self, _>(source, name)
    }
}

impl MaybeCells<Address> for Maybe<Address> {
    fn find(source: &dyn Source, name: &'static str) -> Result<Cells<Names<SocketAddr>>, ColumnError> {
        names::<Self, _>(source, name)
    }
}
