//! Building a table's columns, row by row. Does not know the tables.
//!
//! A table's columns are declared once with [`columns!`], which makes a set of builders to append rows
//! to ([`Columns`]) and the matching set of cells to read them from ([`crate::cells::Cells`]).

use std::marker::PhantomData;
use std::sync::Arc;

use arrow_array::builder::{BooleanBuilder, ListBuilder, StringBuilder};
use arrow_array::types::{
    ArrowPrimitiveType, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt32Type, UInt64Type,
};
use arrow_array::{ArrayRef, ListArray, RecordBatch, StructArray};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{ArrowError, DataType, Field, Fields, Schema};

use crate::number_builder::NumberBuilder;
use crate::text_builder::TextBuilder;

/// A set of columns under construction. `finish` hands out what was appended and starts anew.
pub(crate) trait Columns: Default {
    /// Names and types, in order.
    fn fields() -> Fields;
    /// The columns that are not read back, also those within rows of rows, by their names.
    fn unread() -> Vec<&'static str>;
    /// The columns as appended so far.
    fn finish(&mut self) -> Vec<ArrayRef>;

    /// The columns as one batch.
    fn batch(&mut self) -> Result<RecordBatch, ArrowError> {
        RecordBatch::try_new(Arc::new(Schema::new(Self::fields())), self.finish())
    }
}

/// A column's type and its builder.
pub(crate) trait Kind {
    /// What values are appended to.
    type Builder: Default;
    /// Whether values may be absent.
    const NULLABLE: bool;
    /// Whether it is read back.
    const READ: bool = true;
    /// The columns within it that are not read back.
    fn unread() -> Vec<&'static str> {
        Vec::new()
    }
    /// The column's type.
    fn data_type() -> DataType;
    /// What was appended.
    fn finish(builder: &mut Self::Builder) -> ArrayRef;
}

/// Numbers.
pub(crate) struct Number<T>(PhantomData<T>);
pub(crate) type F64 = Number<Float64Type>;
pub(crate) type I8 = Number<Int8Type>;
pub(crate) type I16 = Number<Int16Type>;
pub(crate) type I32 = Number<Int32Type>;
pub(crate) type I64 = Number<Int64Type>;
pub(crate) type U32 = Number<UInt32Type>;
pub(crate) type U64 = Number<UInt64Type>;

impl<T: ArrowPrimitiveType> Kind for Number<T> {
    type Builder = NumberBuilder<T>;
    const NULLABLE: bool = false;
    fn data_type() -> DataType {
        T::DATA_TYPE
    }
    fn finish(builder: &mut Self::Builder) -> ArrayRef {
        builder.finish()
    }
}

/// Yes or no.
pub(crate) struct Flag;

impl Kind for Flag {
    type Builder = BooleanBuilder;
    const NULLABLE: bool = false;
    fn data_type() -> DataType {
        DataType::Boolean
    }
    fn finish(builder: &mut Self::Builder) -> ArrayRef {
        Arc::new(builder.finish())
    }
}

/// Text that repeats. Keys of 32 bits: topics and stacks outnumber 16.
pub(crate) struct Text;

impl Kind for Text {
    type Builder = TextBuilder;
    const NULLABLE: bool = false;
    fn data_type() -> DataType {
        DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
    }
    fn finish(builder: &mut Self::Builder) -> ArrayRef {
        builder.finish()
    }
}

/// Text that names one of a few values.
pub(crate) struct Name<T>(PhantomData<T>);

impl<T> Kind for Name<T> {
    type Builder = TextBuilder;
    const NULLABLE: bool = false;
    fn data_type() -> DataType {
        Text::data_type()
    }
    fn finish(builder: &mut Self::Builder) -> ArrayRef {
        builder.finish()
    }
}

/// Lists of text that does not repeat.
pub(crate) struct Words;

impl Kind for Words {
    type Builder = ListBuilder<StringBuilder>;
    const NULLABLE: bool = false;
    fn data_type() -> DataType {
        DataType::List(Arc::new(Field::new_list_field(DataType::Utf8, true)))
    }
    fn finish(builder: &mut Self::Builder) -> ArrayRef {
        Arc::new(builder.finish())
    }
}

/// A column whose values may be absent.
pub(crate) struct Maybe<K>(PhantomData<K>);

