//! The user's settings of one view: order, filter, selected row, tagged rows. Does not know what rows contain.

use std::collections::BTreeSet;

use crate::item::{Item, Rank, RowKey};
use crate::state::State;
use crate::view::{Items, Table, View};

/// Maximum number of tagged rows.
const MAX_TAGGED: usize = 1_000;

/// One view with the user's settings.
#[derive(Clone, Debug)]
pub(crate) struct Listing {
    view: View,
    pub(crate) grouped: bool,
    /// The column that rows are sorted by, and whether the highest comes first.
    pub(crate) sorted_by: usize,
    pub(crate) descending: bool,
    pub(crate) filter: String,
    pub(crate) tagged: BTreeSet<RowKey>,
    /// The selected row; `None` for the first one.
    selected: Option<RowKey>,
    /// Its index when it was last drawn.
    place: usize,
    /// The first visible row.
    top: usize,
}

/// Rows in order, and their total number.
pub(crate) struct Rows<'s> {
    pub(crate) items: Items<'s>,
    /// Number of rows without the filter.
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

    /// Sets grouping, and sorts by the view's default column.
    #[expect(clippy::expect_used, reason = "both are of one constant")]
    pub(crate) fn group(&mut self, grouped: bool) {
        self.grouped = grouped;
        let table = self.table();
        let sorted_by = table.columns.iter().position(|column| column.name == table.sorted_by);
        self.sort(sorted_by.expect("a table is sorted by one of its columns"));
        self.select(None);
    }

    /// Sorts by a column: numbers with the highest first.
    pub(crate) fn sort(&mut self, column: usize) {
        self.sorted_by = column;
        let column = self.table().columns.get(column);
        self.descending =
            column.is_none_or(|column| column.is_number || matches!(column.name, "TIME" | "LAST"));
    }

    /// The rows that match the filter, in order.
    pub(crate) fn rows<'s>(&self, state: &'s State) -> Rows<'s> {
        let mut items = (self.table().items)(state);
        let all = items.len();
        let filter = Pattern::of(&self.filter);
        items.retain(|item| filter.is_in(&item.words()));
        // Equal rows keep their order: rows that trade places cannot be read.
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

    /// Selects a row; with `None`, the first one.
    pub(crate) fn select(&mut self, key: Option<RowKey>) {
        if key.is_none() {
            (self.place, self.top) = (0, 0);
        }
        self.selected = key;
    }

    /// The index of the selected row. If that is no longer there, the index of the one in its place.
    pub(crate) fn place(&self, rows: &Rows<'_>) -> usize {
        let found =
            self.selected.as_ref().and_then(|key| rows.items.iter().position(|item| item.key() == *key));
        let last = rows.items.len().saturating_sub(1);
        if self.selected.is_none() { 0 } else { found.unwrap_or(self.place).min(last) }
    }

    /// The key of the selected row.
    pub(crate) fn selected(&self, rows: &Rows<'_>) -> Option<RowKey> {
        rows.items.get(self.place(rows)).map(|item| item.key())
    }

    /// Moves the selection by this many rows; negative is up.
    pub(crate) fn step(&mut self, rows: &Rows<'_>, by: isize) {
        let last = rows.items.len().saturating_sub(1);
        let place = self.place(rows).saturating_add_signed(by).min(last);
        self.select_index(rows, place);
    }

    pub(crate) fn select_index(&mut self, rows: &Rows<'_>, place: usize) {
        self.place = place;
        let key = rows.items.get(place).map(|item| item.key());
        // With the first row selected, the selection stays on the first row.
        self.select(key.filter(|_| place > 0));
    }

    /// The first of `height` rows to show, so that the selected one is among them.
    /// Remembers its index.
    pub(crate) fn scroll(&mut self, rows: &Rows<'_>, height: usize) -> usize {
        self.place = self.place(rows);
        let latest = rows.items.len().saturating_sub(height);
        let lowest = (self.place + 1).saturating_sub(height);
        self.top = self.top.min(latest).min(self.place).max(lowest);
        self.top
    }

    /// Tags or untags a row.
    pub(crate) fn tag(&mut self, key: RowKey) {
        if !self.tagged.remove(&key) && self.tagged.len() < MAX_TAGGED {
            self.tagged.insert(key);
        }
    }

    /// Selects the next matching row after the selected one, or that one itself. Continues from the first row after the
    /// last.
    pub(crate) fn find(&mut self, rows: &Rows<'_>, words: &str, further: bool) -> bool {
        let pattern = Pattern::of(words);
        let from = self.place(rows) + usize::from(further);
        let (before, after) = rows.items.split_at(from.min(rows.items.len()));
        let first = |items: &[Box<dyn Item + '_>]| items.iter().position(|item| pattern.is_in(&item.words()));
        let ahead = first(after).map(|at| at + before.len());
        let Some(place) = ahead.or_else(|| first(before)) else { return false };
        self.select_index(rows, place);
        true
    }
}

/// A search pattern: words, or alternatives separated by `|`; case-insensitive.
pub(crate) struct Pattern(Vec<String>);

impl Pattern {
    pub(crate) fn of(text: &str) -> Self {
        let words = text.split('|').map(str::trim).filter(|word| !word.is_empty());
        Self(words.map(str::to_lowercase).collect())
    }

    /// Whether any alternative occurs in a text. An empty pattern always matches.
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
    fn pattern_matches_any_alternative_in_any_case() {
        assert!(Pattern::of("").is_in("anything") && Pattern::of(" | ").is_in(""));
        assert!(Pattern::of("LOCK|gc").is_in("log-lock orders-3"));
        assert!(!Pattern::of("lock|gc").is_in("journal-commit"));
    }
}
