//! What the user has done to one view: order, filter, the row that is looked at, rows that are tagged. Does not know what
//! rows are about.

use std::collections::BTreeSet;

use crate::item::{Item, Rank, RowKey};
use crate::state::State;
use crate::view::{Items, Table, View};

/// Rows that may be tagged.
const MAX_TAGGED: usize = 1_000;

/// One view as the user left it.
#[derive(Clone, Debug)]
pub(crate) struct Listing {
    view: View,
    pub(crate) grouped: bool,
    /// The column that rows are sorted by, and whether the highest comes first.
    pub(crate) sorted_by: usize,
    pub(crate) descending: bool,
    pub(crate) filter: String,
    pub(crate) tagged: BTreeSet<RowKey>,
    /// The row that is looked at; none for whichever is first.
    selected: Option<RowKey>,
    /// Where it was when it was drawn last.
    place: usize,
    /// The first row that is shown.
    top: usize,
}

/// Rows in order, and what is known of them.
pub(crate) struct Rows<'s> {
    pub(crate) items: Items<'s>,
    /// How many there are without the filter.
    pub(crate) all: usize,
}

impl Listing {
    pub(crate) fn of(view: View) -> Self {
        let mut listing = Self {
            view,
            grouped: false,
            sorted_by: 0,
            descending: true,
            filter: String::new(),
            tagged: BTreeSet::new(),
            selected: None,
            place: 0,
            top: 0,
        };
        listing.group(false);
        listing
    }

    pub(crate) fn table(&self) -> &'static Table {
        self.view.table(self.grouped)
    }

    /// Lists rows apart or together, in the order that shows most of that.
    #[expect(clippy::expect_used, reason = "both are of one constant")]
    pub(crate) fn group(&mut self, grouped: bool) {
        self.grouped = grouped;
        let table = self.table();
        let sorted_by = table.columns.iter().position(|column| column.name == table.sorted_by);
        self.sort(sorted_by.expect("a table is sorted by one of its columns"));
        self.look_at(None);
    }

    /// Sorts by a column: numbers with the highest first.
    pub(crate) fn sort(&mut self, column: usize) {
        self.sorted_by = column;
        let column = self.table().columns.get(column);
        self.descending =
            column.is_none_or(|column| column.is_number || matches!(column.name, "TIME" | "LAST"));
    }

    /// The rows that the filter lets through, in order.
    pub(crate) fn rows<'s>(&self, state: &'s State) -> Rows<'s> {
        let mut items = (self.table().items)(state);
        let all = items.len();
        let filter = Pattern::of(&self.filter);
        items.retain(|item| filter.is_in(&item.words()));
        // Of equals always the same comes first: rows that trade places cannot be read.
        if self.descending {
            items.sort_by_cached_key(|item| (std::cmp::Reverse(self.rank(&**item)), item.key()));
        } else {
            items.sort_by_cached_key(|item| (self.rank(&**item), item.key()));
        }
        Rows { items, all }
    }

    fn rank(&self, item: &dyn Item) -> Rank {
        item.rank(self.sorted_by)
    }

    /// Looks at a row; at whichever comes first, where none is named.
    pub(crate) fn look_at(&mut self, key: Option<RowKey>) {
        if key.is_none() {
            (self.place, self.top) = (0, 0);
        }
        self.selected = key;
    }

    /// Where the row is that is looked at: another one takes its place where it is there no more.
    pub(crate) fn place(&self, rows: &Rows<'_>) -> usize {
        let found =
            self.selected.as_ref().and_then(|key| rows.items.iter().position(|item| item.key() == *key));
        let last = rows.items.len().saturating_sub(1);
        if self.selected.is_none() { 0 } else { found.unwrap_or(self.place).min(last) }
    }

    /// The key of the row that is looked at.
    pub(crate) fn selected(&self, rows: &Rows<'_>) -> Option<RowKey> {
        rows.items.get(self.place(rows)).map(|item| item.key())
    }

    /// Looks at the row so many further on; negative is back.
    pub(crate) fn step(&mut self, rows: &Rows<'_>, by: isize) {
        let last = rows.items.len().saturating_sub(1);
        let place = self.place(rows).saturating_add_signed(by).min(last);
        self.look_at_place(rows, place);
    }

    pub(crate) fn look_at_place(&mut self, rows: &Rows<'_>, place: usize) {
        self.place = place;
        let key = rows.items.get(place).map(|item| item.key());
        // Who looks at the first row follows what comes first.
        self.look_at(key.filter(|_| place > 0));
    }

    /// The first row to show of so many, so that the one that is looked at is among them. Keeps where that is.
    pub(crate) fn scroll(&mut self, rows: &Rows<'_>, height: usize) -> usize {
        self.place = self.place(rows);
        let latest = rows.items.len().saturating_sub(height);
        let lowest = (self.place + 1).saturating_sub(height);
        self.top = self.top.min(latest).min(self.place).max(lowest);
        self.top
    }

    /// Tags a row, or takes its tag.
    pub(crate) fn tag(&mut self, key: RowKey) {
        if !self.tagged.remove(&key) && self.tagged.len() < MAX_TAGGED {
            self.tagged.insert(key);
        }
    }

    /// The next row after the one that is looked at, or that one itself, that has these words; from the first on where the
    /// last was reached.
    pub(crate) fn find(&mut self, rows: &Rows<'_>, words: &str, further: bool) -> bool {
        let pattern = Pattern::of(words);
        let from = self.place(rows) + usize::from(further);
        let (before, after) = rows.items.split_at(from.min(rows.items.len()));
        let first = |items: &[Box<dyn Item + '_>]| items.iter().position(|item| pattern.is_in(&item.words()));
        let ahead = first(after).map(|at| at + before.len());
        let Some(place) = ahead.or_else(|| first(before)) else { return false };
        self.look_at_place(rows, place);
        true
    }
}

/// What to look for: words, or `|` between several; upper and lower case are one.
pub(crate) struct Pattern(Vec<String>);

impl Pattern {
    pub(crate) fn of(text: &str) -> Self {
        let words = text.split('|').map(str::trim).filter(|word| !word.is_empty());
        Self(words.map(str::to_lowercase).collect())
    }

    /// Whether any of it is there. Nothing is everywhere.
    pub(crate) fn is_in(&self, words: &str) -> bool {
        if self.0.is_empty() {
            return true;
        }
        let words = words.to_lowercase();
        self.0.iter().any(|word| words.contains(word))
    }
}

#[cfg(test)]
mod tests {
    use super::Pattern;

    #[test]
    fn a_pattern_is_any_of_its_words_in_any_case() {
        assert!(Pattern::of("").is_in("anything") && Pattern::of(" | ").is_in(""));
        assert!(Pattern::of("LOCK|gc").is_in("log-lock orders-3"));
        assert!(!Pattern::of("lock|gc").is_in("journal-commit"));
    }
}
