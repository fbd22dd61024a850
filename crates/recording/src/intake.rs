//! Rows that wait to be written.
//! Accepts them from the threads that see events, even while the disk is slow. Does not write them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;
use model::{Event, Loss, LossKind, Nanos, Table};

use crate::table::RowBuffers;

/// A table with this many waiting rows, or about this many bytes, is flushed early.
const MAX_BUFFERED_ROWS: u64 = 8192;
const MAX_BUFFERED_BYTES: usize = 1 << 20;

/// Rows of all tables.
#[derive(Default)]
pub(crate) struct Waiting {
    rows: RowBuffers,
    /// Indexed by the table's number.
    tables: [Count; Table::ALL.len()],
    bytes: usize,
}

/// A number of rows, with the times of their oldest and newest events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowSpan {
    pub(crate) rows: u64,
    pub(crate) oldest: Nanos,
    pub(crate) newest: Nanos,
}

impl Default for RowSpan {
    fn default() -> Self {
        Self::NONE
    }
}

impl RowSpan {
    pub(crate) const NONE: Self = Self { rows: 0, oldest: Nanos::MAX, newest: Nanos::MIN };

    /// Combines both spans.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            rows: self.rows + other.rows,
            oldest: self.oldest.min(other.oldest),
            newest: self.newest.max(other.newest),
        }
    }

    /// The loss of these rows; `None` if there are none.
    pub(crate) fn loss(self, why: &str) -> Option<Loss> {
        let (start, end, count) = (self.oldest, self.newest, self.rows);
        (count > 0).then(|| Loss { start, end, kind: LossKind::EventsDropped, count, detail: why.into() })
    }
}

/// Rows of one table.
#[derive(Clone, Copy, Default)]
struct Count {
    rows: RowSpan,
    bytes: usize,
    /// Rows so far, written ones included.
    total_rows: u64,
}

impl Count {
    fn is_full(&self) -> bool {
        self.rows.rows >= MAX_BUFFERED_ROWS || self.bytes >= MAX_BUFFERED_BYTES
    }
}

impl Waiting {
    /// Appends an event to its table; returns the table's index if the table is now full.
    pub(crate) fn append(&mut self, event: &Event) -> Option<usize> {
        let bytes = self.rows.append(event);
        let at = Table::of(event) as usize;
        let count = self.tables.get_mut(at)?;
        let at_time = event.time();
        count.rows = count.rows.and(RowSpan { rows: 1, oldest: at_time, newest: at_time });
        count.bytes += bytes;
        count.total_rows += 1;
        self.bytes += bytes;
        count.is_full().then_some(at)
    }

    /// Indexes of full tables.
    pub(crate) fn full(&self) -> Vec<usize> {
        self.tables.iter().enumerate().filter(|(_, count)| count.is_full()).map(|(at, _)| at).collect()
    }

    /// Takes a table's rows out; `None` if there are none.
    pub(crate) fn take(&mut self, table: Table) -> Option<(RowSpan, Result<RecordBatch, ArrowError>)> {
        let count = self.tables.get_mut(table as usize)?;
        let rows = std::mem::take(&mut count.rows);
        self.bytes -= std::mem::take(&mut count.bytes);
        (rows.rows > 0).then(|| (rows, self.rows.take(table)))
    }

    /// Rows of each table so far, written ones included.
    pub(crate) fn total_rows(&self) -> impl Iterator<Item = (Table, u64)> {
        Table::ALL.into_iter().zip(self.tables.iter().map(|count| count.total_rows))
    }
}

/// Adds events to a recording from threads that must not wait for a write: [`crate::Writer::tick`] writes them.
#[derive(Clone)]
pub struct Intake {
    waiting: Arc<Mutex<Waiting>>,
    max_bytes: usize,
}

impl Intake {
    pub(crate) fn new(waiting: &Arc<Mutex<Waiting>>, max_bytes: usize) -> Self {
        Self { waiting: Arc::clone(waiting), max_bytes }
    }

    /// Whether more than half of the capacity is in use.
    pub fn is_filling(&self) -> bool {
        lock(&self.waiting).bytes > self.max_bytes / 2
    }

    /// Locks the intake for several events in a row; all other threads wait meanwhile.
    pub fn open(&self) -> IntakeGuard<'_> {
        IntakeGuard { waiting: lock(&self.waiting), max_bytes: self.max_bytes }
    }
}

/// An [`Intake`] that one thread has locked.
pub struct IntakeGuard<'i> {
    waiting: MutexGuard<'i, Waiting>,
    max_bytes: usize,
}

impl IntakeGuard<'_> {
    /// Takes an event unless the intake is full; losses always fit. Returns whether the event was taken.
    #[must_use]
    pub fn take(&mut self, event: &Event) -> bool {
        let has_room = self.waiting.bytes < self.max_bytes || matches!(event, Event::Loss(_));
        if has_room {
            self.waiting.append(event);
        }
        has_room
    }
}

/// Locks the waiting rows.
/// Nothing panics while the lock is held; a panic would leave one table's columns with different lengths, which becomes
/// an error.
pub(crate) fn lock(waiting: &Mutex<Waiting>) -> MutexGuard<'_, Waiting> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}