impl<K: Kind> Kind for Maybe<K> {
    type Builder = K::Builder;
    const NULLABLE: bool = true;
    fn data_type() -> DataType {
        K::data_type()
    }
    fn finish(builder: &mut Self::Builder) -> ArrayRef {
        K::finish(builder)
    }
}

/// A column that other columns determine: written for whoever queries the files, never read back.
pub(crate) struct Derived<K>(PhantomData<K>);

impl<K: Kind> Kind for Derived<K> {
    type Builder = K::Builder;
    const NULLABLE: bool = K::NULLABLE;
    const READ: bool = false;
    fn data_type() -> DataType {
        K::data_type()
    }
    fn finish(builder: &mut Self::Builder) -> ArrayRef {
        K::finish(builder)
    }
}

/// Lists of rows of their own.
pub(crate) struct Rows<C>(PhantomData<C>);

/// Builds a list column whose elements are rows: append to `rows`, then say how many that were.
pub(crate) struct RowsBuilder<C> {
    /// The elements of all lists.
    pub(crate) rows: C,
    ends: Vec<i32>,
}

impl<C: Default> Default for RowsBuilder<C> {
    fn default() -> Self {
        Self { rows: C::default(), ends: vec![0] }
    }
}

impl<C> RowsBuilder<C> {
    /// Ends a list whose `count` elements were just appended to `rows`.
    pub(crate) fn end_list(&mut self, count: usize) {
        let start = self.ends.last().copied().unwrap_or(0);
        self.ends.push(start.saturating_add(i32::try_from(count).unwrap_or(i32::MAX)));
    }
}

impl<C: Columns> Kind for Rows<C> {
    type Builder = RowsBuilder<C>;
    const NULLABLE: bool = false;
    fn unread() -> Vec<&'static str> {
        C::unread()
    }
    fn data_type() -> DataType {
        DataType::List(item::<C>())
    }
    fn finish(builder: &mut Self::Builder) -> ArrayRef {
        let ends = std::mem::replace(&mut builder.ends, vec![0]);
        let rows = StructArray::new(C::fields(), builder.rows.finish(), None);
        Arc::new(ListArray::new(item::<C>(), OffsetBuffer::new(ends.into()), Arc::new(rows), None))
    }
}

fn item<C: Columns>() -> Arc<Field> {
    Arc::new(Field::new_list_field(DataType::Struct(C::fields()), false))
}

/// Declares a table's columns: `columns! { pub(crate) Builders, Cells { start_ns: I64, … } }`.
macro_rules! columns {
    ($builders:ident, $cells:ident { $($name:ident: $kind:ty,)* }) => {
        #[derive(Default)]
        pub(crate) struct $builders {
            $($name: <$kind as $crate::columns::Kind>::Builder,)*
        }

        impl $crate::columns::Columns for $builders {
            fn fields() -> arrow_schema::Fields {
                arrow_schema::Fields::from(vec![$(arrow_schema::Field::new(
                    stringify!($name),
                    <$kind as $crate::columns::Kind>::data_type(),
                    <$kind as $crate::columns::Kind>::NULLABLE,
                )),*])
            }

            fn unread() -> Vec<&'static str> {
                let mut unread = Vec::new();
                $(if <$kind as $crate::columns::Kind>::READ {
                    unread.extend(<$kind as $crate::columns::Kind>::unread());
                } else {
                    unread.push(stringify!($name));
                })*
                unread
            }

            fn finish(&mut self) -> Vec<arrow_array::ArrayRef> {
                vec![$(<$kind as $crate::columns::Kind>::finish(&mut self.$name)),*]
            }
        }

        #[allow(dead_code, reason = "derived columns have cells that nobody reads")]
        pub(crate) struct $cells {
            $($name: <$kind as $crate::cells::Stored>::Cells,)*
        }

        impl $crate::cells::ReadBack for $builders {
            type Cells = $cells;
        }

        impl $crate::cells::RowCells for $cells {
            fn of(source: &dyn $crate::cells::Source) -> Result<Self, $crate::cells::ColumnError> {
                Ok(Self { $($name: <$kind as $crate::cells::Stored>::cells(source, stringify!($name))?,)* })
            }
        }
    };
}
pub(crate) use columns;
