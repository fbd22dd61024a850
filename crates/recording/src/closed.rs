//! The complete parts of a recording: how much of the disk they take, and which of them is removed first. Does not
//! touch their files.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use model::Table;

use crate::intake::RowSpan;
use crate::part::Part;

/// A part that is complete.
#[derive(Clone, Debug)]
pub(crate) struct ClosedPart {
    pub(crate) table: Table,
    pub(crate) part: Part,
    pub(crate) rows: RowSpan,
    /// Size of its files.
    pub(crate) bytes: u64,
    /// Whether its files are being replaced.
    pub(crate) is_busy: bool,
}

/// All complete parts, in the order in which they became complete.
#[derive(Default)]
pub(crate) struct ClosedParts(Mutex<Parts>);

#[derive(Default)]
struct Parts {
    parts: VecDeque<ClosedPart>,
    bytes: u64,
}

impl ClosedParts {
    /// Size of all their files.
    pub(crate) fn bytes(&self) -> u64 {
        self.lock().bytes
    }

    /// Adds the newest part.
    pub(crate) fn push(&self, part: ClosedPart) {
        let mut closed = self.lock();
        closed.bytes += part.bytes;
        closed.parts.push_back(part);
    }

    /// Keeps a part from being taken while its files are replaced; returns whether it is still there.
    pub(crate) fn hold(&self, part: &Part) -> bool {
        self.lock().find(part).map(|found| found.is_busy = true).is_some()
    }

    /// Ends the hold; `bytes` is the new size of the part's files, if it has changed.
    pub(crate) fn release(&self, part: &Part, bytes: Option<u64>) {
        let mut closed = self.lock();
        let Some(found) = closed.find(part) else { return };
        found.is_busy = false;
        let before = found.bytes;
        found.bytes = bytes.unwrap_or(before);
        closed.bytes = closed.bytes - before + bytes.unwrap_or(before);
    }

    /// Takes out the oldest removable part.
    pub(crate) fn take_oldest(&self) -> Option<ClosedPart> {
        let mut closed = self.lock();
        let at = closed.parts.iter().position(|part| is_removable(part.table) && !part.is_busy)?;
        let oldest = closed.parts.remove(at)?;
        closed.bytes -= oldest.bytes;
        Some(oldest)
    }

    /// Puts back a part that could not be removed.
    pub(crate) fn restore(&self, part: ClosedPart) {
        let mut closed = self.lock();
        closed.bytes += part.bytes;
        closed.parts.push_front(part);
    }

    /// Nothing panics while it is held.
    fn lock(&self) -> MutexGuard<'_, Parts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Parts {
    /// Searches from the end: callers look for the newest parts, which are last.
    fn find(&mut self, part: &Part) -> Option<&mut ClosedPart> {
        self.parts.iter_mut().rev().find(|closed| closed.part == *part)
    }
}

/// Whether a table's parts may be removed to make room: the few rows that say what is missing are kept.
pub(crate) fn is_removable(table: Table) -> bool {
    !matches!(table, Table::Losses | Table::BrokerChanges)
}

#[cfg(test)]
mod tests {
    use model::Table;

    use super::{ClosedPart, ClosedParts};
    use crate::intake::RowSpan;
    use crate::part::Part;

    fn part(table: Table, number: u32) -> ClosedPart {
        let part = Part::new(table.as_str().into(), number);
        ClosedPart { table, part, rows: RowSpan::NONE, bytes: 100, is_busy: false }
    }

    #[test]
    fn takes_the_oldest_part_unless_held_or_a_table_of_losses() {
        let closed = ClosedParts::default();
        let [losses, first, second] =
            [part(Table::Losses, 1), part(Table::OffCpu, 1), part(Table::FileOps, 1)];
        for part in [&losses, &first, &second] {
            closed.push(part.clone());
        }
        assert!(closed.hold(&first.part));
        assert_eq!(closed.take_oldest().map(|oldest| oldest.part), Some(second.part.clone()));
        assert!(!closed.hold(&second.part), "it is gone");
        assert!(closed.take_oldest().is_none());
        closed.release(&first.part, Some(30));
        assert_eq!(closed.bytes(), 130);
        let oldest = closed.take_oldest().unwrap();
        assert_eq!((oldest.part.clone(), closed.bytes()), (first.part, 100));
        closed.restore(oldest);
        assert_eq!(closed.bytes(), 130);
    }
}
