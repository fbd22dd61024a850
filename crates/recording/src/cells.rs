//! Finds a table's columns in a batch, and values in them. Does not know the tables.
//!
//! Text repeats, so its dictionary is small compared to its rows: each distinct text is shared, or parsed, once a
//! batch. Batches share no text with each other: threads that use one batch do not contend for reference counts with
//! the thread that reads the next.

use std::cell::OnceCell;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::types::{ArrowPrimitiveType, Int32Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, DictionaryArray, ListArray, PrimitiveArray, RecordBatch, StringArray,
    StructArray,
};

use crate::text::TextPool;

/// A column that is missing or has the wrong type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ColumnError(pub(crate) String);

/// A row that cannot be decoded: the column and the fault of its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BadRow {
    /// The column.
    pub(crate) column: &'static str,
    /// The fault of its value.
    pub(crate) why: &'static str,
}

impl BadRow {
    /// A value that is unknown in its column.
    pub(crate) fn unknown(column: &'static str) -> Self {
        Self { column, why: "unknown value" }
    }
}

/// The source of columns: a batch, or the rows of a list.
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

/// Finds a column; `None` if it is missing and may be.
fn find<T>(
    source: &dyn Source,
    name: &str,
    nullable: bool,
    take: impl FnOnce(&ArrayRef) -> Option<T>,
) -> Result<Option<T>, ColumnError> {
    let Some(column) = source.column(name) else {
        return if nullable { Ok(None) } else { Err(ColumnError(format!("it has no column {name}"))) };
    };
    let mistyped = || ColumnError(format!("its column {name} is {}", column.data_type()));
    take(&column).map(Some).ok_or_else(mistyped)
}

/// One column of values; it has no array if it is missing.
pub(crate) struct Cells<A> {
    name: &'static str,
    array: Option<A>,
}

impl<A> Cells<A> {
    /// The fault of a row without a value.
    pub(crate) fn missing_value(&self) -> BadRow {
        BadRow { column: self.name, why: "no value" }
    }
}

impl<A: Array + Clone + 'static> Cells<A> {
    /// Finds a column with this array type.
    pub(crate) fn find(source: &dyn Source, name: &'static str, nullable: bool) -> Result<Self, ColumnError> {
        let array = find(source, name, nullable, |column| column.as_any().downcast_ref::<A>().cloned())?;
        Ok(Self { name, array })
    }

    /// The array, if row `i` has a value in it.
    fn present(&self, i: usize) -> Option<&A> {
        self.array.as_ref().filter(|array| i < array.len() && array.is_valid(i))
    }
}

impl<T: ArrowPrimitiveType> Cells<PrimitiveArray<T>> {
    /// The number in row `i`, if any.
    pub(crate) fn number(&self, i: usize) -> Option<T::Native> {
        self.present(i).map(|array| array.value(i))
    }
}

impl Cells<BooleanArray> {
    /// The flag in row `i`, if any.
    pub(crate) fn flag(&self, i: usize) -> Option<bool> {
        self.present(i).map(|array| array.value(i))
    }
}

impl Cells<ListArray> {
    /// The texts in row `i`, if it has a list.
    pub(crate) fn texts(&self, i: usize) -> Result<Option<Vec<Arc<str>>>, BadRow> {
        let Some(list) = self.present(i).map(|array| array.value(i)) else { return Ok(None) };
        let texts = list.as_any().downcast_ref::<StringArray>().ok_or(BadRow::unknown(self.name))?;
        Ok(Some(texts.iter().flatten().map(Arc::from).collect()))
    }
}

/// A list column whose elements are rows.
pub(crate) struct RowLists<C> {
    name: &'static str,
    lists: ListArray,
    /// The elements' columns, over all lists.
    pub(crate) rows: C,
}

impl<C> RowLists<C> {
    /// Finds the column and, with `cells`, those of its elements.
    pub(crate) fn find(
        source: &dyn Source,
        name: &'static str,
        cells: impl FnOnce(&StructArray) -> Result<C, ColumnError>,
    ) -> Result<Self, ColumnError> {
        let take = |column: &ArrayRef| {
            let lists = column.as_any().downcast_ref::<ListArray>()?;
            Some((lists.clone(), lists.values().as_any().downcast_ref::<StructArray>()?.clone()))
        };
        let missing = || ColumnError(format!("it has no column {name}"));
        let (lists, rows) = find(source, name, false, take)?.ok_or_else(missing)?;
        Ok(Self { name, lists, rows: cells(&rows)? })
    }

    /// The range of `rows` that holds the elements of row `i`.
    pub(crate) fn range(&self, i: usize) -> Result<Range<usize>, BadRow> {
        let missing = BadRow { column: self.name, why: "no value" };
        if i >= self.lists.len() || self.lists.is_null(i) {
            return Err(missing);
        }
        let ends = self.lists.value_offsets();
        let (start, end) = ends.get(i).zip(ends.get(i + 1)).ok_or(missing)?;
        let row = |offset: &i32| usize::try_from(*offset).map_err(|_| missing);
        Ok(row(start)?..row(end)?)
    }
}

/// Text, either with a dictionary or plain.
/// The writer stores a dictionary; another tool may have rewritten it as plain text. Also holds the value of each
/// distinct text, once it was parsed.
pub(crate) struct TextColumn<T> {
    keys: Option<DictionaryArray<Int32Type>>,
    values: StringArray,
    known: Vec<OnceCell<T>>,
}

