//! Some columns of a table, batch after batch, part after part, made into something smaller than events by a thread of its own.
//! Does not know what.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use arrow_array::RecordBatch;

use crate::Error;
use crate::cells::ColumnError;
use crate::chosen::OUTLINES_AT_ONCE;
use crate::fence::fenced;
use crate::notes::Notes;
use crate::parquet_part::Wanted;
use crate::part::Part;
use crate::table_events::open_columns;

/// Batches that are read ahead of whoever takes them.
const BATCHES_AHEAD: usize = 2;

/// What each batch of these parts is made into. A part ends with its first error.
///
/// # Errors
/// The operating system's, where it gives no thread.
pub(crate) fn read<T: Send + 'static>(
    folder: &str,
    parts: Vec<Part>,
    notes: &Arc<Notes>,
    wanted: fn(&str) -> bool,
    mut convert: impl FnMut(&RecordBatch) -> Result<T, ColumnError> + Send + 'static,
) -> io::Result<Receiver<Result<T, Error>>> {
    let notes = Arc::clone(notes);
    let (sender, made) = sync_channel(BATCHES_AHEAD);
    let read = move || {
        for part in parts {
            if !send_part(&part, &notes, &wanted, &mut convert, &sender) {
                return;
            }
        }
    };
    std::thread::Builder::new().name(format!("columns-{folder}")).spawn(read)?;
    Ok(made)
}

/// Whether somebody still takes them.
fn send_part<T>(
    part: &Part,
    notes: &Arc<Notes>,
    wanted: Wanted<'_>,
    convert: &mut dyn FnMut(&RecordBatch) -> Result<T, ColumnError>,
    sender: &SyncSender<Result<T, Error>>,
) -> bool {
    let batches = match open_columns(part, notes, wanted, OUTLINES_AT_ONCE) {
        Ok(batches) => batches,
        Err(error) => return sender.send(Err(error)).is_ok(),
    };
    for batch in batches {
        let damaged = |why: String| Error::Part { path: part.parquet(), why };
        let made = batch.and_then(|batch| {
            let made = fenced(|| convert(&batch));
            made.map_err(damaged)?.map_err(|error| damaged(error.0))
        });
        let failed = made.is_err();
        if sender.send(made).is_err() {
            return false;
        }
        if failed {
            break;
        }
    }
    true
}
