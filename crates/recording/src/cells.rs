//! Reading a table's columns, row by row. Does not know the tables.
//!
//! What is read came from outside: a column of the wrong type fails its part, a value that cannot be
//! fails its row, and nothing panics. A column that may be empty may be missing altogether, so that an
//! older recording stays readable when a column is added.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::types::ArrowPrimitiveType;
use arrow_array::{
    Array, ArrayRef, BooleanArray, ListArray, PrimitiveArray, RecordBatch, StringArray, StructArray,
};
use arrow_schema::DataType;

use crate::columns::{Derived, Flag, Kind, Maybe, Number, Rows, Words};

/// A column that is missing or of another type than it has to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ColumnError(pub(crate) String);

/// A row that cannot be an event: the column and what is wrong with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BadRow {
    /// The column.
    pub(crate) column: &'static str,
    /// What is wrong with its value.
    pub(crate) why: &'static str,
}

impl BadRow {
    /// A value that no such column holds.
    pub(crate) fn unknown(column: &'static str) -> Self {
        Self { column, why: "unknown value" }
    }
}

/// Where columns come from: a batch, or the rows of a list.
pub(crate) trait Source {
    /// The column of that name.
    fn column(&self, name: &str) -> Option<ArrayRef>;
}

impl Source for RecordBatch {
    fn column(&self, name: &str) -> Option<ArrayRef> {
        self.column_by_name(name).cloned()
    }
}

impl Source for StructArray {
    fn column(&self, name: &str) -> Option<ArrayRef> {
        self.column_by_name(name).cloned()
    }
}

/// All columns of a table, found in a source.
pub(crate) trait RowCells: Sized {
    /// Finds them.
    fn of(source: &dyn Source) -> Result<Self, ColumnError>;
}

/// A kind of column that can be read back.
pub(crate) trait Stored: Kind {
    /// What its values are read from.
    type Cells;
    /// Finds the column.
    fn cells(source: &dyn Source, name: &'static str) -> Result<Self::Cells, ColumnError>;
}

/// One column of values of Arrow's array type `A`; without an array where it is missing.
pub(crate) struct Cells<A> {
    pub(crate) name: &'static str,
    pub(crate) array: Option<A>,
}

impl<A> Cells<A> {
    pub(crate) fn missing_value(&self) -> BadRow {
        BadRow { column: self.name, why: "no value" }
    }
}

impl<A: Array + Clone + 'static> Cells<A> {
    fn find<K: Kind>(source: &dyn Source, name: &'static str) -> Result<Self, ColumnError> {
        let Some(column) = source.column(name) else {
            return if K::NULLABLE { Ok(Self { name, array: None }) } else { Err(absent(name)) };
        };
        match column.as_any().downcast_ref::<A>() {
            Some(array) => Ok(Self { name, array: Some(array.clone()) }),
            None => Err(mistyped(name, column.data_type(), &K::data_type())),
        }
    }

    /// The array, where row `i` has a value in it.
    fn present(&self, i: usize) -> Option<&A> {
        self.array.as_ref().filter(|array| i < array.len() && array.is_valid(i))
    }
}

pub(crate) fn absent(name: &str) -> ColumnError {
    ColumnError(format!("it has no column {name}"))
}

pub(crate) fn mistyped(name: &str, found: &DataType, wanted: &DataType) -> ColumnError {
    ColumnError(format!("its column {name} is {found}, not {wanted}"))
}

impl<T: ArrowPrimitiveType> Stored for Number<T> {
    type Cells = Cells<PrimitiveArray<T>>;
    fn cells(source: &dyn Source, name: &'static str) -> Result<Self::Cells, ColumnError> {
        Cells::find::<Self>(source, name)
    }
}

impl<T: ArrowPrimitiveType> Cells<PrimitiveArray<T>> {
    /// The number in row `i`, if any.
    pub(crate) fn maybe(&self, i: usize) -> Option<T::Native> {
        self.present(i).map(|array| array.value(i))
    }

    /// The number in row `i`.
    pub(crate) fn at(&self, i: usize) -> Result<T::Native, BadRow> {
        self.maybe(i).ok_or_else(|| self.missing_value())
    }
}

impl Stored for Flag {
    type Cells = Cells<BooleanArray>;
    fn cells(source: &dyn Source, name: &'static str) -> Result<Self::Cells, ColumnError> {
        Cells::find::<Self>(source, name)
    }
}

impl Cells<BooleanArray> {
    /// The flag in row `i`.
    pub(crate) fn at(&self, i: usize) -> Result<bool, BadRow> {
        self.present(i).map(|array| array.value(i)).ok_or_else(|| self.missing_value())
    }
}

