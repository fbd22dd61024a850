//! The views: what each lists, in which columns, and what it puts first. Does not filter, sort or draw.

pub(crate) mod causes;
pub(crate) mod files;
pub(crate) mod requests;
pub(crate) mod threads;
pub(crate) mod writes;

use crate::item::{Column, Item};
use crate::state::State;

/// A view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    /// Slow requests.
    Requests,
    /// What they waited for.
    Causes,
    /// The file operations that took longest.
    Writes,
    /// What was read and written.
    Files,
    /// What threads did.
    Threads,
}

impl View {
    /// Every view, in the order of its number.
    pub(crate) const ALL: [Self; 5] =
        [Self::Requests, Self::Causes, Self::Writes, Self::Files, Self::Threads];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Requests => "Requests",
            Self::Causes => "Causes",
            Self::Writes => "Writes",
            Self::Files => "Files",
            Self::Threads => "Threads",
        }
    }

    /// The view after it, or before it.
    pub(crate) fn next(self, by: usize) -> Self {
        let at = (self as usize + by) % Self::ALL.len();
        Self::ALL.get(at).copied().unwrap_or(Self::Requests)
    }

    /// What it lists, apart or together; none where there is but one way.
    pub(crate) fn grouping(self, grouped: bool) -> Option<&'static str> {
        Some(match (self, grouped) {
            (Self::Requests, _) => return None,
            (Self::Causes, false) => "by root",
            (Self::Causes, true) => "by cause",
            (Self::Writes, false) => "one by one",
            (Self::Writes, true) | (Self::Files, false) => "by file",
            (Self::Files, true) => "by kind",
            (Self::Threads, false) => "by thread",
            (Self::Threads, true) => "by role",
        })
    }

    pub(crate) fn columns(self, grouped: bool) -> &'static [Column] {
        match (self, grouped) {
            (Self::Requests, _) => &requests::COLUMNS,
            (Self::Causes, false) => &causes::ROOT_COLUMNS,
            (Self::Causes, true) => &causes::CAUSE_COLUMNS,
            (Self::Writes, false) => &writes::COLUMNS,
            (Self::Writes, true) => &writes::FILE_COLUMNS,
            (Self::Files, false) => &files::COLUMNS,
            (Self::Files, true) => &files::KIND_COLUMNS,
            (Self::Threads, false) => &threads::COLUMNS,
            (Self::Threads, true) => &threads::ROLE_COLUMNS,
        }
    }

    /// The column that it is sorted by at first: what costs most comes first.
    pub(crate) fn sorted_by(self, grouped: bool) -> usize {
        match (self, grouped) {
            (Self::Requests, _) => requests::LATENCY,
            (Self::Causes, false) => causes::ROOT_TIME,
            (Self::Causes, true) => causes::CAUSE_TIME,
            (Self::Writes, false) => writes::LATENCY,
            (Self::Writes, true) => writes::FILE_SLOWEST,
            (Self::Files, _) => files::MOVED,
            (Self::Threads, false) => threads::BUSY,
            (Self::Threads, true) => threads::ROLE_BUSY,
        }
    }

    /// Its rows, in no order.
    pub(crate) fn items(self, grouped: bool, state: &State) -> Vec<Box<dyn Item + '_>> {
        match (self, grouped) {
            (Self::Requests, _) => requests::items(state),
            (Self::Causes, false) => causes::roots(state),
            (Self::Causes, true) => causes::causes(state),
            (Self::Writes, false) => writes::operations(state),
            (Self::Writes, true) => writes::by_file(state),
            (Self::Files, false) => files::items(state.traffic.by_file()),
            (Self::Files, true) => files::items(state.traffic.by_kind()),
            (Self::Threads, false) => threads::threads(state),
            (Self::Threads, true) => threads::roles(state),
        }
    }

    /// What to say where it lists nothing.
    pub(crate) fn empty(self) -> &'static str {
        match self {
            Self::Requests => "no slow request yet: nothing took that long",
            Self::Causes => "nothing has slowed a request down yet",
            Self::Writes => "no file operation of the broker was seen yet",
            Self::Files => "nothing was read or written yet",
            Self::Threads => "nothing was seen of the broker's threads in the last seconds",
        }
    }
}
