//! Finding a table's columns in a batch, and values in them. Does not know the tables.
//!
//! Text repeats, and so its dictionary is small beside its rows: each distinct one is shared, or read for what it names,
//! once a batch. Batches share nothing among each other: who counts the references to one is not held up by who makes
//! the next.

use std::cell::OnceCell;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::types::{ArrowPrimitiveType, Int32Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, DictionaryArray, ListArray, PrimitiveArray, RecordBatch, StringArray,
    StructArray,
};

use crate::text::TextPool;

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

/// Finds a column; none where it may be missing and is.
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

/// One column of values; without an array where it is missing.
pub(crate) struct Cells<A> {
    name: &'static str,
    array: Option<A>,
}

impl<A> Cells<A> {
    /// What is wrong with a row that has no value.
    pub(crate) fn missing_value(&self) -> BadRow {
        BadRow { column: self.name, why: "no value" }
    }
}

impl<A: Array + Clone + 'static> Cells<A> {
    /// Finds a column of Arrow's array type.
    pub(crate) fn find(source: &dyn Source, name: &'static str, nullable: bool) -> Result<Self, ColumnError> {
        let array = find(source, name, nullable, |column| column.as_any().downcast_ref::<A>().cloned())?;
        Ok(Self { name, array })
    }

    /// The array, where row `i` has a value in it.
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

    /// Which of `rows` are the elements of row `i`.
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

/// Text by dictionary as it was written, or plain as another tool may have rewritten it; and what each distinct text
/// stands for, once it was read.
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
        // Only where there are not more of them than rows.
        let distinct = if values.len() <= keys.len() { values.len() } else { 0 };
        let known = (0..distinct).map(|_| OnceCell::new()).collect();
        Some(Self { keys: Some(keys), values, known })
    }

    /// Where among the values row `i` has its text, if it has one.
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
/// A column of what is stored as text.
pub(crate) type Names<T> = TextColumn<Option<T>>;

/// Finds a column of either.
pub(crate) fn texts<T>(
    source: &dyn Source,
    name: &'static str,
    nullable: bool,
) -> Result<Cells<TextColumn<T>>, ColumnError> {
    Ok(Cells { name, array: find(source, name, nullable, TextColumn::of)? })
}

impl Cells<Texts> {
    /// The text in row `i`, if any, shared with equal ones.
    pub(crate) fn text(&self, i: usize, pool: &mut TextPool) -> Option<Arc<str>> {
        let column = self.array.as_ref()?;
        let place = column.place(i)?;
        let text = || column.values.value(place);
        Some(match column.known.get(place) {
            Some(cell) => Arc::clone(cell.get_or_init(|| Arc::from(text()))),
            None => pool.share(text()),
        })
    }

    /// Where the text of row `i` is among the column's distinct ones, if it has one.
    pub(crate) fn place(&self, i: usize) -> Option<usize> {
        self.array.as_ref()?.place(i)
    }
}

impl<T: Copy> Cells<Names<T>> {
    /// What row `i` names, if anything; `parse` reads a text, once for each distinct one.
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
    fn text_is_the_same_by_key_and_plain_and_equal_text_is_shared() {
        let texts = [Some("b"), None, Some("a"), Some("b"), Some("")];
        for source in [by_key(&texts), plain(&texts)] {
            let cells: Cells<Texts> = super::texts(&source, "thread", false).unwrap();
            let mut pool = TextPool::default();
            let mut read = |i| cells.text(i, &mut pool);
            let found: Vec<_> = (0..6).map(&mut read).collect();
            let shown: Vec<_> = found.iter().map(Option::as_deref).collect();
            assert_eq!(shown, [Some("b"), None, Some("a"), Some("b"), Some(""), None]);
            assert!(Arc::ptr_eq(found[0].as_ref().unwrap(), found[3].as_ref().unwrap()));
        }
    }

    #[test]
    fn a_name_is_read_however_often_and_what_names_nothing_is_said() {
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
