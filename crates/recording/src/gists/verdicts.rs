//! Causes of verdicts that were saved, with the latency of the request that each is about.

use std::io;
use std::sync::Arc;

use arrow_array::RecordBatch;
use model::{Cause, Nanos};

use super::Gists;
use crate::cells::{BadRow, ColumnError, RowCells as _, cells};
use crate::columns::{I64, Maybe, Name};
use crate::columns_ahead;
use crate::notes::Notes;
use crate::part::Part;
use crate::verdicts::FOLDER;

cells! {
    VerdictCells {
        cause: Name<Cause>,
        arrival_ns: I64,
        end_ns: Maybe<I64>,
    }
}

impl Gists<(Cause, Nanos)> {
    /// Those of these parts, read ahead by a thread.
    ///
    /// # Errors
    /// The operating system's, where it gives no thread.
    pub(crate) fn of_verdicts(parts: Vec<Part>, notes: &Arc<Notes>) -> io::Result<Self> {
        columns_ahead::read(FOLDER, parts, notes, is_read, verdicts).map(Self)
    }
}

pub(super) fn is_read(column: &str) -> bool {
    VerdictCells::NAMES.contains(&column)
}

/// A row that cannot be a verdict is left out; so is one on a request that was not answered.
fn verdicts(batch: &RecordBatch) -> Result<Vec<(Cause, Nanos)>, ColumnError> {
    let cells = VerdictCells::of(batch)?;
    Ok((0..batch.num_rows()).filter_map(|i| cells.read(i).ok().flatten()).collect())
}

impl VerdictCells {
    fn read(&self, i: usize) -> Result<Option<(Cause, Nanos)>, BadRow> {
        let (cause, arrival) = (self.cause.at(i)?, Nanos(self.arrival_ns.at(i)?));
        Ok(self.end_ns.maybe(i).map(|end| (cause, Nanos(end) - arrival)))
    }
}
