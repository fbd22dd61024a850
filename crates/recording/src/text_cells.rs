//! Reading columns of text, and of what is stored as text. Does not know the tables.
//!
//! Text repeats, and so its dictionary is small beside its rows: each distinct one is shared, or read for what it names,
//! once a batch. Batches share nothing among each other: who counts the references to one is not held up by who makes
//! the next.

use std::cell::OnceCell;
use std::net::SocketAddr;
use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{Array as _, DictionaryArray, StringArray};

use crate::cells::{BadRow, Cells, ColumnError, MaybeCells, Source, Stored, absent, mistyped};
use crate::columns::{Kind, Maybe, Name, Text};
use crate::text::TextPool;

/// A value that is stored as text.
pub(crate) trait Named: Copy {
    /// What the text stands for, if anything.
    fn named(text: &str) -> Option<Self>;
}

macro_rules! named {
    ($($value:ty),*) => {$(
        impl Named for $value {
            fn named(text: &str) -> Option<Self> {
                Self::parse(text)
            }
        }
    )*};
}
named!(
    model::BrokerState,
    model::Cause,
    model::Direction,
    model::FileKind,
    model::FileOpKind,
    model::HostScope,
    model::JvmPauseKind,
    model::LockKind,
    model::LockSource,
    model::LossKind,
    model::SocketOpKind,
    model::SpanSource,
    model::TcpEventKind,
    model::TopicId
);