impl Stored for Words {
    type Cells = Cells<ListArray>;
    fn cells(source: &dyn Source, name: &'static str) -> Result<Self::Cells, ColumnError> {
        Cells::find::<Self>(source, name)
    }
}

impl Cells<ListArray> {
    /// The words in row `i`.
    pub(crate) fn words(&self, i: usize) -> Result<Vec<Arc<str>>, BadRow> {
        let list = self.present(i).map(|array| array.value(i)).ok_or_else(|| self.missing_value())?;
        let words = list.as_any().downcast_ref::<StringArray>().ok_or(BadRow::unknown(self.name))?;
        Ok(words.iter().flatten().map(Arc::from).collect())
    }
}

impl<K: Kind> Stored for Derived<K> {
    type Cells = ();
    fn cells(_: &dyn Source, _: &'static str) -> Result<(), ColumnError> {
        Ok(())
    }
}

impl<K: Stored> Stored for Maybe<K>
where
    Self: MaybeCells<K>,
{
    type Cells = K::Cells;
    fn cells(source: &dyn Source, name: &'static str) -> Result<Self::Cells, ColumnError> {
        Self::find(source, name)
    }
}

/// How a column that may be absent is found; the same cells, but nullable.
pub(crate) trait MaybeCells<K: Stored> {
    /// Finds it.
    fn find(source: &dyn Source, name: &'static str) -> Result<K::Cells, ColumnError>;
}

impl<T: ArrowPrimitiveType> MaybeCells<Number<T>> for Maybe<Number<T>> {
    fn find(source: &dyn Source, name: &'static str) -> Result<Cells<PrimitiveArray<T>>, ColumnError> {
        Cells::find::<Self>(source, name)
    }
}

/// A list column whose elements are rows.
pub(crate) struct RowLists<V> {
    name: &'static str,
    lists: ListArray,
    /// The elements' columns, over all lists.
    pub(crate) rows: V,
}

/// Ties a set of builders to the cells that read it.
pub(crate) trait ReadBack {
    /// The cells.
    type Cells: RowCells;
}

impl<C: crate::columns::Columns + ReadBack> Stored for Rows<C> {
    type Cells = RowLists<C::Cells>;
    fn cells(source: &dyn Source, name: &'static str) -> Result<Self::Cells, ColumnError> {
        RowLists::find(source, name, &Self::data_type())
    }
}

impl<V: RowCells> RowLists<V> {
    /// Finds the column and, of its elements, the cells that are asked for.
    pub(crate) fn find(
        source: &dyn Source,
        name: &'static str,
        wanted: &DataType,
    ) -> Result<Self, ColumnError> {
        let column = source.column(name).ok_or_else(|| absent(name))?;
        let wrong = || mistyped(name, column.data_type(), wanted);
        let lists = column.as_any().downcast_ref::<ListArray>().ok_or_else(wrong)?.clone();
        let rows = lists.values().as_any().downcast_ref::<StructArray>().ok_or_else(wrong)?;
        let rows = V::of(rows)?;
        Ok(RowLists { name, lists, rows })
    }
}

impl<V> RowLists<V> {
    /// Which of `rows` are the elements of row `i`.
    pub(crate) fn range(&self, i: usize) -> Result<Range<usize>, BadRow> {
        let missing = BadRow { column: self.name, why: "no value" };
        if i >= self.lists.len() || self.lists.is_null(i) {
            return Err(missing);
        }
        let ends = self.lists.value_offsets();
        let (start, end) = ends.get(i).zip(ends.get(i + 1)).ok_or(missing)?;
        Ok(usize::try_from(*start).unwrap_or(0)..usize::try_from(*end).unwrap_or(0))
    }
}

/// Declares cells of some of a table's columns: `cells! { SomeCells { start_ns: I64, … } }`. Their names are `NAMES`.
macro_rules! cells {
    ($cells:ident { $($name:ident: $kind:ty,)* }) => {
        pub(crate) struct $cells {
            $($name: <$kind as $crate::cells::Stored>::Cells,)*
        }

        impl $cells {
            const NAMES: &'static [&'static str] = &[$(stringify!($name)),*];
        }

        impl $crate::cells::RowCells for $cells {
            fn of(source: &dyn $crate::cells::Source) -> Result<Self, $crate::cells::ColumnError> {
                Ok(Self { $($name: <$kind as $crate::cells::Stored>::cells(source, stringify!($name))?,)* })
            }
        }
    };
}
pub(crate) use cells;
