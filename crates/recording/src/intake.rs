//! Rows that wait to be written: taken from the threads that see events, also while the disk is slow. Does not write them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;
use model::{Event, Loss, LossKind, Nanos, Table};

use crate::table::RowBuffers;

/// Rows of one table that wait for a flush before it is time for one, and about how many bytes.
const MAX_BUFFERED_ROWS: u64 = 8192;
const MAX_BUFFERED_BYTES: usize = 1 << 20;

/// Rows of all tables.
#[derive(Default)]
pub(crate) struct Waiting {
    rows: RowBuffers,
    /// At the place of each table's number.
    tables: [Count; Table::ALL.len()],
    bytes: usize,
}

/// Some rows: how many, and when the first and the last of their events were.
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

    /// Both together.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            rows: self.rows + other.rows,
            oldest: self.oldest.min(other.oldest),
            newest: self.newest.max(other.newest),
        }
    }

    /// That they are not in the recording; none where there are none.
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
    /// All that ever came.
    taken: u64,
}

impl Count {
    fn is_full(&self) -> bool {
        self.rows.rows >= MAX_BUFFERED_ROWS || self.bytes >= MAX_BUFFERED_BYTES
    }
}

impl Waiting {
    /// Appends an event to its table; the place of the table, if that is full now.
    pub(crate) fn append(&mut self, event: &Event) -> Option<usize> {
        let bytes = self.rows.append(event);
        let at = Table::of(event) as usize;
        let count = self.tables.get_mut(at)?;
        let at_time = event.time();
        count.rows = count.rows.and(RowSpan { rows: 1, oldest: at_time, newest: at_time });
        count.bytes += bytes;
        count.taken += 1;
        self.bytes += bytes;
        count.is_full().then_some(at)
    }

    /// The places of tables that are full.
    pub(crate) fn full(&self) -> Vec<usize> {
        self.tables.iter().enumerate().filter(|(_, count)| count.is_full()).map(|(at, _)| at).collect()
    }

    /// Takes a table's rows out; none where there are none.
    pub(crate) fn take(&mut self, table: Table) -> Option<(RowSpan, Result<RecordBatch, ArrowError>)> {
        let count = self.tables.get_mut(table as usize)?;
        let rows = std::mem::take(&mut count.rows);
        self.bytes -= std::mem::take(&mut count.bytes);
        (rows.rows > 0).then(|| (rows, self.rows.take(table)))
    }

    /// How many rows of each table there ever were.
    pub(crate) fn taken(&self) -> impl Iterator<Item = (Table, u64)> {
        Table::ALL.into_iter().zip(self.tables.iter().map(|count| count.taken))
    }
}

/// A way into a recording for threads that must not wait until something is written: [`crate::Writer::tick`] writes what came
/// this way.
#[derive(Clone)]
pub struct Intake {
    waiting: Arc<Mutex<Waiting>>,
    most_bytes: usize,
}

impl Intake {
    pub(crate) fn new(waiting: &Arc<Mutex<Waiting>>, most_bytes: usize) -> Self {
        Self { waiting: Arc::clone(waiting), most_bytes }
    }

    /// Whether more than half as much waits as may.
    pub fn is_filling(&self) -> bool {
        lock(&self.waiting).bytes > self.most_bytes / 2
    }

    /// The way in, for some events in a row; everybody else waits as long.
    pub fn open(&self) -> IntakeGuard<'_> {
        IntakeGuard { waiting: lock(&self.waiting), most_bytes: self.most_bytes }
    }
}

/// An [`Intake`] that one thread has.
pub struct IntakeGuard<'i> {
    waiting: MutexGuard<'i, Waiting>,
    most_bytes: usize,
}

impl IntakeGuard<'_> {
    /// Takes an event, unless as much waits as may; for losses there is room always. Whether it was taken.
    #[must_use]
    pub fn take(&mut self, event: &Event) -> bool {
        let has_room = self.waiting.bytes < self.most_bytes || matches!(event, Event::Loss(_));
        if has_room {
            self.waiting.append(event);
        }
        has_room
    }
}

/// Nothing panics while it is held, and if it did, the columns of one table had lengths that differ, which an error says.
pub(crate) fn lock(waiting: &Mutex<Waiting>) -> MutexGuard<'_, Waiting> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}
