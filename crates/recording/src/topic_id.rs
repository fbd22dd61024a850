//! Columns of topic ids, as the text that Kafka prints. Does not know the topics' names.

use arrow_array::ArrayRef;
use arrow_schema::DataType;
use model::TopicId;

use crate::cells::{BadRow, Cells, ColumnError, MaybeCells, Source, Stored, Texts};
use crate::columns::{Kind, Maybe, Text};
use crate::shown_builder::{Shown, ShownBuilder};

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
    type Cells = Cells<Texts>;
    fn cells(source: &dyn Source, name: &'static str) -> Result<Self::Cells, ColumnError> {
        Text::cells(source, name)
    }
}

impl MaybeCells<Id> for Maybe<Id> {
    fn find(source: &dyn Source, name: &'static str) -> Result<Cells<Texts>, ColumnError> {
        <Maybe<Text> as MaybeCells<Text>>::find(source, name)
    }
}

impl Cells<Texts> {
    /// The topic's id in row `i`, if any.
    pub(crate) fn maybe_topic_id(&self, i: usize) -> Result<Option<TopicId>, BadRow> {
        self.maybe_named(i, TopicId::parse)
    }
}
