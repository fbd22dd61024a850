//! Columns of topic ids, as the text that Kafka prints. Does not know the topics' names.

use arrow_array::ArrayRef;
use arrow_schema::DataType;
use model::TopicId;

use crate::cells::{Cells, ColumnError, MaybeCells, Source, Stored};
use crate::columns::{Kind, Maybe, Text};
use crate::shown_builder::{Shown, ShownBuilder};
use crate::text_cells::{Names, names};

/// A topic's id: stored as [`Text`] is.
pub(crate) struct Id;

impl Shown for TopicId {
    /// Ids are random but for some bits in the middle.
    fn place(&self) -> usize {
        self.0[15].into()
    }
}

impl Kind for Id {
    type Builder = ShownBuilder<TopicId>;
    const NULLABLE: bool = false;
    fn data_type() -> DataType {
        Text::data_type()
    }
    fn finish(builder: &mut Self::Builder) -> ArrayRef {
        builder.finish()
    }
}

impl Stored for Id {
    type Cells = Cells<Names<TopicId>>;
    fn cells(source: &dyn Source, name: &'static str) -> Result<Self::Cells, ColumnError> {
        names::<Self, _>(source, name)
    }
}

impl MaybeCells<Id> for Maybe<Id> {
    fn find(source: &dyn Source, name: &'static str) -> Result<Cells<Names<TopicId>>, ColumnError> {
        names::<Self, _>(source, name)
    }
}
