//! A row of a view before it is drawn: its key, its sort keys and its cells. Does not know which columns fit on the
//! screen.

use std::sync::Arc;

use model::{Cause, Nanos, Tid};
use report::files::GroupKey;
use report::quantity::NONE;

use crate::palette::Tone;
use crate::state::BrokerInfo;

/// A column of a view.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    /// Minimum width in columns of the terminal.
    pub(crate) width: usize,
    /// Its share of the remaining width; 0 for none.
    pub(crate) grow: usize,
    /// Maximum width.
    pub(crate) most: usize,
    pub(crate) is_number: bool,
    /// Columns with higher values are left out first; 0 is always shown.
    pub(crate) spare: u8,
}

impl Column {
    pub(crate) const fn text(name: &'static str, width: usize) -> Self {
        Self { name, width, grow: 0, most: width, is_number: false, spare: 0 }
    }

    pub(crate) const fn number(name: &'static str, width: usize) -> Self {
        Self { is_number: true, ..Self::text(name, width) }
    }

    pub(crate) const fn growing(self, grow: usize, most: usize) -> Self {
        Self { grow, most, ..self }
    }

    pub(crate) const fn spare(self, spare: u8) -> Self {
        Self { spare, ..self }
    }
}

/// The identity of a row, independent of the sort order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RowKey {
    Request(u64),
    Root(Arc<str>),
    Cause(Cause),
    Operation(u64),
    FileOfOperations(Option<Arc<str>>),
    Traffic(GroupKey),
    Thread(Tid),
    Role(&'static str),
}

/// A sort key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    Number(i64),
    Text(String),
}

macro_rules! ranks {
    ($($Type:ty: $value:ident => $rank:expr;)*) => {
        $(impl From<$Type> for Rank {
            fn from($value: $Type) -> Self {
                $rank
            }
        })*
    };
}

ranks! {
    i64: number => Self::Number(number);
    u64: count => Self::Number(i64::try_from(count).unwrap_or(i64::MAX));
    Nanos: time => Self::Number(time.0);
    // A fraction, with a resolution of a millionth.
    f64: share => Self::Number((share * 1e6) as i64);
    &str: text => Self::Text(text.to_owned());
    String: text => Self::Text(text);
}

/// A cell: pieces of text, each in one tone. All of it is safe to show.
pub(crate) type Cell = Vec<(String, Tone)>;

/// A cell of one piece.
pub(crate) fn cell(text: String, tone: Tone) -> Cell {
    vec![(text, tone)]
}

/// A cell of one piece without emphasis.
pub(crate) fn plain(text: impl Into<String>) -> Cell {
    cell(text.into(), Tone::Plain)
}

/// A dash for zero or an unknown value: columns of zeros would hide the other values.
pub(crate) fn dash() -> Cell {
    cell(NONE.to_owned(), Tone::Faint)
}

/// A row.
pub(crate) trait Item {
    fn key(&self) -> RowKey;

    /// Its sort key in a column.
    fn rank(&self, column: usize) -> Rank;

    /// Its cell in a column of this width.
    fn cell(&self, column: usize, width: usize, about: &BrokerInfo) -> Cell;

    /// The text that searches and filters match.
    fn words(&self) -> String;
}

/// Declares the columns of a kind of row: heading, sort key, and cell for a given width.
/// Also declares the key of a row, and the text that searches and filters match.
macro_rules! columns {
    ($COLUMNS:ident for $Row:ty, |$row:ident, $width:ident, $about:ident| {
        key: $key:expr,
        words: $words:expr,
        $($column:expr => $rank:expr, $cell:expr;)*
    }) => {
        pub(crate) const $COLUMNS: [Column; [$(stringify!($column)),*].len()] = [$($column),*];

        impl Item for $Row {
            fn key(&self) -> RowKey {
                let $row = self;
                $key
            }

            fn rank(&self, column: usize) -> Rank {
                let ranks: &[fn(&Self) -> Rank] = &[$(|$row| $rank.into()),*];
                ranks.get(column).map_or(Rank::Number(0), |rank| rank(self))
            }

            fn cell(&self, column: usize, width: usize, about: &BrokerInfo) -> Cell {
                let cells: &[fn(&Self, usize, &BrokerInfo) -> Cell] = &[$(|$row, $width, $about| {
                    let _ = ($width, $about);
                    $cell
                }),*];
                cells.get(column).map_or_else(Cell::new, |cell| cell(self, width, about))
            }

            fn words(&self) -> String {
                let $row = self;
                $words
            }
        }
    };
}
pub(crate) use columns;

/// Draws parts of a whole as letters, as many as their share of the width: `QQAAAAAAAA`.
/// A part that is too small for a letter has none.
pub(crate) fn bar(parts: &[(char, Tone, f64)], whole: f64, width: usize) -> Cell {
    let mut cell: Cell = Vec::new();
    let mut ends = Vec::with_capacity(parts.len());
    let mut sum = 0.0;
    for &(letter, tone, part) in parts {
        sum += part.max(0.0);
        ends.push((sum, letter, tone));
    }
    for column in 0..width {
        let middle = (column as f64 + 0.5) / width as f64 * whole;
        let at = ends.iter().find(|(end, ..)| *end > middle);
        let (letter, tone) = at.map_or((' ', Tone::Plain), |&(_, letter, tone)| (letter, tone));
        match cell.last_mut() {
            Some((text, last)) if *last == tone => text.push(letter),
            _ => cell.push((letter.to_string(), tone)),
        }
    }
    cell
}

#[cfg(test)]
mod tests {
    use super::bar;
    use crate::palette::Tone;

    fn letters(parts: &[(char, f64)], whole: f64, width: usize) -> String {
        let parts = parts.iter().map(|&(letter, part)| (letter, Tone::Plain, part)).collect::<Vec<_>>();
        bar(&parts, whole, width).into_iter().map(|(text, _)| text).collect()
    }

    #[test]
    fn bar_fills_its_width_in_proportion() {
        assert_eq!(letters(&[('Q', 1.0), ('A', 9.0)], 10.0, 10), "QAAAAAAAAA");
        assert_eq!(letters(&[('Q', 0.01), ('A', 9.99)], 10.0, 4), "AAAA");
        assert_eq!(letters(&[('C', 0.25)], 1.0, 8), "CC      ");
        assert_eq!(letters(&[], 0.0, 3), "   ");
        assert_eq!(letters(&[('A', f64::NAN)], 1.0, 3).len(), 3);
        assert_eq!(letters(&[('A', 1.0)], 1.0, 0), "");
    }
}