impl<T> TextColumn<T> {
    fn of(column: &ArrayRef) -> Option<Self> {
        let any = column.as_any();
        if let Some(plain) = any.downcast_ref::<StringArray>() {
            return Some(Self { keys: None, values: plain.clone(), known: Vec::new() });
        }
        let keys = any.downcast_ref::<DictionaryArray<Int32Type>>()?.clone();
        let values = keys.values().as_any().downcast_ref::<StringArray>()?.clone();
        // Only if there are no more distinct texts than rows.
        let distinct = if values.len() <= keys.len() { values.len() } else { 0 };
        let known = (0..distinct).map(|_| OnceCell::new()).collect();
        Some(Self { keys: Some(keys), values, known })
    }

    /// The index of row `i`'s text among the values, if the row has a text.
    fn place(&self, i: usize) -> Option<usize> {
        let place = match &self.keys {
            Some(keys) if i < keys.len() => keys.key(i)?,
            Some(_) => return None,
            None => i,
        };
        (place < self.values.len() && self.values.is_valid(place)).then_some(place)
    }
}

/// A column of text.
pub(crate) type Texts = TextColumn<Arc<str>>;
/// A column of values that are stored as text.
pub(crate) type Names<T> = TextColumn<Option<T>>;

/// Finds a column of texts or names.
pub(crate) fn texts<T>(
    source: &dyn Source,
    name: &'static str,
    nullable: bool,
) -> Result<Cells<TextColumn<T>>, ColumnError> {
    Ok(Cells { name, array: find(source, name, nullable, TextColumn::of)? })
}

impl Cells<Texts> {
    /// The text in row `i`, if any, shared with equal texts.
    pub(crate) fn text(&self, i: usize, pool: &mut TextPool) -> Option<Arc<str>> {
        let column = self.array.as_ref()?;
        let place = column.place(i)?;
        let text = || column.values.value(place);
        Some(match column.known.get(place) {
            Some(cell) => Arc::clone(cell.get_or_init(|| Arc::from(text()))),
            None => pool.share(text()),
        })
    }

    /// Index of row `i`'s text among the column's distinct texts. `None` if the row has no text.
    pub(crate) fn place(&self, i: usize) -> Option<usize> {
        self.array.as_ref()?.place(i)
    }
}

impl<T: Copy> Cells<Names<T>> {
    /// The value that row `i` names, if any; calls `parse` once for each distinct text.
    pub(crate) fn named(&self, i: usize, parse: impl Fn(&str) -> Option<T>) -> Result<Option<T>, BadRow> {
        let Some(column) = &self.array else { return Ok(None) };
        let Some(place) = column.place(i) else { return Ok(None) };
        let read = || parse(column.values.value(place));
        let value = column.known.get(place).map_or_else(read, |cell| *cell.get_or_init(read));
        value.map(Some).ok_or(BadRow::unknown(self.name))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::types::Int32Type;
    use arrow_array::{ArrayRef, DictionaryArray, StringArray};
    use model::Direction;
    use model::row::ByName;

    use super::{BadRow, Cells, Names, Source, Texts};
    use crate::rows::Read;
    use crate::text::TextPool;

    struct One(ArrayRef);

    impl Source for One {
        fn column(&self, _: &str) -> Option<ArrayRef> {
            Some(Arc::clone(&self.0))
        }
    }

    fn by_key(texts: &[Option<&str>]) -> One {
        One(Arc::new(texts.iter().copied().collect::<DictionaryArray<Int32Type>>()))
    }

    fn plain(texts: &[Option<&str>]) -> One {
        One(Arc::new(texts.iter().copied().collect::<StringArray>()))
    }

    #[test]
    fn reads_equal_text_from_dictionary_and_plain_columns_and_shares_it() {
        let texts = [Some("b"), None, Some("a"), Some("b"), Some("")];
        for source in [by_key(&texts), plain(&texts)] {
            let cells: Cells<Texts> = super::texts(&source, "thread", false).unwrap();
            let mut pool = TextPool::default();
            let mut read = |i| cells.text(i, &mut pool);
            let found: Vec<_> = (0..6).map(&mut read).collect();
            let values: Vec<_> = found.iter().map(Option::as_deref).collect();
            assert_eq!(values, [Some("b"), None, Some("a"), Some("b"), Some(""), None]);
            assert!(Arc::ptr_eq(found[0].as_ref().unwrap(), found[3].as_ref().unwrap()));
        }
    }

    #[test]
    fn reads_names_repeatedly_and_reports_unknown_names() {
        let texts = [Some("read"), Some("sideways"), None, Some("read"), Some("sideways")];
        for source in [by_key(&texts), plain(&texts)] {
            let cells: Cells<Names<Direction>> = super::texts(&source, "direction", false).unwrap();
            assert_eq!(cells.named(0, Direction::parse), Ok(Some(Direction::Read)));
            assert_eq!(cells.named(3, Direction::parse), Ok(Some(Direction::Read)));
            for unknown in [1, 4] {
                assert_eq!(cells.named(unknown, Direction::parse), Err(BadRow::unknown("direction")));
            }
            assert_eq!(
                (cells.named(2, Direction::parse), cells.named(9, Direction::parse)),
                (Ok(None), Ok(None))
            );
            let missing = BadRow { column: "direction", why: "no value" };
            assert_eq!(<ByName<Direction> as Read>::read(&cells, 2, &mut TextPool::default()), Err(missing));
        }
    }
}
