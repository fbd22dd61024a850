//! The tables of a recording: rows that wait to be written, and batches that become events; expanded from the list of
//! events in `model`.

use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, SchemaRef};
use model::{
    BlockIo, BrokerChange, CpuGap, CpuSample, DirtyThrottle, Event, FileOp, HandlerCall, HostSample,
    JournalCommit, JvmPause, KernelSpan, LockWait, Loss, OffCpu, PartitionState, ProcessStop, Reclaim,
    Request, RequestLatencies, SocketOp, Table, TcpEvent, TlsTraffic,
};

use crate::cells::{BadRow, ColumnError};
use crate::columns::{self, Projection};
use crate::rows::{Append, ReadRow, batch};
use crate::text::TextPool;

/// The folder of a table in the recording at `dir`.
pub(crate) fn folder(table: Table, dir: &Path) -> PathBuf {
    dir.join(table.as_str())
}

/// The columns of a table.
pub(crate) fn schema(table: Table) -> SchemaRef {
    columns::schema(&table.columns())
}

/// The columns of a table that its events are read from.
pub(crate) fn projection(table: Table) -> Projection {
    Projection::of(&table.columns())
}

macro_rules! tables {
    ($(($Row:ident $Table:ident $folder:literal))*) => {
        /// Rows of all tables, not yet written.
        #[derive(Default)]
        #[allow(non_snake_case, reason = "fields are named by their rows")]
        pub(crate) struct RowBuffers { $($Row: <$Row as Append>::Builder,)* }

        impl RowBuffers {
            /// Appends an event to its table; returns its approximate size in bytes.
            pub(crate) fn append(&mut self, event: &Event) -> usize {
                match event {
                    $(Event::$Row(row) => {
                        $Row::append(row, &mut self.$Row);
                        $Row::bytes(row)
                    })*
                }
            }

            /// Takes a table's rows out.
            pub(crate) fn take(&mut self, table: Table) -> Result<RecordBatch, ArrowError> {
                match table { $(Table::$Table => batch::<$Row>(&mut self.$Row),)* }
            }
        }

        /// Appends the events of a batch, and the faults of rows that cannot be decoded.
        pub(crate) fn decode(
            table: Table,
            batch: &RecordBatch,
            pool: &mut TextPool,
            events: &mut Vec<Event>,
            bad_rows: &mut Vec<BadRow>,
        ) -> Result<(), ColumnError> {
            match table { $(Table::$Table => decode_rows::<$Row>(batch, pool, events, bad_rows),)* }
        }
    };
}

model::events!(tables);

fn decode_rows<R: ReadRow>(
    batch: &RecordBatch,
    pool: &mut TextPool,
    events: &mut Vec<Event>,
    bad_rows: &mut Vec<BadRow>,
) -> Result<(), ColumnError>
where
    Event: From<R>,
{
    let cells = R::cells(batch, "", false)?;
    for i in 0..batch.num_rows() {
        match R::read(&cells, i, pool) {
            Ok(row) => events.push(row.into()),
            Err(fault) => bad_rows.push(fault),
        }
    }
    Ok(())
}