impl Named for SocketAddr {
    fn named(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

/// Text by dictionary as it was written, or plain as another tool may have rewritten it.
struct Column {
    keys: Option<DictionaryArray<Int32Type>>,
    values: StringArray,
}

impl Column {
    /// Finds the column; none where it may be missing and is.
    fn find<K: Kind>(source: &dyn Source, name: &'static str) -> Result<Option<Self>, ColumnError> {
        let Some(column) = source.column(name) else {
            return if K::NULLABLE { Ok(None) } else { Err(absent(name)) };
        };
        let any = column.as_any();
        if let Some(plain) = any.downcast_ref::<StringArray>() {
            return Ok(Some(Self { keys: None, values: plain.clone() }));
        }
        let keys = any.downcast_ref::<DictionaryArray<Int32Type>>();
        let values = keys.and_then(|keys| keys.values().as_any().downcast_ref::<StringArray>());
        match (keys, values) {
            (Some(keys), Some(values)) => Ok(Some(Self { keys: Some(keys.clone()), values: values.clone() })),
            _ => Err(mistyped(name, column.data_type(), &K::data_type())),
        }
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

    /// Room for what each distinct text stands for; none where there are not much fewer of them than rows.
    fn room<T>(&self) -> Vec<OnceCell<T>> {
        let rows = self.keys.as_ref().map_or(0, DictionaryArray::len);
        let distinct = if self.values.len() <= rows { self.values.len() } else { 0 };
        (0..distinct).map(|_| OnceCell::new()).collect()
    }
}

/// The cells of a column of text.
pub(crate) struct Texts {
    column: Column,
    shared: Vec<OnceCell<Arc<str>>>,
}

impl Texts {
    fn shared(&self, i: usize, pool: &mut TextPool) -> Option<Arc<str>> {
        let place = self.column.place(i)?;
        let text = || self.column.values.value(place);
        Some(match self.shared.get(place) {
            Some(cell) => Arc::clone(cell.get_or_init(|| Arc::from(text()))),
            None => pool.share(text()),
        })
    }
}

impl Stored for Text {
    type Cells = Cells<Texts>;
    fn cells(source: &dyn Source, name: &'static str) -> Result<Self::Cells, ColumnError> {
        texts::<Self>(source, name)
    }
}

impl MaybeCells<Text> for Maybe<Text> {
    fn find(source: &dyn Source, name: &'static str) -> Result<Cells<Texts>, ColumnError> {
        texts::<Self>(source, name)
    }
}

fn texts<K: Kind>(source: &dyn Source, name: &'static str) -> Result<Cells<Texts>, ColumnError> {
    let column = Column::find::<K>(source, name)?;
    Ok(Cells { name, array: column.map(|column| Texts { shared: column.room(), column }) })
}

impl Cells<Texts> {
    /// The text in row `i`, if any, shared with equal ones.
    pub(crate) fn maybe(&self, i: usize, pool: &mut TextPool) -> Option<Arc<str>> {
        self.array.as_ref()?.shared(i, pool)
    }

    /// Where the text of row `i` is among the column's distinct ones, if it has one.
    pub(crate) fn place(&self, i: usize) -> Option<usize> {
        self.array.as_ref()?.column.place(i)
    }

    /// The text in row `i`, shared with equal ones.
    pub(crate) fn at(&self, i: usize, pool: &mut TextPool) -> Result<Arc<str>, BadRow> {
        self.maybe(i, pool).ok_or_else(|| self.missing_value())
    }
}

/// The cells of a column of what is stored as text.
pub(crate) struct Names<T> {
    column: Column,
    read: Vec<OnceCell<Option<T>>>,
}

impl<T: Named> Names<T> {
    /// What the text at a place names.
    fn named(&self, place: usize) -> Option<T> {
        let read = || T::named(self.column.values.value(place));
        self.read.get(place).map_or_else(read, |cell| *cell.get_or_init(read))
    }
}

impl<T: Named> Stored for Name<T> {
    type Cells = Cells<Names<T>>;
    fn cells(source: &dyn Source, name: &'static str) -> Result<Self::Cells, ColumnError> {
        names::<Self, T>(source, name)
    }
}

impl<T: Named> MaybeCells<Name<T>> for Maybe<Name<T>> {
    fn find(source: &dyn Source, name: &'static str) -> Result<Cells<Names<T>>, ColumnError> {
        names::<Self, T>(source, name)
    }
}

/// Finds the cells of a column of kind `K`.
pub(crate) fn names<K: Kind, T: Named>(
    source: &dyn Source,
    name: &'static str,
) -> Result<Cells<Names<T>>, ColumnError> {
    let column = Column::find::<K>(source, name)?;
    Ok(Cells { name, array: column.map(|column| Names { read: column.room(), column }) })
}

impl<T: Named> Cells<Names<T>> {
    /// What row `i` names.
    pub(crate) fn at(&self, i: usize) -> Result<T, BadRow> {
        self.maybe(i)?.ok_or_else(|| self.missing_value())
    }

    /// What row `i` names, if anything.
    pub(crate) fn maybe(&self, i: usize) -> Result<Option<T>, BadRow> {
        let Some(names) = &self.array else { return Ok(None) };
        let Some(place) = names.column.place(i) else { return Ok(None) };
        names.named(place).map(Some).ok_or(BadRow::unknown(self.name))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::types::Int32Type;
    use arrow_array::{ArrayRef, DictionaryArray, StringArray};
    use model::Direction;

    use super::{BadRow, Cells, Name, Named as _, Names, Source, Text};
    use crate::cells::Stored as _;
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
            let cells = Text::cells(&source, "thread").unwrap();
            let mut pool = TextPool::default();
            let mut read = |i| cells.maybe(i, &mut pool);
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
            let cells: Cells<Names<Direction>> = Name::cells(&source, "direction").unwrap();
            assert_eq!(cells.at(0), Ok(Direction::Read));
            assert_eq!(cells.at(3), Ok(Direction::Read));
            for unknown in [1, 4] {
                assert_eq!(cells.at(unknown), Err(BadRow::unknown("direction")));
            }
            let missing = Err(BadRow { column: "direction", why: "no value" });
            assert_eq!((cells.at(2), cells.at(9)), (missing, missing));
        }
        assert_eq!(Direction::named("sideways"), None);
    }
}
