//! Reads all events for totals on other threads.
//! Skips many columns and whole tables. Does not compute the totals. The engine reads a selection of the recording at
//! the same time.

use std::thread::ScopedJoinHandle;

use model::Event;
use model::row_summary::RequestColumns;
use recording::Table;

use crate::{Error, EventSource};

/// Network tables, with a row or two for each request.
/// No figure depends on them; requests are read separately.
const OF_NETWORK: [Table; 3] = [Table::Requests, Table::SocketOps, Table::TcpEvents];

/// Receivers of all events.
pub struct Totals<'t> {
    /// Receives requests, with the columns that aggregate figures need.
    pub requests: &'t mut (dyn FnMut(&[RequestColumns]) + Send),
    /// Receives all events that are not network events, if they are needed.
    pub others: Option<&'t mut (dyn FnMut(&Event) + Send)>,
}

/// Reads all events for the totals while `select` reads the source's selection.
pub(crate) fn read<E: From<Error>>(
    source: &mut dyn EventSource,
    totals: Totals<'_>,
    select: impl FnOnce(&mut dyn EventSource) -> Result<(), E>,
) -> Result<(), E> {
    let recording = source.recording().ok_or_else(|| Error::input("only a recording is read in parts"))?;
    let summaries = recording.request_columns().map_err(Error::from)?;
    let tables = Table::ALL.into_iter().filter(|table| !OF_NETWORK.contains(table)).collect::<Vec<_>>();
    let Totals { requests, others } = totals;
    let others = others.map(|take| (take, recording.prefetch_events(&tables)));
    let (read, errors) = std::thread::scope(|threads| {
        let of_requests = threads
            .spawn(move || summaries.filter_map(|batch| batch.map(|batch| requests(&batch)).err()).collect());
        let of_others = others.map(|(take, events)| {
            threads.spawn(move || events.filter_map(|event| event.map(|event| take(&event)).err()).collect())
        });
        let read = select(source);
        let mut errors: Vec<recording::Error> = join_thread(of_requests);
        errors.extend(of_others.into_iter().flat_map(|thread| join_thread::<Vec<_>>(thread)));
        (read, errors)
    });
    for error in &errors {
        source.note_damage(error);
    }
    read
}

/// Joins a thread and returns its result; resumes its panic.
pub fn join_thread<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
