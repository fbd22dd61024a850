//! Some of the host's figures: of some hundred a second, few are wanted.

use std::io;
use std::sync::Arc;

use arrow_array::RecordBatch;
use model::{HostSample, HostScope, Nanos};

use super::Gists;
use crate::cells::{BadRow, ColumnError, RowCells as _, cells};
use crate::columns::{F64, I64, Name, Text};
use crate::columns_ahead;
use crate::notes::Notes;
use crate::part::Part;
use crate::table::Table;
use crate::text::TextPool;

cells! {
    SampleCells {
        start_ns: I64,
        end_ns: I64,
        scope: Name<HostScope>,
        name: Text,
        metric: Text,
        value: F64,
    }
}

impl Gists<HostSample> {
    /// Those of these parts that are wanted, read ahead by a thread.
    ///
    /// # Errors
    /// The operating system's, where it gives no thread.
    pub(crate) fn of_samples(
        parts: Vec<Part>,
        notes: &Arc<Notes>,
        wanted: fn(HostScope, &str) -> bool,
    ) -> io::Result<Self> {
        let mut pool = TextPool::default();
        let convert = move |batch: &RecordBatch| samples(batch, &mut pool, wanted);
        columns_ahead::read(Table::HostSamples.folder(), parts, notes, is_read, convert).map(Self)
    }
}

pub(super) fn is_read(column: &str) -> bool {
    SampleCells::NAMES.contains(&column)
}

/// A row that lacks something is left out: who reads the events says so.
fn samples(
    batch: &RecordBatch,
    pool: &mut TextPool,
    wanted: fn(HostScope, &str) -> bool,
) -> Result<Vec<HostSample>, ColumnError> {
    let cells = SampleCells::of(batch)?;
    let rows = (0..batch.num_rows()).filter_map(|i| cells.read(i, pool, wanted).ok().flatten());
    Ok(rows.collect())
}

impl SampleCells {
    fn read(
        &self,
        i: usize,
        pool: &mut TextPool,
        wanted: fn(HostScope, &str) -> bool,
    ) -> Result<Option<HostSample>, BadRow> {
        let (scope, metric) = (self.scope.at(i)?, self.metric.at(i, pool)?);
        if !wanted(scope, &metric) {
            return Ok(None);
        }
        Ok(Some(HostSample {
            start: Nanos(self.start_ns.at(i)?),
            end: Nanos(self.end_ns.at(i)?),
            scope,
            name: self.name.at(i, pool)?,
            metric,
            value: self.value.at(i)?,
        }))
    }
}
