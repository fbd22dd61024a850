//! The views: the rows of each, its columns and its default order. Does not filter, sort or draw.

pub(crate) mod causes;
pub(crate) mod files;
pub(crate) mod requests;
pub(crate) mod threads;
pub(crate) mod writes;

use crate::item::{Column, Item};
use crate::state::State;

/// Rows of one kind.
pub(crate) struct Table {
    /// What rows are grouped by; `None` if the view has only one table.
    pub(crate) grouping: Option<&'static str>,
    pub(crate) columns: &'static [Column],
    /// The default sort column, by cost.
    pub(crate) sorted_by: &'static str,
    /// Its rows, in no particular order.
    pub(crate) items: fn(&State) -> Items<'_>,
}

/// Rows of any kind.
pub(crate) type Items<'s> = Vec<Box<dyn Item + 's>>;

fn rows<'s, T: Item + 's>(rows: impl Iterator<Item = T>) -> Items<'s> {
    rows.map(|row| Box::new(row) as Box<dyn Item + 's>).collect()
}

/// A view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    /// Slow requests.
    Requests,
    /// Root events and causes.
    Causes,
    /// The slowest file operations.
    Writes,
    /// Traffic of files.
    Files,
    /// Time of threads.
    Threads,
}

impl View {
    /// Every view, in the order of its number.
    pub(crate) const ALL: [Self; 5] =
        [Self::Requests, Self::Causes, Self::Writes, Self::Files, Self::Threads];

    /// Its name, its tables without and with grouping, and the text for an empty one.
    pub(crate) fn declaration(self) -> (&'static str, [&'static Table; 2], &'static str) {
        match self {
            Self::Requests => ("Requests", [&requests::ALL; 2], "no slow request yet"),
            Self::Causes => {
                ("Causes", [&causes::BY_ROOT, &causes::BY_CAUSE], "no cause of a slow request yet")
            }
            Self::Writes => (
                "Writes",
                [&writes::ONE_BY_ONE, &writes::BY_FILE],
                "no file operation of the broker was seen yet",
            ),
            Self::Files => ("Files", [&files::BY_FILE, &files::BY_KIND], "nothing was read or written yet"),
            Self::Threads => (
                "Threads",
                [&threads::BY_THREAD, &threads::BY_ROLE],
                "no activity of the broker's threads in the last seconds",
            ),
        }
    }

    /// The view `by` places further, wrapping around.
    pub(crate) fn next(self, by: usize) -> Self {
        let at = (self as usize + by) % Self::ALL.len();
        Self::ALL.get(at).copied().unwrap_or(Self::Requests)
    }

    /// Its table, with or without grouping.
    pub(crate) fn table(self, grouped: bool) -> &'static Table {
        let (_, [apart, together], _) = self.declaration();
        if grouped { together } else { apart }
    }
}
